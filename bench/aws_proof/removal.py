"""Remove everything of a proof, found by its names alone, and look whether anything is left: again, until nothing is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from bench.aws_proof.cloud import Cloud, Names
from bench.aws_proof.faults import lift
from bench.aws_proof.leftovers import Left, empty, left, status_of, sweep

ROUNDS = 3
PAUSE, LOCAL_PAUSE = (
    60.0,
    1.0,
)  # seconds between two rounds: a failed deletion of a stack, or an outage of a service, may pass
_WAIT = {"Delay": 5, "MaxAttempts": 240}  # twenty minutes: event sources and versions take their time
_LOCAL_WAIT = {"Delay": 1, "MaxAttempts": 120}
_FAILED = "DELETE_FAILED"

Say = Callable[[str], object]


def remove(cloud: Cloud, names: Names, say: Say) -> list[Left]:
    """Remove all of it; returns what is left. A step that fails does not keep the next from running, and is taken again."""
    for further in reversed(range(ROUNDS)):
        problems = list(_round(cloud, names, say))
        remaining = left(cloud, names)
        if not remaining:
            return []
        for each in (*problems, *map(str, remaining)):
            _tell(say, f"not removed: {each}")
        if further:
            pause = PAUSE if cloud.is_aws else LOCAL_PAUSE
            _tell(say, f"again in {pause:.0f} s, {further} times more at the most")
            threading.Event().wait(pause)
    return remaining


def commands(cloud: Cloud, names: Names, remaining: Sequence[Left]) -> list[str]:
    """The commands that remove what is left: all of it, and each by itself."""
    if not remaining or not cloud.is_aws:  # the embedded cloud has ended with everything that was in it
        return []
    return [f"make aws-proof YES=yes REMOVE={names.prefix}", *(each.command for each in remaining)]


def _round(cloud: Cloud, names: Names, say: Say) -> Iterator[str]:
    """One go at every step; yields the problems."""
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("the outage of the queue", lambda: lift(cloud, names)),
        (f"stack {names.stack}", lambda: _remove_stack(cloud, names.stack)),
        (f"stack {names.toolkit}", lambda: _remove_toolkit(cloud, names)),
    )
    for what, step in steps:
        _tell(say, f"removing {what}")
        try:
            step()
        except Exception as problem:  # noqa: BLE001 (any failure: the other steps are taken all the same)
            yield f"{what}: {problem}"
    _tell(say, "removing what is in no stack: the queue that hears alarms, log groups that functions wrote once more")
    yield from sweep(cloud, names)


def _remove_stack(cloud: Cloud, stack: str) -> None:
    """Its buckets are emptied first, and those that it retains are deleted by the sweep.

    A stack that could not be deleted before is deleted without the resources that hinder it: the sweep finds these by their names.
    """
    if (status := status_of(cloud, stack)) is None:
        return
    formation = cloud.client("cloudformation")
    for bucket in _buckets_of(cloud, stack):
        empty(cloud, bucket)
    formation.delete_stack(StackName=stack, **({"DeletionMode": "FORCE_DELETE_STACK"} if status == _FAILED else {}))
    wait = _WAIT if cloud.is_aws else _LOCAL_WAIT
    formation.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig=wait)


def _buckets_of(cloud: Cloud, stack: str) -> list[str]:
    resources = cloud.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
    buckets = (of.get("PhysicalResourceId") for of in resources if of["ResourceType"] == "AWS::S3::Bucket")
    return [bucket for bucket in buckets if bucket]


def _remove_toolkit(cloud: Cloud, names: Names) -> None:
    """After the stack: CloudFormation deletes it by a role of the toolkit."""
    if status_of(cloud, names.stack) is not None:
        raise RuntimeError(f"it stays as long as stack {names.stack}, which its role deletes")
    _remove_stack(cloud, names.toolkit)


def _tell(say: Say, text: str) -> None:
    """A terminal that was closed does not keep the removal from its work."""
    with suppress(OSError):
        say(text)
