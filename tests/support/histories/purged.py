"""Purged histories: somebody empties the work queue again and again, and an operator sends again what should be in it.

At the end of the faults the queue is emptied once more and an operator reads the ledger once: what was due must come of that alone, since
no auditor is in these histories. A run that was leased, settled or cancelled while the operator read starts no second time.
"""

from __future__ import annotations

from quarterjack import Scheduler
from quarterjack.domain.times import MINUTE
from quarterjack.errors import QuarterjackError

from tests.support.histories.history import History
from tests.support.histories.simulator import Faults, Process
from tests.support.scenes.world import NOON

_PURGES = (MINUTE, 3 * MINUTE, 5 * MINUTE)  # ms between two


class Purged(History):
    """One seed, one history of an hour."""

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.next_purge = NOON + MINUTE

    def rest(self) -> None:
        """The last purge and its cure."""
        super().rest()
        self._purge()

    def _arrivals(self, quiet: bool) -> None:
        super()._arrivals(quiet)
        if not quiet and self.stage.now >= self.next_purge:
            self.next_purge += self.dice.choice(_PURGES)
            self._purge()

    def _purge(self) -> None:
        self.stage.count("purged messages", sum(queue.purge() for queue in self.stage.memory.stripes.values()))
        self.stage.process("operator", self._resend)

    def _resend(self, process: Process) -> None:
        try:
            done = Scheduler("acme", services=process.services, clock=process.clock).resend(
                all_tenants=True, rate=1_000
            )
        except QuarterjackError:
            self.stage.count("refused acts")
        else:
            self.stage.count("sent again", done.count)
