"""Histories full of outages: no ticker comes for minutes, again and again, and most schedules have ``automatic_backfill``."""

from __future__ import annotations

from typing import Any

from quarterjack.domain.times import MINUTE

from tests.support.histories.rich import Rich

OUTAGE = 0.15  # chance at each tick that no other one comes for some minutes


class Outages(Rich):
    """One seed, one history. The checker judges that no schedule with ``automatic_backfill`` has passed a missed fire over."""

    busy = 40 * MINUTE

    def _options(self) -> Any:
        """Windows are shorter than the outages, so that what is late is run for no other reason."""
        return super()._options() | {
            "catch_up": "all" if self.dice.random() < 0.8 else "latest",
            "catch_up_window": 60,
            "automatic_backfill": self.dice.random() < 0.7,
        }

    def _arrivals(self, quiet: bool) -> None:
        due = not self.resting and self.stage.now >= self.next_tick
        if due and self.stage.strikes("outage", OUTAGE):
            self.next_tick += self.dice.choice([3, 8, 15]) * MINUTE
        super()._arrivals(quiet)

    def rest(self) -> None:
        """Enough workers come to get the backlog done before the end."""
        super().rest()
        self.crew = 12
