"""A job of many slices on the Lambda handler: invocations with a time limit, fed from the work queue by hand."""

from __future__ import annotations

import contextlib
import io
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from quarterjack import Context, Run, Scheduler, job
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.local.processes import variables
from quarterjack.ports.queues import RawMessage
from quarterjack.services import connect
from quarterjack.testing.cloud import fresh_settings
from quarterjack.worker.execution.effects import MARGIN

UNITS = 4  # of a slice
POWERTOOLS = {
    "POWERTOOLS_METRICS_NAMESPACE": "Quarterjack",
    "POWERTOOLS_SERVICE_NAME": "worker",
}


@job("hurried.sliced")
def sliced(ctx: Context, payload: dict[str, Any]) -> int:
    """Units of work, each with its checkpoint; it knows nothing of slices."""
    done = ctx.resume or 0
    while done < payload["units"]:
        time.sleep(payload["unit"])
        done += 1
        with Path(payload["to"]).open("a") as file:
            file.write(f"{done}\n")
        ctx.checkpoint(done)
    return int(done)


@dataclass
class Invocation:
    """The context of one; ``left`` gives the seconds to its limit."""

    left: Callable[[], float]
    function_name: str = "worker"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:000000000000:function:worker"
    log_stream_name: str = "sliced"
    aws_request_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def get_remaining_time_in_millis(self) -> int:
        return int(self.left() * 1000)


def slice_runs(cloud: LocalCloud, folder: Path, *, count: int, length: float) -> tuple[Run, int, float]:
    """Run a job of ``count`` slices of ``length`` seconds; how it ended, in how many invocations and seconds.

    With ``length`` 0 the limit of an invocation comes after so many units, however long they take.
    """
    settings, to = fresh_settings(cloud, jobs=__name__), folder / "units"
    to.touch()
    with reached_by_this_process({**cloud.environment, **variables(settings), **POWERTOOLS}):
        handler = _fresh_handler()
        work, scheduler = connect(settings).work, Scheduler(settings=settings)
        began, invocations = time.monotonic(), 0
        payload = {"units": UNITS * count - UNITS // 2, "unit": length / UNITS, "to": str(to)}
        run = scheduler.submit("hurried.sliced", payload)
        while scheduler.get_run(run.id).ended_at is None:
            for delivery in work.receive(most=1, wait=5, visibility=600):
                with contextlib.redirect_stdout(io.StringIO()):
                    answer = handler(_event(delivery), Invocation(_limit(to, length)))
                assert answer == {"batchItemFailures": []}, answer
                invocations += 1
    return scheduler.get_run(run.id), invocations, time.monotonic() - began


def _limit(to: Path, length: float) -> Callable[[], float]:
    """The slice ends with the first checkpoint at which less than MARGIN is left: the one of its last unit."""
    before, ends = _units(to), time.monotonic() + length * (1 - 0.5 / UNITS) + MARGIN
    if length:
        return lambda: ends - time.monotonic()
    return lambda: MARGIN + (1 if _units(to) < before + UNITS else -1)


def _units(to: Path) -> int:
    return len(to.read_text().splitlines())


def _fresh_handler() -> Callable[[dict[str, Any], Any], Any]:
    """The handler of a new process: what it keeps between invocations is made anew, from the present environment."""
    from functions import observe  # noqa: PLC0415 (Powertools reads the environment when it is imported)
    from functions.worker import handler  # noqa: PLC0415

    observe.services.cache_clear()
    handler._jobs.cache_clear()
    return handler.handler


def _event(delivery: RawMessage) -> dict[str, Any]:
    record = SimpleNamespace(
        messageId=delivery.id,
        receiptHandle=delivery.receipt,
        body=delivery.body,
        attributes={"ApproximateReceiveCount": str(delivery.receives)},
        messageAttributes={},
        eventSource="aws:sqs",
        eventSourceARN="arn:aws:sqs:us-east-1:000000000000:work",
        awsRegion="us-east-1",
    )
    return json.loads(json.dumps({"Records": [vars(record)]}))  # type: ignore[no-any-return]
