"""Schedules of EventBridge Scheduler, and scheduled rules of EventBridge, as schedules of jobs that call the same targets.

It reads the output of the AWS command line: ``scheduler get-schedule`` (several outputs in a row, or a list of them), ``scheduler
list-schedules`` (it has no expressions, so each schedule is reported), ``events list-rules``, with or without the Targets of each
rule. A target without a ready job becomes a stub for the user to write, and its schedule is paused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from quarterjack.apply.nodes import YamlNode
from quarterjack.domain.payload import MAX_DEPTH, DuplicateKey, is_too_deep, parse_json
from quarterjack.errors import InvalidInput
from quarterjack.importers import jobs_file
from quarterjack.importers.manifest import FieldRules, Manifest
from quarterjack.importers.report import Collector, Conversion, ImportReport, told_apart
from quarterjack.importers.templates import read_rendered, refuse_template
from quarterjack.importers.text import as_documents, slug, stem_of
from quarterjack.ready_jobs.targets import can_call
from quarterjack.timing import next_fires

_RULES = FieldRules(
    idle=re.compile(
        r"(Name|GroupName|ScheduleExpression|Arn|CreationDate|LastModificationDate|EventBusName|ManagedBy|CreatedBy|RoleArn"
        r"|Target\.RoleArn|Targets\[\d+\]\.(Id|RoleArn))([.\[].*)?"
    ),
    reasons={
        "DeadLetterConfig": "what fails for good is on the list of dead runs: quarterjack dead list",
        "KmsKeyArn": "the tables' own encryption holds",
        "InputTransformer": "make the text in the job, of its payload and ctx",
        "InputPath": "make the text in the job, of its payload and ctx",
        "EcsParameters": "write it in the job",
    },
    group=re.compile(r"(?:(?:Target|Targets\[\d+\])\.)?(?P<word>[^.\[]+)"),
)
_RATE = re.compile(r"rate\(([^,()]+)\)", re.IGNORECASE)
_DEFAULT_POLICY = {"MaximumRetryAttempts": 185, "MaximumEventAgeInSeconds": 86_400}  # which get-schedule prints
_MOST_ATTEMPTS = 1_000
_PARAMETERS = {  # of targets, in the words of the ready jobs
    ("SqsParameters", "MessageGroupId"),
    ("EventBridgeParameters", "DetailType"),
    ("EventBridgeParameters", "Source"),
    ("KinesisParameters", "PartitionKey"),
}
_REMARKS = (
    "a run has succeeded when the target has accepted the call, as in EventBridge",
    "the worker's role needs the permission to call the targets; roles of the schedules are not taken over",
    "a rate without StartDate counts from when its schedule is applied",
)


@dataclass
class _Jobs:
    names: Mapping[str, str]  # by what they call
    ready: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)  # name: ARN, parameters
    unwritten: dict[str, str] = field(default_factory=dict)  # name: what it shall call


@dataclass(frozen=True)
class _Item:
    """A schedule, or one target of a rule."""

    manifest: Manifest
    node: YamlNode
    target: YamlNode  # without fields if none is known
    name: str
    expression: str


def read_eventbridge(text: str, source: str, *, now: datetime) -> ImportReport:
    """Convert a listing; schedules without a fire after ``now`` are not converted. Raises InvalidInput with line and remedy."""
    refuse_template(text, source, reader="eventbridge")
    documents = read_rendered(as_documents(text, source), source)
    nodes = [node for document in documents for node in _items(document)]
    found, jobs = Collector(source), _Jobs(names=_names_of_jobs(nodes))
    for node in nodes:
        _item(node, now, found, jobs)
    if not found.lines:
        remedy = "give what aws scheduler get-schedule, or aws events list-rules, prints"
        raise InvalidInput(source, text[:40], "has no schedule and no rule", remedy)
    return found.report(
        "schedules and rules of EventBridge",
        f"eventbridge/{stem_of(source, 'schedules')}",
        _REMARKS,
        lambda: jobs_file.for_targets(source, jobs.ready, jobs.unwritten),
    )


def _items(node: YamlNode) -> Iterator[YamlNode]:
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


def _item(node: YamlNode, now: datetime, found: Collector, jobs: _Jobs) -> None:
    manifest = Manifest(node, _RULES)
    name, group = manifest.text("Name"), manifest.text("GroupName")
    if name is None:
        if manifest.has("NextToken"):
            found.left(node.line, "a page that ends", "the listing is not whole: ask for the rest with its NextToken")
        else:
            found.left(
                node.line,
                "an entry",
                "it has no Name, so it is no schedule and no rule: give what aws scheduler get-schedule prints",
            )
        return
    text = f"{group}/{name}" if group not in (None, "default") else name
    expression = manifest.text("ScheduleExpression")
    if not expression:
        if manifest.has("EventPattern"):
            found.setting(node.line, text, Conversion.LEFT, "it is due by events, not by time: leave it where it is")
        else:
            place = f" --group-name {group}" if group else ""
            how = f"aws scheduler get-schedule --name {name}{place}"
            found.left(node.line, text, f"list-schedules does not say when it is due: {how}")
        return
    targets = _targets(node)
    for target in targets:
        own = manifest.text("Id", of=target) or "/".join(_resource(manifest.text("Arn", of=target) or "target"))
        full = f"{text}/{own}" if target.path.endswith("]") else text  # whatever other targets there are
        item = _Item(Manifest(node, _RULES), node, target, full, expression)
        for other in targets:
            if other is not target:
                item.manifest.take(other)  # it becomes a schedule of its own
        _scheduled(item, now, found, jobs)


def _targets(node: YamlNode) -> list[YamlNode]:
    """The targets of a rule, or the one of a schedule, which has no fields if nothing is known of it."""
    listed = node.get("Targets")
    if listed is not None and isinstance(listed.value, list) and listed.value:
        return listed.value
    return [node.get("Target") or YamlNode({}, node.line, node.place, f"{node.path}.Target")]


def _names_of_jobs(nodes: Sequence[YamlNode]) -> dict[str, str]:
    """The name of the job for each ARN with its parameters: resources of one name in several regions have jobs of their own."""
    pairs = []
    for manifest, target in ((Manifest(node, _RULES), target) for node in nodes for target in _targets(node)):
        with suppress(InvalidInput):  # its entry is refused
            if arn := manifest.text("Arn", of=target):
                pairs.append((slug("/".join(_resource(arn))), _meaning(arn, _parameters(manifest, target))))
    return {meaning: name for (_, meaning), name in zip(pairs, told_apart(pairs), strict=True)}


def _meaning(arn: str, parameters: Mapping[str, str]) -> str:
    return json.dumps([arn, parameters], sort_keys=True)


def _parameters(manifest: Manifest, target: YamlNode) -> dict[str, str]:
    """The parameters of a target's call. Raises InvalidInput."""
    given = {name: manifest.text(kind, name, of=target) for kind, name in sorted(_PARAMETERS)}
    return {name: value for name, value in given.items() if value is not None}


def _scheduled(item: _Item, now: datetime, found: Collector, jobs: _Jobs) -> None:
    notes: list[str] = []
    try:
        words = _times(item, notes)
        if not _is_still_due(words, now):
            found.setting(item.node.line, item.name, Conversion.LEFT, "it is over: it would never be due again")
            return
        words |= {
            "paused": item.manifest.text("State") == "DISABLED" or None,
            "delete_after_completion": item.manifest.text("ActionAfterCompletion") == "DELETE" or None,
            **_retry(item, notes),
            **_call(item, jobs, notes),
        }
    except InvalidInput as problem:
        found.left(item.node.line, item.name, str(problem))
        return
    found.entry(item.node.line, item.name, item.name, words, [*notes, *item.manifest.rest()])


def _times(item: _Item, notes: list[str]) -> dict[str, Any]:
    manifest = item.manifest
    zone = manifest.text("ScheduleExpressionTimezone") or "UTC"
    start, end = _moment(manifest, "StartDate"), _moment(manifest, "EndDate")
    is_flexible = manifest.text("FlexibleTimeWindow", "Mode") == "FLEXIBLE"
    minutes = manifest.number("FlexibleTimeWindow", "MaximumWindowInMinutes") or 0
    expression, rate = item.expression, _RATE.fullmatch(item.expression.strip())
    rule: dict[str, Any] = {"start": start, "end": end, "window": minutes * 60 if is_flexible else 0}
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
        raise InvalidInput(name, text, "is not a date", "give what aws prints") from None
    return aware.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _is_still_due(words: Mapping[str, Any], now: datetime) -> bool:
    """Whether the schedule has a future fire: ``create_schedule`` refuses one that has none. Raises InvalidInput."""
    rule = words["rule"].items()
    bounds: dict[str, Any] = {key: datetime.fromisoformat(value) for key, value in rule if key != "window"}
    return bool(next_fires(words["expression"], timezone=words["timezone"], after=now, count=1, **bounds))


def _retry(item: _Item, notes: list[str]) -> dict[str, Any]:
    """The fields of a target's RetryPolicy. Raises InvalidInput."""
    given = []
    for name, default in _DEFAULT_POLICY.items():
        text = item.manifest.text("RetryPolicy", name, of=item.target)
        if text is not None and not text.isdecimal():
            raise InvalidInput(name, text, "is not a number", "give what aws prints")
        given.append(default if text is None else int(text))
    if given == list(_DEFAULT_POLICY.values()):
        return {}
    retries, age = given
    if retries >= _MOST_ATTEMPTS:
        notes.append(f"{retries} retries: {_MOST_ATTEMPTS} attempts are the most")
    return {"retry": {"max_attempts": min(retries + 1, _MOST_ATTEMPTS), "within": age}}


def _call(item: _Item, jobs: _Jobs, notes: list[str]) -> dict[str, Any]:
    """Job and payload of a target: a ready-made job, or a paused schedule and a stub for the user to write."""
    manifest, target = item.manifest, item.target
    arn = manifest.text("Arn", of=target)
    if arn is None:
        notes.append("nothing says what it calls: write its job, or add Targets of aws events list-targets-by-rule")
        name = f"rule/{slug(item.name)}"
        jobs.unwritten[name] = f"what the rule {item.name} calls"
        return {"job": name, "paused": True}
    parameters = _parameters(manifest, target)
    payload = _payload(manifest.text("Input", of=target), notes)
    name = jobs.names[_meaning(arn, parameters)]
    if not can_call(arn):
        notes.append(f"there is no ready call of {arn}: write the job {name}; until then the schedule is paused")
        jobs.unwritten[name] = arn
        return {"job": name, "paused": True, "payload": payload}
    jobs.ready[name] = (arn, parameters)
    return {"job": name, "payload": payload}


def _resource(arn: str) -> tuple[str, str]:
    """Service and resource's own name: ``lambda``, ``report``."""
    parts = arn.split(":")
    if len(parts) < 6:
        return "target", arn
    if parts[2] == "scheduler":  # arn:aws:scheduler:::aws-sdk:ec2:stopInstances
        return "aws-sdk", "/".join(parts[6:] or parts[5:])
    named = parts[6:] if parts[2] in ("lambda", "states") else parts[5:]
    return parts[2], "/".join(named).rpartition("/")[2] if parts[2] == "ecs" else "/".join(named)


def _payload(text: str | None, notes: list[str]) -> Any:
    """EventBridge's Input: parsed if it is JSON, else the text itself."""
    if text is None:
        notes.append("without Input EventBridge sends an event of its own; here the target gets {}")
        return None
    if "<aws.scheduler.schedule-arn>" in text:
        notes.append("<aws.scheduler.schedule-arn> is not replaced: there is no such ARN any more")
    if is_too_deep(text):
        problem = f"is nested more than {MAX_DEPTH} levels deep"
        raise InvalidInput("Input", text, problem, "flatten it, or store it and pass its address")
    try:
        value = parse_json(text)
    except DuplicateKey as twice:
        raise InvalidInput("Input", text, str(twice), "write each key once") from None
    except ValueError:
        return text
    return text if isinstance(value, str) or value is None else value
