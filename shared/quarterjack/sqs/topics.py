"""What is sent past the queues: notices to SNS topics, and shards that a ticker hands over to another invocation of its function.

Lambda queues the event and answers at once. The request is signed and sent like those to DynamoDB and SQS, so that no ticker loads
botocore for it. There is one attempt: the ticker works on a group itself if the event is not accepted.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote

from quarterjack.aws import Client
from quarterjack.aws.connections import Connections
from quarterjack.aws.errors import NoResponse
from quarterjack.aws.session import AwsSession, Signer, endpoint_of
from quarterjack.aws.transport import DEADLINE, USER_AGENT
from quarterjack.clock import system_clock
from quarterjack.domain.notice import Notice
from quarterjack.domain.times import from_ms
from quarterjack.errors import QuarterjackError
from quarterjack.settings import Settings
from quarterjack.values import replace

log = logging.getLogger(__name__)

_ACCEPTED = 202
# The ticker waits for the response and repeats in a minute, so an attempt is short.
_IMPATIENT = {"retries": {"mode": "standard", "total_max_attempts": 2}, "connect_timeout": 2, "read_timeout": 4}
_FIFO = ".fifo"


class AsyncFunction:
    """One function by its name or ARN."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._name, self._settings, self._session = name, settings, AwsSession()

    def send(self, event: Mapping[str, Any]) -> bool:
        """Whether the function accepted the event; the reason for a refusal is in the log."""
        body = json.dumps(event).encode()
        try:
            return self._sent(body)
        except (QuarterjackError, NoResponse) as problem:  # throttled, forbidden or missing: the event may be lost
            log.warning("invoke.failed", extra={"function": self._name, "error": str(problem)})
            return False

    def _sent(self, body: bytes) -> bool:
        connections, signer = self._link
        headers = signer.headers("Event", body, self._session.credentials(), from_ms(system_clock()))
        response = connections.post(headers | {"user-agent": USER_AGENT}, body, DEADLINE)
        if response.status >= 400:
            raise NoResponse(f"{response.status}: {response.content[:200].decode(errors='replace')}")
        return response.status == _ACCEPTED

    @cached_property
    def _link(self) -> tuple[Connections, Signer]:
        """Made for the first event: most tickers send none."""
        endpoint = endpoint_of("lambda", self._settings, self._session)
        url = f"{endpoint.url}/2015-03-31/functions/{quote(self._name, safe='')}/invocations"
        connections = Connections(url, self._session.trust, proxy=self._session.proxy(url))
        return connections, Signer("lambda", endpoint.region, url, own="x-amz-invocation-type")


class SnsNotices:
    """Topics of any region. A region's client is made for its first notice: most processes publish none."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clients: dict[str, Client] = {}

    def publish(self, topic: str, notice: Notice) -> None:
        region = topic.split(":")[3]
        if region not in self._clients:
            self._clients[region] = Client("sns", replace(self._settings, region=region), config=_IMPATIENT)
        self._clients[region].call("publish", TopicArn=topic, **_message(notice), **_fifo(topic, notice))


def _message(notice: Notice) -> dict[str, Any]:
    """The document, and the attributes for filters of subscriptions."""
    fields = {"kind": str(notice.kind), "tenant": notice.tenant, "schedule": notice.schedule, "job": notice.job}
    attributes = {name: {"DataType": "String", "StringValue": word} for name, word in fields.items()}
    return {"Subject": notice.subject, "Message": notice.encode(), "MessageAttributes": attributes}


def _fifo(topic: str, notice: Notice) -> dict[str, str]:
    """For a FIFO topic: the notices of a tenant stay in order, and repetitions within five minutes are dropped."""
    if not topic.endswith(_FIFO):
        return {}
    return {"MessageGroupId": notice.tenant, "MessageDeduplicationId": notice.token}
