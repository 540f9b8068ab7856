"""Evidence: reads what there is about one fire or run. Six to eighteen reads, as of one instant of its schedule.

    head ─► revisions ─► rows ─► agenda, rows again ─► audit entries ─► holds of the tenant ─► siblings of the run ─► queue, workers ─► head

The ticker moves a chain's entry on after it has claimed the fires. So for a fire without a row the agenda is read, and then the ledger
again: if the entry lies beyond the fire, and there is still no row, there is none. The head is read first and last: if it has changed, all
is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.run import FAILED, RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from quarterjack.domain.times import SECOND
from quarterjack.errors import Conflict, ExpressionError, Unavailable
from quarterjack.fires.context import find_revision
from quarterjack.fires.plan import timetable_of
from quarterjack.owner.audit import AuditFilter, list_entries
from quarterjack.owner.backfill.records import read_backfill
from quarterjack.owner.runs.redrive import replay_ref
from quarterjack.owner.schedules.chain_health import ChainHealth, check_chain, entry_upto
from quarterjack.owner.schedules.client_tokens import RACES
from quarterjack.ports.services import Clock, Services
from quarterjack.state.catch_up import covers
from quarterjack.state.overlap import TURNS, Turns
from quarterjack.values import replace
from quarterjack.why.facts import Chain, Facts
from quarterjack.why.no_run import absence_of
from quarterjack.why.surroundings import ENTRIES, OptionalReads, Surroundings
from quarterjack.why.timeline import ACTS, AROUND, active_at, stop_at

_REVISIONS = 200  # that are read at the most, newest first
_EARLIER = 10  # of these, older than the one that was current at the instant
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
        return self._completed(self._with_entries(facts))

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
        optional = OptionalReads(facts.unread)
        chain = optional.read("agenda", lambda: self._chain(facts, revision))
        return replace(facts, chain=chain or facts.chain, unread=optional.unread)

    def _chain(self, facts: Facts, revision: Revision) -> Chain:
        head, oldest = (
            facts.head,
            self._services.agenda.due(revision.shard, upto=facts.now, after=None, limit=1).entries,
        )
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
            oldest=oldest[0] if oldest else None,
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

    def _with_entries(self, facts: Facts) -> Facts:
        """The audit entries about what ended the run, or the schedule's activity."""
        optional = OptionalReads(facts.unread)
        entries = optional.read("audit", lambda: self._entries(facts))
        return replace(facts, entries=entries or (), unread=optional.unread)

    def _entries(self, facts: Facts) -> Sequence[AuditEntryRow]:
        assert facts.head is not None
        found: dict[str, AuditEntryRow] = {}
        for since, until in times_of_entries(facts):
            wanted = AuditFilter(since=max(since - AROUND, 0), until=until + AROUND, schedule=facts.head.name)
            page = list_entries(self._tenant, wanted, self._services, limit=ENTRIES, cursor=None)
            found |= {entry.key: entry for entry in page.items}
        return tuple(found[key] for key in sorted(found, reverse=True))

    def _row(self, ref: RunRef) -> RunRow | None:
        answer = self._services.ledger.look([ref])
        if ref in answer.unanswered:
            raise Unavailable(f"run_id={str(ref)!r}: its row could not be read; try again")
        return answer.found.get(ref)

    # What else the row, or its lack, asks for.

    def _completed(self, facts: Facts) -> Facts:
        optional = OptionalReads(facts.unread)
        surroundings = Surroundings(self._tenant, self._services, self._clock, optional)
        facts = replace(facts, holds=surroundings.holds(facts), children=surroundings.children(facts.run))
        facts = replace(facts, items=surroundings.items(facts.run), pipeline=surroundings.pipeline(facts.run))
        facts = self._with_siblings(facts, optional)
        return replace(facts, delivery=surroundings.delivery(facts), unread=optional.unread)

    def _with_siblings(self, facts: Facts, optional: OptionalReads) -> Facts:
        """With the rows that belong to the run: its failed attempts, its backfill, its redrive, the turn of its schedule."""
        run = facts.run
        if run is None:
            return facts
        attempts = optional.read("attempts", lambda: self._services.siblings.attempts(run.ref)) if run.fence else None
        turn = backfill = redriven = None
        if run.state is RunState.QUEUED and is_exclusive(facts):
            turn = optional.read("turn", lambda: self._turn(run.ref.owner))
        if (identity := run.backfill) is not None:
            backfill = optional.read("backfill", lambda: read_backfill(run.ref.owner, identity, self._services))
        if run.state in FAILED:
            redriven = optional.read("redriven", lambda: self._row(replay_ref(run)))
        return replace(facts, attempts=tuple(attempts or ()), turn=turn, backfill=backfill, redriven=redriven)

    def _turn(self, owner: str) -> Turns | None:
        record = self._services.records.read(owner, TURNS)
        return None if record is None else Turns.of(record.body)


# What an answer needs of the evidence. Pure.


_BY_OWNERS = (RunState.CANCELLED, RunState.SKIPPED)
_STOPS = (ClosedBy.PAUSED, ClosedBy.DELETED, ClosedBy.DRAINED)


def in_that_second(facts: Facts) -> Facts:
    """With the instant of the fire in the asked second, if the instant itself is none: fires of rates have milliseconds."""
    if facts.governing is None or facts.at % SECOND:
        return facts
    revision = facts.revisions[facts.governing]
    with suppress(ExpressionError):
        fire = timetable_of(revision).next(facts.at - 1)
        if fire is not None and fire < facts.at + SECOND and revision.bound(fire) == fire:
            return replace(facts, at=fire, ref=fire_ref(revision.owner, fire))
    return facts


def needs_agenda(facts: Facts) -> bool:
    """Whether it is a fire without a row, so that its chain says whether it is still to come."""
    place = facts.governing
    if facts.run is not None or facts.gaps or place is None or not active_at(facts, place):
        return False
    return absence_of(facts.revisions[place], facts.at) is None


def times_of_entries(facts: Facts) -> Iterator[tuple[int, int]]:
    """From when until when (UTC ms) acts of owners may have ended what the question is about."""
    run, head, place = facts.run, facts.head, facts.governing
    if run is not None and run.state in _BY_OWNERS and run.ended_at is not None:
        yield run.ended_at, run.ended_at
    number = run.revision if run is not None else place is not None and facts.revisions[place].number
    if run is not None and run.state not in (*_BY_OWNERS, RunState.QUEUED):
        return
    for revision in facts.revisions:
        until = revision.active_until
        if until is not None and revision.number >= (number or 0) and revision.closed_by in _STOPS:
            yield until, min(max(facts.at, until), until + ACTS) if run is None else until
    if run is None and place is not None and not active_at(facts, place):
        stop = stop_at(facts, place)
        yield stop.since, min(max(facts.at, stop.since), stop.since + ACTS)
    if run is None and head is not None and head.state is ScheduleState.DELETED:
        yield head.updated_at, head.updated_at


def gaps(facts: Facts) -> Iterator[RunRow]:
    """The rows of passed-over fires that stand for this one."""
    if facts.run is not None:
        if facts.run.skipped_until is not None:
            yield facts.run
        return
    for row in facts.before:
        revision = facts.revision(row.revision)
        if revision is None or not covers(row, facts.at):
            continue
        # Beyond the end of its revision it stands for nothing: a slower clock may have set that end after it was written.
        if revision.bound(facts.at) == facts.at and absence_of(revision, facts.at) is None:
            yield row


def is_exclusive(facts: Facts) -> bool:
    return facts.defining is not None and facts.defining.definition.options.is_exclusive
