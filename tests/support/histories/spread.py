"""Spread histories: owners change the windows and jitters of schedules while their fires are on their way.

The judge knows the instants of the expression alone: no window is longer than the time between two of them, so a run belongs to the
last instant up to its time. Whatever was changed, each instant starts once. No process stalls: a change that is written minutes after
its owner has looked at the clock moves fires that have started meanwhile.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from quarterjack import Rule, Scheduler
from quarterjack.domain.times import MINUTE, to_ms

from tests.support.histories.history import NEAR, STARTS, History
from tests.support.histories.simulator import Faults
from tests.support.scenes.world import NOON

_PERIOD = 2 * MINUTE
_WINDOWS = (0, 1, 15, 60, 100, 120)  # seconds
_EXCLUDED = ((), ("2027-01-01",), ("2027-01-01", "2027-02-02"))
_FULL = 15 * MINUTE  # before the end: what is due later may still be on its way


class Spread(History):
    """One seed, one history of an hour."""

    between = (0, 1, 5, 20, 60)

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, replace(faults, skew=min(faults.skew, NEAR), stall=0.0))
        self.created: dict[str, int] = {}  # UTC ms

    def _act(self, act: str, owner: Scheduler, name: str) -> None:
        self.stage.count("update")
        word, window = self.dice.choice(["window", "jitter"]), self.dice.choice(_WINDOWS)
        rule = Rule.from_dict({"expression": "*/2 * * * *", word: window, "exclude": list(self.dice.choice(_EXCLUDED))})
        made = owner.upsert_schedule(name, "once" if name == "once" else "work", rule, start=STARTS[name])
        self.created.setdefault(f"acme/{name}", to_ms(made.schedule.created_at, "created_at"))

    def _violations(self) -> list[str]:
        upto = NOON + self.busy + self.quiet - _FULL
        started: dict[str, set[int]] = defaultdict(set)
        for lease in self.seen.leases.values():
            started[lease.ref.owner].add(lease.ref.instant or 0)
        found = super()._violations()
        for owner, created in self.created.items():
            counted = Counter(at - at % _PERIOD for at in started[owner])
            first = created - created % _PERIOD
            found += [f"twice: {owner} at {at - NOON} ms, {times} runs" for at, times in counted.items() if times > 1]
            missing = [at for at in range(first + _PERIOD, upto, _PERIOD) if at not in counted]
            found += [f"lost: {owner} at {at - NOON} ms" for at in missing]
        return found
