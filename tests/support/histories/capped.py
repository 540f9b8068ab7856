"""Capped histories: a tenant whose runs, and those of one of its jobs, may have few leases at a time, while workers die and stall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from quarterjack import Flow, Registry, Retry, Scheduler
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.domain.times import MINUTE
from quarterjack.sdk.tenants.tenants import Tenants
from quarterjack.state.lease import SKEW
from quarterjack.testing import Detail

from tests.support.histories.history import History
from tests.support.histories.simulator import Faults, Process
from tests.support.scenes.lease_oracle import Seen

LIMITS: dict[str, float | str | None] = {"concurrent_runs": 3, "concurrent_runs:once": 1, "concurrency_strict": 1}
CAPS = {"concurrent_runs": 3, "concurrent_runs:once": 1}


class CappedSeen(Seen):
    """What an outsider saw, and how many leases were live after each one that was granted or renewed."""

    too_many: list[str]
    caps: Mapping[str, int] = CAPS

    def look(self, process: Process, detail: object) -> None:
        super().look(process, detail)
        if isinstance(detail, Detail) and detail.place == "runs" and detail.verb in ("lease", "renew"):
            going = Counter[str]()
            for run in self.stage.memory.runs():
                if run.state is RunState.RUNNING and (run.lease_until or 0) >= self.stage.now:
                    going["concurrent_runs"] += 1
                    going[f"concurrent_runs:{run.job}"] += 1
            self.stage.counts["full"] += any(going[name] == most for name, most in self.caps.items())
            self.too_many += [
                f"{number} live leases of {name}" for name, number in going.items() if number > self.caps.get(name, 99)
            ]

    def violations(self, upto: int, skew: int) -> list[str]:
        found = super().violations(upto, skew)
        if skew <= SKEW:  # clocks that differ by more break leases as well
            found += self.too_many
        return [*found, *self._left(upto)]

    def _left(self, upto: int) -> list[str]:
        """Nobody waits in a wait queue, and nobody has its timer."""
        entries = [e for e in self.stage.memory.entries() if isinstance(e.shard, str) or e.kind is EntryKind.QUEUE]
        return [f"left: {entry.key}" for entry in entries if entry.due < upto]


class Capped(History):
    """One seed, one history."""

    expressions: tuple[str, ...] = (
        "rate(90 seconds)",
        "* * * * *",
        "rate(10 minutes)",
    )  # no more than the caps let through
    between: tuple[int, ...] = (0, 1, 5, 20)
    quiet = 90 * MINUTE
    crew = 8
    of_tenant: Mapping[str, float | str | None] = LIMITS
    seen: CappedSeen

    def _act(self, act: str, owner: Scheduler, name: str) -> None:
        """Submissions come in bursts."""
        for _ in range(6 if act == "submit" and name != "once" and self.dice.random() < 0.3 else 1):
            super()._act(act, owner, name)

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.seen = CappedSeen(self.stage)
        self.seen.too_many = []
        self.stage.observer = self.seen.look
        Tenants(services=self.stage.memory.connect(), clock=lambda: self.stage.now).set("acme", limits=self.of_tenant)


class Flowing(Capped):
    """The same by the policy ``flow`` of two jobs: submissions ask before they send, fires at their worker."""

    of_tenant: Mapping[str, float | str | None] = {}

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.seen.caps = {"concurrent_runs:work": 2, "concurrent_runs:once": 1}
        self.jobs = Registry()
        shared = Flow(name="shared", at_a_time=2, strict=True)
        self.jobs.job("work", retry=Retry(max_attempts=50, base=5.0, cap=30.0), flow=shared)(self._job)
        self.jobs.job("once", delivery="at_most_once", flow=Flow(at_a_time=1, strict=True))(self._job)
