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
    for page in _pages(client, "list_schedules", asked):
        for one in page.get("Schedules", []):
            yield _body(client.call("get_schedule", Name=one["Name"], GroupName=one["GroupName"]))


def _rules(settings: Settings) -> Iterator[dict[str, Any]]:
    client = Client("events", settings)
    for page in _pages(client, "list_rules", {"Limit": _PAGE}):
        for rule in page.get("Rules", []):
            if rule.get("ScheduleExpression"):
                pages = _pages(client, "list_targets_by_rule", {"Rule": rule["Name"]})
                yield {**rule, "Targets": [target for answer in pages for target in answer.get("Targets", [])]}


def _pages(client: Client, operation: str, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    while True:
        answer = client.call(operation, **asked)
        yield answer
        if not answer.get("NextToken"):
            return
        asked = {**asked, "NextToken": answer["NextToken"]}


def _body(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
