"""A manual clock that sends heartbeats: when a job moves it forward, the job's heartbeats are sent meanwhile."""

from __future__ import annotations

from datetime import datetime

from minutehand.state.lease import HEARTBEAT
from minutehand.testing.clock import ManualClock
from minutehand.worker.delivery.visibility import Heartbeat


class BeatingClock(ManualClock):
    """The clock of workers; the ``heartbeats`` of the workers are added when these exist."""

    def __init__(self, at: datetime) -> None:
        super().__init__(at)
        self.heartbeats: list[Heartbeat] = []
        self._last_beat = self()  # UTC ms of the last heartbeat, or of the time at which the last job ended

    def reach(self, ms: int) -> None:
        """Move forward, with a heartbeat every HEARTBEAT while a job runs."""
        while self._runs() and self._last_beat + HEARTBEAT <= ms:
            super().reach(self._last_beat + HEARTBEAT)
            self.beat()
        super().reach(ms)
        if not self._runs():
            self._last_beat = self()

    def beat(self) -> None:
        """Send a heartbeat now."""
        self._last_beat = self()
        for heartbeat in self.heartbeats:
            heartbeat.beat(self._last_beat)

    def _runs(self) -> bool:
        return any(heartbeat.leased() for heartbeat in self.heartbeats)
