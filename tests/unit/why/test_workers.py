"""What the records of the workers say about a run that waits, or whose worker is silent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Cause, Registry, Verdict
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.times import SECOND
from quarterjack.errors import UnknownJobWarning
from quarterjack.state.worker_record import (
    KEY,
    GivenBack,
    JobNames,
    WorkerIdentity,
    WorkerKind,
    WorkerRow,
    owner_of,
    record_body,
)
from quarterjack.stores.records import Record
from quarterjack.testing import Harness

from tests.support.scenes.world import Faults

MORNING = datetime(2026, 5, 4, 8, tzinfo=UTC)


@pytest.fixture
def harness() -> Harness:
    """A run has been due for eight minutes, and nobody has taken it."""
    jobs = Registry()
    jobs.job("ok")(lambda ctx, payload: None)
    made = Harness(jobs, at=MORNING, tenant="acme")
    made.scheduler.create_schedule("s", "ok", "*/10 * * * *")
    made.advance(minutes=8)
    made.clock.advance(timedelta(minutes=10))
    return made


def keep(harness: Harness, name: str, *, silent: int = 0, **given: Any) -> None:
    """Write the record of a worker, last seen so many seconds ago."""
    row = {"at_hand": given.pop("at_hand", 0), "unknown": given.pop("unknown", GivenBack())}
    identity: dict[str, Any] = {
        "kind": WorkerKind.PROCESS,
        "host": "h1",
        "version": "1",
        "queue": "default",
        "concurrency": 4,
        "jobs": JobNames.of(["ok"]),
        "started_at": 0,
    }
    who = WorkerIdentity(name=name, **(identity | given))
    seen = WorkerRow(identity=who, seen_at=harness.clock() - silent * SECOND, **row)
    record = Record(owner=owner_of(name), key=f"{KEY}{name}", version=1, body=record_body(seen))
    assert harness.memory.connect().records.write(record)


def why(harness: Harness) -> tuple[tuple[Cause, ...], str]:
    answer = harness.scheduler.why("s", MORNING + timedelta(minutes=10))
    assert answer.verdict is Verdict.WAITING
    return tuple(answer.causes), str(answer)


def test_without_records_nothing_is_claimed(harness: Harness) -> None:
    causes, text = why(harness)
    assert causes == (Cause.QUEUE,)
    assert "No worker of queue 'default' has a record" in text
    assert "is not recorded" in text


def test_nobody_is_there(harness: Harness) -> None:
    keep(harness, "w1", silent=100)
    keep(harness, "w2", queue="other")
    causes, text = why(harness)
    assert causes == (Cause.QUEUE, Cause.NO_WORKER)
    assert "No worker of queue 'default' has been heard of since 2026-05-04 08:16:20Z: the last one was w1." in text


def test_a_silent_lambda_environment_may_only_be_idle(harness: Harness) -> None:
    keep(harness, "env", silent=100, kind=WorkerKind.FUNCTION, concurrency=None)
    causes, text = why(harness)
    assert causes == (Cause.QUEUE,)
    assert "1 worker of queue 'default' had 0 runs at hand" in text


def test_nobody_knows_the_job(harness: Harness) -> None:
    keep(harness, "w1", jobs=JobNames.of(["other"]))
    causes, text = why(harness)
    assert causes == (Cause.QUEUE, Cause.UNKNOWN_JOB)
    assert "Of 1 worker of queue 'default' none knows job 'ok'" in text


def test_a_worker_of_another_application_on_the_same_queue(harness: Harness) -> None:
    keep(harness, "shop")
    keep(harness, "blog", jobs=JobNames.of(["post"]))
    keep(harness, "mail", jobs=JobNames.of(["send"]), queue="mail")
    causes, text = why(harness)
    assert causes == (Cause.QUEUE, Cause.SHARED_QUEUE)
    assert (
        "1 of 2 workers of queue 'default' do not know job 'ok' (blog): each time one of them gets the run, it waits 30 s"
        in text
    )
    assert 'Queue("shop")' in text
    assert "QUARTERJACK_PREFIX" in text


def started_late(harness: Harness, *, sent_after: int) -> str:
    """A run that was ready, and whose first message led to nothing; it started by one that was sent so many ms after its time."""
    run = harness.scheduler.submit("ok")
    ref = parse_run_id(run.id)
    row = harness.memory.row(ref)
    assert row is not None
    sent = harness.clock() + sent_after
    began = {"state": "SUCCEEDED", "fence": 1, "attempt": 1, "worker": "shop", "published_at": sent, "max_attempts": 3}
    began |= {"leased_at": sent + 200, "started_at": sent + 200, "ended_at": sent + 300}
    harness.memory.put_row(ref, row | began)
    harness.clock.advance(timedelta(minutes=2))
    return run.id


def test_a_run_that_another_application_gave_back_before_it_started(harness: Harness) -> None:
    run = started_late(harness, sent_after=60 * SECOND)
    keep(harness, "shop")
    known = GivenBack(count=7, names=("ok",), last_at=harness.clock() - 90 * SECOND)
    keep(harness, "blog", jobs=JobNames.of(["post"]), unknown=known)
    answer = harness.scheduler.why_run(run)
    assert (answer.verdict, tuple(answer.causes)) == (Verdict.RAN_LATE, (Cause.QUEUE, Cause.SHARED_QUEUE))
    assert (
        "1 worker of queue 'default' (blog) got messages of job 'ok', which they do not know, and gave them back"
        in str(answer)
    )
    assert "is not recorded" not in str(answer)


@pytest.mark.parametrize(
    "record",
    [
        {"unknown": GivenBack(count=7, names=("other",), last_at=2_000_000_000_000)},
        {"unknown": GivenBack(count=7, names=("ok",), last_at=1)},
        {"unknown": GivenBack(count=7, names=("ok",), last_at=2_000_000_000_000), "queue": "mail"},
    ],
    ids=["other job", "before it was ready", "other queue"],
)
def test_a_record_that_says_nothing_of_the_run_is_no_cause(harness: Harness, record: dict[str, Any]) -> None:
    run = started_late(harness, sent_after=60 * SECOND)
    keep(harness, "blog", jobs=JobNames.of(["post"]), **record)
    answer = harness.scheduler.why_run(run)
    assert tuple(answer.causes) == (Cause.QUEUE,)
    assert "Why no earlier message led to a start is not recorded" in str(answer)


def test_the_workers_are_not_read_for_a_run_that_lay_in_its_queue(harness: Harness) -> None:
    run, faults = started_late(harness, sent_after=0), Faults()
    asker = type(harness.scheduler)("acme", services=harness.memory.connect(faults), clock=harness.clock)
    asker.why_run(run)
    assert "records" not in faults.verbs()


def test_all_slots_are_taken(harness: Harness) -> None:
    keep(harness, "w1", at_hand=4)
    keep(harness, "w2", at_hand=2, concurrency=2)
    causes, text = why(harness)
    assert causes == (Cause.QUEUE, Cause.BUSY)
    assert "All 6 slots of 2 workers of queue 'default' were taken" in text


def test_there_is_room(harness: Harness) -> None:
    keep(harness, "w1", at_hand=1)
    causes, text = why(harness)
    assert causes == (Cause.QUEUE,)
    assert "1 worker of queue 'default' had 1 of 4 slots taken." in text


def test_the_worker_of_a_run_that_is_silent(harness: Harness) -> None:
    run = harness.scheduler.submit("ok")
    ref = parse_run_id(run.id)
    row = harness.memory.row(ref)
    assert row is not None
    held = {"state": "RUNNING", "fence": 1, "attempt": 1, "worker": "w9", "lease_until": harness.clock() - 20 * SECOND}
    held |= {"leased_at": harness.clock() - 80 * SECOND, "started_at": harness.clock() - 80 * SECOND}
    harness.memory.put_row(ref, row | held | {"lease_token": "t", "max_attempts": 3})
    keep(harness, "w9", silent=75)
    answer = harness.scheduler.why_run(run.id)
    assert (answer.verdict, tuple(answer.causes)) == (Verdict.VANISHED, (Cause.VANISHED,))
    assert "Worker w9 is a process on h1; its record was last written at" in str(answer)


# What the jobs say that workers published.


def test_a_run_whose_job_no_worker_has_ever_known(harness: Harness) -> None:
    owner = harness.scheduler.strictly(strict=False)
    with pytest.warns(UnknownJobWarning):
        run = owner.submit("okk")
    with pytest.warns(UnknownJobWarning):
        later = owner.submit("okk", delay=3_600)
    assert str(owner.why_run(run.id)).count("No worker has ever known job 'okk'") == 1, "at once"
    harness.clock.advance(timedelta(minutes=2))
    for one, verdict in ((run, Verdict.WAITING), (later, Verdict.UPCOMING)):
        answer = owner.why_run(one.id)
        assert answer.verdict is verdict
        assert Cause.UNKNOWN_JOB in answer.causes
        assert str(answer).count("No worker has ever known job 'okk'") == 1
        assert "Did you mean 'ok'?" in str(answer)
    keep(harness, "w1", jobs=JobNames.of(["other"]))
    assert str(owner.why_run(run.id)).count("knows job") == 0, "it is said once"


def test_the_jobs_are_not_read_for_a_run_that_has_ended(harness: Harness) -> None:
    harness.advance(minutes=10)
    faults = Faults()
    asker = type(harness.scheduler)("acme", services=harness.memory.connect(faults), clock=harness.clock)
    (run, *_) = harness.scheduler.list_runs("s").items
    asker.why_run(run.id)
    assert "records" not in faults.verbs()
