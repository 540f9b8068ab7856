"""The SDK's freeze: stop all starts of the tenant until a time."""

from __future__ import annotations

from datetime import datetime

from minutehand.arguments import MAX_DESCRIPTION, checked_text
from minutehand.domain.freeze import Freeze
from minutehand.domain.times import DAY, from_ms, to_ms
from minutehand.errors import InvalidInput
from minutehand.sdk.base import SchedulerBase
from minutehand.worker.admission.freeze import freeze_of

LONGEST_FREEZE = 400  # days: whoever wants longer pauses or deletes


class FreezeMethods(SchedulerBase):
    """The freeze of one tenant."""

    def freeze(self, until: datetime, *, note: str | None = None) -> None:
        """Let nothing of this tenant start until then (aware, 400 days ahead at the most), whatever schedules and one-offs say.

        What runs goes on; retries wait too. A worker may have looked just before: what starts later than 5 s after this call has
        returned had its process stall. Runs that become due meanwhile start afterwards, late, unless their deadline has passed; a
        schedule whose fires are to be left out is paused instead. A second freeze replaces the first. Raises InvalidInput,
        Unavailable (call again: until it returns nothing is promised).
        """
        now, end = self._clock(), to_ms(until, "until")
        if not now < end <= now + LONGEST_FREEZE * DAY:
            raise InvalidInput(
                "until", until, "is not ahead, or too far", f"give a moment within the next {LONGEST_FREEZE} days"
            )
        words = None if note is None else checked_text("note", note, MAX_DESCRIPTION)
        self._services.schedules.freeze(Freeze(tenant=self.tenant, until=end, note=words, created_at=now))

    def thaw(self) -> None:
        """End the freeze now, if there is one. What it held back starts within five minutes. Raises Unavailable."""
        now = self._clock()
        self._services.schedules.freeze(Freeze(tenant=self.tenant, until=now, created_at=now))

    def frozen(self) -> datetime | None:
        """When the freeze ends (UTC), or None if nothing is frozen. Raises Unavailable."""
        freeze = freeze_of(self.tenant, self._services, self._clock)
        return None if freeze is None else from_ms(freeze.until)
