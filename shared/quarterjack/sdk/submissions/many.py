"""SDK method ``submit_all``: thousands of one-offs in few requests, and one run when the last of them has ended."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from quarterjack.arguments import due_time
from quarterjack.domain.job import Context
from quarterjack.domain.names import RunRef, check_name, one_off_ref
from quarterjack.domain.policies import DeliveryWord, Overrides, PriorityWord, Retry, StartWord, overrides
from quarterjack.domain.policies.flow import Flow
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.domain.times import SECOND
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.owner.runs.batch import (
    BatchItem,
    ItemResult,
    close_batch,
    put_batch_run,
    refused_for_good,
    submit_many,
)
from quarterjack.owner.runs.submit import SameTime
from quarterjack.sdk.session import over
from quarterjack.sdk.submissions.submit import SubmitMethods
from quarterjack.state.waits.batch import counts_of, item_id
from quarterjack.values import replace

MAX_ITEMS = 10_000  # of one call
_STEP = 0.1  # seconds of patience that are not counted
_KEY = 190  # characters of a batch's key: the ids of its items are longer


@dataclass(frozen=True)
class Submission:
    """One item of ``submit_all``: the arguments of ``submit``."""

    job: str | Callable[[Context, Any], object]  # its name, or its function
    payload: Any = None  # any JSON value, or what the job's payload is annotated with
    run_at: datetime | None = None  # aware
    delay: float | timedelta | None = None  # seconds or timedelta from now, instead of run_at
    idempotency_key: str | None = None  # None: it follows from that of the batch
    delivery: DeliveryWord | None = None
    start: StartWord | None = None
    priority: PriorityWord | None = None
    retry: Retry | None = None
    timeout: float | None = None  # seconds of one attempt
    deadline: float | None = None  # seconds after the due time
    queue: str | None = None  # None: its job's
    tags: Mapping[str, str] | None = None  # labels to find its run by
    flow: Flow | None = None  # limits by key, instead of the job's

    def overrides(self) -> Overrides:
        """Its policies. Raises InvalidInput."""
        return overrides(
            delivery=self.delivery,
            start=self.start,
            priority=self.priority,
            retry=self.retry,
            timeout=self.timeout,
            deadline=self.deadline,
            flow=self.flow,
        )


@dataclass(frozen=True, kw_only=True)
class SubmittedItem:
    """What became of one item."""

    number: int  # its place among the items, from 1
    run_id: str | None = None  # of its run; None: it was refused
    error: QuarterjackError | None = None  # why; None: it has a run


@dataclass(frozen=True, kw_only=True)
class SubmittedBatch:
    """Result of ``submit_all``."""

    id: str  # the idempotency key, or a new one: the same call with it submits nothing twice
    items: Sequence[SubmittedItem]  # in their order
    on_end: str | None = None  # id of the run that starts when the last of them has ended

    @property
    def refused(self) -> Sequence[SubmittedItem]:
        """The items without a run."""
        return [item for item in self.items if item.error is not None]


class BatchMethods(SubmitMethods):
    def submit_all(
        self,
        items: Iterable[Submission],
        *,
        idempotency_key: str | None = None,
        on_end: str | Callable[[Context, Any], object] | None = None,
    ) -> SubmittedBatch:
        """Submit up to 10,000 one-offs in few requests. An item that is refused does not stop the others: the result has its error.

        The ids of the runs follow from ``idempotency_key``, so the same call repeated, after a crash or an error, submits each item once.
        An item with an ``idempotency_key`` of its own has that one.

        ``on_end`` is a job. One run of it starts when the last item has ended, with the counts as its payload: ``batch`` (its id),
        ``items``, ``succeeded``, ``failed`` (DEAD, LOST, EXPIRED), ``cancelled`` and ``refused``. Until then the run is PARKED. Cancelled,
        it lets no further item start. It waits for items that were refused as Throttled or Unavailable, too: repeat the call for them.

        Raises InvalidInput (too many items, one that is no Submission, a bad key or ``on_end``), KeyReused (the batch exists with another
        number of items or another ``on_end``), Throttled, Forbidden, Unavailable (try again with the same key).

        >>> from datetime import UTC, datetime
        >>> from quarterjack import Registry, Submission
        >>> from quarterjack.testing import Harness
        >>> jobs = Registry()
        >>> @jobs.job("mails.send")
        ... def send(ctx, payload):
        ...     return f"sent to {payload}"
        >>> @jobs.job("mails.report")
        ... def report(ctx, payload):
        ...     return f"{payload['succeeded']} of {payload['items']}"
        >>> harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
        >>> mails = [Submission("mails.send", name) for name in ("Ada", "Bob")]
        >>> batch = harness.scheduler.submit_all(mails, idempotency_key="may", on_end="mails.report")
        >>> _ = harness.advance(minutes=1)
        >>> harness.scheduler.get_run(batch.on_end).result
        '2 of 2'
        """
        given = _checked_items(items)
        batch_id = uuid.uuid4().hex if idempotency_key is None else _checked_key(idempotency_key)
        after = None if on_end is None else self._put_batch_run(on_end, batch_id, len(given))
        existing = frozenset[RunRef]() if idempotency_key is None else self._existing(given, batch_id)
        results = self._submit_items(given, batch_id, None if after is None else str(after.ref), existing)
        if after is not None:
            refused = [
                n for n in refused_for_good(results) if one_off_ref(self.tenant, item_id(batch_id, n)) not in existing
            ]
            after = close_batch(after, refused, self._context)
        return SubmittedBatch(
            id=batch_id,
            items=[_item(number, results[number]) for number in range(1, len(given) + 1)],
            on_end=None if after is None else str(after.ref),
        )

    def _put_batch_run(self, on_end: str | Callable[[Context, Any], object], batch_id: str, size: int) -> RunRow:
        now = self.session.clock()
        try:
            self._access.check(Verb.SUBMIT, self._checks.named_job(on_end))
            sample = json.loads(counts_of(batch_id, size))
            run, _ = self._ordered(self._checks.job_name(on_end), sample, batch_id, (now, now), Overrides(), None)
        except InvalidInput as problem:
            if not problem.field.startswith("payload"):  # but the job
                raise problem.about("on_end") from None
            what, remedy = (
                f"does not take the counts of a batch ({problem})",
                f"name a job that takes {', '.join(sample)}",
            )
            raise InvalidInput("on_end", self._checks.named_job(on_end), what, remedy) from None
        self._take(RateWord.RUNS)
        return put_batch_run(run, size, self._context)

    def _existing(self, given: Sequence[Submission], batch_id: str) -> frozenset[RunRef]:
        """The runs that an earlier call with this key has put: they take no token of the tenant's rate again. Raises Unavailable."""
        numbers = [number for number, item in enumerate(given, 1) if item.idempotency_key is None]
        looked = self.session.services.ledger.look([one_off_ref(self.tenant, item_id(batch_id, n)) for n in numbers])
        return frozenset(looked.found)

    def _submit_items(
        self, given: Sequence[Submission], batch_id: str, parent: str | None, existing: Collection[RunRef]
    ) -> Mapping[int, ItemResult]:
        results: dict[int, ItemResult] = {}
        orders: dict[int, BatchItem] = {}
        numbers: dict[str, int] = {}  # of the items, by the ids of their runs
        patient, began = self, self.session.clock()
        for number, item in enumerate(given, 1):
            try:
                order = patient._order_of(item, number, batch_id, parent, existing)
                first = numbers.setdefault(str(order.run.ref), number)
                if first != number:
                    problem = f"is that of item {first}, too"
                    raise InvalidInput("idempotency_key", item.idempotency_key, problem, "give each item its own")
                orders[number] = order
            except QuarterjackError as problem:
                results[number] = problem
            left = (
                self.session.patience - (self.session.clock() - began) / SECOND
            )  # the patience is that of the whole call
            if left < patient.session.patience - _STEP:
                patient = over(self, replace(self.session, patience=max(left, 0.0)))
        answers = submit_many([*orders.values()], self._context)
        return results | dict(zip(orders, answers, strict=True))

    def _order_of(
        self, item: Submission, number: int, batch_id: str, parent: str | None, existing: Collection[RunRef]
    ) -> BatchItem:
        """The checked run of an item; a large payload is stored. Raises InvalidInput, Forbidden, Throttled, Unavailable."""
        if parent is not None and item.idempotency_key is not None:
            problem = "was given with on_end: a run that exists is in no batch"
            raise InvalidInput(
                "idempotency_key", item.idempotency_key, problem, "leave it out; it follows from the batch's"
            )
        now = self.session.clock()
        due, given = due_time(item.run_at, item.delay, now), item.overrides()
        key = item.idempotency_key
        run_id = item_id(batch_id, number) if key is None else check_name(key, "idempotency_key")
        self._access.check(Verb.SUBMIT, self._checks.named_job(item.job))
        job = self._checks.job_name(item.job)
        run, pending = self._ordered(job, item.payload, run_id, (now, due), given, item.queue)
        is_new = run.ref not in existing
        if is_new:
            self._take(RateWord.RUNS)
        text, ref = pending.of_run(run.ref)
        child_no = None if parent is None else number
        run = replace(run, payload=text, payload_ref=ref, parent=parent, child_no=child_no)
        run = replace(run, tags=self._run_tags(item.tags))
        return BatchItem(run=run, same_time=SameTime.DELAY if item.run_at is None else SameTime.DUE, has_place=is_new)


def _checked_items(items: Iterable[Submission]) -> Sequence[Submission]:
    if not isinstance(items, Iterable):
        raise InvalidInput("items", items, "is no list of items", "pass a list of Submission(job, payload, …)")
    given = list(items)
    if not given:
        raise InvalidInput("items", given, "is empty", "give at least one Submission")
    if len(given) > MAX_ITEMS:
        raise InvalidInput("items", len(given), "are too many", f"give {MAX_ITEMS:,} at most in one call")
    for number, item in enumerate(given, 1):
        if not isinstance(item, Submission):
            raise InvalidInput(f"items[{number}]", item, "is no Submission", "pass Submission(job, payload, …)")
    return given


def _checked_key(key: str) -> str:
    if len(check_name(key, "idempotency_key")) > _KEY:
        raise InvalidInput("idempotency_key", key, "is too long for a batch", f"use {_KEY} characters at most")
    return key


def _item(number: int, result: ItemResult) -> SubmittedItem:
    if isinstance(result, RunRow):
        return SubmittedItem(number=number, run_id=str(result.ref))
    return SubmittedItem(number=number, error=result)
