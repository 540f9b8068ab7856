"""A function that takes events asynchronously: the ticker, from itself.

Lambda keeps such an event in a queue of its own and answers at once. This is called where a tick is too much for one invocation, so
botocore's client is made then and not at the start.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from minutehand.aws import Client
from minutehand.errors import MinutehandError

log = logging.getLogger(__name__)

_ACCEPTED = 202


class AsyncFunction:
    """One function by its name or ARN; its client is made with the first event."""

    def __init__(self, make: Callable[[], Client], name: str) -> None:
        self._make, self._name = make, name
        self._client: Client | None = None
        self._lock = threading.Lock()

    def send(self, event: Mapping[str, Any]) -> bool:
        """Whether it accepted the event; why not is in the log."""
        try:
            answer = self._connected().call(
                "invoke", FunctionName=self._name, InvocationType="Event", Payload=json.dumps(event).encode()
            )
        except MinutehandError as problem:  # throttled, not allowed, not there: in no case will it be done
            log.warning("invoke.failed", extra={"function": self._name, "error": str(problem)})
            return False
        return bool(answer.get("StatusCode") == _ACCEPTED)

    def _connected(self) -> Client:
        with self._lock:
            if self._client is None:
                self._client = self._make()
            return self._client
