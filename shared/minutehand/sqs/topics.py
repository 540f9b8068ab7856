"""Notices published to SNS topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minutehand.aws import Client
from minutehand.domain.notice import Notice
from minutehand.settings import Settings

# The ticker waits for the response and repeats in a minute, so an attempt is short.
_IMPATIENT = {"retries": {"mode": "standard", "total_max_attempts": 2}, "connect_timeout": 2, "read_timeout": 4}
_FIFO = ".fifo"


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
