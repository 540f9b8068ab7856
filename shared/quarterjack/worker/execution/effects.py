"""Effects: what a running job leaves in the ledger before it ends: steps, checkpoints, progress. One thread at a time runs a step."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.names import check_name, check_secret, is_text
from quarterjack.domain.payload import LARGEST_RESULT
from quarterjack.domain.run import SiblingRows
from quarterjack.errors import Continue, InvalidInput, LeaseLost, Permanent, RunCancelled, Unavailable
from quarterjack.stores.siblings import BesideKind
from quarterjack.values import replace
from quarterjack.worker.execution.job_values import json_text, plain_result
from quarterjack.worker.execution.run_store import RunStore
from quarterjack.worker.execution.step_locks import StepLock, in_itself, within
from quarterjack.worker.execution.transaction import Items, checked_items, item_refused
from quarterjack.worker.execution.waits import RunWaits
from quarterjack.worker.stages import LeasedRun, Parked

STAGE = 100  # characters
MARGIN = 15.0  # seconds of a function's time that are left for ending a slice
_IN_BUCKET = "@"  # before the key of what lies in the bucket; no JSON text begins so


class Effects:
    """What the context of a job does. One attempt's; safe from several threads of the job."""

    def __init__(self, leased: LeasedRun, store: RunStore) -> None:
        self._leased, self._store = leased, store
        self._lock = threading.RLock()
        self._under_way: dict[str, StepLock] = {}  # steps, by name
        self._beside: SiblingRows | None = None
        self._steps: dict[str, str] = {}  # recorded by this attempt
        self._stepped: set[str] = set()  # steps that this attempt ran or found
        self._committed: set[str] = set()  # steps of transactions, likewise
        self._waits: RunWaits | None = None
        self._has_checkpoint = False  # this slice has taken or read one

    # Steps.

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Run ``function`` unless this run has recorded the step; its result, from now or from then.

        Another thread or task that is at the same step is waited for.
        """
        check_name(name, "step")
        self.raise_if_cancelled()
        if inspect.iscoroutinefunction(function):
            return self._step_async(name, function)
        while (other := self._come_to(name)) is not None:
            if other.thread == threading.get_ident():  # a task, which cannot go on while its thread waits here
                raise in_itself(name)
            other.over.result()
            self.raise_if_cancelled()
        with self._at(name):
            self._refuse_name_of(self._committed, name)
            known = self._recorded(name)
            found = self._record(name, plain_result(name, function())) if known is None else json.loads(known)
            self._stepped.add(name)
            return found

    async def _step_async(self, name: str, function: Callable[[], Any]) -> Any:
        while (other := self._come_to(name)) is not None:
            await asyncio.shield(asyncio.wrap_future(other.over))
            self.raise_if_cancelled()
        with self._at(name):
            self._refuse_name_of(self._committed, name)
            known = self._recorded(name)
            found = self._record(name, await function()) if known is None else json.loads(known)
            self._stepped.add(name)
            return found

    def _come_to(self, name: str) -> StepLock | None:
        """Somebody else who is at the step, and has to be waited for; None: this caller has it now, and goes on with ``_at``."""
        with self._lock:
            other = self._under_way.get(name)
            if other is None:
                self._under_way[name] = StepLock()
            elif other in within.get():
                raise in_itself(name)
            return other

    @contextmanager
    def _at(self, name: str) -> Iterator[None]:
        lock = self._under_way[name]
        token = within.set((*within.get(), lock))
        try:
            yield
        finally:
            within.reset(token)
            with self._lock:
                del self._under_way[name]
            lock.over.set_result(None)

    def _recorded(self, name: str) -> str | None:
        with self._lock:
            return self._steps.get(name) or self._load().steps.get(name)

    def _record(self, name: str, result: Any) -> Any:
        text = json_text("step result", result, INLINE_PAYLOAD)
        self._refuse_secrets(f"the result of step {name!r}", text)
        self._keep(BesideKind.STEP, name, text)
        with self._lock:
            self._steps[name] = text
        return json.loads(text)

    # Transactions.

    def transaction(self, items: Items, step: str, result: Any) -> Any:
        """Write ``items`` and record the step in one transaction, unless this run has recorded it; the recorded result."""
        check_name(step, "step")
        self.raise_if_cancelled()
        checked, text = checked_items(items), json_text("result", result, INLINE_PAYLOAD)
        self._refuse_secrets(f"the result of transaction {step!r}", text)
        while (other := self._come_to(step)) is not None:
            if other.thread == threading.get_ident():
                raise in_itself(step)
            other.over.result()
        with self._at(step):
            self._refuse_name_of(self._stepped | self._committed, step)
            known = self._recorded(step) or self._commit(step, text, checked)
            self._committed.add(step)
            return json.loads(known)

    def _refuse_name_of(self, used: set[str], name: str) -> None:
        """What is recorded under a name says whether the items are written, so a step and a transaction may not share one."""
        if name in used:
            remedy = "give every step and transaction of a run a name of its own: transaction(items, step='…')"
            raise InvalidInput("step", name, "was recorded by this attempt already", remedy)

    def _commit(self, step: str, text: str, items: Items) -> str:
        with self._forgetting_on_failure():
            answer = self._store.commit(step, text, items)
        if answer.committed:
            return text
        if answer.recorded:  # by this very transaction, whose response was lost
            with self._lock:
                self._beside = None
            return self._recorded(step) or text
        if answer.refused is not None:
            raise item_refused(answer.refused, items)
        raise self._lost("transaction", step)

    # Checkpoints.

    @property
    def resume(self) -> Any:
        """The last checkpoint of this run, or None."""
        text = self._load().checkpoint
        if text is None:
            return None
        self._has_checkpoint = True
        if text.startswith(_IN_BUCKET):
            text = self._store.get_large(text.removeprefix(_IN_BUCKET))
        return json.loads(text)

    def checkpoint(self, state: Any) -> None:
        """Keep ``state`` for the next attempt or slice; where the function's time runs out, the slice ends here."""
        text = self.stored("checkpoint", state)
        self._keep(BesideKind.CHECKPOINT, "last", text)
        self._leased.checkpointed = self._has_checkpoint = True
        with self._lock:
            if self._beside is not None:
                self._beside = replace(self._beside, checkpoint=text)
        self.raise_if_cancelled()
        left = self._store.remaining()
        if left is not None and left < MARGIN:
            raise Continue("the time of this slice is over")

    def stored(self, what: str, value: Any) -> str:
        """A value as it is kept beside the run: its text, or its key in the bucket if it is large."""
        text = json_text(what, value, LARGEST_RESULT)
        self._refuse_secrets(f"the {what}", text)
        if len(text) <= INLINE_PAYLOAD:
            return text
        return _IN_BUCKET + self._store.keep_large(text)

    # Waits.

    @property
    def waits(self) -> RunWaits:
        """The waits and children of the run, for a request now. Raises InvalidInput within a step."""
        self.raise_if_cancelled()
        if within.get():
            raise InvalidInput("step", "…", "asks for a wait or a child within a step", "ask outside of steps")
        with self._lock:
            if self._under_way:  # a park would cut it off between its effect and its record
                name = next(iter(self._under_way))
                raise InvalidInput("step", name, "is under way while the job asks for a wait", "let it end first")
            return self._run_waits()

    def _run_waits(self) -> RunWaits:
        if self._waits is None:
            beside = self._load() if self._leased.run.asked_before else SiblingRows()
            self._waits = RunWaits(self._leased, self._store, beside)
        self._waits.has_checkpoint = self._has_checkpoint
        return self._waits

    def check_all_asked(self) -> None:
        """For a job that has returned. Raises Diverged if it has left out a wait or a child for which it asked before its run parked."""
        run = self._leased.run
        if run.asked is not None or run.asked_before:
            self._run_waits().check_all_asked()

    @property
    def parked(self) -> Parked | None:
        """What the job waits for, if it does."""
        return None if self._waits is None else self._waits.parked

    # Progress and cancellation.

    def progress(self, fraction: float, stage: str | None = None) -> None:
        """How far the job is (0 to 1) and what it is at; written with the next heartbeat."""
        if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
            raise InvalidInput("progress", fraction, "is not a fraction", "use a number from 0 to 1")
        if stage is not None and not is_text(stage, STAGE):
            raise InvalidInput("stage", stage, "is not a short text", f"use at most {STAGE} characters")
        self._store.progress(float(fraction), None if stage is None else self._leased.masked(stage)[:STAGE])

    @property
    def cancelled(self) -> bool:
        return self._store.cancelled

    def raise_if_cancelled(self) -> None:
        """RunCancelled if the run's cancellation was asked for; LeaseLost if another worker may have it."""
        in_flight = self._leased.in_flight
        if in_flight.lost or in_flight.fence is None:  # its end is settled, and this thread was left behind
            raise LeaseLost(f"run {self._leased.run.ref} is no longer held by this worker; stop")
        if self.cancelled:
            raise RunCancelled(f"run {self._leased.run.ref} was cancelled by its owner")

    # Secrets.

    def secret(self, name: str) -> str:
        """The value of a secret of the run's tenant, which is masked from now on."""
        value = self._store.secret(check_secret(name))
        self._leased.hide(value, name, tenant=self._leased.run.ref.tenant)
        return value

    def hide(self, label: str, *values: str) -> None:
        """Mask values that were looked up elsewhere, and belong to no tenant."""
        for value in values:
            self._leased.hide(value, label, tenant="")

    @property
    def hidden(self) -> Sequence[str]:
        return tuple(self._leased.hidden)

    def _refuse_secrets(self, what: str, text: str) -> None:
        """What a later attempt reads back may be neither masked nor stored with a secret in it."""
        held = self._leased.hidden.held_in(json.loads(text)) if self._leased.hidden else None
        if held is not None:
            raise Permanent(
                f"{what} holds the secret {held!r}, and it would be stored; leave the secret out, and look it up where it is used"
            )

    # Rows.

    def _load(self) -> SiblingRows:
        with self._lock:
            if self._beside is None:
                self._beside = self._store.beside()
            return self._beside

    def _keep(self, kind: BesideKind, name: str, text: str) -> None:
        with self._forgetting_on_failure():
            kept = self._store.keep(kind, name, text)
        if not kept:
            raise self._lost(kind, name)

    @contextmanager
    def _forgetting_on_failure(self) -> Iterator[None]:
        """A write that got no response may have taken effect: a job that tries again looks first."""
        try:
            yield
        except Unavailable:
            with self._lock:
                self._beside = None
            raise

    def _lost(self, what: str, name: str) -> LeaseLost:
        self._leased.in_flight.lose()
        return LeaseLost(
            f"run {self._leased.run.ref}: this worker lost it, so its {what} {name!r} was not recorded; stop"
        )
