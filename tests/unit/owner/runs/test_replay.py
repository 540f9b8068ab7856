"""Replays: what ran, again, exactly as it was."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest
from quarterjack import Context, Retry, Run, RunState, Scheduler, Start
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.policies import Overrides, overrides
from quarterjack.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Unavailable
from quarterjack.stores.tables import REVISIONS, RUNS
from quarterjack.testing import Crash

from tests.support.scenes.dead_runs import a_world, healed
from tests.support.scenes.world import OWNER, Faults, at, crash, fails

BIG = {"text": "x" * 70_000}  # in the bucket
MEDIUM = {"text": "x" * 500}  # beside its run's row


class Memo:
    """A world whose job keeps what it is given."""

    def __init__(self) -> None:
        self.world, self.given, self.about = a_world(), list[Any](), list[datetime]()
        self.world.jobs.job("keep")(self._keep)

    def _keep(self, ctx: Context, payload: object) -> None:
        self.given.append(payload)
        self.about.append(ctx.scheduled_at)

    @property
    def scheduler(self) -> Scheduler:
        return self.world.scheduler

    def ran(self) -> list[Any]:
        """What the jobs were given since the last call."""
        self.world.work()
        given, self.given[:] = list(self.given), []
        return given


@pytest.fixture
def memo() -> Memo:
    return Memo()


def a_fired_run(memo: Memo, payload: object = None) -> str:
    """A schedule's run that has succeeded."""
    memo.scheduler.create_schedule("s", "keep", "* * * * *", payload=payload)
    memo.world.live(60)
    (run,) = memo.scheduler.list_runs("s", before=at(60)).items
    return str(run.id)


@pytest.mark.parametrize("payload", [None, {"n": 1}, MEDIUM, BIG])
def test_a_one_off_runs_again_with_its_payload(memo: Memo, payload: object) -> None:
    first = memo.scheduler.submit("keep", payload)
    assert memo.ran() == [payload]
    memo.world.wait(7)
    second = memo.scheduler.replay_run(first.id)
    assert memo.ran() == [payload]
    now = memo.scheduler.get_run(second.id)
    assert (now.state, now.replay_of, now.job, now.schedule) == (RunState.SUCCEEDED, first.id, "keep", None)
    assert now.id != first.id
    assert (now.due, now.payload) == (at(7), payload)


@pytest.mark.parametrize("payload", [None, {"n": 1}, BIG])
def test_a_fire_runs_again_as_it_was_after_its_schedule_changed_and_went(memo: Memo, payload: object) -> None:
    run_id = a_fired_run(memo, payload)
    memo.scheduler.update_schedule("s", job="note", payload={"n": 2}, expression="0 0 * * *")
    memo.scheduler.replay_run(run_id)
    memo.scheduler.delete_schedule("s")
    memo.scheduler.replay_run(run_id)
    memo.scheduler.create_schedule("s", "note", "0 0 1 1 *", payload={"n": 3})
    again = memo.scheduler.replay_run(run_id)
    assert memo.ran() == [payload] * 4
    assert (again.schedule, again.replay_of, again.revision) == (None, run_id, 0)


def test_policies_are_those_of_the_original(memo: Memo) -> None:
    policies: dict[str, Any] = {"delivery": "at_most_once", "start": "exact", "retry": Retry(max_attempts=7)}
    one_off = memo.scheduler.submit("keep", **policies)
    memo.scheduler.create_schedule("s", "keep", "* * * * *", **policies)
    memo.world.live(60)
    memo.scheduler.update_schedule("s", delivery="at_least_once", start="prompt", retry=Retry())
    for run_id in (one_off.id, str(memo.world.run(60).ref)):
        again = memo.scheduler.replay_run(run_id)
        (order,) = [message for message in memo.world.memory.messages() if str(message.run) == again.id]
        (run,) = [run for run in memo.world.memory.runs() if str(run.ref) == again.id]
        assert (order.start, Overrides.parse(run.overrides)) == (Start.EXACT, overrides(**policies))


def test_a_replay_is_about_the_instant_of_its_original(memo: Memo) -> None:
    """A nightly report that is repeated the day after is still that night's."""
    memo.scheduler.create_schedule("s", "keep", "2 14 * * *", timezone="Europe/Paris")
    memo.world.live(180)
    (fire,) = memo.scheduler.list_runs("s", before=at(180)).items
    one_off = memo.scheduler.submit("keep")
    memo.ran()
    of_fire, of_one_off = memo.about
    memo.scheduler.delete_schedule("s")
    memo.world.wait(86_400)
    for run_id, about in ((fire.id, of_fire), (one_off.id, of_one_off)):
        again = memo.scheduler.replay_run(run_id)
        memo.ran()
        assert (memo.about[-1].isoformat(), memo.about[-1].tzinfo) == (about.isoformat(), about.tzinfo)
        memo.world.wait(86_400)
        memo.scheduler.replay_run(again.id)
        memo.ran()
        assert (memo.about[-1].isoformat(), memo.about[-1].tzinfo) == (about.isoformat(), about.tzinfo)
    assert of_fire.isoformat() == "2026-05-04T14:02:00+02:00"


def test_a_replay_is_late_by_its_own_time(memo: Memo) -> None:
    """Its deadline and its retry window count from the replay, or nothing old could ever be repeated."""
    first = memo.scheduler.submit("keep", retry=Retry(within=60))
    memo.ran()
    memo.world.wait(86_400)
    again = memo.scheduler.replay_run(first.id)
    memo.ran()
    now = memo.scheduler.get_run(again.id)
    assert (now.state, now.lateness) == (RunState.SUCCEEDED, timedelta(0))


def test_another_payload(memo: Memo) -> None:
    first = memo.scheduler.submit("keep", {"n": 1})
    fire = a_fired_run(memo, {"n": 1})
    memo.ran()
    for run_id in (first.id, fire):
        for payload in ({"n": 2}, None, BIG):
            memo.scheduler.replay_run(run_id, payload=payload)
            assert memo.ran() == [payload]


def test_a_replay_of_a_replay_names_its_own_original(memo: Memo) -> None:
    first = memo.scheduler.submit("keep", MEDIUM)
    memo.ran()
    second = memo.scheduler.replay_run(first.id)
    memo.ran()
    third = memo.scheduler.replay_run(second.id)
    assert memo.ran() == [MEDIUM]
    assert memo.scheduler.get_run(third.id).replay_of == second.id


@pytest.mark.parametrize("job", ["bad", "hopeless"])
def test_whatever_has_ended_can_be_replayed(job: str) -> None:
    world = a_world()
    dead = world.scheduler.submit(job, {"n": 1})
    cancelled = world.scheduler.submit(job, {"n": 2}, delay=60)
    world.scheduler.cancel_run(cancelled.id)
    world.live(120)
    for run in (dead, cancelled):
        again = world.scheduler.replay_run(run.id)
        world.work(world.worker(jobs=healed(world)))
        assert world.scheduler.get_run(again.id).state is RunState.SUCCEEDED


def test_a_job_that_only_workers_know_can_be_replayed(memo: Memo) -> None:
    first = memo.scheduler.submit("keep")
    memo.ran()
    memo.world.jobs = healed(memo.world)
    memo.world.owner().replay_run(first.id)
    assert [run.job for run in memo.world.memory.runs() if run.replay_of] == ["keep"]


# Twice.


def test_without_a_key_each_call_is_a_run(memo: Memo) -> None:
    first = memo.scheduler.submit("keep")
    memo.ran()
    assert memo.scheduler.replay_run(first.id).id != memo.scheduler.replay_run(first.id).id


def test_with_a_key_there_is_one_replay(memo: Memo) -> None:
    first = memo.scheduler.submit("keep", MEDIUM)
    memo.ran()
    ids = set()
    for _ in range(3):
        ids.add(memo.scheduler.replay_run(first.id, idempotency_key="k").id)
        memo.world.wait(1)
    assert ids == {"acme/~k#once"}
    assert memo.ran() == [MEDIUM]


def test_a_key_of_another_run_is_refused(memo: Memo) -> None:
    first, other = memo.scheduler.submit("keep"), memo.scheduler.submit("keep")
    memo.ran()
    memo.scheduler.replay_run(first.id, idempotency_key="k")
    with pytest.raises(AlreadyExists, match=r"is not a replay of .*; use another key"):
        memo.scheduler.replay_run(other.id, idempotency_key="k")
    with pytest.raises(AlreadyExists, match="exists with another payload"):
        memo.scheduler.replay_run(first.id, idempotency_key="k", payload=1)


@pytest.mark.parametrize("verb", ["put", "submit", "send", "remove"])
def test_a_crash_in_the_middle_leaves_one_replay(memo: Memo, verb: str) -> None:
    first = memo.scheduler.submit("keep", MEDIUM)
    memo.ran()
    for rule in ({"before": crash}, {"after": crash}):
        key = uuid.uuid4().hex
        with pytest.raises(Crash):
            memo.world.owner(Faults().at(verb, **rule)).replay_run(first.id, idempotency_key=key)
        memo.scheduler.replay_run(first.id, idempotency_key=key)
        memo.world.live(120)
        assert memo.ran() == [MEDIUM]


# Refused.


def test_what_has_not_ended_is_refused(memo: Memo) -> None:
    waiting = memo.scheduler.submit("keep", delay=60)
    with pytest.raises(Conflict, match=r"it is QUEUED.*replay it once it has ended, or cancel it first"):
        memo.scheduler.replay_run(waiting.id)
    retrying = memo.scheduler.submit("bad")
    memo.world.work()
    with pytest.raises(Conflict, match="it is RETRYING"):
        memo.scheduler.replay_run(retrying.id)


@pytest.mark.parametrize("run_id", ["acme/~nobody#once", "acme2/~k#once", "other/s#000000000000001"])
def test_what_is_not_there_or_not_ours_is_not_found(memo: Memo, run_id: str) -> None:
    memo.world.scheduler.submit("keep", idempotency_key="k")
    with pytest.raises(NotFound, match="tenant 'acme' has no such run"):
        memo.scheduler.replay_run(run_id)


@pytest.mark.parametrize("run_id", ["", "acme", "acme/~k", "acme/~k#", "acme/~k#once#x", None, 7])
def test_what_is_no_run_id_is_refused(memo: Memo, run_id: Any) -> None:
    with pytest.raises(InvalidInput, match=r"run_id=.*is not the id of a run"):
        memo.scheduler.replay_run(run_id)


def test_bad_arguments_are_refused_and_nothing_is_written(memo: Memo) -> None:
    first = memo.scheduler.submit("keep")
    memo.ran()
    with pytest.raises(InvalidInput, match=r"payload=.*is not JSON"):
        memo.scheduler.replay_run(first.id, payload={1, 2})
    with pytest.raises(InvalidInput, match="idempotency_key='a b'"):
        memo.scheduler.replay_run(first.id, idempotency_key="a b")
    assert len(memo.world.memory.runs()) == 1
    assert memo.world.memory.entries() == []


def test_a_payload_that_has_left_the_ledger_must_be_given(memo: Memo) -> None:
    first = memo.scheduler.submit("keep", MEDIUM)
    memo.ran()
    row = memo.world.memory.row(parse_run_id(first.id)) or {}
    memo.world.memory._tables[RUNS].delete(row["owner"], f"#{row['key']}#payload")
    with pytest.raises(NotFound, match="its payload has left the ledger; pass payload="):
        memo.scheduler.replay_run(first.id)
    memo.scheduler.replay_run(first.id, payload=MEDIUM)
    assert memo.ran() == [MEDIUM]


def test_a_revision_that_cannot_be_read_is_said_so(memo: Memo) -> None:
    run_id = a_fired_run(memo)
    throttled = memo.world.owner(Faults().at("revisions", before=fails, times=None))
    with pytest.raises(Unavailable, match="revision 1 of 'acme/s' could not be read; try again"):
        throttled.replay_run(run_id)
    memo.world.memory.put_revision(OWNER, 1, ValueError("a later release"))
    with pytest.raises(Exception, match=r"revision acme/s#1 cannot be read: .*a later release"):
        memo.scheduler.replay_run(run_id)
    memo.world.memory._tables[REVISIONS].delete(OWNER, 1)
    with pytest.raises(NotFound, match="revision 1 of 'acme/s' is missing; run the auditor"):
        memo.scheduler.replay_run(run_id)


def test_a_replay_in_the_ledger_is_told_by_get_run(memo: Memo) -> None:
    first = memo.scheduler.submit("keep")
    memo.ran()
    again: Run = memo.scheduler.replay_run(first.id)
    assert memo.scheduler.get_run(again.id).replay_of == first.id
    assert memo.scheduler.get_run(first.id).replay_of is None
