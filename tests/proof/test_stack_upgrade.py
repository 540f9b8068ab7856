"""The stack of the latest release is upgraded to the present code and rolled back, by the real CDK, with runs under way."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Run, RunState
from quarterjack.local.cloud import LocalCloud, reached_by_this_process

from infra.local_proof import Waits
from infra.local_stack import SCHEDULE, Deployment, bootstrap, release, synthesise
from tests.support.released import checked_out, path_of

pytestmark = [pytest.mark.proof, pytest.mark.cloud]

EVERY = 5  # seconds between two fires
PATIENCE = 240.0  # seconds
LASTS = 6  # seconds of a slow run: some may be under way when code is replaced
JOBS = f"""
import time

from quarterjack import job

job("fast")(lambda ctx, payload: None)
job("slow")(lambda ctx, payload: time.sleep({LASTS}))
"""


def code_of(deployment: Deployment) -> str:
    """The digest of the worker's code, as the cloud has it."""
    found = deployment.client("lambda").get_function_configuration(FunctionName=deployment.function("worker"))
    return str(found["CodeSha256"])


def missing(runs: list[Run], begin: datetime) -> list[datetime]:
    """The fires between the first run and the last that have none."""
    due = {run.due.replace(microsecond=0) for run in runs}
    all_of_them, at = [], min(due)
    while at < max(due):
        all_of_them.append(at)
        at += timedelta(seconds=EVERY)
    return [at for at in all_of_them if at not in due and at > begin]


def test_runs_go_on_while_the_stack_is_upgraded_and_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former, present, package = tmp_path / "former", tmp_path / "present", tmp_path / "upgraded.py"
    package.write_text(JOBS)
    with LocalCloud(variables={"PYTHONDONTWRITEBYTECODE": "1"}) as cloud, reached_by_this_process(cloud.credentials):
        bootstrap(cloud, tmp_path)
        synthesise(cloud, present, jobs=str(package))
        with monkeypatch.context() as of_the_release:
            of_the_release.setenv("PYTHONPATH", path_of(checked_out()))
            synthesise(cloud, former, folder=checked_out(), jobs=str(package))
        deployment = release(cloud, former)
        waits, scheduler = Waits(patience=PATIENCE, log=cloud.log), deployment.scheduler
        scheduler.create_schedule(SCHEDULE, "fast", f"rate({EVERY} seconds)")
        waits.until("the first runs", lambda: None if deployment.runs() else "none")
        before, begin = code_of(deployment), datetime.now(UTC)
        ids = [scheduler.submit("fast", delay=2 * n).id for n in range(40)]
        slow = [scheduler.submit("slow", delay=2 * n).id for n in range(60)]
        for stack in (present, former):
            release(cloud, stack)
            assert (code_of(deployment) == before) is (stack == former)
            scheduler.resend(rate=200)  # what the killed processes had received and not begun is hidden for 15 minutes
            seen = len(deployment.runs())
            waits.until("runs after the deployment", lambda so_far=seen: _more(deployment, so_far))  # type: ignore[misc]
        waits.until("what was submitted", lambda: _left(scheduler, [*ids, *slow]))
        scheduler.pause_schedule(SCHEDULE)
        runs = [run for run in deployment.runs() if run.state is not RunState.CANCELLED]
        assert Counter(run.state for run in runs) == {RunState.SUCCEEDED: len(runs)}
        assert Counter(run.attempt for run in [*runs, *map(scheduler.get_run, ids)]) == {1: len(runs) + len(ids)}
        assert missing(runs, begin) == []
        # MiniStack, not AWS, kills the processes of a function whose code is replaced. A run that is cut off starts again after its lease.
        assert {scheduler.get_run(each).attempt for each in slow} <= {1, 2}


def _more(deployment: Deployment, so_far: int) -> str | None:
    found = len(deployment.runs())
    return None if found > so_far + 2 else f"{found - so_far} more"


def _left(scheduler: Any, ids: list[str]) -> str | None:
    states = Counter(str(scheduler.get_run(each).state) for each in ids)
    left = {state: number for state, number in states.items() if state != RunState.SUCCEEDED}
    return str(left) if left else None
