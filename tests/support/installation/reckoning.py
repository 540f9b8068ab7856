"""The reckoning after a race: fires by the pure engine against the ledger, what jobs said, and what owners were told.

Three witnesses that share no code path: the fires of every revision's interval, recomputed; the ledger's rows; and the lines that
jobs wrote when they began, with what their payload said.

A fire of an interval is dealt with in exactly one of these ways:

    ran       its job began once, with the payload of that very revision (of the one before, if it started while the call that
              changed it was under way; of the backfill, if that came first)
    skipped   an owner was told so, and it never began
    stopped   its schedule was stopped before it could start: its run is cancelled, or was never claimed
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from quarterjack.domain.names import RunRef, fire_ref, schedule_owner
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Revision, ScheduleState
from quarterjack.domain.times import SECOND
from quarterjack.owner.backfill.records import backfills_of
from quarterjack.ports.services import Services
from quarterjack.state.backfill import BackfillState, DefinitionSpan, StoredBackfill, is_free
from quarterjack.timing import fires, timetable

from tests.support.installation.operations import Told

STOPPED = (ClosedBy.PAUSED, ClosedBy.DELETED, ClosedBy.DRAINED)
MOMENTS = 10 * SECOND  # and as long as the slowest start took: what was due so long before a stop should have started
BEGIN = 5 * SECOND  # from a committed lease to the job's first line, on a machine that others use as well


@dataclass(frozen=True, kw_only=True)
class Began:
    """A job's first line."""

    run: str  # id
    at: int  # UTC ms
    said: object  # what its payload said


@dataclass(kw_only=True)
class Reckoning:
    """What was counted, and what does not hold."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    slowest: int = 0  # ms from a run's time or claim to its start
    details: list[str] = field(default_factory=list)  # of the schedules that they are about

    def wrong(self, kind: str, text: str) -> None:
        self.violations.append(f"{kind}: {text}")
        self.counts[kind] += 1

    def tell(self, books: _Books) -> None:
        """What is known of a schedule that something is wrong with."""
        revisions = [
            (r.number, r.active_from, r.active_until, r.closed_by, r.definition.rule.expression)
            for r in books.revisions
        ]
        runs = [
            (k, r.state, r.revision, r.defined_by, r.backfill, r.reason, r.created_at, r.started_at)
            for k, r in books.runs.items()
        ]
        lines = [*map(str, books.told), *map(str, revisions), *map(str, books.backfills.values()), *map(str, runs)]
        self.details.append("\n".join([books.owner, *lines]))


@dataclass(frozen=True, kw_only=True)
class _Books:
    """All there is about one schedule."""

    name: str
    owner: str
    revisions: Sequence[Revision]  # oldest first
    runs: dict[str, RunRow]  # by id
    backfills: dict[str, StoredBackfill]  # by id
    began: dict[str, list[Began]]  # by run's id
    told: Sequence[Told]  # by the time of the call


def reckon(told: Sequence[Told], began: Sequence[Began], services: Services, tenant: str, upto: int) -> Reckoning:
    """Judge all schedules that an act named; what was due up to then (UTC ms) must have been dealt with."""
    result = Reckoning()
    by_run: defaultdict[str, list[Began]] = defaultdict(list)
    for start in began:
        by_run[start.run].append(start)
    result.counts.update(starts=len(began), acts=len(told))
    names = sorted({one.name for one in told})
    everything = [_books(name, tenant, [one for one in told if one.name == name], by_run, services) for name in names]
    result.slowest = max((_wait(run) for books in everything for run in books.runs.values()), default=0)
    result.counts["slowest start, ms"] = result.slowest
    for books in everything:
        before = len(result.violations)
        _intervals(books, result)
        _fires(books, upto, result)
        _others(books, upto, result)
        _triggers(books, result)
        _stops(books, result)
        _filled(books, result)
        _payloads(books, result)
        if len(result.violations) > before:
            result.tell(books)
    return result


def _wait(run: RunRow) -> int:
    return 0 if run.started_at is None else run.started_at - max(run.due, run.created_at)


def is_over(told: Sequence[Told], services: Services, tenant: str, upto: int, *, backfills: bool) -> bool:
    """Whether everything that was due has ended, and if ``backfills``, every one of these that may go on."""
    for name in {one.name for one in told}:
        owner = schedule_owner(tenant, name)
        if any(not run.is_terminal for run in services.ledger.window(owner, after=0, upto=upto)):
            return False
        head = services.schedules.head(tenant, name)
        if backfills and head is not None and head.state is ScheduleState.ACTIVE:
            going = (backfill.state for backfill in backfills_of(owner, services))
            if BackfillState.RUNNING in going:
                return False
    return True


def _books(name: str, tenant: str, told: Sequence[Told], began: dict[str, list[Began]], services: Services) -> _Books:
    owner = schedule_owner(tenant, name)
    return _Books(
        name=name,
        owner=owner,
        revisions=list(services.schedules.history(owner))[::-1],
        runs={str(run.ref): run for run in services.ledger.window(owner, after=0, upto=2**42)},
        backfills={backfill.id: backfill for backfill in backfills_of(owner, services)},
        began={run: lines for run, lines in began.items() if run.startswith(f"{owner}#")},
        told=sorted(told, key=lambda one: one.called),
    )


def _due(revision: Revision, after: int, upto: int) -> Iterator[int]:
    table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
    return iter(fires(table, after, upto))


# Invariants 1, 2 and 5.


def _intervals(books: _Books, result: Reckoning) -> None:
    """Intervals join without gap or overlap but where the schedule was stopped, and begin while their owner's call lasted."""
    numbers = [revision.number for revision in books.revisions]
    if numbers != list(range(1, len(numbers) + 1)):
        result.wrong("intervals", f"{books.owner} has revisions {numbers}")
    lasting = [one for one in books.revisions if one.active_until is None or one.active_until > one.active_from]
    for one, after in pairwise(lasting):  # those made during a pause are empty, and a resume may begin before them
        replaced = one.closed_by is ClosedBy.REPLACED
        if (
            one.active_until is None
            or one.active_until > after.active_from
            or (replaced and one.active_until != after.active_from)
        ):
            result.wrong("intervals", f"{one.id} ends {one.active_until}, {after.id} begins {after.active_from}")
    by_number = {revision.number: revision for revision in books.revisions}
    for told in books.told:
        if told.act in ("create", "update", "upsert"):
            number = told.revision or 0
            begin = by_number[number].active_from
            foreseen = number > 1 and begin == by_number[number - 1].active_from > told.called  # a pause's end, near
            if not (foreseen or told.called <= begin <= told.returned):
                result.wrong("intervals", f"{told} made a revision that begins {begin}")
    result.counts["revisions"] += len(numbers)


def _fires(books: _Books, upto: int, result: Reckoning) -> None:
    """Every fire of every interval was dealt with in exactly one way."""
    skipped = {told.run for told in books.told if told.act == "skip_next"}
    for place, revision in enumerate(books.revisions):
        stops = [later for later in books.revisions[place:] if later.closed_by in STOPPED]
        for fire in _due(revision, revision.active_from, revision.bound(upto)):
            ref = fire_ref(books.owner, fire)
            result.counts["fires"] += 1
            _one_fire(ref, fire, revision, stops, books, skipped, result)


def _one_fire(
    ref: RunRef,
    fire: int,
    revision: Revision,
    stops: Sequence[Revision],
    books: _Books,
    skipped: set[str | None],
    result: Reckoning,
) -> None:
    run, starts = books.runs.get(str(ref)), len(books.began.get(str(ref), ()))
    what = f"{ref}, a fire of revision {revision.number}, is {run and (run.state, run.revision, run.reason)}"
    if starts > 1:
        result.wrong("double", f"{what} and began {starts} times")
    elif starts == 1 and run is not None and run.state is RunState.SUCCEEDED:
        result.counts[_ran(run, revision, books, result)] += 1
    elif run is not None and run.state is RunState.SKIPPED and str(ref) in skipped:
        result.counts["skipped"] += 1
    elif (run is None or run.state is RunState.CANCELLED) and _was_stopped(
        fire, revision, stops, result.slowest + MOMENTS
    ):
        result.counts["stopped"] += 1
    else:
        result.wrong("lost", what)


def _ran(run: RunRow, revision: Revision, books: _Books, result: Reckoning) -> str:
    """How a fire came to run."""
    if run.backfill is not None:
        return "ran by a backfill"
    if run.revision == revision.number:
        return "ran"
    if not _while_closing(run, books):
        result.wrong("astray", f"{run.ref}, a fire of revision {revision.number}, ran under {run.revision}")
    return "ran while it was changed"


def _while_closing(run: RunRow, books: _Books) -> bool:
    """Whether a run started before the call had returned that ended its revision: until then it may be of the old one."""
    end = next(one.active_until for one in books.revisions if one.number == run.revision)
    started = run.started_at or run.due
    return end is not None and any(told.called <= end <= told.returned >= started for told in books.told)


def _was_stopped(fire: int, revision: Revision, stops: Sequence[Revision], moments: int) -> bool:
    """Whether a stop came before the fire could start. What a pause left is run late, and may meet the next stop."""
    late = revision.definition.options.automatic_backfill
    return any(late or fire > (stop.active_until or 0) - moments for stop in stops)


def _others(books: _Books, upto: int, result: Reckoning) -> None:
    """Nothing ran that is neither a fire of an interval, nor of a backfill, nor told; and nothing is left over."""
    last = max((run.due for run in books.runs.values()), default=upto)
    due = {str(fire_ref(books.owner, f)) for r in books.revisions for f in _due(r, r.active_from, r.bound(last))}
    for ref, lines in books.began.items():
        run = books.runs.get(ref)
        if run is None:
            result.wrong("double", f"{ref} began and has no row")
        elif run.ref.is_fire and ref not in due and run.backfill is None:
            if not _while_closing(run, books):
                result.wrong("double", f"{ref} began, and is not a fire of any interval")
            result.counts["ran while it was changed"] += 1
        elif len(lines) > 1:
            result.wrong("double", f"{ref} began {len(lines)} times")
    for ref, run in books.runs.items():
        if run.due <= upto and not run.is_terminal and run.backfill is None:
            result.wrong("stuck", f"{ref} is {run.state} ({run.reason})")
        if run.state is RunState.SKIPPED and ref in books.began:
            result.wrong("double", f"{ref} is SKIPPED and began")
        result.counts["taken back"] += run.unstarted


def _triggers(books: _Books, result: Reckoning) -> None:
    """Each triggered run is there once, and began once unless a later stop took it back."""
    rows = {ref: run for ref, run in books.runs.items() if not run.ref.is_fire}
    told = [one for one in books.told if one.act == "trigger"]
    in_bulk = sum(one.act == "bulk trigger" for one in books.told)
    if len(rows) != len(told) + in_bulk or any(one.run not in rows for one in told):
        result.wrong("lost", f"{books.owner} has {len(rows)} triggered runs; owners were told {len(told)} + {in_bulk}")
    for ref, run in rows.items():
        starts = len(books.began.get(ref, ()))
        stopped = any(
            one.act in ("pause", "delete", "bulk pause") and one.returned > run.created_at for one in books.told
        )
        if not (starts == 1 and run.state is RunState.SUCCEEDED) and not (
            starts == 0 and run.state is RunState.CANCELLED and stopped
        ):
            result.wrong("lost", f"{ref} was triggered, is {run.state} ({run.reason}) and began {starts} times")
        result.counts["triggered"] += starts


# Invariant 4.


def _stops(books: _Books, result: Reckoning) -> None:
    """Once a stop had returned, nothing of the revisions that it must have known starts."""
    for stop in books.told:
        if stop.act not in ("pause", "delete", "bulk pause"):
            continue
        known = max((one.revision or 0 for one in books.told if one.returned <= stop.called), default=0)
        result.counts["stops"] += 1
        for ref, lines in books.began.items():
            run = books.runs.get(ref)
            if run is None or run.revision > known or (stop.drain and run.due <= stop.called):
                continue
            if not run.ref.is_fire and (run.created_at >= stop.called - SECOND or stop.drain):
                continue  # triggered meanwhile or afterwards: its owner's act
            late = run.started_at is not None and run.started_at > stop.returned
            if late and any(line.at > stop.returned for line in lines):
                result.wrong("after stop", f"{ref} of revision {run.revision} started after {stop}")
            elif any(line.at > stop.returned + BEGIN for line in lines):
                result.wrong("after stop", f"{ref} of revision {run.revision} began long after {stop}")


# Backfills.


def _filled(books: _Books, result: Reckoning) -> None:
    """A backfill that is done has left no fire of its interval; what it ran is of its interval, by the definition of that time."""
    for backfill in books.backfills.values():
        result.counts[f"backfills {backfill.state}"] += 1
        due = {str(fire_ref(books.owner, f)): part.revision for part in backfill.spans for f in _of(part, books)}
        for ref, run in books.runs.items():
            if run.backfill == backfill.id and due.get(ref) != run.defined_by:
                result.wrong("astray", f"{ref} was filled in by {backfill.id} under revision {run.defined_by}")
        if backfill.state is not BackfillState.DONE:
            continue
        for ref in due:
            there = books.runs.get(ref)
            if there is None:
                result.wrong("lost", f"{ref} was passed over by {backfill.id}, which is DONE")
            elif there.backfill == backfill.id and not is_free(there):
                result.counts["filled in"] += 1


def _of(part: DefinitionSpan, books: _Books) -> Iterator[int]:
    revision = next(one for one in books.revisions if one.number == part.revision)
    table = timetable(revision.definition.rule, anchor=part.anchor, key=books.owner)
    return iter(fires(table, part.after, part.upto))


def _payloads(books: _Books, result: Reckoning) -> None:
    """What began was given what its revision says, or what its trigger said."""
    by_hand = {told.run: told.said for told in books.told if told.act == "trigger" and told.said is not None}
    by_number = {one.number: json.loads(one.definition.payload or "{}").get("said") for one in books.revisions}
    for ref, lines in books.began.items():
        run = books.runs.get(ref)
        if run is None:
            continue
        wanted = by_hand.get(ref, by_number[run.defined_by or run.revision])
        if any(line.said != wanted for line in lines):
            result.wrong("astray", f"{ref} was told {[line.said for line in lines]}, and not {wanted!r}")
