"""The checker: decides from what owners were told and what jobs saw whether the promises of the design held.

It knows no protocol: revisions and their intervals, starts, effects and outcomes go in; the pure time engine is the oracle.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from quarterjack.domain.names import fire_ref, parse_run_id
from quarterjack.domain.run import FAILED, EntryKind, RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Revision, ScheduleState
from quarterjack.testing import Memory
from quarterjack.timing import fires, timetable

STOPPED = (ClosedBy.PAUSED, ClosedBy.DELETED)


@dataclass(frozen=True, kw_only=True)
class Start:
    """A job's code began."""

    run_id: str
    attempt: int
    at: int  # UTC ms
    process: str  # whose
    payload: object = None  # what the job was given


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A pause, delete or cancellation had returned: nothing that it names may start any more."""

    what: str  # "tenant/name" of a schedule with ``revision``, or a run's id
    at: int  # UTC ms
    revision: int | None = None  # the last one that it stopped


@dataclass(kw_only=True)
class Observed:
    """All that an outsider saw of a history."""

    starts: list[Start] = field(default_factory=list)
    effects: Counter[str] = field(default_factory=Counter)  # by idempotency key and step
    stops: list[Stop] = field(default_factory=list)
    submitted: dict[str, int] = field(default_factory=dict)  # accepted run ids → UTC ms at which they are due
    excused: set[str] = field(default_factory=set)  # runs whose worker crashed, stalled or gave them back
    once: set[str] = field(default_factory=set)  # jobs delivered at most once
    skew: int = 0  # ms by which clocks may differ
    keyed: set[str] = field(default_factory=set)  # effects that must not repeat, whatever happens
    hastened: set[str] = field(default_factory=set)  # runs whose owner asked for the next attempt at once
    # Run, attempt, UTC ms: each time that a job's code began, where ``starts`` are commitments that come before.
    begun: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def begins(self) -> list[tuple[str, int, int]]:
        return self.begun or [(start.run_id, start.attempt, start.at) for start in self.starts]


def violations(seen: Observed, memory: Memory, upto: int) -> list[str]:
    """What does not hold. Everything due up to then (UTC ms) must have been dealt with."""
    runs = {str(run.ref): run for run in memory.runs()}
    return [
        *_lost(seen, memory, runs, upto),
        *_not_backfilled(memory, runs),
        *_lost_submissions(seen, runs, upto),
        *_doubles(seen, runs),
        *_hurried(seen, memory, runs),
        *_too_many(seen, runs),
        *_taken_back(runs.values()),
        *_after_stop(seen, runs),
        *_stuck(runs.values(), upto),
        *_unburied(runs.values(), upto),
        *_dead_chains(memory),
        *_effects(seen),
    ]


def _lost(seen: Observed, memory: Memory, runs: dict[str, RunRow], upto: int) -> Iterator[str]:
    """1 and 5. Every fire of an active interval started, or its run says by whose will it did not."""
    started = {start.run_id for start in seen.starts}
    for head in memory.heads():
        revisions = memory.revisions(head.owner)
        gaps = [run for run in runs.values() if run.ref.owner == head.owner and run.skipped]
        for place, revision in enumerate(revisions):
            stopped = any(later.closed_by in STOPPED for later in revisions[place:])
            for fire in fires_of(revision, upto):
                ref = str(fire_ref(head.owner, fire))
                run = runs.get(ref)
                if ref in started or (run is not None and run.is_terminal and run.state is not RunState.SUPERSEDED):
                    continue
                if (stopped and run is None) or any(gap.due <= fire <= (gap.skipped_until or 0) for gap in gaps):
                    continue
                yield f"lost: {ref}, a fire of revision {revision.number}, is {run.state if run else 'nowhere'}"


def _not_backfilled(memory: Memory, runs: dict[str, RunRow]) -> Iterator[str]:
    """A schedule with ``automatic_backfill`` passes no missed fire over, however late it is: no history here has 10,000 of them."""
    for gap in runs.values():
        if not gap.skipped:
            continue
        revision = next(one for one in memory.revisions(gap.ref.owner) if one.number == gap.revision)
        if revision.definition.options.backfills_missed:
            yield f"not backfilled: {gap.ref} stands for {gap.skipped} fires of revision {gap.revision}"


def fires_of(revision: Revision, upto: int) -> Iterator[int]:
    """The fires of a revision's interval, by the pure engine."""
    end = revision.bound(upto)
    table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
    return iter(fires(table, revision.active_from, end))


def _lost_submissions(seen: Observed, runs: dict[str, RunRow], upto: int) -> Iterator[str]:
    for run_id, due in seen.submitted.items():
        if due <= upto and run_id not in runs:
            yield f"lost: {run_id} was accepted and is nowhere"


def _doubles(seen: Observed, runs: dict[str, RunRow]) -> Iterator[str]:
    """2. An attempt starts once; at most once means once; a fire has one run."""
    attempts = Counter((start.run_id, start.attempt) for start in seen.starts)
    times: dict[str, int] = defaultdict(int)
    for (run_id, attempt), count in attempts.items():
        times[run_id] += count
        slices = runs[run_id].slices if run_id in runs else 0
        if count > 1 + slices and run_id not in seen.excused:
            yield f"double: attempt {attempt} of {run_id} started {count} times"
    for run_id, count in times.items():
        if count > 1 and run_id in runs and runs[run_id].job in seen.once:
            yield f"double: {run_id}, delivered at most once, started {count} times"


def _hurried(seen: Observed, memory: Memory, runs: dict[str, RunRow]) -> Iterator[str]:
    """A first attempt starts at its time at the earliest, a further one when the failed one before it said."""
    siblings = memory.connect().siblings
    for run_id, number, at in seen.begins:
        run = runs.get(run_id)
        if run is None:
            continue
        before = {attempt.number: attempt.next_attempt_at for attempt in siblings.attempts(run.ref)}
        earliest = run.due if number == 1 else before.get(number - 1)
        if run.replay_of or run_id in seen.hastened:
            continue
        if earliest is not None and at < earliest - seen.skew:
            yield f"early: attempt {number} of {run_id} started {earliest - at} ms before its time"


def _too_many(seen: Observed, runs: dict[str, RunRow]) -> Iterator[str]:
    for start in seen.starts:
        run = runs.get(start.run_id)
        if run is not None and start.attempt > run.max_attempts > 0:
            yield f"too many: {start.run_id} started attempt {start.attempt} of {run.max_attempts}"


def _taken_back(runs: Iterable[RunRow]) -> Iterator[str]:
    """A change of the schedule takes back only what has not started."""
    for run in runs:
        if run.started_at is not None and run.reason in (*map(str, ClosedBy), "replaced"):
            yield f"taken back: {run.ref} had started and is {run.state} ({run.reason})"


def _after_stop(seen: Observed, runs: dict[str, RunRow]) -> Iterator[str]:
    """4. Of a schedule first attempts only: what was under way may be repeated or retried. Of a cancelled run, all."""
    for stop in seen.stops:
        for start in seen.starts:
            of_run = stop.revision is None and start.run_id == stop.what
            run = runs.get(start.run_id)
            of_schedule = (
                stop.revision is not None
                and run is not None
                and parse_run_id(start.run_id).owner == stop.what
                and run.revision <= stop.revision
                and start.attempt == 1
            )
            if (of_run or of_schedule) and start.at > stop.at:
                yield f"after stop: {start.run_id} started {start.at - stop.at} ms after {stop.what} was stopped"


def _stuck(runs: Iterable[RunRow], upto: int) -> Iterator[str]:
    """6. Every accepted run ends."""
    for run in runs:
        if run.due <= upto and not run.is_terminal:
            yield f"stuck: {run.ref} is {run.state} ({run.reason})"


def _unburied(runs: Iterable[RunRow], upto: int) -> Iterator[str]:
    """Who is dead, lost or expired is in the undertaker's books."""
    for run in runs:
        if run.due <= upto and run.state in FAILED and run.buried_at is None:
            yield f"unburied: {run.ref} is {run.state} ({run.reason}) and nobody was told"


def _dead_chains(memory: Memory) -> Iterator[str]:
    """Every active schedule goes on, and nothing else does."""
    waiting = {entry.id for entry in memory.entries() if entry.kind is EntryKind.CHAIN}
    for head in memory.heads():
        if head.state is ScheduleState.ACTIVE and f"{head.owner}#{head.revision}" not in waiting:
            yield f"chain dead: {head.owner}#{head.revision}"


def _effects(seen: Observed) -> Iterator[str]:
    for effect in seen.keyed:
        if seen.effects[effect] > 1:
            yield f"effect twice: {effect} happened {seen.effects[effect]} times"
