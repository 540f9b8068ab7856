"""Evidence: reads what there is about one fire or run. Six to eighteen reads, and as of one instant of its schedule.

A chain's entry is moved on after its fires are claimed. So for a fire without a row the agenda is read, and then the ledger again: if the
entry lies beyond the fire, and there is no row still, there is really none. The head is read first and last: if it has moved, all is read
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from quarterjack.domain.audit import AuditLineRow
from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.run import FAILED, WAITING, RunRow, RunState
from quarterjack.domain.schedule import Freeze, Head, Revision, ScheduleState, freeze_key
from quarterjack.domain.times import SECOND
from quarterjack.errors import Conflict, QuarterjackError, Unavailable
from quarterjack.fires.backpressure import part_of, read_hold_log
from quarterjack.fires.breakers import read_breakers
from quarterjack.fires.context import find_revision
from quarterjack.fires.lines import line_of, read_slots
from quarterjack.owner.audit import AuditFilter, list_lines
from quarterjack.owner.backfill.advance import read_backfill
from quarterjack.owner.catalogue import read_catalogue
from quarterjack.owner.runs.redrive import replay_ref
from quarterjack.owner.schedules.chain_health import ChainHealth, check_chain, entry_upto
from quarterjack.owner.schedules.client_tokens import RACES
from quarterjack.owner.workers import read_workers
from quarterjack.ports.services import Clock, Services
from quarterjack.state.lease import has_live_lease
from quarterjack.state.overlap import SLOT, Slot
from quarterjack.state.tenants.slots import CapSlots, ConcurrencyCap
from quarterjack.state.worker_record import KEPT, KEY, WorkerRow, owner_of, parse_record
from quarterjack.why.delay import LATE, was_sent_again
from quarterjack.why.facts import Chain, Facts
from quarterjack.why.holds import may_have_been_suspended, may_have_held, waited
from quarterjack.why.needs import gaps, in_that_second, is_exclusive, needs_agenda, times_of_acts, was_late
from quarterjack.why.timeline import ACTS, AROUND

_T = TypeVar("_T")
_REVISIONS = 200  # that are read at the most, newest first
_EARLIER = 10  # of these, older than the one that was current at the instant
_WORKERS = 1_000  # of which the records are read
_LINES = 50  # of the audit about one time
_ROWS = 50  # of the schedule, due up to the instant


class EvidenceReader:
    """Reads for one tenant. Raises Unavailable where what decides the answer cannot be read; the rest is named in ``Facts.unread``."""

    def __init__(self, tenant: str, services: Services, clock: Clock) -> None:
        self._tenant, self._services, self._clock = tenant, services, clock

    def of_fire(self, name: str, at: int) -> Facts | None:
        """About the fire of a schedule at an instant (UTC ms), or in the second that begins with it; None: no such schedule."""
        return self._settled(name, lambda head: self._fire(head, at, None))

    def of_run(self, ref: RunRef) -> Facts | None:
        """About a run; None if there is neither a row of it nor a schedule whose fire it can be."""
        if ref.is_one_off:
            return self._one_off(ref)
        return self._settled(ref.owner.partition("/")[2], lambda head: self._fire(head, ref.instant or 0, ref))

    def _settled(self, name: str, look: Callable[[Head], Facts | None]) -> Facts | None:
        """What ``look`` makes of a schedule that did not change meanwhile. Raises Conflict."""
        head = self._services.schedules.head(self._tenant, name)
        for _ in range(RACES):
            if head is None:
                return None
            facts = look(head)
            now = self._services.schedules.head(self._tenant, name)
            if now == head:
                return facts
            head = now
        raise Conflict(f"name={name!r}: others changed it {RACES} times while it was read; try again")

    # One-offs.

    def _one_off(self, ref: RunRef) -> Facts | None:
        now, run = self._clock(), self._row(ref)
        if run is None:
            return None
        facts = Facts(now=now, retention=self._services.retention, tenant=self._tenant, at=run.due, ref=ref, run=run)
        return self._completed(facts)

    # Fires, triggers, backfills.

    def _fire(self, head: Head, at: int, ref: RunRef | None) -> Facts | None:
        now = self._clock()
        revisions, whole = self._history(head, at)
        facts = Facts(
            now=now,
            retention=self._services.retention,
            tenant=self._tenant,
            at=at,
            ref=ref or fire_ref(head.owner, at),
            head=head,
            revisions=revisions,
            all_revisions=whole,
        )
        if ref is None:
            facts = in_that_second(facts)
        facts = self._with_rows(facts, at, exact=ref is not None)
        if needs_agenda(facts):
            facts = self._with_agenda(facts)
            facts = self._with_rows(facts, at, exact=ref is not None)
        if ref is not None and facts.run is None and not ref.is_fire:
            return None
        return self._completed(self._with_acts(facts))

    def _history(self, head: Head, at: int) -> tuple[tuple[Revision, ...], bool]:
        """The revisions from the newest to some before the one that was current at the instant; and whether these are all."""
        found: list[Revision] = []
        beyond = 0
        rows = self._services.schedules.history(head.owner)
        for revision in islice(rows, _REVISIONS):
            found.append(revision)
            beyond += revision.active_from < at
            if beyond > _EARLIER:
                return tuple(found), False
        return tuple(found), bool(found) and len(
            found
        ) < _REVISIONS  # the first may be of an earlier schedule of the name

    def _with_agenda(self, facts: Facts) -> Facts:
        """The entry of the chain that has the fire, as far as that matters."""
        revision = facts.defining
        if revision is None:
            return facts
        try:
            oldest = self._services.agenda.due(revision.shard, upto=facts.now, after=None, limit=1).entries
            chain = self._chain(facts, revision)
        except QuarterjackError as problem:
            return replace(facts, unread={**facts.unread, "agenda": str(problem)})
        return replace(facts, oldest=oldest[0] if oldest else None, chain=chain)

    def _chain(self, facts: Facts, revision: Revision) -> Chain:
        head = facts.head
        if facts.at > facts.now and head is not None and head.state is ScheduleState.ACTIVE:
            found = check_chain(head, revision, self._services, lambda: facts.now)
            missing = found.health is ChainHealth.MISSING
        else:
            found, missing = entry_upto(revision, facts.at, self._services), False
        return Chain(
            entry=found.due,
            upto=facts.at,
            quarantined=found.health is ChainHealth.QUARANTINED,
            missing=missing,
            unknown=found.health is ChainHealth.UNKNOWN,
        )

    def _with_rows(self, facts: Facts, asked: int, *, exact: bool) -> Facts:
        """The run's row, and those of the schedule due up to then. ``asked`` (UTC ms) has the first claim on a row of its own."""
        assert facts.head is not None
        assert facts.ref is not None
        upto = facts.at if exact else facts.at - facts.at % SECOND + SECOND - 1
        page = self._services.ledger.page(
            facts.head.owner, after=None, upto=upto, limit=_ROWS, cursor=None, newest_first=True
        )
        rows: Sequence[RunRow] = page.items
        own = fire_ref(facts.head.owner, asked)
        run = next((row for row in rows if row.ref == own), None) if not exact else None
        run = run or self._row(facts.ref)
        if run is None and not exact and facts.at % SECOND == 0:  # people type no milliseconds
            run = next((row for row in reversed(rows) if row.ref.is_fire and facts.at <= row.due <= upto), None)
        if run is not None and run.due != facts.at:
            facts = replace(facts, at=run.due, ref=run.ref)
        before = tuple(row for row in rows if run is None or row.ref != run.ref)
        facts = replace(facts, run=run, before=before)
        return replace(facts, gaps=tuple(gaps(facts)), revisions=self._with_definitions(facts))

    def _with_definitions(self, facts: Facts) -> Sequence[Revision]:
        """The revisions, with those that the run names even if they are older than those read."""
        run, owner = facts.run, "" if facts.head is None else facts.head.owner
        found = list(facts.revisions)
        for number in () if run is None or run.ref.is_one_off else {run.revision, run.defined_by or run.revision}:
            if number and facts.revision(number) is None:
                older = find_revision(owner, number, self._services)
                found += [] if older is None else [older]
        return tuple(sorted(found, key=lambda one: -one.number))

    def _with_acts(self, facts: Facts) -> Facts:
        """The lines of the audit about what ended the run, or the schedule's activity."""
        assert facts.head is not None
        lines: dict[str, AuditLineRow] = {}
        try:
            for since, until in times_of_acts(facts):
                wanted = AuditFilter(since=max(since - AROUND, 0), until=until + AROUND, schedule=facts.head.name)
                page = list_lines(self._tenant, wanted, self._services, limit=_LINES, cursor=None)
                lines |= {line.key: line for line in page.items}
        except QuarterjackError as problem:
            return replace(facts, unread={**facts.unread, "audit": str(problem)})
        return replace(facts, acts=tuple(lines[key] for key in sorted(lines, reverse=True)))

    def _line(self, run: RunRow) -> tuple[ConcurrencyCap, CapSlots] | None:
        found = line_of(run, self._services, self._clock)
        return None if found is None else (found, read_slots(found, self._services))

    def _row(self, ref: RunRef) -> RunRow | None:
        answer = self._services.ledger.look([ref])
        if ref in answer.unanswered:
            raise Unavailable(f"run_id={str(ref)!r}: its row could not be read; try again")
        return answer.found.get(ref)

    # What else the row, or its lack, asks for.

    def _completed(self, facts: Facts) -> Facts:
        run, unread = facts.run, dict(facts.unread)
        owner = "" if run is None else run.ref.owner

        def tried(what: str, read: Callable[[], _T | None]) -> _T | None:
            try:
                return read()
            except QuarterjackError as problem:
                unread[what] = str(problem)
                return None

        freeze = tried("freeze", self._freeze)
        governance = tried("profile", lambda: self._services.tenants.governance(self._tenant, facts.now))
        # Also of a tenant without the limit: it may have had one when the run was due.
        breakers = tried("circuit breakers", lambda: read_breakers(self._tenant, self._services)[0])
        facts = replace(facts, freeze=freeze, governance=governance, breakers=breakers)
        acts = tried("audit", lambda: self._tenant_acts(facts))
        attempts = tried("attempts", lambda: self._services.siblings.attempts(run.ref)) if run and run.fence else None
        slot = backfill = redriven = line = None
        if run is not None and run.state in WAITING and governance is not None:
            line = tried("slots", lambda: self._line(run))
        if run is not None and run.state is RunState.QUEUED and is_exclusive(facts):
            slot = tried("slot", lambda: self._slot(owner))
        if run is not None and run.backfill is not None:
            identity = run.backfill
            backfill = tried("backfill", lambda: read_backfill(owner, identity, self._services))
        if run is not None and run.state in FAILED:
            redriven = tried("redriven", lambda: self._row(replay_ref(run)))
        holds = depth = None
        part = part_of(facts.queue, facts.priority, self._services.work)
        if was_late(facts):
            holds = tried("log of held queues", lambda: read_hold_log(self._services).of(part))
        if run is not None and run.state in WAITING and run.not_before <= facts.now:
            depth = tried("queue", lambda: self._services.work.load([part]).get(part))
        workers = (
            tried("workers", lambda: self._workers(replace(facts, tenant_acts=acts or ()))) if run is not None else None
        )
        waits = run is not None and run.state in WAITING
        asks = waits or (governance is not None and governance.profile.jobs is not None)
        catalogue = tried("jobs of the workers", lambda: read_catalogue(self._services, facts.now)) if asks else None
        return replace(
            facts,
            workers=workers,
            catalogue=catalogue,
            tenant_acts=acts or (),
            attempts=tuple(attempts or ()),
            slot=slot,
            line=line,
            backfill=backfill,
            redriven=redriven,
            holds=holds,
            depth=tuple(depth or ()),
            unread=unread,
        )

    def _workers(self, facts: Facts) -> Sequence[WorkerRow] | None:
        """The records of all workers, a query for each partition, for a run that has waited, or whose message was sent again before its
        start; that of the run's worker if that is silent.
        """
        run, now = facts.run, facts.now
        if run is None:
            return None
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

    def _tenant_acts(self, facts: Facts) -> Sequence[AuditLineRow]:
        """The lines of what may have held the run and is over; what began days before it was ready is left out."""
        if facts.run is None:
            return ()
        ready, until = waited(facts.run, facts.now)
        if until - ready <= LATE or not (may_have_held(facts.freeze, ready) or may_have_been_suspended(facts, ready)):
            return ()
        wanted = AuditFilter(since=max(ready - ACTS, 0), until=until, run=self._tenant)
        return list_lines(self._tenant, wanted, self._services, limit=_LINES, cursor=None).items

    def _slot(self, owner: str) -> Slot | None:
        record = self._services.records.read(owner, SLOT)
        return None if record is None else Slot.of(record.body)
