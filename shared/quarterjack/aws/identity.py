"""The IAM identity of this process, for the audit: asked of STS once, with the first act."""

from __future__ import annotations

import logging
import time
from typing import Final

from quarterjack.aws.client import Client
from quarterjack.aws.session import AwsSession
from quarterjack.domain.tenants.caller import UNKNOWN_IDENTITY
from quarterjack.errors import QuarterjackError
from quarterjack.settings import Settings

log = logging.getLogger(__name__)

_LIMIT: Final = 256  # characters
_AGAIN = 300.0  # seconds until STS is asked again after a failure
_TIMES = {"connect_timeout": 2, "read_timeout": 3, "retries": {"mode": "standard", "total_max_attempts": 2}}
_MOST = 64  # keys whose identity is remembered: those of a role are replaced every hour
_known: dict[tuple[str | None, str], str] = {}  # by endpoint and access key: of all installations of this process


class CallerIdentity:
    """``iam:<ARN>`` of the caller; ``iam:unknown (<reason>)`` if STS does not answer. Needs no permission. Thread-safe."""

    def __init__(self, settings: Settings, session: AwsSession) -> None:
        self._settings, self._session = settings, session
        self._failed = ""
        self._again = 0.0

    def __call__(self) -> str:
        try:
            place = self._settings.endpoint_of("sts"), self._session.credentials().access_key
        except QuarterjackError as problem:
            return self._unknown(problem)
        if (found := _known.get(place)) is not None:
            return found
        if self._failed and time.monotonic() < self._again:
            return self._failed
        try:
            answer = Client("sts", self._settings, self._session, config=_TIMES).call("get_caller_identity")
            found = f"iam:{answer['Arn']}"[:_LIMIT]
        except (QuarterjackError, KeyError) as problem:
            return self._unknown(problem)
        if len(_known) >= _MOST:
            _known.clear()
        _known[place] = found
        return found

    def _unknown(self, problem: Exception) -> str:
        """The act goes on: its line says what is not known."""
        self._failed, self._again = f"{UNKNOWN_IDENTITY} ({problem})"[:_LIMIT], time.monotonic() + _AGAIN
        log.warning("identity.unknown", extra={"error": str(problem)})
        return self._failed
