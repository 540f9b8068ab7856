"""Pipelines: tasks start by the ends of those before them, whoever dies; a run goes by its revision, and is retried in part."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from quarterjack import Context, pipeline
from quarterjack.domain.job_catalogue import PublishedJob, sets_of
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.pipelines.reading import check_tasks
from quarterjack.domain.run import RunState
from quarterjack.domain.times import DAY
from quarterjack.errors import Conflict, InvalidInput, KeyReused, NotFound, UnknownJobWarning
from quarterjack.owner.catalogue import CataloguePublisher
from quarterjack.pipelines import Pipeline
from quarterjack.sdk.pipelines.views import TaskRun
from quarterjack.state.ending import cancel
from quarterjack.stores.tables import REVISIONS
from quarterjack.testing import Crash
from quarterjack.testing.process import Hand

from tests.support.scenes.line import DIAMOND, ONCE, Line
from tests.support.scenes.world import NOON, Faults, World, crash
from tests.support.units import counted


@dataclass
class Order:
    """The payload of a typed job."""

    n: int


@pytest.fixture
def line() -> Line:
    return Line()


# Order.


def test_a_task_starts_when_those_before_it_have_ended(line: Line) -> None:
    line.publish(DIAMOND)
    seen = line.run()
    assert (seen.run.state, seen.run.result) == ("SUCCEEDED", {"succeeded": 4, "failed": 0, "skipped": 0})
    assert line.ran in (["a", "b", "c", "d"], ["a", "c", "b", "d"])
    assert set(line.states(seen).values()) == {"SUCCEEDED"}
    assert seen.critical_path[0] == "a"
    assert seen.critical_path[-1] == "d"


def test_a_payload_is_made_of_the_fire_the_payload_and_results(line: Line) -> None:
    line.results["a"] = {"rows": 7, "files": ["x", "y"]}
    line.publish(
        {
            "a": {"job": "ok", "payload": {"day": "${fire.date}", "who": "${payload.who}"}},
            "b": {
                "job": "ok",
                "after": ["a"],
                "payload": {
                    "rows": '${a.result["rows"]}',
                    "path": "s3://x/${fire.date}/${a.result.files[0]}",
                    "s": "$${a}",
                },
            },
        },
        timezone="Asia/Tokyo",
    )
    line.run(payload={"who": "Ada"})
    assert line.payloads == {
        "a": {"day": "2026-05-04", "who": "Ada"},
        "b": {"rows": 7, "path": "s3://x/2026-05-04/x", "s": "${a}"},
    }


@pytest.mark.parametrize(
    ("join", "ends", "starts"),
    [
        ("all", "ss", True),
        ("all", "sf", False),
        ("any", "sf", True),
        ("any", "ff", False),
        ("none_failed", "sf", False),
        ("none_failed", "sx", True),
        ("all", "sx", False),
        ("done", "ff", True),
        ("done", "fx", True),
    ],
)
def test_joins(line: Line, join: str, ends: str, starts: bool) -> None:
    tasks: dict[str, Any] = {}
    for number, end in enumerate(ends):
        tasks[f"t{number}"] = {"job": "ok"} | ({"when": "1 > 2"} if end == "x" else {})
        line.broken |= {f"t{number}"} if end == "f" else set()
    line.publish(tasks | {"last": {"job": "ok", "after": [*tasks], "join": join}}, on_task_failure="continue")
    seen = line.run()
    assert ("last" in line.ran) is starts
    assert seen.task("last").state == ("SUCCEEDED" if starts else "SKIPPED")
    assert seen.run.state == ("DEAD" if "f" in ends else "SUCCEEDED")


def test_a_task_starts_at_once_when_those_before_it_never_start(line: Line) -> None:
    line.broken.add("a")
    tasks = {"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"]}, "c": {"job": "ok", "after": ["b"], "join": "done"}}
    line.publish(tasks, on_task_failure="continue")
    line.world.scheduler.trigger("p")
    line.world.work()
    assert line.ran == ["a", "c"]


def test_a_task_whose_condition_did_not_hold_starts_by_no_later_end(line: Line) -> None:
    """Two processes judge a condition, of which one has seen more ends."""
    line.publish(
        {
            "a": {"job": "ok"},
            "b": {"job": "ok"},
            "c": {"job": "ok", "after": ["a", "b"], "join": "any", "when": 'b.state == "SUCCEEDED"'},
        }
    )
    run = line.world.scheduler.trigger("p")
    Hand(worker=line.world.worker()).work()
    first = line.world.worker(Faults().at("mark_items", before=lambda: line.world.work(line.world.worker())))
    Hand(worker=first).work(most=1)
    line.world.live(60)
    seen = line.seen(run)
    assert (seen.run.state, seen.task("c").state, line.ran) == ("SUCCEEDED", "SKIPPED", ["a", "b"])


def test_a_halted_pipeline_starts_nothing_more_and_ends_when_what_runs_has_ended(line: Line) -> None:
    line.broken.add("b")
    line.publish({**DIAMOND, "e": {"job": "ok", "after": ["c"]}})
    line.during["a"] = lambda: None
    seen = line.run()
    assert seen.run.state == "DEAD"
    assert seen.run.error == "task b: DEAD, RuntimeError: b is broken"
    assert "d" not in line.ran
    assert line.states(seen)["d"] == "SKIPPED"


def test_an_optional_task_may_fail(line: Line) -> None:
    line.broken.add("a")
    line.publish({"a": {"job": "ok", "optional": True}, "b": {"job": "ok", "after": ["a"], "payload": "${a.state}"}})
    seen = line.run()
    assert (seen.run.state, seen.run.result) == ("SUCCEEDED", {"succeeded": 1, "failed": 1, "skipped": 0})
    assert line.payloads["b"] == "DEAD"


def test_a_failed_optional_task_is_not_repeated(line: Line) -> None:
    line.broken |= {"a", "c"}
    tasks = {
        "a": {"job": "ok", "optional": True},
        "b": {"job": "ok", "after": ["a"]},
        "c": {"job": "ok", "after": ["b"]},
    }
    line.publish(tasks)
    first, line.ran[:] = line.run(), []
    line.broken.clear()
    again = line.world.scheduler.retry_pipeline(first.run.id)
    line.world.live(60)
    assert line.ran == ["c"]
    assert line.states(line.seen(again)) == {"a": "DEAD", "b": "SUCCEEDED", "c": "SUCCEEDED"}
    assert line.seen(again).critical_path == ["c"], "an earlier run did the others"


def test_the_critical_path_passes_tasks_that_did_not_run(line: Line) -> None:
    line.broken.add("a")
    tasks: Any = {
        "a": {"job": "ok"},
        "b": {"job": "ok", "after": ["a"]},
        "c": {"job": "ok", "after": ["b"]},
        "w": {"job": "ok", "when": "payload == 1"},
        "d": {"job": "ok", "after": ["c", "w"], "join": "done"},
    }
    line.publish(tasks, on_task_failure="continue")
    assert line.run().critical_path == ["a", "d"]
    line.broken.clear()
    run = line.world.scheduler.trigger("p")
    line.world.scheduler.skip_task(run.id, "c")
    line.world.live(60)
    assert line.seen(run).critical_path == ["a", "b", "d"]


def test_a_payload_that_cannot_be_made_fails_its_task_and_says_why(line: Line) -> None:
    line.results["a"] = {"rows": 7}
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"], "payload": "${a.result.files}"}})
    seen = line.run()
    assert seen.run.state == "DEAD"
    assert seen.task("b").reason == "a.result.files has no value: there is no 'files' in {\"rows\": 7}"


def test_a_condition_that_cannot_be_judged_fails_its_task(line: Line) -> None:
    line.results["a"] = "text"
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"], "when": "a.result > 3"}})
    assert line.run().run.state == "DEAD"


def test_large_results_and_payloads(line: Line) -> None:
    line.results["a"] = "x" * 100_000
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"], "payload": ["${a.result}"]}})
    assert line.run().run.state == "SUCCEEDED"
    assert line.payloads["b"] == ["x" * 100_000]


@pytest.mark.parametrize(
    ("result", "payload", "problem"),
    [
        ("x" * 200_000, ["${a.result}"] * 26, None),
        ("x" * 200_000, ["${a.result}"] * 27, "more than 5,242,880 bytes; store what is large and pass its address"),
        ("x" * 200_000, "${a.result}" * 27, "more than 5,242,880 bytes"),
        ([[[]]], ["${a.result}", [[[[]]]]], None),
        (json.loads("[" * 60 + "]" * 60), [[[[["${a.result}"]]]]], "lists and dicts nested more than 64 levels deep"),
    ],
)
def test_a_payload_that_becomes_too_large_fails_its_task(
    line: Line, result: Any, payload: Any, problem: str | None
) -> None:
    line.results["a"] = result
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"], "payload": payload}})
    task = line.run().task("b")
    assert task.state == ("SUCCEEDED" if problem is None else "DEAD")
    assert problem is None or f"its payload has {problem}" in str(task.reason)
    assert ("b" in line.ran) is (problem is None)


def test_more_tasks_than_one_row_of_marks(line: Line) -> None:
    many = {f"t{number}": {"job": "ok"} for number in range(230)}
    line.publish({**many, "last": {"job": "ok", "after": [*many]}})
    assert line.run(120).run.state == "SUCCEEDED"
    assert Counter(line.ran) == Counter([*many, "last"])
    assert line.ran[-1] == "last"


# A pipeline in a pipeline.


def test_a_task_may_be_a_pipeline(line: Line) -> None:
    scheduler = line.world.scheduler
    scheduler.upsert_schedule(
        "inner", "pipeline:inner", "manual", tasks={"i": {"job": "ok", "payload": "${payload.n}"}}
    )
    line.publish(
        {"a": {"pipeline": "inner", "payload": {"n": 5}}, "b": {"job": "ok", "after": ["a"], "payload": "${a.result}"}}
    )
    assert line.run(200).run.state == "SUCCEEDED"
    assert line.payloads == {"i": 5, "b": {"succeeded": 1, "failed": 0, "skipped": 0}}


def test_a_task_may_map_a_job_over_a_result(line: Line) -> None:
    line.results["a"] = {"files": [f"f{number}" for number in range(25)]}
    seen = list[str]()

    @line.world.jobs.job("double")
    def double(ctx: Context, payload: str) -> str:
        seen.append(payload)
        return payload * 2

    line.publish(
        {
            "a": {"job": "ok"},
            "b": {"job": "double", "map": {"over": "${a.result.files}", "at_a_time": 3}, "after": ["a"]},
            "c": {"job": "ok", "payload": "${b.result[24]}", "after": ["b"]},
        }
    )
    assert line.run(300).run.state == "SUCCEEDED"
    assert sorted(seen) == sorted(line.results["a"]["files"])
    assert line.payloads["c"] == "f24f24"


@pytest.mark.parametrize("over", [[], ["x"], "${a.result}"])
def test_a_map_over_few_items_or_none(line: Line, over: object) -> None:
    line.results["a"] = []
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok", "map": {"over": over}, "after": ["a"]}})
    assert line.run(200).run.state == "SUCCEEDED"


def test_a_map_over_what_is_no_list_fails(line: Line) -> None:
    line.results["a"] = {"no": "list"}
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok", "map": {"over": "${a.result}"}, "after": ["a"]}})
    seen = line.run(200)
    assert seen.run.state == "DEAD"
    assert seen.task("b").reason == "Permanent: its items are no list, but dict"


def test_a_map_fails_with_the_first_item_that_fails_for_good(line: Line) -> None:
    line.world.jobs.job("fails", retry=ONCE)(lambda ctx, payload: 1 // payload)
    line.publish({"a": {"job": "fails", "map": {"over": [1, 0, 2], "at_a_time": 1}}})
    seen = line.run(200)
    assert seen.run.state == "DEAD"
    assert "ZeroDivisionError" in str(seen.task("a").reason)
    assert seen.task("a").attempt == 1


@pytest.mark.parametrize("name", [None, 3, "☂", "n" * 200])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInput, match="name="):
        pipeline(name)


def test_a_pipeline_within_itself_is_refused(line: Line) -> None:
    with pytest.raises(InvalidInput, match=r"tasks.a.pipeline='p': is this pipeline, or has it within; leave the task"):
        line.publish({"a": {"pipeline": "p"}})
    with pytest.warns(UnknownJobWarning, match="tasks.a.pipeline='q': there is no pipeline of that name"):
        line.publish({"a": {"pipeline": "q"}})
    upsert = line.world.scheduler.upsert_schedule
    with pytest.raises(InvalidInput, match=r"tasks.b.pipeline='p': is this pipeline, or has it within"):
        upsert("q", "pipeline:q", "manual", tasks={"a": {"job": "ok"}, "b": {"pipeline": "p"}})
    assert line.world.scheduler.list_schedules(prefix="q").items == []


def test_pipelines_within_each_other_may_be_so_deep(line: Line) -> None:
    upsert = line.world.scheduler.upsert_schedule
    upsert("p5", "pipeline:p5", "manual", tasks={"a": {"job": "ok"}})
    for number in range(4, 0, -1):
        upsert(f"p{number}", f"pipeline:p{number}", "manual", tasks={"a": {"pipeline": f"p{number + 1}"}})
    with pytest.raises(InvalidInput, match=r"tasks.z.pipeline='p1': .*: with this one they are more than 5 deep"):
        line.publish({"y": {"pipeline": "p3"}, "z": {"pipeline": "p1"}})
    line.publish({"y": {"pipeline": "p3"}, "z": {"pipeline": "p2"}})


def test_a_pipeline_within_itself_ends(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two owners may publish at the same time."""
    monkeypatch.setattr("quarterjack.sdk.pipelines.nesting.check_nesting", lambda *args: None)
    line.publish({"a": {"pipeline": "p"}})
    seen = line.run(3_600)
    assert seen.run.state == "DEAD"
    states = Counter(run.state for run in line.world.memory.runs() if run.job == "pipeline:p")
    assert states == {RunState.DEAD: 5, RunState.SKIPPED: 1}


def test_a_pipeline_that_does_not_exist_fails_its_task(line: Line) -> None:
    with pytest.warns(UnknownJobWarning, match="the task fails unless it is published before the task starts"):
        line.publish({"a": {"pipeline": "nothing"}})
    assert line.run().task("a").reason == "pipeline 'nothing' does not exist"


def test_pipelines_that_are_declared_together_know_each_other(line: Line) -> None:
    """The outer one is made first, since its name comes first."""
    scheduler, registry = line.world.scheduler, line.world.jobs
    for name, within in (("a", "b"), ("b", "nothing")):
        with pipeline(name, registry=registry) as p:
            p.pipeline(within)
    plan = scheduler.compare_declared(registry.declared())
    (warning,) = plan.changes[1].warnings
    assert plan.changes[0].warnings == ()
    assert warning.startswith("tasks.nothing.pipeline='nothing': there is no pipeline of that name")
    with pytest.warns(UnknownJobWarning) as told:
        scheduler.carry_out(plan)
    assert [str(one.message) for one in told] == [warning]


# Revisions.


def test_a_run_goes_by_the_revision_with_which_it_began(line: Line) -> None:
    line.publish(DIAMOND)
    line.during["a"] = lambda: line.publish({"other": {"job": "ok"}})
    seen = line.run()
    assert (seen.revision, sorted(line.ran)) == (1, ["a", "b", "c", "d"])
    assert line.run().revision == 2
    assert line.ran[-1] == "other"


def test_a_replay_is_as_it_was(line: Line) -> None:
    line.publish(DIAMOND, payload={"n": 1})
    first = line.run()
    line.publish({"other": {"job": "ok"}})
    again = line.world.scheduler.replay_run(first.run.id)
    line.world.live(60)
    assert line.seen(again).revision == 1
    assert Counter(line.ran) == Counter(["a", "b", "c", "d"] * 2)


def test_a_run_whose_revision_is_gone_ends(line: Line) -> None:
    line.publish(DIAMOND)
    run = line.world.scheduler.submit("pipeline:p")
    Hand(worker=line.world.worker()).work()
    line.world.memory._tables[REVISIONS].delete(
        "acme/p", next(key for of, key, _ in line.world.memory._tables[REVISIONS])
    )
    line.world.live(60)
    seen = line.world.scheduler.get_run(run.id)
    assert (seen.state, seen.error) == (
        "DEAD",
        "nothing says any more which tasks it has: revision 1 of 'acme/p' is missing; run the auditor",
    )


def test_a_pipeline_may_be_submitted_and_be_a_child(line: Line) -> None:
    line.publish({"a": {"job": "ok", "payload": "${payload.n}"}})
    line.world.jobs.job("parent")(lambda ctx, payload: ctx.gather([ctx.submit("pipeline:p", {"n": 2}, step="p")]))
    run = line.world.scheduler.submit("pipeline:p", {"n": 1})
    line.world.live(60)
    assert (line.seen(run).run.state, line.payloads["a"]) == ("SUCCEEDED", 1)
    parent = line.world.scheduler.submit("parent")
    line.world.live(60)
    assert line.world.scheduler.get_run(parent.id).result == [{"succeeded": 1, "failed": 0, "skipped": 0}]
    assert line.payloads["a"] == 2


def test_a_submitted_pipeline_must_exist(line: Line) -> None:
    with pytest.raises(NotFound, match="job='pipeline:nothing': pipeline 'nothing' does not exist; list_pipelines"):
        line.world.scheduler.submit("pipeline:nothing")
    line.world.scheduler.create_schedule("plain", "ok", "0 9 * * *")
    with pytest.raises(NotFound, match="'plain' is a schedule, and no pipeline"):
        line.world.scheduler.submit("pipeline:plain")


# What owners do.


def test_cancel_ends_what_runs_and_nothing_starts_after_it(line: Line) -> None:
    line.publish(DIAMOND)
    run = line.world.scheduler.trigger("p")
    line.during["a"] = lambda: line.world.scheduler.cancel_run(run.id)
    line.world.live(60)
    seen = line.seen(run)
    assert (seen.run.state, line.ran) == ("CANCELLED", ["a"])
    assert {task.state for task in seen.tasks[1:]} <= {"CANCELLED", "SKIPPED"}
    never = [task for task in seen.tasks if task.state == "SKIPPED"]
    assert {(task.reason, tuple(task.waits_for)) for task in never} == {
        ("not started: the run of its pipeline is CANCELLED", ())
    }


def test_a_task_that_runs_while_its_pipeline_is_cancelled_is_seen_to_be_asked(line: Line) -> None:
    line.publish({"a": {"job": "ok"}})
    run, during = line.world.scheduler.trigger("p"), list[TaskRun]()

    def cancel() -> None:
        line.world.scheduler.cancel_run(run.id)
        during.append(line.seen(run).task("a"))

    line.during["a"] = cancel
    line.world.live(60)
    assert [(task.state, task.reason) for task in during] == [("RUNNING", "asked to end")]
    assert line.seen(run).task("a").reason != "asked to end"


def test_a_task_that_was_claimed_before_the_cancel_does_not_start(line: Line) -> None:
    line.publish(DIAMOND)
    run = line.world.scheduler.trigger("p")
    Hand(worker=line.world.worker()).work()  # the pipeline's own slice: the first task is claimed, and waits
    assert line.seen(run).task("a").state == "QUEUED"
    row = line.world.services.ledger.read(parse_run_id(run.id))
    assert row is not None
    moved = line.world.services.ledger.move(
        row.ref, cancel(now=NOON, expires=NOON + DAY)
    )  # its owner dies before the tasks
    assert moved.applied
    line.world.live(60)
    assert line.ran == []
    assert line.seen(run).task("a").state == "CANCELLED"


def test_retry_repeats_what_did_not_succeed(line: Line) -> None:
    line.broken.add("c")
    line.results["a"] = 9
    line.publish({**DIAMOND, "d": {"job": "ok", "after": ["b", "c"], "payload": "${a.result}"}})
    first = line.run()
    line.publish({"other": {"job": "ok"}})
    line.broken.clear()
    line.ran.clear()
    with pytest.raises(Conflict, match="it has succeeded"):
        line.world.scheduler.retry_pipeline(line.run().run.id)
    line.ran.clear()
    again = line.world.scheduler.retry_pipeline(first.run.id, idempotency_key="again")
    assert line.world.scheduler.retry_pipeline(first.run.id, idempotency_key="again").id == again.id
    line.world.live(60)
    seen = line.seen(again)
    assert (seen.run.state, seen.run.replay_of, seen.revision) == ("SUCCEEDED", first.run.id, 1)
    assert line.ran[-2:] == ["c", "d"]
    assert "a" not in line.ran
    assert line.payloads["d"] == 9
    assert seen.task("a").run_id == first.task("a").run_id


def test_a_retry_of_a_retry_has_the_results_of_both(line: Line) -> None:
    tasks = {
        "a": {"job": "ok"},
        "b": {"job": "ok", "after": ["a"]},
        "c": {"job": "ok", "after": ["b"], "payload": ["${a.result}", "${b.result}"]},
    }
    line.publish(tasks)
    line.results |= {"a": 1, "b": 2}
    line.broken |= {"b", "c"}
    first = line.run()
    line.broken = {"c"}
    second = line.world.scheduler.retry_pipeline(first.run.id)
    line.world.live(60)
    line.broken = set()
    third = line.world.scheduler.retry_pipeline(second.id)
    line.world.live(60)
    assert line.seen(third).run.state == "SUCCEEDED"
    assert (line.ran, line.payloads["c"]) == (["a", "b", "b", "c", "c"], [1, 2])


def test_what_comes_after_a_task_that_runs_again_runs_again(line: Line) -> None:
    line.broken.add("b")
    line.publish(
        {"a": {"job": "ok"}, "b": {"job": "ok"}, "clean": {"job": "ok", "after": ["b"], "join": "done"}},
        on_task_failure="continue",
    )
    first = line.run()
    line.broken.clear()
    again = line.world.scheduler.retry_pipeline(first.run.id)
    line.world.live(60)
    assert line.seen(again).run.state == "SUCCEEDED"
    assert Counter(line.ran) == {"a": 1, "b": 2, "clean": 2}


def test_retry_may_pass_a_task_over(line: Line) -> None:
    line.broken.add("b")
    line.publish(
        {
            "a": {"job": "ok"},
            "b": {"job": "ok", "after": ["a"]},
            "c": {"job": "ok", "after": ["b"], "payload": "${b.result}"},
        }
    )
    first = line.run()
    with pytest.raises(NotFound, match="pipeline 'p' has no such task; its tasks are a, b, c"):
        line.world.scheduler.retry_pipeline(first.run.id, skip=["x"])
    again = line.world.scheduler.retry_pipeline(first.run.id, skip=["b"])
    line.world.live(60)
    assert (line.seen(again).run.state, line.ran, line.payloads["c"]) == ("SUCCEEDED", ["a", "b", "c"], None)


def test_a_task_that_has_not_begun_may_be_skipped(line: Line) -> None:
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"]}, "c": {"job": "ok", "after": ["b"]}})
    run = line.world.scheduler.trigger("p")
    Hand(worker=line.world.worker()).work()
    seen = line.world.scheduler.skip_task(run.id, "b")
    assert (seen.task("b").state, seen.task("b").reason) == ("SKIPPED", "skipped by its owner")
    with pytest.raises(Conflict, match="so it cannot be skipped"):
        line.world.scheduler.skip_task(run.id, "a")
    line.world.live(60)
    assert (line.seen(run).run.state, line.ran) == ("SUCCEEDED", ["a", "c"])


def test_a_task_is_not_skipped_in_a_run_that_ends_meanwhile(line: Line) -> None:
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"]}})
    run, scheduler = line.world.scheduler.trigger("p"), line.world.scheduler
    Hand(worker=line.world.worker()).work()
    before = line.seen(run)
    owner = line.world.owner(Faults().at("claim", before=lambda: scheduler.cancel_run(run.id)))
    with pytest.raises(Conflict, match=r"it is CANCELLED; retry_pipeline\(\) with 'b' in skip repeats it without"):
        owner.skip_task(run.id, "b")
    assert (before.task("b").state, line.seen(run).task("b").run_id) == ("WAITING", None)
    assert "skip" not in {entry.act for entry in scheduler.audit().items}


def test_a_task_that_never_starts_cannot_be_skipped(line: Line) -> None:
    line.broken.add("a")
    tasks: Any = {
        "a": {"job": "ok"},
        "b": {"job": "ok", "after": ["a"]},
        "c": {"job": "again", "after": ["b"], "join": "done"},
    }
    line.publish(tasks, on_task_failure="continue")
    seen = line.run(10)
    assert line.states(seen) == {"a": "DEAD", "b": "SKIPPED", "c": "RETRYING"}
    with pytest.raises(Conflict, match="task='b': it never starts, since tasks before it did not end as it asks"):
        line.world.scheduler.skip_task(seen.run.id, "b")
    assert line.seen(seen).task("b") == seen.task("b")


def test_cancelling_a_task_that_was_not_started_changes_nothing(line: Line) -> None:
    """An owner who cancels it tells its end again."""
    line.broken.add("a")
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok"}, "c": {"job": "ok", "after": ["b"]}})
    line.during["b"] = lambda: line.world.live(5)
    seen = line.run()
    task = seen.task("c")
    assert (task.state, task.reason) == ("SKIPPED", "not started: a task of its pipeline has failed")
    line.world.scheduler.cancel_run(task.run_id or "")
    again = line.world.scheduler.retry_pipeline(seen.run.id)
    line.broken.clear()
    line.world.live(60)
    assert (line.seen(again).run.state, Counter(line.ran)) == ("SUCCEEDED", {"a": 2, "b": 1, "c": 1})


def test_a_retry_that_is_called_again_marks_nothing_anew(line: Line) -> None:
    line.broken.add("b")
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"]}, "c": {"job": "ok", "after": ["b"]}})
    first = line.run()
    line.broken.clear()
    again = line.world.scheduler.retry_pipeline(first.run.id, idempotency_key="again")
    line.world.live(60)
    assert line.world.scheduler.retry_pipeline(first.run.id, idempotency_key="again").id == again.id
    row = line.world.services.ledger.read(parse_run_id(again.id))
    assert row is not None
    assert line.world.services.waits.ends(row.ref, [2]) == {2: "S"}


def test_a_key_repeats_one_run(line: Line) -> None:
    """Whoever used the key for another run died between its marks and its submission."""
    line.broken.add("b")
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok"}}, on_task_failure="continue")
    first, second = line.run(), line.run()
    owner = line.world.owner(Faults().at("submit", before=crash))
    with pytest.raises(Crash):
        owner.retry_pipeline(first.run.id, idempotency_key="again")
    with pytest.raises(KeyReused, match="does not repeat"):
        line.world.scheduler.retry_pipeline(second.run.id, idempotency_key="again")
    assert line.world.scheduler.retry_pipeline(first.run.id, idempotency_key="again").replay_of == first.run.id
    with pytest.raises(KeyReused, match=r"does not repeat .* without these tasks; use another key"):
        line.world.scheduler.retry_pipeline(first.run.id, skip=["b"], idempotency_key="again")


def test_only_runs_of_pipelines_have_tasks(line: Line) -> None:
    run = line.world.scheduler.submit("ok")
    with pytest.raises(InvalidInput, match="and of no pipeline"):
        line.world.scheduler.pipeline_run(run.id)


def test_a_job_of_the_scheduler_itself_is_known_to_every_worker(line: Line) -> None:
    line.publish(DIAMOND)
    CataloguePublisher(line.world.services, lambda now: list(sets_of([PublishedJob(name="ok")], "1", now))).publish(
        line.world.clock()
    )
    run = line.world.scheduler.trigger("p")
    assert line.world.scheduler.get_run(run.id).waits_because is None


# Overlap, deadlines, fires.


def test_a_run_that_waits_for_its_tasks_counts_for_overlap(line: Line) -> None:
    line.world.jobs.job("sleeps")(lambda ctx, payload: ctx.sleep(300))
    tasks = {"a": {"job": "ok"}, "b": {"job": "sleeps", "after": ["a"]}}
    line.world.scheduler.create_schedule("p", "pipeline:p", "rate(1 minute)", overlap="skip", tasks=tasks)
    line.world.live(600)
    states = Counter(run.state for run in line.world.memory.runs() if run.job == "pipeline:p")
    assert states[RunState.SUCCEEDED] >= 1
    assert states[RunState.SKIPPED] >= 4 * states[RunState.SUCCEEDED] - 2


@pytest.mark.parametrize("overlap", ["cancel_other", "terminate_other"])
def test_the_next_run_ends_the_tasks_of_the_one_before(line: Line, overlap: str) -> None:
    line.world.jobs.job("waits")(lambda ctx, payload: ctx.wait_for("never", timeout=7_200))
    tasks = {"a": {"job": "waits"}, "b": {"job": "ok", "after": ["a"], "join": "done"}}
    line.publish(tasks, overlap=overlap)
    first, _ = line.run(), line.run(120)
    seen = line.seen(first)
    assert (seen.run.state, seen.task("a").state, line.ran) == ("CANCELLED", "CANCELLED", [])


def test_a_deadline_ends_it_and_nothing_more_starts(line: Line) -> None:
    line.world.jobs.job("sleeps")(lambda ctx, payload: ctx.sleep(300))
    line.publish({"a": {"job": "sleeps"}, "b": {"job": "ok", "after": ["a"]}}, deadline=120.0)
    seen = line.run(900)
    assert (seen.run.state, line.ran) == ("EXPIRED", [])


# What it costs.


def test_a_task_costs_its_run_and_one_write(line: Line) -> None:
    chain = {f"t{n}": {"job": "ok"} | ({"after": [f"t{n - 1}"]} if n else {}) for n in range(10)}
    line.publish(chain)
    plain = World()
    plain.jobs.job("ok")(lambda ctx, payload: None)
    with counted() as one:
        plain.scheduler.submit("ok")
        plain.work()
    with counted() as short:
        line.run()
    line.publish({name: chain[name] for name in [*chain][:5]})
    with counted() as shorter:
        line.run()
    assert one["runs"] == 3  # put, lease, end
    assert (short["runs"] - shorter["runs"]) / 5 == one["runs"] + 1
    assert short.get("agenda", 0) - shorter.get("agenda", 0) == 0


# Declarations.


def nested(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels - 1):
        inner = [inner]
    return inner


DEEP, DEEPEST, WITHIN_ITSELF = nested(65), nested(5_000), list[Any]()
WITHIN_ITSELF.append(WITHIN_ITSELF)


@pytest.mark.parametrize("payload", [DEEPEST, WITHIN_ITSELF])
def test_a_payload_in_code_that_ends_nowhere_is_refused(payload: Any) -> None:
    with pytest.raises(InvalidInput, match="payload='…': has lists and dicts nested more than 64"):
        pipeline("p", registry=World().jobs).task("note", payload=payload)


def test_a_mistake_in_code_is_an_error_where_it_is_made() -> None:
    p = pipeline("p", registry=World().jobs)
    a: Any = p.task("note", name="a")
    number: Any = 3
    wrong: Any = {
        "after=<TaskHandle a>: is no list of tasks; pass what p.task(…) returned, in a list": {"after": a},
        "after=['a']: is no list of tasks": {"after": ["a"]},
        "when=<Value a.result>: is no condition; compare a reference": {"when": a.result},
        "when=True: is no condition": {"when": True},
        "payload=<TaskHandle a>: is a task, and no value; pass what it returned: a.result": {"payload": {"x": [a]}},
    }
    for problem, words in wrong.items():
        for act in (p.task, p.pipeline):
            with pytest.raises(InvalidInput) as refused:
                act("note", name="b", **words)
            assert problem in str(refused.value)
    with pytest.raises(InvalidInput, match="over=3: is no list; give a list, or a reference"):
        p.map("note", name="b", over=number)
    with pytest.raises(InvalidInput, match="after=<TaskHandle a>: is no list"):
        p.map("note", name="b", over=a.result, after=a)
    for mistake, problem in (
        (lambda: [*a.result], r"a.result is known when the task starts; p.map\(job, over=…\) runs a job for each"),
        (lambda: 3 in a.result, r"write when=a.result.contains\(…\)"),
        (lambda: a.result in [1, 2], r"write is_in\(\[…\]\) for in"),
        (lambda: f"{a}", r"a is a task, and no value; write what it returned: {a.result}"),
        (lambda: f"{a.result > 1}", "'a.result > 1' is a condition, and no value"),
        (lambda: f"{p.fire}", "a fire is no value; write its date"),
    ):
        with pytest.raises(TypeError, match=problem):
            mistake()
    with pytest.raises(InvalidInput, match="pipeline=3: is not a valid name"):
        p.pipeline(number)
    with pytest.raises(TypeError, match="'foo' of a task; policies are retry, delivery, start"):
        p.task("note", name="b", foo=1)
    assert [*p.tasks] == ["a"]


@pytest.mark.parametrize("key", ["}", "😀", 'a"b', "a'b\n${"])
def test_a_key_may_be_any_text(line: Line, key: str) -> None:
    with pipeline("p", registry=line.world.jobs) as p:
        a = p.task("ok", name="a")
        p.task("ok", name="b", after=[a], payload=f"x {a.result[key]}", when=a.result[key] == key)
    line.world.scheduler.upsert_pipeline(p)
    line.results["a"] = {key: key}
    assert line.states(line.run()) == {"a": "SUCCEEDED", "b": "SUCCEEDED"}
    assert line.payloads["b"] == f"x {key}"


def test_a_chain_is_read_in_a_time_that_grows_with_its_length() -> None:
    """The order of tasks that are declared last first, behind those they come after."""
    names = [f"t{number}" for number in range(1_000)]
    chain = {name: {"job": "j", "after": [before]} for name, before in zip(names[1:], names, strict=False)}
    read = json.loads(check_tasks("tasks", {**dict(reversed(chain.items())), "t0": {"job": "j"}}))
    assert [*read] == names
    level = {"c": {"job": "j", "after": ["b"]}, "d": {"job": "j"}, "a": {"job": "j"}, "b": {"job": "j", "after": ["a"]}}
    assert [*json.loads(check_tasks("tasks", level))] == ["d", "a", "b", "c"]


def test_constants_are_checked_as_the_payloads_of_their_jobs(line: Line) -> None:
    @line.world.jobs.job("typed")
    def typed(ctx: Context, payload: Order) -> None: ...

    tasks: Any = {
        "a": {"job": "ok"},
        "b": {"job": "typed", "after": ["a"], "when": "a.result == 1", "payload": {"n": "x"}},
    }
    with pytest.raises(InvalidInput, match=r"tasks\.b\.payload\.n='x': does not fit"):
        line.publish(tasks)
    with pytest.raises(InvalidInput, match=r"tasks\.b\.map\.over\[1\]\.n='x': does not fit"):
        line.publish({"b": {"job": "typed", "map": {"over": [{"n": 1}, {"n": "x"}]}}})
    line.publish({"b": {"job": "typed", "map": {"over": [{"n": 1}, {"n": "${payload}"}]}}})


@pytest.mark.parametrize("words", [{"timeout": 5.0}, {"retry": ONCE}, {"delivery": "at_most_once"}])
def test_what_is_of_tasks_does_not_go_with_a_pipeline(line: Line, words: Any) -> None:
    with pytest.raises(InvalidInput, match="the run of a pipeline only waits for its tasks; give it to the tasks"):
        line.publish(DIAMOND, **words)
    line.publish(DIAMOND)
    with pytest.raises(InvalidInput, match="give it to the tasks; deadline bounds the whole"):
        line.world.scheduler.update_schedule("p", **words)
    with pytest.raises(InvalidInput, match="on_task_failure='continue': does not go with job 'ok'; only pipelines"):
        line.world.scheduler.create_schedule("plain", "ok", "manual", on_task_failure="continue")


def test_a_pipeline_in_code() -> None:
    world = World()
    with pipeline("nightly", "0 2 * * *", registry=world.jobs, on_task_failure="continue") as p:
        a = p.task("note", name="a")
        b = p.map("note", over=a.result["files"], at_a_time=3, name="b")
        p.pipeline("other", after=[b], when=(a.result["n"] >= 2) | ~(a.state == "DEAD"))
    assert p.tasks == {
        "a": {"job": "note"},
        "b": {"job": "note", "map": {"over": '${a.result["files"]}', "at_a_time": 3}, "after": ["a"]},
        "other": {"pipeline": "other", "after": ["b"], "when": '(a.result["n"] >= 2) or (not (a.state == "DEAD"))'},
    }
    (declared,) = [found for found in world.jobs.declared() if found.name == "nightly"]
    assert declared.job == "pipeline:nightly"
    with pytest.raises(InvalidInput, match="name='late': comes after the block of pipeline 'nightly'; indent it into"):
        p.task("note", name="late")


@pytest.mark.parametrize(
    ("tasks", "problem"),
    [
        ({}, "tasks (their number)=0: is out of range"),
        (
            {"a": {"job": "j", "after": ["b"]}, "b": {"job": "j", "after": ["a"]}},
            "tasks.a.after='a → b → a': is a cycle",
        ),
        ({"a": {"job": "j", "after": ["a"]}}, "is a cycle"),
        ({"a": {"job": "j", "after": ["x"]}}, "tasks.a.after[0]='x': is no task; tasks are a"),
        (
            {"a": {"job": "j"}, "b": {"job": "j", "payload": {"k": ["${a.result}"]}}},
            "tasks.b.payload.k[0]='a.result': refers to 'a', which is no",
        ),
        ({"a": {"job": "j", "when": "b.result > 1"}}, "tasks.a.when='b.result': refers to 'b'"),
        ({"a": {"job": "j", "when": "__import__('os')"}}, "is not known in a condition"),
        ({"a": {"job": "j", "when": "1 +"}}, "cannot be read"),
        ({"a": {"job": "j", "payload": "${fire.dat}"}}, "is nothing of a fire; use fire.date"),
        (
            {"a": {"job": "j", "join": "some"}},
            "tasks.a.join='some': is not known; use one of all, any, none_failed, done",
        ),
        ({"a": {"job": "j", "pipeline": "q"}}, "give either a job or a pipeline"),
        ({"a": {}}, "give either a job or a pipeline"),
        ({"a b": {"job": "j"}}, "is not a valid name of a task"),
        ({"fire": {"job": "j"}}, "is not a valid name of a task"),
        ({"a.state": {"job": "j"}}, "neither fire nor payload, and neither result nor state after a dot"),
        ({"a": {"pipeline": "n" * 81}}, "is not a valid name of a pipeline; use 1 to 80 characters of A-Z"),
        ({"a": {"job": "j", "payload": "${HOME}/x"}}, "TASK.state; or $${ where the text is meant"),
        (
            {"a": {"job": "j"}, "b": {"job": "j", "after": ["a"], "when": 'a.state in ["DEAD", "FAILED"]'}},
            "'FAILED' is no state of a task; use SUCCEEDED, DEAD, LOST, EXPIRED, CANCELLED, SKIPPED",
        ),
        ({"a": {"job": "j", "retries": 3}}, "tasks.a.retries='…': is not known here"),
        ({"a": {"job": "j", "retry": {"max_attempts": 0}}}, "tasks.a.retry.max_attempts=0: is out of range"),
        ({"a": {"job": "j", "retry": 5}}, "tasks.a.retry=5: is no mapping; write retry: {max_attempts: 3}"),
        ({"a": {"job": "pipeline:x"}}, "write pipeline: NAME"),
        ({"a": {"job": "j", "map": {"over": 3}}}, "tasks.a.map.over=3: is no list"),
        ({"a": {"job": "j", "map": {"over": "x${payload}"}}}, "tasks.a.map.over='x${payload}': is no list"),
        ({"a": {"job": "j", "payload": {"k": "${payload.x"}}}, "tasks.a.payload.k='${payload.x': has ${ without }"),
        ({"a": {"job": "j", "payload": {1: 2}}}, "tasks.a.payload=1: is a key that is not text"),
        ({"a": {"job": "j", "payload": {"k": {1, 2}}}}, "tasks.a.payload='…': is not JSON (Object of type set"),
        ({"a": {"job": "j", "payload": float("nan")}}, "tasks.a.payload='…': is not JSON (Out of range"),
        ({"a": {"job": "j", "payload": DEEP}}, "tasks.a.payload='…': has lists and dicts nested more than 64"),
        ({"a": {"job": "j", "payload": DEEPEST}}, "tasks.a.payload='…': has lists and dicts nested more than 64"),
        ({"a": {"job": "j", "payload": WITHIN_ITSELF}}, "tasks.a.payload='…': is not JSON (Circular"),
        ({"a": {"job": "j", "map": {"over": [DEEP]}}}, "tasks.a.map.over='…': has lists and dicts nested"),
        (
            {"a": {"job": "j", "when": "payload == 1" + " and payload == 1" * 99}},
            "is a condition that cannot be read; use 1,000",
        ),
        ({"a": {"job": "j", "when": "not " * 30 + "payload"}}, "is a condition that cannot be read; use 20 levels"),
        ("text", "is no mapping of tasks"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(tasks: Any, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        World().scheduler.create_schedule("p", "pipeline:p", "manual", tasks=tasks)
    assert problem in str(refused.value)


def test_a_pipeline_has_tasks_and_tasks_are_of_a_pipeline(line: Line) -> None:
    scheduler = line.world.scheduler
    with pytest.raises(InvalidInput, match="give tasks="):
        scheduler.create_schedule("p", "pipeline:p", "manual")
    with pytest.raises(InvalidInput, match="do not go with job 'ok'"):
        scheduler.create_schedule("p", "ok", "manual", tasks=DIAMOND)
    with pytest.raises(InvalidInput, match="job='pipeline:q': is the job of another pipeline; write pipeline:p"):
        scheduler.create_schedule("p", "pipeline:q", "manual", tasks=DIAMOND)
    with pytest.raises(InvalidInput, match="is the name of a job of the scheduler itself"):
        line.world.jobs.job("pipeline:x")(lambda ctx, payload: None)


def test_a_block_that_fails_declares_nothing() -> None:
    world = World()

    def block(p: Pipeline) -> None:
        with p:
            p.task("note", name="a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block(pipeline("nightly", registry=world.jobs))
    assert world.jobs.declared() == []
