"""A declared queue of three stripes, from the package's text to its own worker process: nothing is said of it anywhere else."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

import pytest
from quarterjack import RunState, Scheduler, Settings
from quarterjack.domain.names import parse_run_id
from quarterjack.errors import InvalidInput
from quarterjack.local.installation import installation
from quarterjack.sqs.stripes import stripe_of

from tests.support.installation.scene import until

pytestmark = [pytest.mark.check, pytest.mark.cloud]


def test_a_queues_own_worker_runs_its_schedules_and_no_other_does(tmp_path: Path) -> None:
    witness = tmp_path / "witness.jsonl"
    payload = {"to": str(witness)}
    with installation(
        data=tmp_path / "state",
        jobs=["tests.support.installation.lanes"],
        workers=1,
        settings=Settings(stripes="default=2"),
    ) as running:
        running.wait_until_ready(threading.Event())
        scheduler = Scheduler(settings=running.settings)
        assert [queue.name for queue in scheduler.queues()] == ["default", "lane"]
        with pytest.raises(InvalidInput, match="known queues: default, lane"):
            scheduler.submit("lanes.note", payload, queue="lanes")
        every = "rate(2 seconds, from=2026-01-01T00:00:00Z)"
        scheduler.create_schedule("report", "lanes.report", every, payload=payload, queue="lane")
        scheduler.create_schedule("note", "lanes.note", every, payload=payload)
        again = scheduler.submit("lanes.report", payload | {"failures": 1}, queue="lane").id
        crowd = [scheduler.submit("lanes.report", payload, queue="lane").id for _ in range(40)]
        assert until(lambda: all(scheduler.get_run(run).state is RunState.SUCCEEDED for run in crowd), 60)
        assert until(lambda: scheduler.get_run(again).state is RunState.SUCCEEDED, 60)
        assert until(lambda: _ended(scheduler, "report") >= 3 and _ended(scheduler, "note") >= 3, 60)
        pids = {name: running.processes[name].pid for name in running.processes.names}
    starts = [json.loads(line) for line in witness.read_text().splitlines()]
    by_process = {pid: {start["run"].split("#")[0] for start in starts if start["pid"] == pid} for pid in pids.values()}
    in_lane = {run.split("#")[0] for run in (again, *crowd)}
    assert by_process[pids["worker@lane"]] == {"default/report", *in_lane}
    assert by_process[pids["worker-1"]] == {"default/note"}
    assert sum(start["run"] == again for start in starts) == 2, "its retry as well"
    assert {stripe_of(parse_run_id(run), 3) for run in crowd} == {0, 1, 2}, "each stripe had some"
    counts = Counter(start["run"] for start in starts if start["run"] != again)
    assert set(counts.values()) == {1}
    assert set(crowd) <= counts.keys()


def _ended(scheduler: Scheduler, name: str) -> int:
    return sum(run.state is RunState.SUCCEEDED for run in scheduler.list_runs(name).items)
