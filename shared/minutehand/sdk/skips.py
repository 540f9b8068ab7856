"""The SDK's skip: pass over the next fire of a schedule."""

from __future__ import annotations

import uuid

from minutehand import views
from minutehand.flow import skip as skipping
from minutehand.model.names import check_name
from minutehand.sdk.base import Base
from minutehand.views import Run


class Skips(Base):
    """What an owner lets a schedule leave out."""

    def skip_next(self, name: str) -> Run:
        """Pass over the next fire that has not started; its run, SKIPPED. Called twice it passes over two.

        Nothing else about the schedule changes, and the skip outlasts updates and pauses. Raises InvalidInput, NotFound, Conflict
        (the schedule is paused, or has no further fire), Unavailable.
        """
        act = uuid.uuid4().hex
        run = skipping.skip_next(self.tenant, check_name(name), self._services, self._clock, act=act)
        return views.run_view(run)
