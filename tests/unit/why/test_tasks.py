"""Why of pipelines: what their runs wait for, and of each task why it waits, was skipped or was not started."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack import Answer, Registry, Retry, Verdict
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.testing import Harness
from quarterjack.why.answer import Cause

MORNING = datetime(2026, 5, 4, 8, tzinfo=UTC)
AFTER: dict[str, Any] = {
    "a": {"job": "ok"},
    "asks": {"job": "asks"},
    "last": {"job": "ok", "after": ["a", "asks"]},
    "behind": {"job": "ok", "after": ["last"]},
}


def jobs() -> Registry:
    registry = Registry()
    registry.job("ok")(lambda ctx, payload: 7)
    registry.job("asks")(lambda ctx, payload: ctx.wait_for("answer"))

    def breaks(ctx: Any, payload: Any) -> None:
        raise ValueError("no rows")

    registry.job("breaks", retry=Retry(max_attempts=1))(breaks)
    registry.job("again", retry=Retry(max_attempts=5, base=20.0, jitter=0.0))(breaks)
    return registry


def going(tasks: dict[str, Any], **options: Any) -> tuple[Harness, str]:
    """A run of a pipeline, half a minute after it was triggered."""
    harness = Harness(jobs(), at=MORNING, tenant="acme")
    harness.scheduler.upsert_schedule("p", "pipeline:p", "manual", tasks=tasks, **options)
    run = harness.scheduler.trigger("p")
    harness.advance(seconds=30)
    return harness, run.id


def texts(answer: Answer) -> list[str]:
    return [one.text for one in answer.sentences]


def test_a_pipelines_run_names_the_tasks_that_it_waits_for() -> None:
    harness, run_id = going(AFTER)
    answer = harness.scheduler.why_run(run_id)
    assert (answer.verdict, answer.causes) == (Verdict.PARKED, ())
    assert texts(answer)[0].startswith("It waits for 3 of 4 tasks since 2026-05-04 08:00:00Z, until 2027-05-05")
    assert texts(answer)[1:4] == [
        "Task 'asks' is PARKED (waits for signal 'answer' until 2027-05-05T08:00:00+00:00).",
        "Task 'last' waits for asks, and has no run yet.",
        "Task 'behind' waits for last, and has no run yet.",
    ]
    assert "asks#once" in answer.sentences[1].source


def test_of_many_tasks_some_are_named() -> None:
    harness, run_id = going({f"t{number}": {"job": "asks"} for number in range(8)})
    assert texts(harness.scheduler.why_run(run_id))[6] == "3 more of its tasks have not ended."


def test_a_task_waits_for_another_in_its_second_attempt() -> None:
    harness, run_id = going({"stock.extract": {"job": "again"}, "report": {"job": "ok", "after": ["stock.extract"]}})
    answer = harness.scheduler.why_run(run_id, task="report")
    assert (answer.verdict, answer.run_id) == (Verdict.WAITING, None)
    assert texts(answer) == ["Task 'report' waits for stock.extract, which is RETRYING, after attempt 2."]


def test_a_task_waits_for_one_without_a_run() -> None:
    harness, run_id = going(AFTER)
    assert texts(harness.scheduler.why_run(run_id, task="behind")) == [
        "Task 'behind' waits for last, which waits for asks."
    ]


def test_a_task_of_a_run_that_has_not_begun() -> None:
    harness = Harness(jobs(), at=MORNING, tenant="acme")
    harness.scheduler.upsert_schedule("p", "pipeline:p", "manual", tasks=AFTER)
    run = harness.scheduler.trigger("p")
    answer = harness.scheduler.why_run(run.id, task="a")
    assert answer.verdict is Verdict.WAITING
    assert texts(answer) == ["Task 'a' waits: the run of its pipeline is QUEUED, and has not begun."]


def test_a_task_with_a_run_is_explained_as_that() -> None:
    harness, run_id = going(AFTER)
    answer = harness.scheduler.why_run(run_id, task="a")
    assert answer.verdict is Verdict.RAN
    assert texts(answer)[-1] == f"It is task 'a' of pipeline 'p', of run {run_id}."
    (of_task,) = (task.run_id for task in harness.scheduler.pipeline_run(run_id).tasks if task.name == "a")
    assert answer.run_id == of_task


def test_a_condition_that_did_not_hold() -> None:
    harness, run_id = going({"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"], "when": "a.result > 9"}})
    answer = harness.scheduler.why_run(run_id, task="b")
    assert answer.verdict is Verdict.SKIPPED
    assert texts(answer)[0] == "It was skipped at 2026-05-04 08:00:00Z: its condition did not hold: a.result > 9."


def test_a_payload_that_could_not_be_made() -> None:
    harness, run_id = going({"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"], "payload": "${a.result.rows}"}})
    answer = harness.scheduler.why_run(run_id, task="b")
    assert (answer.verdict, answer.causes) == (Verdict.DEAD, (Cause.FAILURE,))
    assert texts(answer)[0] == (
        "It failed before its start at 2026-05-04 08:00:00Z, since its payload or its condition could not be made: "
        "a.result.rows has no value: there is no 'rows' in 7."
    )


def test_a_task_of_a_halted_pipeline() -> None:
    tasks = {"bad": {"job": "breaks"}, "b": {"job": "ok", "after": ["asks"]}, "asks": {"job": "asks"}}
    harness, run_id = going(tasks)
    halt = "No task starts any more, because task 'bad' is DEAD, ValueError: no rows; on_task_failure is halt."
    assert halt in texts(harness.scheduler.why_run(run_id))
    answer = harness.scheduler.why_run(run_id, task="b")
    assert (answer.verdict, answer.causes) == (Verdict.SKIPPED, (Cause.FAILURE,))
    assert texts(answer)[0] == halt
    waiting = harness.scheduler.pipeline_run(run_id).task("asks").run_id
    harness.scheduler.signal(str(waiting), "answer")
    harness.advance(minutes=1)
    answer = harness.scheduler.why_run(run_id, task="b")
    assert answer.verdict is Verdict.SKIPPED
    assert texts(answer)[0].startswith("It was not started, since 2026-05-04 08:0")
    assert texts(answer)[1] == halt


def test_a_task_whose_join_cannot_hold() -> None:
    tasks = {"bad": {"job": "breaks"}, "b": {"job": "ok", "after": ["bad"]}, "c": {"job": "ok", "after": ["b"]}}
    harness, run_id = going(tasks, on_task_failure="continue")
    assert texts(harness.scheduler.why_run(run_id, task="b")) == [
        "Task 'b' never starts: all tasks before it have to succeed, and task 'bad' is DEAD, ValueError: no rows."
    ]
    assert texts(harness.scheduler.why_run(run_id, task="c")) == [
        "Task 'c' never starts: all tasks before it have to succeed, and task 'b' never started."
    ]


def test_a_task_of_a_cancelled_run() -> None:
    harness, run_id = going(AFTER)
    harness.scheduler.cancel_run(run_id)
    answer = harness.scheduler.why_run(run_id, task="behind")
    assert answer.verdict is Verdict.CANCELLED
    assert "never starts: the run of its pipeline is CANCELLED since 2026-05-04 08:00:30Z" in texts(answer)[0]


def test_a_task_that_its_owner_skipped() -> None:
    harness, run_id = going(AFTER)
    harness.scheduler.skip_task(run_id, "last")
    assert "skipped by its owner" in texts(harness.scheduler.why_run(run_id, task="last"))[0]
    harness.scheduler.cancel_run(run_id)
    again = harness.scheduler.retry_pipeline(run_id, skip=["asks"])
    harness.advance(minutes=1)
    answer = harness.scheduler.why_run(again.id, task="asks")
    assert answer.causes == (Cause.OWNER,)


def test_what_is_no_task_is_refused() -> None:
    harness, run_id = going(AFTER)
    with pytest.raises(NotFound, match="task='nix': pipeline 'p' has no such task"):
        harness.scheduler.why_run(run_id, task="nix")
    other = harness.scheduler.submit("ok")
    with pytest.raises(InvalidInput, match="of no pipeline"):
        harness.scheduler.why_run(other.id, task="a")
