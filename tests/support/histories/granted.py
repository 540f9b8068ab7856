"""Histories in which operators take jobs from a tenant and give them back, suspend it and resume it, while everything else goes on.

The oracle knows when each profile was committed, and nothing of how workers read it: no lease may be dated more than five seconds after
a time from which on the tenant could not run the job, and no run may be refused whose job the tenant always had.
"""

from __future__ import annotations

from typing import Any

from quarterjack import Tenants
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.tenants.access import NOT_GRANTED
from quarterjack.domain.tenants.profile import TenantProfile
from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError

from tests.support.histories.rich import JOBS, Rich
from tests.support.histories.simulator import Faults, Process
from tests.support.scenes.world import NOON

WITHIN = 5 * SECOND  # of a removal, in which a start may still follow
_ALL = tuple(dict.fromkeys(JOBS.values()))
_PROFILES = 0.35  # chance that an act is an operator's


class Granted(Rich):
    """One seed, one history."""

    between = (0, 1, 5, 20)

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.profiles: list[tuple[int, TenantProfile]] = []  # UTC ms of each commit, and what holds from then on
        self.started: list[
            tuple[str, str, int]
        ] = []  # run, job, UTC ms that its lease is dated at, by the stage's clock

    def _owner(self, process: Process) -> None:
        if self.dice.random() > _PROFILES:
            super()._owner(process)
            return
        operator = Tenants(services=process.services, clock=process.clock)
        act = self.dice.choice(("take", "take", "give", "suspend", "resume"))
        jobs = sorted(self.dice.sample(_ALL, self.dice.randint(0, len(_ALL) - 1))) if act == "take" else ["*"]
        if not self.stage.strikes(f"act {act}", 1.0):
            return
        self.stage.tell(process, f"wants: {act} {jobs}")
        try:
            if act == "suspend":
                operator.suspend("acme", reason="a matter of money")
            elif act == "resume":
                operator.resume("acme")
            else:
                operator.set("acme", jobs=jobs)
        except QuarterjackError as problem:
            self.stage.tell(process, f"is refused: {problem}")

    def _come_to_rest(self, process: Process) -> None:
        """Twice: an operator whose process stalled may suspend the tenant, or take its jobs, after the first time."""
        operator = Tenants(services=process.services, clock=process.clock)
        for _ in range(2):
            operator.set("acme", jobs=["*"])
            operator.resume("acme")
            process.wait(6)  # for so long the owner goes by what it has read
            super()._come_to_rest(process)
            process.wait(20 * 60)

    # What is seen.

    def _look(self, process: Process, detail: Any) -> None:
        if detail.verb == "put_profile":
            stored = self.stage.memory.connect().tenants.profile("acme")
            if stored is not None and (not self.profiles or self.profiles[-1][1] != stored):
                self.profiles.append((self.stage.now, stored))
        known = len(self.seen.leases)
        super()._look(process, detail)
        for lease in list(self.seen.leases.values())[known:]:
            row = self.stage.memory.row(lease.ref) or {}
            self.started.append((str(lease.ref), row["job"], row["leased_at"] - process.skew))

    # What must hold.

    def _violations(self) -> list[str]:
        runs = [run for run in self.stage.memory.runs() if run.reason == NOT_GRANTED]
        self.stage.count("refused runs", len(runs))
        late = [
            f"not granted: {run_id} of job {job} was leased at +{at - NOON} ms, {for_ms} ms after it was taken away"
            for run_id, job, at in self.started
            if (for_ms := self._without(job, at)) > WITHIN
        ]
        self.stage.count("starts within", sum(self._without(job, at) > 0 for _, job, at in self.started))
        return [*super()._violations(), *late, *(text for run in runs for text in self._unjust(run))]

    def _without(self, job: str, at: int) -> int:
        """For how long (ms) the tenant could not run a job at an instant, without a break."""
        since: int | None = None
        for when, profile in self.profiles:
            if when > at:
                break
            if profile.accepts and profile.may_run(job, by_name=False):
                since = None
            elif since is None:
                since = when
        return 0 if since is None else at - since

    def _unjust(self, run: RunRow) -> list[str]:
        """A run that was refused although, from its claim to its end, nobody had taken its job away."""
        if run.state is not RunState.DEAD:
            return [f"refused: {run.ref} is {run.state}"]
        upto = (run.ended_at or 0) + self.faults.skew
        taken = [
            when for when, profile in self.profiles if when <= upto and not profile.may_run(run.job, by_name=False)
        ]
        return [] if taken else [f"refused: {run.ref}, whose job {run.job} nobody had taken away"]
