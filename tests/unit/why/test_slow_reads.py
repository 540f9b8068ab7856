"""``why`` with reads of 150 ms each: the same answer as with quick ones, and a true one while ticks and runs go on between its reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from quarterjack import Answer, Registry, Retry, Scheduler
from quarterjack.domain.times import MINUTE
from quarterjack.testing import Harness, Hook

from tests.support.slow_reads import SlowWorld

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.fixture
def harness() -> Harness:
    """A schedule that succeeds, one that fails, and one that was paused for a while; the next tick comes while something is read."""
    jobs = Registry()
    jobs.job("ok")(lambda ctx, payload: None)
    jobs.job("bad", retry=Retry(max_attempts=1))(lambda ctx, payload: 1 / 0)
    made = Harness(jobs, at=NOON)
    for name, job in (("good", "ok"), ("wrong", "bad"), ("paused", "ok")):
        made.scheduler.create_schedule(name, job, "* * * * *")
    made.advance(minutes=4)
    made.scheduler.pause_schedule("paused")
    made.advance(minutes=5, seconds=59, milliseconds=400)
    made.scheduler.resume_schedule("paused")
    return made


def told(answer: Answer) -> tuple[str, list[str]]:
    return str(answer.verdict), [sentence.text for sentence in answer.sentences]


def asked(harness: Harness, hook: Hook, name: str, minute: float) -> Answer:
    scheduler = Scheduler("default", patience=0, services=harness.memory.connect(hook), clock=harness.clock)
    return scheduler.why(name, NOON + timedelta(minutes=minute))


@pytest.mark.parametrize("goes_on", [False, True], ids=["alone", "beside ticks"])
@pytest.mark.parametrize(
    ("name", "minute"), [("good", 3), ("wrong", 3), ("paused", 7), ("good", 2.5), ("good", 9), ("wrong", 9)]
)
def test_the_answer_about_the_past_is_the_same(name: str, minute: float, *, goes_on: bool, harness: Harness) -> None:
    quick, began = told(asked(harness, Hook(), name, minute)), harness.clock()
    slow = told(asked(harness, SlowWorld(harness, goes_on=goes_on), name, minute))
    assert harness.clock() > began
    assert slow == quick


@pytest.mark.parametrize("name", ["good", "wrong", "paused"])
def test_a_fire_that_comes_while_it_is_asked_about_is_never_called_lost(name: str, harness: Harness) -> None:
    """It is due in 0.6 s: the tick comes, the run starts and ends between two reads."""
    before = told(asked(harness, Hook(), name, 10))
    began = harness.clock()
    during = told(asked(harness, SlowWorld(harness, goes_on=True), name, 10))
    assert harness.clock() // MINUTE > began // MINUTE, "the reads are not slow: the fire has not come"
    after = told(asked(harness, Hook(), name, 10))
    assert during[0] in (before[0], after[0]), (before, during, after)
