"""Histories in which owners end the fires of a schedule at an instant ahead, as before a move, and resume, update or stop it then."""

from __future__ import annotations

from quarterjack import Scheduler
from quarterjack.domain.times import SECOND
from quarterjack.owner.schedules.client_tokens import ScheduleCall
from quarterjack.owner.schedules.stop import pause

from tests.support.histories.rich import Rich, owner_time

AHEAD = (5, 40, 100, 250)  # seconds


class Ended(Rich):
    """Two pauses of three end ahead, and there are more of them than in others.

    Every fire up to the end is judged as one of a schedule that was not paused.
    """

    def _pause(self, owner: Scheduler, name: str) -> None:
        if self.dice.random() < 0.33:
            super()._pause(owner, name)
            return
        at = owner_time(owner) + self.dice.choice(AHEAD) * SECOND
        pause(ScheduleCall(tenant=owner.tenant, name=name), owner.session.context(), drain=True, at=at)
        self.stage.count("ended ahead")

    def _skip_next(self, owner: Scheduler, name: str) -> None:
        self._pause(owner, name)

    def _redrive(self, owner: Scheduler, name: str) -> None:
        self._pause(owner, name)
