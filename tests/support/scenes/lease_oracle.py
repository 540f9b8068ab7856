"""What must hold of a history, decided from what was seen: leases, renewals, accepted acts, and the pure time engine.

It knows fires, starts and the owner's acts, not how the flow brings them about.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quarterjack.domain.names import RunRef, fire_ref, parse_run_id
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Revision, ScheduleState
from quarterjack.domain.times import SECOND
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.state.refusal import refused_by
from quarterjack.timing import fires, timetable

from tests.support.histories.simulator import Process, Stage

STOPPED = (ClosedBy.PAUSED, ClosedBy.DELETED)


@dataclass
class Lease:
    """A start that was committed."""

    ref: RunRef
    fence: int
    revision: int
    attempt: int
    at: int  # UTC ms
    by: str
    renewed: int = 0  # UTC ms of its clock's last reading before a sign of life
    given_up: bool = False  # settled, released or continued: another attempt is in order


@dataclass
class Seen:
    """All that an outsider saw."""

    stage: Stage
    leases: dict[tuple[RunRef, int], Lease] = field(default_factory=dict)
    stops: list[tuple[str, int, int]] = field(
        default_factory=list
    )  # owner, revision, UTC ms at which the call had returned
    submitted: list[tuple[RunRef, int]] = field(default_factory=list)  # accepted one-offs and when they were due
    first_begun: dict[RunRef, int] = field(
        default_factory=dict
    )  # UTC ms at which the job of a run began, the first time

    def look(self, process: Process, detail: object) -> None:
        """After each call: what it did to a run."""
        verb, items = detail.verb, detail.items  # type: ignore[attr-defined]
        if verb not in ("lease", "renew", "retry", "release", "continue", "park"):
            return
        for ref in items:
            self._look_at(ref, verb, process)

    def _look_at(self, ref: RunRef, verb: str, process: Process) -> None:
        row = self.stage.memory.row(ref)
        if row is None or not row["fence"]:
            return
        key = (ref, row["fence"])
        if verb == "lease" and row["state"] == RunState.RUNNING and key not in self.leases:
            now = self.stage.now
            begun = Lease(ref, row["fence"], row["rev"], row["attempt"], now, process.name, renewed=process.looked)
            self.leases[key] = begun
        elif verb == "renew" and row["state"] == RunState.RUNNING and row["worker"] == process.name:
            self.leases[key].renewed = process.looked
        elif row["state"] in (RunState.RETRYING, RunState.CONTINUED, RunState.PARKED) and key in self.leases:
            self.leases[key].given_up = True

    def begun(self, run_id: str) -> None:
        """A job began."""
        self.first_begun.setdefault(parse_run_id(run_id), self.stage.now)

    # Verdicts.

    def violations(self, upto: int, skew: int) -> list[str]:
        """What does not hold; ``upto`` (UTC ms): fires up to then must be dealt with. ``skew``: how far clocks differed."""
        runs = {run.ref: run for run in self.stage.memory.runs()}
        return [
            *self._lost_fires(runs, upto),
            *self._doubles(skew),
            *(f"early: {ref} by {ms} ms" for ref, ms in self.ahead() if ms > skew),
            *self._after_stop(),
            *self._unfinished(runs, upto),
            *self._one_offs(runs, upto),
            *self._chains(),
        ]

    def _lost_fires(self, runs: dict[RunRef, RunRow], upto: int) -> list[str]:
        found = []
        started = {lease.ref for lease in self.leases.values()}
        for head in self.stage.memory.heads():
            revisions = self.stage.memory.revisions(head.owner)
            for place, revision in enumerate(revisions):
                stopped = any(later.closed_by in STOPPED for later in revisions[place:])
                for fire in _fires_of(revision, upto):
                    ref = fire_ref(revision.owner, fire)
                    run = runs.get(ref)
                    if ref in started or (stopped and (run is None or run.state is RunState.CANCELLED)):
                        continue
                    if run is not None and run.state is RunState.CANCELLED and run.reason == "backfill cancelled":
                        continue
                    found.append(f"lost: {ref} of revision {revision.number}, {run and run.state}")
        return found

    def stolen(self) -> list[tuple[Lease, Lease, int]]:
        """Second starts of runs whose holder had not given them up, with that holder, and for how many ms it had been silent."""
        pairs = [(lease, self.leases.get((lease.ref, lease.fence - 1))) for lease in self.leases.values()]
        return [(lease, b, lease.at - b.renewed) for lease, b in pairs if b is not None and not b.given_up]

    def _doubles(self, skew: int) -> list[str]:
        """A second start needs a first one that was given up, or whose holder had been silent for a lease."""
        found = [
            f"twice: {lease.ref} fence {lease.fence} after {silent} ms of silence of {before.by}"
            for lease, before, silent in self.stolen()
            if silent < LEASE + SKEW - 2 * skew
        ]
        once = {ref for ref, _ in self.leases if "once" in ref.owner}
        found += [f"at most once, twice: {ref}" for ref in once if (ref, 2) in self.leases]
        return found

    def ahead(self) -> list[tuple[RunRef, int]]:
        """How many ms before their time jobs began for the first time: not more than their worker's clock is fast."""
        runs = {run.ref: run for run in self.stage.memory.runs()}
        return [(ref, runs[ref].due - at) for ref, at in self.first_begun.items() if ref in runs]

    def _after_stop(self) -> list[str]:
        return [
            f"after stop: {lease.ref} of revision {lease.revision} at +{lease.at - at} ms"
            for owner, revision, at in self.stops
            for lease in self.leases.values()
            if lease.ref.owner == owner and lease.revision <= revision and lease.fence == 1 and lease.at > at
        ]

    def _unfinished(self, runs: dict[RunRef, RunRow], upto: int) -> list[str]:
        """Every run comes to an end, but for those that wait for the auditor."""
        late = [run for run in runs.values() if run.due <= upto and not run.is_terminal]
        return [f"unfinished: {run.ref} {run.state}" for run in late if not self._for_the_auditor(run)]

    def _for_the_auditor(self, run: RunRow) -> bool:
        """Claimed by a ticker that stalled until its schedule was stopped and the chain had ended, and then could not send.

        It must not start, and nothing waits for it; test_stalled_ticker has its end.
        """
        closed = [r for r in self.stage.memory.revisions(run.ref.owner) if r.number == run.revision]
        return run.state is RunState.QUEUED and any(refused_by(revision, run.due) for revision in closed)

    def _one_offs(self, runs: dict[RunRef, RunRow], upto: int) -> list[str]:
        started = {lease.ref for lease in self.leases.values()}
        return [f"lost one-off: {ref}" for ref, due in self.submitted if due <= upto and ref not in started]

    def _chains(self) -> list[str]:
        """Every active schedule goes on."""
        waiting = {entry.id for entry in self.stage.memory.entries()}
        return [
            f"chain dead: {head.owner}#{head.revision}"
            for head in self.stage.memory.heads()
            if head.state is ScheduleState.ACTIVE and f"{head.owner}#{head.revision}" not in waiting
        ]


def _fires_of(revision: Revision, upto: int) -> list[int]:
    end = upto if revision.active_until is None else min(upto, revision.active_until)
    table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
    return [fire for fire in fires(table, revision.active_from, end) if fire % SECOND == 0 or fire]
