"""Schedules of EventBridge Scheduler, and scheduled rules of EventBridge, as schedules of jobs that call the same targets.

It reads the output of the AWS command line: ``scheduler get-schedule`` (several outputs in a row, or a list of them), ``scheduler
list-schedules`` (it has no expressions, so each schedule is reported), ``events list-rules``, with or without the Targets of each
rule. A target without a ready job becomes a stub for the user to write, and its schedule is paused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from minutehand.apply.nodes import YamlNode, read_documents
from minutehand.errors import InvalidInput
from minutehand.importers import jobs_file
from minutehand.importers.called import TargetJobs, call_of, retry_of
from minutehand.importers.manifest import FieldRules, Manifest
from minutehand.importers.report import Collector, Conversion, ImportReport
from minutehand.importers.text import as_documents, stem_of
from minutehand.timing import next_fires

_WORDS = FieldRules(
    idle=re.compile(
        r"(Name|GroupName|ScheduleExpression|Arn|CreationDate|LastModificationDate|EventBusName|ManagedBy|CreatedBy|RoleArn"
        r"|Target\.RoleArn|Targets\[\d+\]\.(Id|RoleArn))([.\[].*)?"
    ),
    reasons={
        "DeadLetterConfig": "what fails for good is on the list of dead runs: minutehand dead list",
        "KmsKeyArn": "the tables' own encryption holds",
        "InputTransformer": "make the text in the job, of its payload and ctx",
        "InputPath": "make the text in the job, of its payload and ctx",
        "EcsParameters": "write it in the job",
    },
    group=re.compile(r"(?:(?:Target|Targets\[\d+\])\.)?(?P<word>[^.\[]+)"),
)
_RATE = re.compile(r"rate\(([^,()]+)\)", re.IGNORECASE)


def read_eventbridge(text: str, source: str, *, now: datetime) -> ImportReport:
    """Convert a listing; schedules without a fire after ``now`` are not converted. Raises InvalidInput with line and remedy."""
    found, jobs = Collector(source), TargetJobs()
    for document in read_documents(as_documents(text, source), source):
        for node in _items(document):
            _item(node, now, found, jobs)
    if not found.lines:
        remedy = "give what aws scheduler get-schedule, or aws events list-rules, prints"
        raise InvalidInput(source, text[:40], "has no schedule and no rule", remedy)
    return found.report(
        "schedules and rules of EventBridge",
        f"eventbridge/{stem_of(source, 'schedules')}",
        _REMARKS if found.schedules else (),
        lambda: jobs_file.for_targets(source, jobs.ready, jobs.unwritten),
    )


_REMARKS = (
    "a run has succeeded when the target has accepted the call, as in EventBridge",
    "the worker's role needs the permission to call the targets; roles of the schedules are not taken over",
    "a rate without StartDate counts from when its schedule is applied",
)


def _items(node: YamlNode) -> Iterator[YamlNode]:
    """The schedules and rules of a document."""
    if isinstance(node.value, list):
        for item in node.value:
            yield from _items(item)
        return
    listed = node.get("Schedules") or node.get("Rules")
    if listed is not None and isinstance(listed.value, list):
        yield from listed.value
        if node.get("NextToken") is not None:
            yield YamlNode({"NextToken": node.value["NextToken"]}, node.line, node.place, node.path)
    else:
        yield node


def _item(node: YamlNode, now: datetime, found: Collector, jobs: TargetJobs) -> None:
    manifest = Manifest(node, _WORDS)
    name, group = manifest.text("Name"), manifest.text("GroupName")
    if name is None:
        why = (
            "the listing is not whole: ask for the rest with its NextToken"
            if manifest.has("NextToken")
            else "it has no Name"
        )
        found.left(node.line, "a page that ends" if manifest.has("NextToken") else "an entry", why)
        return
    text = f"{group}/{name}" if group not in (None, "default") else name
    expression = manifest.text("ScheduleExpression")
    if not expression:
        if manifest.has("EventPattern"):
            found.setting(node.line, text, Conversion.LEFT, "it is due by events, not by time: leave it where it is")
        else:
            found.left(node.line, text, _without_expression(name, group))
        return
    targets: list[YamlNode | None] = [*manifest.all("Targets")] or [node.get("Target")]
    for target in targets:
        item = _Item(Manifest(node, _WORDS), node, target, text, expression)
        for other in targets:
            if other is not None and other is not target:
                item.manifest.take(other)  # it becomes a schedule of its own
        _scheduled(item, now, found, jobs)


def _without_expression(name: str, group: str | None) -> str:
    place = f" --group-name {group}" if group else ""
    return f"list-schedules does not say when it is due: aws scheduler get-schedule --name {name}{place}"


@dataclass(frozen=True)
class _Item:
    """A schedule, or one target of a rule."""

    manifest: Manifest
    node: YamlNode
    target: YamlNode | None
    name: str
    expression: str


def _scheduled(item: _Item, now: datetime, found: Collector, jobs: TargetJobs) -> None:
    notes: list[str] = []
    try:
        words = _times(item, notes)
        if not _is_still_due(words, now):
            found.setting(item.node.line, item.name, Conversion.LEFT, "it is over: it would never be due again")
            return
        words |= {
            **_state(item.manifest),
            **retry_of(item.manifest, item.target, notes),
            **call_of(item.manifest, item.target, item.name, jobs, notes),
        }
    except InvalidInput as problem:
        found.left(item.node.line, item.name, str(problem))
        return
    found.entry(item.node.line, item.name, item.name, words, [*notes, *item.manifest.rest()])


# When it is due.


def _times(item: _Item, notes: list[str]) -> dict[str, Any]:
    manifest = item.manifest
    zone = manifest.text("ScheduleExpressionTimezone") or "UTC"
    start, end = _moment(manifest, "StartDate"), _moment(manifest, "EndDate")
    expression, rate = item.expression, _RATE.fullmatch(item.expression.strip())
    rule: dict[str, Any] = {"start": start, "end": end, "window": _window(manifest)}
    if rate and start:
        expression, rule["start"] = f"rate({rate[1].strip()}, from={start})", None
    if zone not in ("UTC", "Etc/UTC") and re.match(r"\s*cron\(\S*[*/]|\s*cron\(\S+\s+\S*[*/]", expression):
        notes.append(
            "in the hour that comes twice it is due in both passes; EventBridge documents one (repeated: first)"
        )
    words = {"expression": expression, "timezone": zone, "description": manifest.text("Description")}
    return {**words, "rule": {name: value for name, value in rule.items() if value}}


def _moment(manifest: Manifest, name: str) -> str | None:
    """A date as the command line prints it (ISO 8601, or seconds) in UTC."""
    text = manifest.text(name)
    if text is None:
        return None
    try:
        number = float(text) if re.fullmatch(r"[0-9.]+", text) else None
        moment = datetime.fromisoformat(text) if number is None else datetime.fromtimestamp(number, UTC)
        aware = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(name, text, "is no date", "give what aws prints") from None
    return aware.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _window(manifest: Manifest) -> int:
    mode = manifest.text("FlexibleTimeWindow", "Mode")
    minutes = manifest.number("FlexibleTimeWindow", "MaximumWindowInMinutes")
    return (minutes or 0) * 60 if mode == "FLEXIBLE" else 0


def _is_still_due(words: Mapping[str, Any], now: datetime) -> bool:
    """Whether the schedule has a future fire: ``create_schedule`` refuses one that has none. Raises InvalidInput."""
    rule = {key: value for key, value in words["rule"].items() if key != "window"}
    bounds: dict[str, Any] = {key: datetime.fromisoformat(value) for key, value in rule.items()}
    return bool(next_fires(words["expression"], timezone=words["timezone"], after=now, count=1, **bounds))


def _state(manifest: Manifest) -> dict[str, Any]:
    state, action = manifest.text("State"), manifest.text("ActionAfterCompletion")
    return {
        "paused": True if state == "DISABLED" else None,
        "delete_after_completion": True if action == "DELETE" else None,
    }
