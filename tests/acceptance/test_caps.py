"""A concurrency cap, and a key of a flow, with real workers over the local cloud, of which some are killed with permits in their hands."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from quarterjack import Flow, RunState, Scheduler, Tenants
from quarterjack.local.cloud import LocalCloud

from bench.hurried.crew import Hurried, hurried

pytestmark = [pytest.mark.check, pytest.mark.cloud]

LEASE = 4.0  # seconds; permits last a quarter longer
PATIENCE = 200.0  # seconds: two looks of the ticker at a wait queue whose worker was killed, a minute apart, and what they start
CAP = 3
RUNS = 40


def most_at_once(hurry: Hurried, killed: dict[int, float]) -> int:
    """Of jobs, from their begin to their end or to that of their process."""
    edges = list[tuple[float, int]]()
    ends = {(line["run"], line["attempt"]): line["at"] for line in hurry.lines("end")}
    for line in hurry.lines("begin"):
        over = ends.get((line["run"], line["attempt"]), killed.get(line["pid"], time.time()))
        edges += [(line["at"], 1), (over, -1)]
    going = most = 0
    for _, step in sorted(edges):
        going += step
        most = max(most, going)
    return most


@pytest.mark.parametrize("flow", [None, Flow(key="to", at_a_time=CAP, strict=True)], ids=["cap", "flow"])
def test_no_more_jobs_run_at_once_than_the_cap_says_while_workers_are_killed(
    local_cloud: LocalCloud, tmp_path: Path, flow: Flow | None
) -> None:
    with hurried(local_cloud, tmp_path, lease=LEASE) as hurry:
        if flow is None:
            Tenants(settings=hurry.settings).set("default", limits={"concurrent_runs": CAP, "concurrency_strict": 1})
        scheduler: Scheduler = hurry.scheduler
        hurry.start("ticker", "ticker", "--period", "5")
        for number in range(2):
            hurry.start_worker(f"worker-{number}")
        payload = {"to": str(hurry.to), "seconds": 0.2}
        ids = [scheduler.submit("hurried.spell", payload, flow=flow).id for _ in range(RUNS)]
        killed = dict[int, float]()
        for number in range(2):
            before = len(hurry.lines("begin"))
            assert hurry.until(lambda so_far=before: len(hurry.lines("begin")) > so_far + 4, PATIENCE), hurry.logs()  # type: ignore[misc]
            child = hurry.children[f"worker-{number}"]
            child.kill()
            killed[child.pid] = time.time()
            hurry.replace_ended()
        done = [scheduler.wait_for(each, timeout=PATIENCE).state for each in ids]
        assert Counter(done) == {RunState.SUCCEEDED: RUNS}, hurry.logs()
        assert most_at_once(hurry, killed) == CAP
        if flow is None:
            assert Tenants(settings=hurry.settings).figures("default").permits["concurrent_runs"] <= CAP
