"""Reads schedules and rules from EventBridge's API, formatted as the AWS command line prints them: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from minutehand.aws import Client
from minutehand.settings import Settings

_PAGE = 100  # schedules of one answer, the most


def listing(settings: Settings, *, region: str | None, group: str | None, on_found: Callable[[int], None]) -> str:
    """The schedules (of a group) and, without a group, the rules that have an expression, with their targets. Reads only.

    ``on_found`` is told how many there are by now. Raises Misconfigured without credentials, region or permission, Unavailable.
    """
    there = replace(settings, region=region or settings.region)
    lines = list[str]()
    for found in [*_schedules(there, group), *([] if group else _rules(there))]:
        lines.append(json.dumps(found, default=_plain, ensure_ascii=False))
        on_found(len(lines))
    return "\n".join(lines)


def _schedules(settings: Settings, group: str | None) -> Iterator[dict[str, Any]]:
    client = Client("scheduler", settings)
    asked: dict[str, Any] = {"MaxResults": _PAGE} | ({"GroupName": group} if group else {})
    for one in _items(client, "list_schedules", "Schedules", **asked):
        answer = client.call("get_schedule", Name=one["Name"], GroupName=one["GroupName"])
        yield {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def _rules(settings: Settings) -> Iterator[dict[str, Any]]:
    client = Client("events", settings)
    for rule in _items(client, "list_rules", "Rules", Limit=_PAGE):
        if rule.get("ScheduleExpression"):
            yield {**rule, "Targets": [*_items(client, "list_targets_by_rule", "Targets", Rule=rule["Name"])]}


def _items(client: Client, operation: str, key: str, **asked: Any) -> Iterator[dict[str, Any]]:
    """The items of all pages."""
    while True:
        answer = client.call(operation, **asked)
        yield from answer.get(key, [])
        if not answer.get("NextToken"):
            return
        asked["NextToken"] = answer["NextToken"]


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
