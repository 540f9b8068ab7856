"""Evidence around a fire or run: what may hold runs of its tenant, its queue, and the workers of the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import WAITING, RunRow, RunState
from quarterjack.domain.schedule import Freeze, freeze_key
from quarterjack.errors import QuarterjackError, Unavailable
from quarterjack.fires.backpressure import part_of, read_hold_log
from quarterjack.fires.breakers import read_breakers
from quarterjack.fires.flow.wait_queue import read_permits, wait_queue_of
from quarterjack.fires.parking import child_steps, map_of_step
from quarterjack.fires.windows.advance import read_window
from quarterjack.owner.audit import AuditFilter, list_entries
from quarterjack.owner.catalogue import read_catalogue
from quarterjack.owner.runs.pipelines import PipelineState, look_at
from quarterjack.owner.workers import read_workers
from quarterjack.ports.services import Clock, Services
from quarterjack.state.lease import has_live_lease
from quarterjack.state.pipelines.decide import task_of
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits
from quarterjack.state.waits.asked import child_ref
from quarterjack.state.waits.park import awaited_children, awaited_map, pipeline_of
from quarterjack.state.worker_record import KEPT, KEY, WorkerRow, owner_of, parse_record
from quarterjack.values import replace
from quarterjack.why.delay import LATE, was_sent_again
from quarterjack.why.facts import DeliveryFacts, Facts, HoldFacts
from quarterjack.why.holds import may_have_been_suspended, may_have_held, waited
from quarterjack.why.timeline import ACTS

_T = TypeVar("_T")
_WORKERS = 1_000  # of which the records are read
ENTRIES = 50  # of the audit about one time


class OptionalReads:
    """Reads that an answer can do without. ``unread`` says what could not be read, and why."""

    def __init__(self, unread: Mapping[str, str]) -> None:
        self.unread = dict(unread)

    def read(self, what: str, read: Callable[[], _T | None]) -> _T | None:
        try:
            return read()
        except QuarterjackError as problem:
            self.unread[what] = str(problem)
            return None


class Surroundings:
    """The reads around one fire or run. A read that fails is noted in ``optional``."""

    def __init__(self, tenant: str, services: Services, clock: Clock, optional: OptionalReads) -> None:
        self._tenant, self._services, self._clock, self._optional = tenant, services, clock, optional

    def holds(self, facts: Facts) -> HoldFacts:
        run = facts.run
        holds = HoldFacts(
            freeze=self._optional.read("freeze", self._freeze),
            governance=self._optional.read(
                "profile", lambda: self._services.tenants.governance(self._tenant, facts.now)
            ),
            # Also of a tenant without the limit: it may have had one when the run was due.
            breakers=self._optional.read("circuit breakers", lambda: read_breakers(self._tenant, self._services)[0]),
        )
        if run is None:
            return holds
        entries = self._optional.read("audit", lambda: self._entries_of_tenant(run, facts.now, holds))
        is_waiting = run.state in WAITING and holds.governance is not None
        cap = self._optional.read("permits", lambda: self._cap(run)) if is_waiting else None
        return replace(holds, entries=entries or (), cap=cap)

    def delivery(self, facts: Facts) -> DeliveryFacts:
        run, profile = facts.run, None if facts.holds.governance is None else facts.holds.governance.profile
        part = part_of(facts.queue, facts.priority, self._services.work)
        held_back = depth = workers = catalogue = None
        if was_late(facts):
            held_back = self._optional.read("log of held queues", lambda: read_hold_log(self._services).of(part))
        if run is not None and run.state in WAITING and run.not_before <= facts.now:
            depth = self._optional.read("queue", lambda: self._services.work.load([part]).get(part))
        if run is not None:
            workers = self._optional.read("workers", lambda: self._workers(facts, run))
        if (run is not None and run.state in WAITING) or (profile is not None and profile.jobs is not None):
            catalogue = self._optional.read("jobs of the workers", lambda: read_catalogue(self._services, facts.now))
        return DeliveryFacts(held_back=held_back, depth=tuple(depth or ()), workers=workers, catalogue=catalogue)

    def children(self, run: RunRow | None) -> Mapping[str, RunState | None] | None:
        """The children that a parked run waits for, in their order, by step; None: it waits for something else, or they were not read."""
        if run is None or run.state is not RunState.PARKED or not (awaited := awaited_children(run)):
            return None
        return self._optional.read("children", lambda: self._states(run, awaited))

    def items(self, run: RunRow | None) -> tuple[int, int, int] | None:
        """Of the map that a parked run waits for the items that have ended, those under way, and all; None as in ``children``."""
        step = None if run is None or run.state is not RunState.PARKED else awaited_map(run)
        if run is None or step is None:
            return None
        ref = map_of_step(run.ref, step)
        window = self._optional.read("map", lambda: read_window(ref, self._services))
        return None if window is None else (window.cursor - len(window.open), len(window.open), window.size)

    def pipeline(self, run: RunRow | None) -> PipelineState | None:
        """The pipeline whose tasks a parked run waits for; of a task that was not started that of its parent."""
        if run is not None and run.state is RunState.PARKED and pipeline_of(run) is not None:
            return self._optional.read("tasks", lambda: look_at(run, self._services))
        if run is None or run.state is not RunState.SKIPPED or run.parent is None or task_of(run) is None:
            return None
        parent = self._optional.read("pipeline", lambda: self._services.ledger.read(parse_run_id(run.parent or "")))
        return None if parent is None else self._optional.read("tasks", lambda: look_at(parent, self._services))

    def _states(self, run: RunRow, awaited: Sequence[int]) -> Mapping[str, RunState | None]:
        steps = child_steps(run, self._services)
        refs = {step: child_ref(run.ref, step) for number in awaited if (step := steps.get(number)) is not None}
        looked = self._services.ledger.look(list(refs.values()))
        if looked.unanswered:
            raise Unavailable("the table did not answer")
        rows = {step: looked.found.get(ref) for step, ref in refs.items()}
        return {step: None if row is None else row.state for step, row in rows.items()}

    def _workers(self, facts: Facts, run: RunRow) -> Sequence[WorkerRow] | None:
        """The records of all workers, a query for each partition, for a run that has waited, or whose message was sent again before its
        start; that of the run's worker if that is silent.
        """
        now = facts.now
        has_waited = run.state in WAITING and now - max(run.not_before, run.created_at) > LATE
        if has_waited or (was_sent_again(facts, run) and now - (run.started_at or 0) < KEPT):
            return list(islice(read_workers(self._services, now), _WORKERS))
        if run.state is RunState.RUNNING and not has_live_lease(run, now):
            record = self._services.records.read(owner_of(run.worker or ""), f"{KEY}{run.worker}")
            return [] if record is None else [parse_record(record.body)]
        return None

    def _freeze(self) -> Freeze | None:
        key = freeze_key(self._tenant)
        answer = self._services.schedules.revisions([key])
        if key in answer.broken:
            raise answer.broken[key]
        if key in answer.unanswered:
            raise Unavailable("the table did not answer")
        return answer.frozen.get(self._tenant)

    def _entries_of_tenant(self, run: RunRow, now: int, holds: HoldFacts) -> Sequence[AuditEntryRow]:
        """The audit entries of what may have held the run and is over; an act days before it was ready is left out."""
        ready, until = waited(run, now)
        is_possible = may_have_held(holds.freeze, ready) or may_have_been_suspended(holds.governance, ready)
        if until - ready <= LATE or not is_possible:
            return ()
        wanted = AuditFilter(since=max(ready - ACTS, 0), until=until, run=self._tenant)
        return list_entries(self._tenant, wanted, self._services, limit=ENTRIES, cursor=None).items

    def _cap(self, run: RunRow) -> tuple[ConcurrencyCap, CapPermits] | None:
        found = wait_queue_of(run, self._services, self._clock)
        return None if found is None else (found, read_permits(found, self._services))


def was_late(facts: Facts) -> bool:
    """Whether the fire was, or is, claimed late, or waits."""
    run = facts.run
    if run is None:
        return facts.at <= facts.now
    return run.state in WAITING or run.created_at - run.due > LATE
