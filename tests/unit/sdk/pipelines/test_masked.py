"""Who may not read payloads sees no value of a pipeline: of its definition, its revisions, its tasks and their errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack import Registry, Retry, Scheduler
from quarterjack.domain.tenants.caller import Caller, Via
from quarterjack.errors import Forbidden
from quarterjack.testing import Harness

SECRET = "s3cret"
TASKS: dict[str, Any] = {
    "a": {"job": "ok", "payload": {"x": SECRET}},
    "b": {"job": "breaks", "after": ["a"], "when": f'a.result == "{SECRET}"'},
    "c": {"job": "ok", "after": ["a"], "payload": "${a.result.rows}"},
    "d": {"job": "ok", "map": {"over": [SECRET], "at_a_time": 2}},
    "e": {"job": "ok", "after": ["a"], "when": f'a.result != "{SECRET}"'},
}
SEEN = {
    "a": {"job": "ok"},
    "b": {"job": "breaks", "after": ["a"]},
    "c": {"job": "ok", "after": ["a"]},
    "d": {"job": "ok", "map": {"at_a_time": 2}},
    "e": {"job": "ok", "after": ["a"]},
}


@pytest.fixture
def harness() -> Harness:
    jobs = Registry()
    jobs.job("ok")(lambda ctx, payload: SECRET)

    def breaks(ctx: Any, payload: Any) -> None:
        raise ValueError(SECRET)

    jobs.job("breaks", retry=Retry(max_attempts=1))(breaks)
    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, tzinfo=UTC))
    harness.scheduler.upsert_schedule("p", "pipeline:p", "manual", tasks=TASKS, on_task_failure="continue")
    return harness


def by(harness: Harness, can: list[str], readable: list[str] | None = None) -> Scheduler:
    """The scheduler as ``eve`` sees it, who may do that for all jobs, and read the payloads of some."""
    harness.tenants.grant("default", "iam:*", "admin")
    harness.tenants.grant("default", "app:eve", can)
    if readable:
        harness.tenants.grant("default", "app:eve", ["read-payloads"], jobs=readable)
    return harness.scheduler.with_caller(Caller(actor="app:eve", via=Via.API))


def test_a_definition_and_its_revisions_have_no_values(harness: Harness) -> None:
    changed = TASKS | {"a": TASKS["a"] | {"payload": {"x": f"{SECRET}2"}}}
    harness.scheduler.upsert_schedule("p", "pipeline:p", "manual", tasks=changed)
    open_ = harness.scheduler.describe_schedule("p")
    assert open_.revisions[0].differences["tasks.a.payload.x"] == (SECRET, f"{SECRET}2")
    eve = by(harness, ["viewer"])
    seen = eve.get_schedule("p")
    assert (seen.masked, seen.definition["tasks"]) == (True, SEEN)
    described = eve.describe_schedule("p")
    assert described.definition.options["tasks"] == SEEN
    assert described.revisions[0].differences["tasks"] == ("[redacted]", "[redacted]")
    assert SECRET not in str(described)


@pytest.mark.parametrize("readable", [[], ["pipeline:p", "breaks"], ["ok", "breaks"]])
def test_a_run_has_no_values_and_no_texts_of_errors(harness: Harness, readable: list[str]) -> None:
    run = harness.scheduler.trigger("p")
    harness.advance(minutes=2)
    assert SECRET in str(harness.scheduler.pipeline_run(run.id).tasks)
    eve = by(harness, ["viewer"], readable)
    tasks = {task.name: task for task in eve.pipeline_run(run.id).tasks}
    assert [tasks[name].when for name in ("a", "e")] == [None, None]
    assert tasks["c"].state == "DEAD"
    assert SECRET not in str([tasks[name] for name in ("a", "c", "d", "e")])
    if "pipeline:p" not in readable:
        assert tasks["b"].reason == "ValueError"
    unseen = ("a", "d", "e") if "ok" in readable else ("a", "c", "d", "e")  # the problem of c is a result of job ok
    assert all(SECRET not in str(eve.why_run(run.id, task=name)) for name in unseen)


def test_an_upsert_removes_no_value_unseen(harness: Harness) -> None:
    eve = by(harness, ["viewer", "update", "create", "submit"])
    seen = eve.get_schedule("p").definition
    tasks = json.loads(json.dumps(seen["tasks"])) | {"d": TASKS["d"]}
    with pytest.raises(Forbidden, match="would remove them unseen"):
        eve.upsert_schedule("p", "pipeline:p", "manual", tasks=tasks)
    done = eve.upsert_schedule("p", "pipeline:p", "manual", tasks=TASKS | {"f": {"job": "ok"}})
    assert done.change == "updated"


@pytest.mark.parametrize(
    ("readable", "shown"),
    [
        (["pipeline:p", "breaks"], False),
        (["pipeline:p", "ok"], False),
        (["pipeline:p", "ok", "breaks"], True),
        (["*"], True),
    ],
)
def test_the_error_of_a_run_is_for_who_may_read_those_of_all_its_tasks(
    harness: Harness, readable: list[str], *, shown: bool
) -> None:
    run = harness.scheduler.trigger("p", payload={"own": 1})
    harness.advance(minutes=2)
    eve = by(harness, ["viewer"], readable)
    seen = eve.get_run(run.id)
    assert (seen.error_type, seen.payload, seen.masked) == ("PipelineFailed", {"own": 1}, not shown)
    (dead,) = [found for found in eve.list_dead().items if found.id == run.id]
    listed = [eve.pipeline_run(run.id).run, *(one for one in eve.list_runs("p").items if one.id == run.id)]
    said = [seen, dead, eve.why_run(run.id), *listed]
    assert [SECRET in str(one) for one in said] == [shown] * len(said)


def test_a_pipeline_as_a_task_tells_of_tasks_that_the_caller_may_not_read(harness: Harness) -> None:
    harness.scheduler.upsert_schedule("q", "pipeline:q", "manual", tasks={"t": {"pipeline": "p"}})
    run = harness.scheduler.trigger("q")
    harness.advance(minutes=2)
    assert SECRET in str(harness.scheduler.pipeline_run(run.id).task("t").reason)
    eve = by(harness, ["viewer"], ["pipeline:*", "ok"])
    assert eve.pipeline_run(run.id).task("t").reason == "PipelineFailed"
    assert SECRET not in str([eve.pipeline_run(run.id), eve.get_run(run.id), eve.why_run(run.id, task="t")])


def test_who_may_read_a_job_may_read_its_maps(harness: Harness) -> None:
    run = harness.scheduler.trigger("p")
    harness.advance(minutes=2)
    mapped = harness.scheduler.pipeline_run(run.id).task("d").run_id or ""
    eve = by(harness, ["read-tenant"])
    harness.tenants.grant("default", "app:eve", ["read-runs", "read-payloads"], jobs=["ok"])
    assert eve.get_run(mapped).result == [SECRET]
