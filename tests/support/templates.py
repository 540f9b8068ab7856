"""Questions to a CloudFormation template, and one synthesis for all processes of a session of tests."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import pytest
from aws_cdk.assertions import Template


def made_once(name: str, make: Callable[[], Template], folders: pytest.TempPathFactory) -> dict[str, Any]:
    """The template of that name as JSON: made by the process of this session that asks first, read by the others."""
    base = folders.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    place = shared / f"template-{sha256(name.encode()).hexdigest()[:16]}.json"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            unfinished = place.with_suffix(".part")
            unfinished.write_text(json.dumps(make().to_json()))
            unfinished.replace(place)
    found: dict[str, Any] = json.loads(place.read_text())
    return found


def functions(template: Template) -> dict[str, dict[str, Any]]:
    """By name."""
    found = template.find_resources("AWS::Lambda::Function").values()
    return {f["Properties"]["FunctionName"]: dict(f["Properties"]) for f in found}


def actions_of(statement: Mapping[str, Any]) -> list[str]:
    """The actions of a statement, which has one as text."""
    actions = statement["Action"]
    return [actions] if isinstance(actions, str) else list(actions)


def queues_of(statements: list[dict[str, Any]], action: str) -> set[str]:
    """The queues that these statements allow an action on, by the names that the construct gives them."""
    found = set()
    for statement in statements:
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        if action in actions_of(statement):
            found |= {r["Fn::GetAtt"][0].removeprefix("JobsQueues")[:-8] for r in resources}
    return found


def statements(template: Template, role: str) -> list[dict[str, Any]]:
    (policy,) = (
        resource["Properties"]["PolicyDocument"]["Statement"]
        for name, resource in template.find_resources("AWS::IAM::Policy").items()
        if name.startswith(role)
    )
    return list(policy)


def sources(template: Template) -> dict[str, Mapping[str, Any]]:
    """Event sources of queues by the queue that they read."""
    found = [s["Properties"] for s in template.find_resources("AWS::Lambda::EventSourceMapping").values()]
    found = [source for source in found if "StartingPosition" not in source]  # that of a stream has one
    return {s["EventSourceArn"]["Fn::GetAtt"][0].removeprefix("JobsQueues")[:-8]: s for s in found}
