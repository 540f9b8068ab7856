"""Notices to SNS topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minutehand.aws import Client
from minutehand.model.notice import Notice

_FIFO = ".fifo"


class SnsNotices:
    """Topics of any region. A client is made when the first notice goes there: most processes never tell anybody anything."""

    def __init__(self, connect: Callable[[str], Client]) -> None:
        self._connect = connect
        self._clients: dict[str, Client] = {}

    def publish(self, topic: str, notice: Notice) -> None:
        region = topic.split(":")[3]
        if region not in self._clients:
            self._clients[region] = self._connect(region)
        self._clients[region].call("publish", TopicArn=topic, **_letter(notice), **_order(topic, notice))


def _letter(notice: Notice) -> dict[str, Any]:
    """The document, and what subscriptions filter by."""
    said = {"kind": str(notice.kind), "tenant": notice.tenant, "schedule": notice.schedule, "job": notice.job}
    attributes = {name: {"DataType": "String", "StringValue": word} for name, word in said.items()}
    return {"Subject": notice.subject, "Message": notice.encode(), "MessageAttributes": attributes}


def _order(topic: str, notice: Notice) -> dict[str, str]:
    """A FIFO topic keeps the notices of an incident in order, and leaves out what is repeated within five minutes."""
    if not topic.endswith(_FIFO):
        return {}
    return {"MessageGroupId": notice.tenant, "MessageDeduplicationId": notice.token}
