"""Laned histories: runs of all priorities in a queue of two stripes with lanes, more than the workers get done, so that low ones age."""

from __future__ import annotations

from quarterjack import Scheduler
from quarterjack.domain.names import one_off_ref
from quarterjack.domain.policies import Priority
from quarterjack.domain.times import HOUR, MINUTE, SECOND
from quarterjack.state.backpressure import Limits

from tests.support.histories.history import STARTS, History


class Laned(History):
    """One seed, one history. Owners change priorities as they like."""

    expressions: tuple[str, ...] = ("rate(7 seconds)", "rate(20 seconds)", "rate(90 seconds)", "* * * * *")
    between: tuple[int, ...] = (1, 10, 60)
    crew = 2
    limits = Limits(depth=6)
    stripes = 2
    priorities = True
    low_age = 90 * SECOND
    busy = 20 * MINUTE
    quiet = HOUR

    def rest(self) -> None:
        """Enough workers come to get it all done."""
        super().rest()
        self.crew = 12

    def _act(self, act: str, owner: Scheduler, name: str) -> None:
        job, priority = "once" if name == "once" else "work", self.dice.choice(list(Priority))
        match act:
            case "submit":
                self.stage.count(act)
                self.one_offs += 1
                key, delay = f"{name}{self.one_offs}", self.dice.choice([0, 0, 30, 300, 1_000])
                run = owner.submit(job, delay=delay, idempotency_key=key, start=STARTS[name], priority=priority)
                self.seen.submitted.append((one_off_ref("acme", key), int(run.due.timestamp() * 1_000)))
            case "create":
                expression = self.dice.choice(self.expressions)
                self.stage.count(act)
                owner.create_schedule(name, job, expression, start=STARTS[name], priority=priority)
            case "update" if self.dice.random() < 0.5:
                self.stage.count(act)
                owner.update_schedule(name, priority=priority)
            case _:
                super()._act(act, owner, name)
