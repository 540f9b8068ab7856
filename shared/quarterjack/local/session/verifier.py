"""Verification of a local session: the expected fires against the ledger and against the log events of the workers. Pure.

It compares three sources that share no code: the fires, recomputed from the expressions by the time engine; the rows of the
ledger; and the ``run.started`` events of the workers, the only source that shows a run that started twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from quarterjack.domain.names import fire_ref, parse_run_id, schedule_owner
from quarterjack.domain.run import TERMINAL, WAITING
from quarterjack.domain.times import from_ms, to_ms
from quarterjack.local.processes import Event
from quarterjack.sdk.views import Run
from quarterjack.timing import next_fires

_AT_ONCE = 500  # fires computed in one call


@dataclass(frozen=True, kw_only=True)
class WatchedSchedule:
    """A schedule that does not change during the session, so that its fires can be recomputed."""

    tenant: str  # its owner
    name: str  # of the schedule
    expression: str  # without an anchor of its own (`rate` needs `from=`)
    timezone: str  # of the expression
    start: str  # prompt or exact
    since: datetime  # fires later than this are expected

    @property
    def owner(self) -> str:
        return schedule_owner(self.tenant, self.name)

    def expected(self, upto: datetime) -> Iterator[str]:
        """Ids of the runs of all fires in ``(since, upto]``."""
        after = self.since
        while True:
            fires = next_fires(self.expression, timezone=self.timezone, after=after, count=_AT_ONCE)
            for fire in fires:
                if fire > upto:
                    return
                yield str(fire_ref(self.owner, to_ms(fire, "fire")))
            if len(fires) < _AT_ONCE:
                return
            after = fires[-1]


_MOST_ASKED = 1_000


@dataclass
class StartLog:
    """Starts and ends of runs from log events. A run may start again after a retry, a release or a crash."""

    started: Counter[str] = field(default_factory=Counter)  # by run id
    excused: Counter[str] = field(default_factory=Counter)  # starts that may be followed by another
    lateness: dict[str, timedelta] = field(default_factory=dict)  # of first attempts
    states: dict[str, str] = field(default_factory=dict)  # of the last event
    over: set[str] = field(default_factory=set)  # runs in a terminal state
    open: dict[str, str] = field(default_factory=dict)  # run id → process, for runs that started and have not ended

    def note(self, process: str, event: Event) -> None:
        run_id = str(event.get("run_id", ""))
        match event["event"]:
            case "run.started":
                self.started[run_id] += 1
                self.open[run_id] = process
                self.states[run_id] = "RUNNING"
                if event.get("attempt") == 1:
                    self.lateness.setdefault(run_id, timedelta(milliseconds=event["lateness_ms"]))
            case "run.ended":
                self.open.pop(run_id, None)
                self.states[run_id] = event.get("state") or "QUEUED"  # without one its worker gave it back
                if event.get("state") in TERMINAL:
                    self.over.add(run_id)
                self.excused[run_id] += event.get("state") in WAITING  # another attempt, or another slice, follows
            case "run.dead" | "run.lost":
                self.over.add(run_id)
            case "run.released" | "lease.lost":
                self.excused[run_id] += 1

    def look_up(self, state_of: Callable[[str], str | None]) -> None:
        """Ask the ledger for runs without a logged end, at most 1,000: no worker logs the end of a parked run that is cancelled."""
        going = [run_id for run_id, state in self.states.items() if state not in TERMINAL]
        for run_id in going[:_MOST_ASKED]:
            self.states[run_id] = state_of(run_id) or self.states[run_id]

    def crashed(self, process: str) -> None:
        """A process ended during its runs: other workers may start these again."""
        for run_id in [run_id for run_id, by in self.open.items() if by == process]:
            del self.open[run_id]
            self.excused[run_id] += 1

    def twice(self) -> list[str]:
        """Runs that started again without a retry, a release or a crash before."""
        return sorted(run_id for run_id, count in self.started.items() if count > 1 + self.excused[run_id])


@dataclass(frozen=True, kw_only=True)
class LatenessFigures:
    """Seconds from due to start: nearest-rank percentiles."""

    count: int
    p50: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Sequence[timedelta]) -> LatenessFigures | None:
        """None without values."""
        if not values:
            return None
        seconds = sorted(value.total_seconds() for value in values)
        p50, p99 = (seconds[ceil(share * len(seconds)) - 1] for share in (0.5, 0.99))
        return cls(count=len(seconds), p50=p50, p99=p99, most=seconds[-1])


@dataclass(frozen=True, kw_only=True)
class VerifierReport:
    states: Mapping[str, int]  # runs by state
    lateness: Mapping[str, LatenessFigures]  # by start: prompt, exact; `other`: runs that are not watched
    watched: int  # schedules whose fires were compared
    started: int  # runs that started in this session, of any schedule
    expected: int  # fires that were due while it was watched
    missing: Sequence[str]  # runs of these fires that did not start
    double: Sequence[str]  # runs that started again without a reason
    unexpected: Sequence[str]  # runs in the ledger whose instant is no fire
    astray: Sequence[str]  # one-offs that ended in another state than expected
    caught_up: int  # runs that were due before this session and started in it
    logs_whole: bool = True  # no event is missing in the logs of the processes

    @property
    def clean(self) -> bool:
        """Whether every fire started once, no other run started, and every ended one-off has the expected state."""
        return not (self.missing or self.double or self.unexpected or self.astray)


def verify(
    watched: Sequence[WatchedSchedule],
    runs: Mapping[str, Sequence[Run]],
    starts: StartLog,
    upto: datetime,
    *,
    one_offs: Sequence[tuple[Run, str]] = (),
    logs_whole: bool = True,
) -> VerifierReport:
    """``runs`` are the ledger's rows of each watched schedule by name, ``one_offs`` runs with their expected state.

    Without ``logs_whole`` an event may be missing: the ledger alone tells that a fire has started, and nothing that it did so twice.
    """
    missing, unexpected, expected_count = list[str](), list[str](), 0
    lateness: dict[str, list[timedelta]] = {}
    counted = [run for run, _ in one_offs]
    since = {schedule.owner: schedule.since for schedule in watched}
    known = {parse_run_id(run.id).owner for run in counted} | since.keys()
    for schedule in watched:
        expected = set(schedule.expected(upto))
        expected_count += len(expected)
        present = [run for run in runs[schedule.name] if schedule.since < run.due <= upto]
        in_ledger = {run.id for run in present if run.started_at is not None}
        missing += sorted(expected - (in_ledger & set(starts.started) if logs_whole else in_ledger))
        unexpected += sorted({run.id for run in present} - expected)
        lateness.setdefault(schedule.start, []).extend(run.lateness for run in present if run.lateness is not None)
        counted += present
    others = [run_id for run_id in starts.started if parse_run_id(run_id).owner not in known]
    lateness["other"] = [starts.lateness[run_id] for run_id in others if run_id in starts.lateness]
    return VerifierReport(
        states=Counter([*(str(run.state) for run in counted), *(starts.states[run_id] for run_id in others)]),
        lateness={
            start: found for start, values in lateness.items() if (found := LatenessFigures.of(values)) is not None
        },
        watched=len(watched),
        started=len(starts.started),
        expected=expected_count,
        missing=missing,
        double=starts.twice() if logs_whole else [],  # the reason of a second start may be missing
        unexpected=unexpected,
        astray=[run.id for run, end in one_offs if run.ended_at is not None and run.state != end],
        caught_up=sum(
            ref.owner in since and from_ms(int(ref.key)) <= since[ref.owner]
            for ref in map(parse_run_id, starts.started)
        ),
        logs_whole=logs_whole,
    )
