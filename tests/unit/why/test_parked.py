"""Why of runs that park: what they wait for, which of their children have not ended, and what came of the wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Answer, Context, Registry, Verdict
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import RunState
from quarterjack.errors import Conflict
from quarterjack.testing import Harness
from quarterjack.why.answer import Cause

MORNING = datetime(2026, 5, 4, 8, tzinfo=UTC)
SLEEPS = "It sleeps since 2026-05-04 08:00:00Z, until 2026-05-04 10:00:00Z."
ASKS = "It waits for signal 'approval' since 2026-05-04 08:00:00Z, until 2026-05-05 08:00:00Z: answer it with"


def jobs() -> Registry:
    registry = Registry()

    @registry.job("note")
    def note(ctx: Context, payload: Any) -> None: ...

    @registry.job("nap")
    def nap(ctx: Context, payload: Any) -> None:
        ctx.sleep(7_200)

    @registry.job("ask")
    def ask(ctx: Context, payload: Any) -> Any:
        return ctx.wait_for("approval", timeout=86_400)

    @registry.job("family")
    def family(ctx: Context, payload: Any) -> Any:
        return ctx.gather([ctx.submit(job, step=f"{n}-{job}") for n, job in enumerate(payload)])

    @registry.job("item")
    def item(ctx: Context, payload: int) -> None:
        ctx.sleep(payload)

    @registry.job("mapper")
    def mapper(ctx: Context, payload: Any) -> Any:
        return len(ctx.map("item", payload, at_a_time=2))

    return registry


def asked(job: str, payload: Any = None, **how: Any) -> tuple[Harness, str]:
    harness = Harness(jobs(), at=MORNING, tenant="acme")
    run = harness.scheduler.submit(job, payload, **how)
    harness.advance(minutes=1)
    return harness, run.id


def texts(answer: Answer) -> list[str]:
    return [one.text for one in answer.sentences]


def test_a_parked_run_says_what_it_waits_for_and_until_when() -> None:
    for job, words in (("nap", SLEEPS), ("ask", ASKS)):
        harness, run_id = asked(job)
        answer = harness.scheduler.why_run(run_id)
        assert (answer.verdict, answer.causes) == (Verdict.PARKED, ()), str(answer)
        assert texts(answer)[0].startswith(words)
        assert texts(answer)[1].startswith("It was due at 2026-05-04 08:00:00Z and started in time")


def test_a_parked_run_names_its_deadline_if_that_is_over_before_the_wait() -> None:
    harness, run_id = asked("ask", deadline=3_600)
    assert "Its deadline is over at 2026-05-04 09:00:00Z" in texts(harness.scheduler.why_run(run_id))[0]


def test_a_run_that_waits_for_children_names_those_that_have_not_ended() -> None:
    harness, run_id = asked("family", ["note", "nap", "ask"])
    answer = harness.scheduler.why_run(run_id)
    assert answer.verdict is Verdict.PARKED
    assert texts(answer)[0].startswith("It waits for 2 of 3 children since 2026-05-04 08:00:00Z")
    assert texts(answer)[1:3] == ["Its child '1-nap' is PARKED.", "Its child '2-ask' is PARKED."]


def test_a_run_that_waits_for_a_map_counts_its_items() -> None:
    harness, run_id = asked("mapper", [0, 7_200, 7_200, 0])
    said = texts(harness.scheduler.why_run(run_id))
    assert said[0].startswith("It waits for map 'item' since 2026-05-04 08:00:00Z")
    assert said[0].endswith("1 of 4 items have ended, 2 are under way.")


def test_a_run_that_follows_another_one_names_it() -> None:
    harness, first = asked("ask", unique="k")
    run = harness.scheduler.submit("ask", unique="k", on_duplicate="after")
    answer = harness.scheduler.why_run(run.id)
    assert (answer.verdict, texts(answer)[0]) == (
        Verdict.PARKED,
        f"It waits for the end of run {first}, since 2026-05-04 08:01:00Z.",
    )


def test_of_many_children_the_first_are_named() -> None:
    harness, run_id = asked("family", ["nap"] * 9)
    said = texts(harness.scheduler.why_run(run_id))
    assert sum(one.startswith("Its child") for one in said) == 5
    assert "4 more of its children have not ended." in said


def test_a_parked_run_that_nobody_has_woken_says_so() -> None:
    """Its waker died after the end of its last child."""
    harness, run_id = asked("family", ["note", "nap"])
    (child,) = (run for run in harness.memory.runs(None) if run.job == "nap")
    row = harness.memory.row(child.ref)
    assert row is not None
    harness.memory.put_row(child.ref, row | {"state": "SUCCEEDED", "ended_at": row["due"], "ttl": 2**31})
    said = texts(harness.scheduler.why_run(run_id))
    assert said[0].startswith("It waits for 0 of 2 children")
    assert "All of them have ended: it goes on within an hour, at the next check of its timer." in said


def test_an_ended_wait_without_a_lease_is_a_wait_for_a_worker() -> None:
    harness, run_id = asked("nap")
    harness.clock.advance(timedelta(hours=3))
    answer = harness.scheduler.why_run(run_id)
    assert (answer.verdict, answer.causes) == (Verdict.WAITING, (Cause.QUEUE,)), str(answer)
    assert "its wait was over at 2026-05-04 10:00:00Z" in texts(answer)[0]


def test_a_woken_run_without_a_lease_has_not_ended_at_a_checkpoint() -> None:
    harness, run_id = asked("ask")
    harness.scheduler.signal(run_id, "approval")
    answer = harness.scheduler.why_run(run_id)
    assert harness.scheduler.get_run(run_id).state is RunState.CONTINUED
    assert (answer.verdict, texts(answer)[0]) == (
        Verdict.WAITING,
        "Its wait of 2026-05-04 08:00:00Z is over, and its next slice has not begun.",
    )


def test_a_run_that_ended_while_it_was_parked_says_so() -> None:
    harness, run_id = asked("ask", deadline=600)
    harness.advance(minutes=20)
    assert texts(harness.scheduler.why_run(run_id))[0].startswith(
        "Its deadline passed while it was parked: it is EXPIRED"
    )
    harness, run_id = asked("ask")
    harness.scheduler.cancel_run(run_id)
    assert "It was parked since 2026-05-04 08:00:00Z." in texts(harness.scheduler.why_run(run_id))
    harness, run_id = asked("ask")
    harness.scheduler.signal(run_id, "approval")
    harness.advance(minutes=1)
    assert not any("parked" in one for one in texts(harness.scheduler.why_run(run_id)))


def test_a_child_that_ended_with_its_parent_names_it() -> None:
    harness, run_id = asked("family", ["ask"])
    harness.scheduler.cancel_run(run_id)
    (child,) = (run for run in harness.memory.runs(None) if run.parent is not None)
    assert str(parse_run_id(str(child.parent))) == run_id
    assert f"its parent, run {run_id}, was cancelled" in str(harness.scheduler.why_run(str(child.ref))) or (
        "cancel_run was called for it" in str(harness.scheduler.why_run(str(child.ref)))
    )


def test_what_cannot_be_done_to_a_parked_run_is_refused_with_what_can() -> None:
    harness, run_id = asked("ask")
    with pytest.raises(
        Conflict, match=r"it waits for signal 'approval' .* cancel_run\(\) ends it; signal\(\) answers it"
    ):
        harness.scheduler.retry_run(run_id)
    with pytest.raises(Conflict, match="it is PARKED, so it cannot be moved; cancel_run"):
        harness.scheduler.reschedule(run_id, delay=60)
    with pytest.raises(Conflict, match="it is PARKED, so it may still happen by itself"):
        harness.scheduler.replay_run(run_id)
