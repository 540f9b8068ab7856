"""Waits: what a job asks for that may end its slice: sleeps, signals, children. A woken job is called again from its beginning.

    first call                                    called again
    ctx.sleep(60)            ─► parks             returns: its request is in the record, so its time has come
    ctx.wait_for("approval") ─► parks             returns the signal that the ledger has
    ctx.gather([child])      ─► parks             returns the results, read from the rows of the children

Each request has its place in the record (``state.waits.asked``). A request at a place where the record has another one is an error.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from quarterjack.arguments import payload_text
from quarterjack.domain.job import Child, JobRef
from quarterjack.domain.names import check_flag, check_name
from quarterjack.domain.run import SiblingRows
from quarterjack.domain.times import to_ms
from quarterjack.errors import (
    CallbackFailed,
    InvalidInput,
    Parking,
    Permanent,
    QuarterjackError,
    WaitTimedOut,
)
from quarterjack.payload_types.schema import PayloadSchema, answer_schema
from quarterjack.state.waits.asked import (
    CHILD,
    MAX_CHILDREN,
    REFUSED,
    check_all_asked,
    check_order,
    child_ref,
    gathered,
    steps_of,
)
from quarterjack.state.waits.park import CHILDREN, MAX_WAIT, SIGNAL, SLEEP, ranges
from quarterjack.state.waits.terms import WaitTerms
from quarterjack.stores.waits import FAILURE
from quarterjack.worker.execution.run_store import RunStore
from quarterjack.worker.execution.wait_values import (
    Seconds,
    heartbeat_ms,
    iso,
    refused_before,
    result_of,
    too_far,
    wait_ms,
    waits_for,
)
from quarterjack.worker.stages import LeasedRun, Parked

_TASKS = "tasks"  # the request of a pipeline's run


class RunWaits:
    """The requests of one slice, in their order. Safe from several threads of the job, which share that order."""

    def __init__(self, leased: LeasedRun, store: RunStore, beside: SiblingRows) -> None:
        """``beside`` has the requests of earlier slices that are not in the row."""
        run = leased.run
        self._leased, self._store = leased, store
        self._lock = threading.RLock()
        # What earlier slices asked for.
        self._record = (*beside.asked[: run.asked_before], *json.loads(run.asked or "[]"))
        self._asked: list[str] = []  # by this slice
        self._children: dict[str, int] = {}  # their numbers, by step
        self._maps = set[str]()  # steps of the maps of this slice
        self._ends: dict[str, Mapping[str, Any]] = {}  # of children that have ended, by run id
        self._has_read = False  # the ends of the children of earlier slices
        self._parked: Parked | None = None
        self.has_checkpoint = False  # this slice has taken or read one

    @property
    def place(self) -> int:
        """The place of the next request, from 1."""
        return len(self._asked) + 1

    @property
    def is_new(self) -> bool:
        """Whether the record has no request at that place."""
        return len(self._asked) >= len(self._record)

    @property
    def _next(self) -> str:
        """What the record has at that place; empty: nothing."""
        return "" if self.is_new else self._record[len(self._asked)]

    @property
    def parked(self) -> Parked | None:
        """What this slice waits for, once it does."""
        return self._parked

    # Requests.

    def sleep(self, seconds: Seconds | None, until: datetime | None) -> Any:
        if (seconds is None) == (until is None):
            raise InvalidInput("seconds", seconds, "is not the one way to say how long", "give either seconds or until")
        given = wait_ms("seconds", seconds) if until is None else to_ms(until, "until")  # a wrong one is no request
        with self._lock:
            number, now = sum(request.startswith("sleep ") for request in self._asked) + 1, self._store.now()
            wake_at = now + given if until is None else given
            refused = f"{REFUSED}#sleep {number}"  # no step has that name
            if self._next == refused or (self.is_new and wake_at - now > MAX_WAIT):
                self.ask(refused)  # called again, a job is told the same, even if the time is less far ahead then
                raise too_far(until)
            if self.ask(f"sleep {number}"):
                return _answer(None)
            if wake_at <= now:
                return _answer(None)
            raise self.park(SLEEP, wake_at, f"sleeps until {iso(wake_at)}")

    def wait_for(
        self, name: str, timeout: Seconds | None, schema: Mapping[str, Any] | None, heartbeat: Seconds | None
    ) -> Any:
        check_name(name, "name")
        fits = None if schema is None else answer_schema(schema)
        limit = MAX_WAIT if timeout is None else wait_ms("timeout", timeout)
        beat = None if heartbeat is None else heartbeat_ms(heartbeat)
        with self._lock:
            known = self.ask(f"signal {name}")
            run, now = self._leased.run, self._store.now()
            is_last = known and run.awaits == SIGNAL + name and len(self._asked) == len(self._record)
            wake_at = run.wake_at if is_last and run.wake_at is not None else now + min(limit, beat or limit)
            signal = self._store.signal(name)
            if signal is None and now >= wake_at:
                signal = self._store.time_out(name, wake_at)
            if signal is None:
                terms = None
                if not known and not (fits is None and beat is None):
                    schema = None if fits is None else fits.schema
                    terms = WaitTerms(schema=schema, heartbeat=beat, ends_at=now + limit).text
                reason = f"waits for signal {name!r} until {iso(wake_at)}"
                raise self.park(SIGNAL + name, wake_at, reason, terms)
            if signal["payload"] is None:
                raise WaitTimedOut(
                    f"no signal {name!r}{' and no heartbeat' if beat else ''} came until {iso(signal['at'])}"
                )
            if signal.get("channel") == FAILURE:
                raise CallbackFailed(f"signal {name!r}: {json.loads(signal['payload'])}")
            if fits is not None:
                self._check_answer(name, fits, signal["payload"])
            return _answer(json.loads(signal["payload"]))

    def _check_answer(self, name: str, fits: PayloadSchema, payload: str) -> None:
        """Raises Permanent for an answer that does not fit: one from before the wait, whose sender could not know the schema."""
        try:
            fits.check(payload, name, redact=self._leased.policies.redact)
        except InvalidInput as problem:
            raise Permanent(f"the answer to signal {name!r} does not fit the schema of the wait: {problem}") from None

    def submit(self, job: JobRef, payload: Any, step: str, options: Mapping[str, Any]) -> Any:
        """``options`` are policies as ``Overrides.as_dict`` gives them, and ``queue``."""
        check_name(step, "step")
        name = check_name(job, "job") if isinstance(job, str) else self._store.job_name(job)
        text = payload_text(payload)
        self.check_payload(text, "payload")
        with self._lock:
            if step in self._children:
                raise InvalidInput(
                    "step", step, "is the step of another child of this run", "give each a name of its own"
                )
            number = len(self._children) + 1
            if number > MAX_CHILDREN:
                raise InvalidInput("step", step, f"is child {number:,} of its run", f"submit {MAX_CHILDREN:,} at most")
            self._raise_if_refused(step)
            known = self.ask(f"{CHILD}{step}")
            ref = child_ref(self._leased.run.ref, step)
            if not known:
                try:
                    self._store.submit_child(number=number, step=step, job=name, payload=text, options=dict(options))
                except QuarterjackError as problem:  # a job that goes on is told the same when it is called again
                    self.refused(step, problem)
                    raise
            self._children[step] = number
            return _answer(Child(run_id=str(ref), step=step, job=name))

    def check_payload(self, text: str, field: str) -> None:
        """Raises InvalidInput for a payload (JSON text) that holds a secret."""
        held = self._leased.hidden.held_in(json.loads(text)) if self._leased.hidden else None
        if held is not None:
            remedy = "pass its name, and let the child look it up: ctx.secret(payload['secret'])"
            raise InvalidInput(field, "…", f"holds the secret {held!r}, and it would be stored", remedy)

    def refused(self, step: str, problem: QuarterjackError) -> None:
        """Note that the last request was refused."""
        self._asked[-1] = f"{REFUSED}{step} {type(problem).__name__}"

    def _raise_if_refused(self, step: str) -> None:
        """Raise the error again with which a child was refused before the run parked."""
        request = self._next
        if request.startswith(f"{REFUSED}{step} "):
            self.ask(request)
            raise refused_before(step, request.rpartition(" ")[2])

    def gather(self, children: Sequence[Child], *, return_exceptions: bool) -> Any:
        check_flag("return_exceptions", return_exceptions)
        if not isinstance(children, (list, tuple)):
            raise InvalidInput(
                "children", children, "is no list of children", "pass a list of what ctx.submit returned"
            )
        for child in children:
            if not isinstance(child, Child) or child.step not in self._children:
                raise InvalidInput("children", child, "is no child of this run", "pass what ctx.submit returned")
        if not children:
            return _answer([])
        with self._lock:
            self.ask(gathered([child.step for child in children]))
            self._read_ends(children)
            open_steps = [child.step for child in children if child.run_id not in self._ends]
            if open_steps:
                wanted = ranges([self._children[child.step] for child in children])
                reason = waits_for(open_steps, len(children))
                raise self.park(CHILDREN + wanted, self._store.now() + MAX_WAIT, reason)
            return _answer([result_of(child, self._ends[child.run_id], return_exceptions) for child in children])

    def map(self, job: JobRef, items: Any, options: Mapping[str, Any], **how: Any) -> Any:
        """``options`` as in ``submit``; ``how`` as in ``MapCall.of``."""
        from quarterjack.worker.execution.maps import MapCall, map_items  # noqa: PLC0415 (who maps nothing loads none)

        name = check_name(job, "job") if isinstance(job, str) else self._store.job_name(job)
        call = MapCall.of(name, options, **how)
        with self._lock:
            if call.step in self._maps:
                problem = "is the step of another map of this run"
                raise InvalidInput("step", call.step, problem, "give each a name of its own")
            self._raise_if_refused(call.step)
            results = map_items(call, items, self, self._leased.run.ref, self._store)
            self._maps.add(call.step)
            return _answer(results)

    def tasks(self) -> Mapping[str, Any]:
        """Wait for the tasks of a pipeline: how they have ended. The worker that parks the run starts the first of them."""
        with self._lock:
            awaits = self._leased.run.awaits or self._store.own_tasks()
            if self.ask(_TASKS):
                ended = self._store.tasks()
                if ended["is_over"]:
                    return ended
            raise self.park(awaits, self._store.now() + MAX_WAIT, "waits for its tasks")

    def _read_ends(self, children: Sequence[Child]) -> None:
        """Read which of these children have ended, and at the first time all children of earlier slices: in one batch, not in one a gather.

        Children that this slice has submitted are not read: if one has ended already, the check after the park finds it.
        """
        left = [child.run_id for child in children if child.run_id not in self._ends]
        parent = self._leased.run.ref
        earlier = {str(child_ref(parent, step)) for step in steps_of(self._record).values()}
        if not left or earlier.isdisjoint(left):
            return
        wanted = list(dict.fromkeys([*left, *(() if self._has_read else earlier)]))
        self._ends |= self._store.ends([run_id for run_id in wanted if run_id in earlier])
        self._has_read = True

    # The record.

    def ask(self, request: str) -> bool:
        """Note a request; whether the record has it. Raises Diverged, and Parking again if the job has caught that."""
        if self._parked is not None:
            raise Parking(self._parked.reason)
        place = len(self._asked)
        check_order(self._record, place, request)
        if self.has_checkpoint and place >= len(self._record) and not request.startswith((CHILD, REFUSED)):
            problem = "is a new wait after a checkpoint, from which the job would go on without the waits before it"
            raise InvalidInput(
                "wait", request, problem, "take checkpoints after the last wait, or in a child: ctx.submit"
            )
        self._asked.append(request)
        return place < len(self._record)

    def check_all_asked(self) -> None:
        """Raises Diverged if the record has requests that this slice, whose job has returned, did not make."""
        check_all_asked(self._record, len(self._asked))

    def park(self, awaits: str, wake_at: int, reason: str, terms: str | None = None) -> Parking:
        asked = tuple(self._asked)
        self._parked = Parked(reason=reason, awaits=awaits, wake_at=wake_at, asked=asked, terms=terms)
        return Parking(reason)


async def _ready(value: Any) -> Any:
    return value


def _answer(value: Any) -> Any:
    """The value; in an async job something to await, as ``ctx.step`` returns it there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return value
    return _ready(value)
