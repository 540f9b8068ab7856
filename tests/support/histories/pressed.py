"""Pressed histories: more is due than a worker gets done, so that the ticker holds the queue back again and again."""

from __future__ import annotations

from quarterjack.domain.run import RunState
from quarterjack.domain.times import HOUR, MINUTE
from quarterjack.state.backpressure import Limits

from tests.support.histories.history import History


class Pressed(History):
    """One seed, one history over a queue of two stripes that have six messages each before it is held back."""

    expressions = ("rate(7 seconds)", "rate(20 seconds)", "rate(90 seconds)", "* * * * *")
    between = (10, 60, 200)
    crew = 1
    limits = Limits(depth=6)
    stripes = 2
    busy = 25 * MINUTE
    quiet = HOUR

    def rest(self) -> None:
        """Enough workers come to get it all done."""
        super().rest()
        self.crew = 12

    def judged(self) -> list[str]:
        """What was held back is late, and nothing else became of it: the catch-up windows are longer than any outage here."""
        found = super().judged()
        passed = [run for run in self.stage.memory.runs() if run.state is RunState.SKIPPED]
        return [*found, *(f"passed over: {run.ref}" for run in passed)]
