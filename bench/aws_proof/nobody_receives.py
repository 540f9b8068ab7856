"""The alarm of the gravest fault goes off by the fault: a worker that receives nothing. No state is set by hand.

Its figures come minutes late on AWS, which no emulator shows; so this is where its time is measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from quarterjack import RunState, Scheduler

from bench.aws_proof.alarms import NO_ALARMS, Listener
from bench.aws_proof.cloud import Cloud
from bench.aws_proof.deployment import Deployment
from bench.aws_proof.jobs import QUIET
from bench.aws_proof.plan import Plan
from bench.aws_proof.report import Finding, judged, skipped

PART = "an alarm goes off by its fault"
ALARM = "nothing-runs"
RUNS = 20  # so many that each stripe of the queue has some
_SWITCH = 300.0  # seconds for an event source to be switched; a minute is usual
_LOOK = 5.0


def nobody_receives(listener: Listener, plan: Plan) -> Finding:
    """The worker's event sources are disabled and runs submitted; the alarm arrives, and with the sources back all runs succeed."""
    deployment = listener.deployment
    if not deployment.cloud.is_aws:
        return skipped(PART, NO_ALARMS)
    alarm, scheduler = deployment.function(ALARM), deployment.scheduler()
    with unserved(deployment):
        listener.heard.discard(alarm)
        runs = [scheduler.submit(QUIET, idempotency_key=f"unserved-{number}").id for number in range(RUNS)]
        began = time.monotonic()
        silent = listener.wait_for({alarm}, plan.alarm_patience)
        took = time.monotonic() - began
    wrong = [f"{name} did not arrive within {plan.alarm_patience:.0f} s" for name in silent]
    if waiting := _waiting(scheduler, runs, plan.patience):
        wrong.append(
            f"{waiting} of {RUNS} runs had not succeeded {plan.patience:.0f} s after the worker could receive again"
        )
    return judged(PART, wrong, f"{alarm}: {took:.0f} s after the first of {RUNS} runs that nobody could receive")


@contextmanager
def unserved(deployment: Deployment) -> Iterator[None]:
    """For the time of the block the worker receives nothing: its event sources are disabled."""
    client, name = deployment.cloud.client("lambda"), deployment.function("worker")
    sources = [one["UUID"] for one in client.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]]
    try:
        _switch(deployment.cloud, sources, on=False)
        yield
    finally:
        _switch(deployment.cloud, sources, on=True)


def _switch(cloud: Cloud, sources: list[str], *, on: bool) -> None:
    """Raises TimeoutError if a source is not there after ``_SWITCH`` seconds. AWS refuses a change while another is under way."""
    client, deadline = cloud.client("lambda"), time.monotonic() + _SWITCH
    wanted, open_ = "Enabled" if on else "Disabled", list(sources)
    while open_:
        states = {uuid: client.get_event_source_mapping(UUID=uuid)["State"] for uuid in open_}
        open_ = [uuid for uuid, state in states.items() if state != wanted]
        for uuid in open_:
            if states[uuid] in ("Enabled", "Disabled"):
                client.update_event_source_mapping(UUID=uuid, Enabled=on)
        if open_ and time.monotonic() > deadline:
            raise TimeoutError(f"event sources are not {wanted} after {_SWITCH:.0f} s: {states}")
        threading.Event().wait(_LOOK if open_ else 0)


def _waiting(scheduler: Scheduler, runs: list[str], patience: float) -> int:
    """How many have not succeeded ``patience`` seconds from now."""
    deadline = time.monotonic() + patience
    while True:
        waiting = sum(scheduler.get_run(run).state is not RunState.SUCCEEDED for run in runs)
        if not waiting or time.monotonic() > deadline:
            return waiting
        threading.Event().wait(_LOOK)
