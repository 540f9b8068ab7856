"""The verdict on a siege: what jobs wrote down against what owners were told, with the pure time engine as oracle."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil

from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import RunRow, RunState
from quarterjack.testing import Memory

from tests.support.chaos.evidence import Evidence, Repeat
from tests.support.chaos.owners import Accepted
from tests.support.histories import checker

ONCE = "chaos.once"


@dataclass(kw_only=True)
class Verdict:
    """What a siege came to."""

    runs: Mapping[str, int]  # by state
    starts: int
    calls: int  # of owners
    strikes: Mapping[str, int]  # against processes, by kind
    faults: Mapping[str, int]  # in requests, by kind
    lost: Sequence[str]
    repeats: Sequence[Repeat]
    violations: Sequence[str]  # what is lost and what is not explained among it
    recovery: Mapping[str, Sequence[float]]  # seconds, by what was measured

    @property
    def summary(self) -> str:
        """The last line."""
        kinds = Counter(repeat.blow.kind for repeat in self.repeats if repeat.blow)
        why = ": " * bool(kinds) + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        stops = self.strikes.get("stopped", 0)
        return (
            f"runs={sum(self.runs.values())} kills={self.strikes.get('killed', 0)} stops={stops} "
            f"faults={sum(self.faults.values())} lost={len(self.lost)} doubles={len(self.repeats)} "
            f"(explained {kinds.total()}{why}) violations={len(self.violations)}"
        )

    def report(self) -> Iterator[str]:
        """What to print before it."""
        yield f"runs by state: {dict(self.runs)}; {self.starts} starts; {self.calls} calls of owners"
        yield f"injected into requests: {dict(self.faults)}"
        yield f"done to processes: {dict(self.strikes)}"
        for what, seconds in self.recovery.items():
            yield f"{what}: {percentiles(seconds)}"


def percentiles(seconds: Sequence[float]) -> str:
    """Nearest rank."""
    if not seconds:
        return "none"
    ordered = sorted(seconds)
    p50, p99 = (ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
    return f"p50 {p50:.1f} s, p99 {p99:.1f} s, max {ordered[-1]:.1f} s (n={len(ordered)})"


def judge(
    evidence: Evidence, accepted: Accepted, memory: Memory, upto: float, more: Sequence[str], *, skew: int = 0
) -> Verdict:
    """``upto`` (UTC seconds): what was due until then is judged. ``more``: violations that were seen on the way.

    ``skew``: milliseconds by which clocks may differ.
    """
    runs = {str(run.ref): run for run in memory.runs()}
    repeats = evidence.repeats()
    explained = [repeat for repeat in repeats if repeat.blow is not None]
    observed = checker.Observed(
        starts=[
            checker.Start(run_id=run, attempt=line["attempt"], at=int(line["at"] * 1_000), process=str(line["pid"]))
            for run, lines in evidence.starts.items()
            for line in lines
        ],
        submitted={run_id: int(due * 1_000) for run_id, due in accepted.submitted.items()},
        excused={repeat.run for repeat in explained},
        once={ONCE},
        skew=skew,
        hastened=accepted.hastened,
    )
    lost = sorted(_lost(evidence, accepted, runs, upto))
    violations = [
        *(f"lost: {run_id} has never started" for run_id in lost),
        *checker.violations(observed, memory, int(upto * 1_000)),
        *(f"double: {repeat}" for repeat in repeats if repeat.blow is None),
        *_after_pause(evidence, accepted, runs, skew),
        *_after_cancel(evidence, accepted),
        *_steps(evidence, explained),
        *more,
    ]
    due = [run for run in runs.values() if run.due <= upto * 1_000]
    return Verdict(
        runs=Counter(str(run.state) for run in due),
        starts=sum(map(len, evidence.starts.values())),
        calls=accepted.calls,
        strikes=Counter(blow.kind for blow in evidence.journal.blows),
        faults=evidence.journal.faults,
        lost=lost,
        repeats=repeats,
        violations=violations,
        recovery=_recovery(evidence, accepted, explained, upto),
    )


def _lost(evidence: Evidence, accepted: Accepted, runs: Mapping[str, RunRow], upto: float) -> Iterator[str]:
    """Fires of schedules that nobody changed and one-offs that nobody cancelled, without a start that anybody saw."""
    until = datetime.fromtimestamp(upto, UTC)
    expected = {run_id for schedule in accepted.steady for run_id in schedule.expected(until)}
    submitted = {run_id for run_id, due in accepted.submitted.items() if due <= upto}
    expected |= submitted - {cancelled.run.id for cancelled in accepted.cancelled}
    for run_id in expected - set(evidence.starts):
        run = runs.get(run_id)
        if (
            run is None or run.job != ONCE or run.state is not RunState.LOST
        ):  # its worker died before the job's first line
            yield run_id


def _after_pause(evidence: Evidence, accepted: Accepted, runs: Mapping[str, RunRow], skew: int) -> Iterator[str]:
    """Nothing of a schedule starts once its pause or deletion has returned."""
    for paused in accepted.paused:
        for run_id in paused.started:
            if (runs[run_id].started_at or 0) > paused.at * 1_000 + skew and runs[run_id].revision <= paused.revision:
                yield f"after pause: {run_id} was started after {paused.name} had been paused"
    by_owner: dict[str, list[str]] = defaultdict(list)
    for run_id in evidence.starts:
        by_owner[parse_run_id(run_id).owner.partition("/")[2]].append(run_id)
    for paused in accepted.paused:
        for run_id in by_owner[paused.name]:
            first = evidence.starts[run_id][0]
            late = first["at"] > paused.at and run_id not in paused.started
            if late and runs[run_id].revision <= paused.revision:
                yield f"after pause: {run_id} started {first['at'] - paused.at:.1f} s after {paused.name} had been paused"


def _after_cancel(evidence: Evidence, accepted: Accepted) -> Iterator[str]:
    """No attempt begins that had not begun when the cancellation returned."""
    for cancelled in accepted.cancelled:
        begun = cancelled.run.attempt if cancelled.run.started_at else 0
        for line in evidence.starts.get(cancelled.run.id, ()):
            if line["attempt"] > begun:
                yield f"after cancel: attempt {line['attempt']} of {cancelled.run.id} started although it was cancelled"


def _steps(evidence: Evidence, explained: Sequence[Repeat]) -> Iterator[str]:
    """A recorded step never runs again; an effect without a record repeats only with its run."""
    recorded: dict[tuple[str, str], set[str]] = defaultdict(set)
    effects: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in sorted(evidence.lines, key=lambda line: float(line["at"])):
        if line["what"] == "recorded":
            recorded[line["run"], line["step"]].add(line["token"])
        elif line["what"] == "effect":
            effects[line["run"], line["step"]].append(line["token"])
    again = {repeat.run for repeat in explained}
    raised = {line["run"] for line in evidence.lines if line["what"] == "raise"}
    for (run, step), tokens in effects.items():
        kept = recorded[run, step]
        if len(kept) > 1:
            yield f"step: {step} of {run} gave two results"
        if len(tokens) > 1 and run not in again | raised:
            yield f"step: {step} of {run} happened {len(tokens)} times"


def _recovery(
    evidence: Evidence, accepted: Accepted, explained: Sequence[Repeat], upto: float
) -> dict[str, Sequence[float]]:
    """Seconds."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    for repeat in explained:
        if repeat.blow is not None:
            by_kind[f"worker {repeat.blow.kind} → its run starts again"].append(repeat.seconds)
    owners = {schedule.owner for schedule in accepted.steady}
    firsts = [lines[0] for run, lines in evidence.starts.items() if parse_run_id(run).owner in owners]
    gaps = [after - before for before, after in pairwise(evidence.ticks) if before < upto]
    return {
        **by_kind,
        "from one tick to the next": gaps,
        "due → first start": [line["at"] - line["due"] for line in firsts],
    }
