"""A function that takes events asynchronously: the ticker, from itself.

Lambda keeps such an event in a queue of its own and answers at once. This is called where a tick is too much for one invocation. It
goes straight to Lambda where requests to DynamoDB and SQS go straight to them, so that a ticker that hands over does not load botocore for
that, and over botocore elsewhere. One attempt: a group that nobody took is done by the one that tried.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from minutehand.aws import Client, straight_to
from minutehand.direct import Direct
from minutehand.errors import MinutehandError
from minutehand.settings import Settings
from minutehand.signature import Signer
from minutehand.transport import Unanswered

log = logging.getLogger(__name__)

_ACCEPTED = 202
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")  # a name: an ARN would have to be encoded in a path


class AsyncFunction:
    """One function by its name or ARN."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._name, self._settings = name, settings
        path = f"/2015-03-31/functions/{name}/invocations"
        self._link = straight_to("lambda", settings, path) if _PLAIN.fullmatch(name) else None

    def send(self, event: Mapping[str, Any]) -> bool:
        """Whether it accepted the event; why not is in the log."""
        body = json.dumps(event).encode()
        try:
            return self._sent(body) if self._link is None else _sent_directly(self._link, body)
        except (
            MinutehandError,
            Unanswered,
        ) as problem:  # throttled, not allowed, not there: it is not known to be done
            log.warning("invoke.failed", extra={"function": self._name, "error": str(problem)})
            return False

    def _sent(self, body: bytes) -> bool:
        answer = self._client.call("invoke", FunctionName=self._name, InvocationType="Event", Payload=body)
        return bool(answer.get("StatusCode") == _ACCEPTED)

    @cached_property
    def _client(self) -> Client:
        return Client("lambda", self._settings)


def _sent_directly(link: Direct, body: bytes) -> bool:
    signer = Signer("lambda", link.region, link.url, own="X-Amz-Invocation-Type")
    answer = link.send("Invoke", signer.headers("Event", body, link.credentials(), datetime.now(UTC)), body)
    if answer.status_code >= 400:
        raise Unanswered(f"{answer.status_code}: {answer.content[:200].decode(errors='replace')}")
    return answer.status_code == _ACCEPTED
