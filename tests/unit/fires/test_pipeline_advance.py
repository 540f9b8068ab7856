"""The advance of a pipeline step by step: who dies leaves nothing behind, and who is slow starts nothing that others have closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import DAY
from quarterjack.testing import Crash
from quarterjack.testing.process import Hand

from tests.support.scenes.line import DIAMOND, Line
from tests.support.scenes.world import Faults, crash

TWO: dict[str, Any] = {"a": {"job": "ok"}, "b": {"job": "ok"}, "c": {"job": "ok", "after": ["a", "b"]}}


@pytest.fixture
def line() -> Line:
    return Line()


def begun(line: Line, tasks: Any, **words: Any) -> str:
    """A run of the pipeline whose first tasks have been sent."""
    line.publish(tasks, **words)
    run = line.world.scheduler.trigger("p")
    Hand(worker=line.world.worker()).work()
    return run.id


def row_of(line: Line, run_id: str | None) -> RunRow:
    row = line.world.services.ledger.read(parse_run_id(run_id or ""))
    assert row is not None
    return row


def task_row(line: Line, run_id: str, task: str) -> RunRow:
    return row_of(line, line.world.scheduler.pipeline_run(run_id).task(task).run_id)


def one(line: Line, faults: Faults | None = None) -> None:
    """A worker that takes one message, and may die."""
    try:
        Hand(worker=line.world.worker(faults)).work(most=1)
    except Crash:
        return


def meanwhile(line: Line) -> Callable[[], None]:
    def work() -> None:
        line.world.work(line.world.worker(name="other"))

    return work


# Who dies.


def test_a_task_that_was_claimed_and_not_sent_is_sent_when_the_message_of_the_one_before_comes_back(line: Line) -> None:
    run_id = begun(line, DIAMOND)
    one(line, Faults().at("send", before=crash))
    assert (task_row(line, run_id, "b").state, len(line.world.memory.work)) == ("QUEUED", 1)
    line.world.wait(80)
    line.world.work()
    assert sorted(line.ran) == ["a", "b", "c", "d"]


def test_of_several_tasks_those_are_sent_again_that_the_queue_did_not_take(line: Line) -> None:
    begun(line, DIAMOND)
    services = line.world.process(Faults().at("send", throttle=(1,), times=None), rounds=1)
    Hand(worker=replace(line.world.worker(), services=services)).work(most=1)
    assert {str(message.run).rpartition(":")[2] for message in line.world.memory.messages()} == {"a#once", "b#once"}
    line.world.wait(80)
    line.world.work()  # without a tick
    assert sorted(line.ran) == ["a", "b", "c", "d"]


def test_the_timer_sends_tasks_whose_messages_are_gone(line: Line) -> None:
    begun(line, DIAMOND)
    one(line)
    line.world.memory.work.purge()
    line.world.live(180)
    assert sorted(line.ran) == ["a", "b", "c", "d"]


def test_the_timer_finds_ends_that_nobody_marked(line: Line) -> None:
    run_id = begun(line, DIAMOND)
    one(line, Faults().at("mark_ended", before=crash))
    line.world.memory.work.purge()
    line.world.live(240)
    assert (row_of(line, run_id).state, sorted(line.ran)) == ("SUCCEEDED", ["a", "b", "c", "d"])


def test_the_timer_tells_tasks_that_were_not_started_from_those_that_an_owner_skipped(line: Line) -> None:
    """The process that closed them died before their marks."""
    line.broken.add("a")
    run_id = begun(line, {"a": {"job": "ok"}, "b": {"job": "ok"}, "c": {"job": "ok", "after": ["b"]}})
    one(line)
    one(line, Faults().at("mark_items", before=crash))
    line.world.memory.work.purge()
    line.world.live(240)
    assert row_of(line, run_id).state == "DEAD"
    assert "c" not in line.ran
    assert line.world.services.waits.ends(parse_run_id(run_id), [3]) == {3: "N"}


def test_a_task_of_a_cancelled_pipeline_that_nobody_sent_ends(line: Line) -> None:
    run_id = begun(line, DIAMOND)
    faults = Faults().at("claim", before=lambda: line.world.scheduler.cancel_run(run_id)).at("send", before=crash)
    one(line, faults)
    assert task_row(line, run_id, "b").state == "QUEUED"
    line.world.wait(80)
    line.world.work()
    assert (task_row(line, run_id, "b").state, line.ran) == ("CANCELLED", ["a"])


def test_claims_that_were_not_answered_are_made_again(line: Line) -> None:
    begun(line, DIAMOND)
    one(line, Faults().at("claim", throttle=(0, 1), times=4))
    line.world.work()
    assert sorted(line.ran) == ["a", "b", "c", "d"]


def test_no_message_is_sent_for_a_claim_that_is_never_answered(line: Line) -> None:
    """The end of the task before comes back in its place, and claims them then."""
    run_id = begun(line, DIAMOND)
    one(line, Faults().at("claim", throttle=(0, 1), times=None))
    assert {line.world.scheduler.pipeline_run(run_id).task(name).state for name in "bc"} == {"WAITING"}
    assert {str(message.run).rpartition(":")[2] for message in line.world.memory.messages()} == {"a#once"}
    line.world.live(180)
    assert (row_of(line, run_id).state, sorted(line.ran)) == ("SUCCEEDED", ["a", "b", "c", "d"])


# Who is slow.


def test_of_two_ends_at_one_time_one_starts_what_comes_after_both(line: Line) -> None:
    """Each marks its own end before it reads the others': one of the two sees both."""
    begun(line, TWO)
    one(line, Faults().at("mark_ended", before=meanwhile(line)))
    line.world.work()
    assert sorted(line.ran) == ["a", "b", "c"]


@pytest.mark.parametrize("verb", ["mark_ended", "read", "claim", "send"])
def test_two_ends_of_which_one_process_is_slow(line: Line, verb: str) -> None:
    begun(line, TWO)
    one(line, Faults().at(verb, before=meanwhile(line)))
    line.world.work()
    assert sorted(line.ran) == ["a", "b", "c"]


def test_two_ends_in_two_rows_of_marks(line: Line) -> None:
    many = {f"t{number}": {"job": "ok"} for number in range(120)}
    line.publish({**many, "last": {"job": "ok", "after": [*many]}})
    line.world.scheduler.trigger("p")
    line.world.work()
    assert line.ran[-1] == "last"


def test_who_has_not_seen_a_failure_starts_no_task_that_was_closed(line: Line) -> None:
    line.broken.add("b")
    run_id = begun(line, {"a": {"job": "ok"}, "b": {"job": "ok"}, "c": {"job": "ok", "after": ["a"]}})
    one(line, Faults().at("claim", before=meanwhile(line)))
    line.world.live(60)
    assert (row_of(line, run_id).state, line.ran) == ("DEAD", ["a", "b"])
    assert task_row(line, run_id, "c").state == "SKIPPED"


def test_a_task_that_began_before_the_failure_goes_on(line: Line) -> None:
    line.broken.add("b")
    run_id = begun(line, {"a": {"job": "ok"}, "b": {"job": "ok"}, "c": {"job": "ok", "after": ["a"]}})
    one(line)
    line.world.live(60)
    assert (row_of(line, run_id).state, task_row(line, run_id, "c").state) == ("DEAD", "SUCCEEDED")


def test_a_condition_is_judged_once(line: Line) -> None:
    tasks = {**TWO, "c": {"job": "ok", "after": ["a", "b"], "join": "any", "when": 'b.state == "SUCCEEDED"'}}
    run_id = begun(line, tasks)
    one(line, Faults().at("mark_items", before=meanwhile(line)))
    line.world.live(60)
    assert (row_of(line, run_id).state, line.ran) == ("SUCCEEDED", ["a", "b"])


def test_a_task_behind_one_that_never_starts_starts_at_once(line: Line) -> None:
    line.broken.add("a")
    tasks = {"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"]}, "c": {"job": "ok", "after": ["b"], "join": "done"}}
    begun(line, tasks, on_task_failure="continue")
    line.world.work()
    assert line.ran == ["a", "c"]


def test_a_task_behind_one_whose_condition_does_not_hold_starts_at_once(line: Line) -> None:
    tasks = {
        "a": {"job": "ok"},
        "b": {"job": "ok", "after": ["a"], "when": "1 > 2"},
        "c": {"job": "ok", "after": ["b"], "join": "done"},
    }
    run_id = begun(line, tasks)
    line.world.work()
    assert (line.ran, row_of(line, run_id).state) == (["a", "c"], "SUCCEEDED")


def test_a_task_that_is_skipped_is_passed_over_when_it_would_start(line: Line) -> None:
    tasks = {"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"]}, "c": {"job": "ok", "after": ["b"]}}
    run_id = begun(line, tasks)
    line.world.scheduler.skip_task(run_id, "b")
    assert line.world.scheduler.pipeline_run(run_id).task("c").run_id is None
    line.world.work()
    assert line.ran == ["a", "c"]


# What a task gets.


def test_a_task_has_the_priority_of_its_pipeline_or_its_own(line: Line) -> None:
    tasks = {"a": {"job": "ok"}, "b": {"job": "ok", "priority": "low"}}
    run_id = begun(line, tasks, priority="high")
    texts = [task_row(line, run_id, name).overrides or "" for name in ("a", "b")]
    assert ['"high"' in text for text in texts] == [True, False]
    assert ['"low"' in text for text in texts] == [False, True]


def test_the_end_of_a_task_that_was_not_started_is_told_as_such(line: Line) -> None:
    line.broken.add("a")
    run_id = begun(line, {"a": {"job": "ok"}, "b": {"job": "ok"}, "c": {"job": "ok", "after": ["b"]}})
    line.world.work()
    line.world.scheduler.cancel_run(str(task_row(line, run_id, "c").ref))
    assert line.world.services.waits.ends(parse_run_id(run_id), [3]) == {3: "N"}


def test_what_a_retry_takes_over_is_kept_as_long_as_the_retry(line: Line) -> None:
    line.broken.add("b")
    run_id = begun(line, {"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"]}})
    line.world.live(60)
    kept = str(task_row(line, run_id, "a").ref)
    before = _ttl(line, kept)
    line.world.live(DAY // 1_000)
    line.world.scheduler.retry_pipeline(run_id)
    assert _ttl(line, kept) >= before + DAY // 1_000


def _ttl(line: Line, run_id: str) -> int:
    row = line.world.memory.row(parse_run_id(run_id))
    assert row is not None
    return int(row["ttl"])
