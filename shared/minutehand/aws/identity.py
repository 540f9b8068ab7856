"""The IAM identity of this process, for the audit: asked of STS once, with the first act."""

from __future__ import annotations

import logging
import time
from typing import Final

from minutehand.aws.client import Client
from minutehand.aws.session import AwsSession
from minutehand.errors import MinutehandError
from minutehand.settings import Settings

log = logging.getLogger(__name__)

_LIMIT: Final = 256  # characters
_AGAIN = 300.0  # seconds until STS is asked again after a failure
_TIMES = {"connect_timeout": 2, "read_timeout": 3, "retries": {"mode": "standard", "total_max_attempts": 2}}
_known: dict[tuple[str | None, str | None], str] = {}  # by endpoint and key: of all installations of this process


class CallerIdentity:
    """``iam:<ARN>`` of the caller; ``iam:unknown (<reason>)`` if STS does not answer. Needs no permission. Thread-safe."""

    def __init__(self, settings: Settings, session: AwsSession) -> None:
        self._settings, self._session = settings, session
        self._failed = ""
        self._again = 0.0

    def __call__(self) -> str:
        keys = self._session.variables.keys
        place = self._settings.endpoint_of("sts"), None if keys is None else keys.access_key
        found = _known.get(place)
        if found is None and (not self._failed or time.monotonic() >= self._again):
            try:
                answer = Client("sts", self._settings, self._session, config=_TIMES).call("get_caller_identity")
                found = _known[place] = f"iam:{answer['Arn']}"[:_LIMIT]
            except (MinutehandError, KeyError) as problem:  # the act goes on: its line says what is not known
                self._failed, self._again = f"iam:unknown ({problem})"[:_LIMIT], time.monotonic() + _AGAIN
                log.warning("identity.unknown", extra={"error": str(problem)})
        return found or self._failed
