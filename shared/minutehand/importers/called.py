"""Converts the target of an EventBridge schedule or rule into a job: a ready-made one, or a stub for the user to write."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from minutehand.apply.nodes import YamlNode
from minutehand.domain.payload import MAX_DEPTH, is_too_deep
from minutehand.errors import InvalidInput
from minutehand.importers.manifest import Manifest
from minutehand.importers.text import slug
from minutehand.ready_jobs.targets import can_call

_DEFAULT_RETRIES, _DEFAULT_AGE = 185, 86_400  # EventBridge's defaults, which get-schedule prints
_MOST_ATTEMPTS = 1_000
_PARAMETERS = {  # of targets, in the words of the ready jobs
    ("SqsParameters", "MessageGroupId"),
    ("EventBridgeParameters", "DetailType"),
    ("EventBridgeParameters", "Source"),
    ("KinesisParameters", "PartitionKey"),
}


@dataclass
class TargetJobs:
    """The jobs that the schedules name."""

    ready: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)  # name: ARN, parameters
    unwritten: dict[str, str] = field(default_factory=dict)  # name: what it shall call


def retry_of(manifest: Manifest, target: YamlNode | None, notes: list[str]) -> dict[str, Any]:
    """The fields of a target's RetryPolicy. Raises InvalidInput."""
    policy = None if target is None else target.get("RetryPolicy")
    if policy is None:
        return {}
    retries = _number(manifest, policy, "MaximumRetryAttempts", _DEFAULT_RETRIES)
    age = _number(manifest, policy, "MaximumEventAgeInSeconds", _DEFAULT_AGE)
    if (retries, age) == (_DEFAULT_RETRIES, _DEFAULT_AGE):
        return {}
    if retries >= _MOST_ATTEMPTS:
        notes.append(f"{retries} retries: {_MOST_ATTEMPTS} attempts are the most")
    return {"retry": {"max_attempts": min(retries + 1, _MOST_ATTEMPTS), "within": age}}


def _number(manifest: Manifest, node: YamlNode, name: str, default: int) -> int:
    text = manifest.text(name, of=node)
    if text is None:
        return default
    if not text.isdigit():
        raise InvalidInput(name, text, "is no number", "give what aws prints")
    return int(text)


def call_of(
    manifest: Manifest, target: YamlNode | None, schedule: str, jobs: TargetJobs, notes: list[str]
) -> dict[str, Any]:
    """Job and payload of a target. A target without a ready-made job becomes a paused schedule and a stub."""
    arn = None if target is None else manifest.text("Arn", of=target)
    if target is None or arn is None:
        notes.append("nothing says what it calls: write its job, or add Targets of aws events list-targets-by-rule")
        return _to_be_written(f"rule/{slug(schedule)}", f"what the rule {schedule} calls", jobs)
    given = {name: manifest.text(kind, name, of=target) for kind, name in sorted(_PARAMETERS)}
    parameters = {name: value for name, value in given.items() if value is not None}
    payload = _payload(manifest.text("Input", of=target), notes)
    service, resource = _resource(arn)
    name = slug(f"{service}/{resource}")
    if not can_call(arn):
        notes.append(f"there is no ready call of {arn}: write the job {name}; until then the schedule is paused")
        return {**_to_be_written(name, arn, jobs), "payload": payload}
    while name in jobs.ready and jobs.ready[name] != (arn, parameters):
        name += "-2"
    jobs.ready[name] = (arn, parameters)
    return {"job": name, "payload": payload}


def _to_be_written(name: str, what: str, jobs: TargetJobs) -> dict[str, Any]:
    jobs.unwritten[name] = what
    return {"job": name, "paused": True}


def _resource(arn: str) -> tuple[str, str]:
    """Service and resource's own name: ``lambda``, ``report``."""
    parts = arn.split(":")
    if len(parts) < 6:
        return "target", arn
    if parts[2] == "scheduler":  # arn:aws:scheduler:::aws-sdk:ec2:stopInstances
        return "aws-sdk", "/".join(parts[6:])
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
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, str) or value is None else value
