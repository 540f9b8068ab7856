"""A manual clock that is felt by who works under it: where it is put forward while a job runs, the job's heartbeats happen."""

from __future__ import annotations

from datetime import datetime

from minutehand.state.transitions.lease import HEARTBEAT
from minutehand.testing.clock import ManualClock
from minutehand.worker.delivery.heartbeat import Heartbeat


class BeatingClock(ManualClock):
    """The clock of some workers, whose ``heartbeats`` it is given once there are any."""

    def __init__(self, at: datetime) -> None:
        super().__init__(at)
        self.heartbeats: list[Heartbeat] = []
        self._beaten = self()  # UTC ms of the last beat, or since when nothing runs

    def reach(self, ms: int) -> None:
        """Move on, with a beat every HEARTBEAT if a job is running."""
        while self._runs() and self._beaten + HEARTBEAT <= ms:
            super().reach(self._beaten + HEARTBEAT)
            self.beat()
        super().reach(ms)
        if not self._runs():
            self._beaten = self()

    def beat(self) -> None:
        """A heartbeat now."""
        self._beaten = self()
        for heartbeat in self.heartbeats:
            heartbeat.beat(self._beaten)

    def _runs(self) -> bool:
        return any(heartbeat.leased() for heartbeat in self.heartbeats)
