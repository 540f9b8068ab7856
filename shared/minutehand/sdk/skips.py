"""The SDK's skip: pass over the next fire of a schedule."""

from __future__ import annotations

import hashlib
import uuid

from minutehand.arguments import checked_revision
from minutehand.domain.names import check_name
from minutehand.owner.schedules import skip as skipping
from minutehand.sdk import views
from minutehand.sdk.base import SchedulerBase
from minutehand.sdk.requests import token_of
from minutehand.sdk.views import Run


class SkipMethods(SchedulerBase):
    """Skip methods of one tenant."""

    def skip_next(self, name: str, *, expected_revision: int | None = None, client_token: str | None = None) -> Run:
        """Pass over the next fire that has not started; its run, SKIPPED. Called twice it passes over two.

        Nothing else about the schedule changes, and the skip outlasts updates and pauses. With a ``client_token`` a second call
        within 24 hours returns what the first one skipped. Raises InvalidInput, NotFound, Conflict (the schedule is paused, has no
        further fire, or another revision than ``expected_revision``), AlreadyExists, Unavailable.
        """
        check_name(name)
        expected = checked_revision(expected_revision)
        token = token_of(client_token, self.tenant, "skip_next", name, expected=expected)
        act = (
            uuid.uuid4().hex
            if token is None
            else hashlib.sha256(f"{token.place}{token.digest}".encode()).hexdigest()[:32]
        )
        run = skipping.skip_next(
            self.tenant, name, self._services, self._clock, act=act, expected=expected, token=token
        )
        return views.run_view(run)
