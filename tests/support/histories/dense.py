"""Dense histories: schedules that fire every second or two, and workers that take ten messages at once and settle them together."""

from __future__ import annotations

from quarterjack import Context

from tests.support.histories.history import History


class Dense(History):
    """One seed, one history of some two thousand executions."""

    expressions = ("rate(1 second)", "rate(2 seconds)", "rate(3 seconds)", "* * * * *")
    between = (5, 30, 120, 200)
    at_hand = 10
    crew = 12
    together = 0.9

    def _job(self, ctx: Context, payload: object) -> None:
        self._begins(ctx)
        if self.dice.random() < 0.1:
            self.stage.yield_until(self.stage.now + self.dice.choice([0, 500, 5_000, 40_000]))
        if self.dice.random() < 0.02 and ctx.attempt < 10:
            raise RuntimeError("not this time")
