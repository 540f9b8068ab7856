"""Notices to SNS topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minutehand.aws import Client
from minutehand.domain.notice import Notice
from minutehand.settings import Settings

# The ticker waits for it, and comes again in a minute: better soon than long.
_IMPATIENT = {"retries": {"mode": "standard", "total_max_attempts": 2}, "connect_timeout": 2, "read_timeout": 4}
_FIFO = ".fifo"


class SnsNotices:
    """Topics of any region. A client is made when the first notice goes there: most processes never tell anybody anything."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clients: dict[str, Client] = {}

    def publish(self, topic: str, notice: Notice) -> None:
        region = topic.split(":")[3]
        if region not in self._clients:
            self._clients[region] = Client("sns", replace(self._settings, region=region), config=_IMPATIENT)
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
