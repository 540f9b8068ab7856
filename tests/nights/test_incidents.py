"""Incidents that no alarm is named for: an operator follows their pages, and every run that waited starts, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from quarterjack import RunState
from quarterjack.domain.times import MINUTE
from quarterjack.errors import Misconfigured
from quarterjack.testing import Detail, Hook

from tests.support.nights.command_line import NightShell
from tests.support.nights.night import Night
from tests.support.nights.operator import Act, Operator

ROLES = ("ticker", "worker", "worker-reports", "worker-gpu", "undertaker", "auditor", "owner")
_STARTED = ("worker", "worker-reports", "worker-gpu")


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch) -> Night:
    """An hour in which nothing is wrong."""
    night = Night(monkeypatch)
    for name, job in (("a", "note"), ("b", "note"), ("r", "report"), ("g", "train")):
        night.schedule(name, job)
    night.live(10)
    return night


def one_offs(night: Night, number: int, delay: float = 0) -> list[str]:
    return [night.scheduler.submit("note", {}, delay=delay).id for _ in range(number)]


def follow(night: Night, page: str, *, acts: Mapping[str, Act] | None = None, **knows: str) -> Operator:
    """What stands on the page, typed; its numbers are read by nobody here."""
    return Operator(night, acts=acts or {}, knows=knows).follow(page)


def ended_once(night: Night, runs: Sequence[str]) -> None:
    rows = {str(run.ref): run for run in night.memory.runs()}
    assert Counter((rows[run].state, rows[run].attempt, rows[run].fence) for run in runs) == {
        (RunState.SUCCEEDED, 1, 1): len(runs)
    }


def test_what_was_purged_runs_once(night: Night) -> None:
    night.asleep |= set(_STARTED)  # so that there is a backlog
    runs = [*one_offs(night, 20), *one_offs(night, 5, delay=150)]
    night.live(2)
    assert sum(queue.purge() for queue in night.memory.stripes.values()) > 25
    night.asleep.clear()
    night.live(5)
    rows = {str(run.ref): run.state for run in night.memory.runs()}
    assert {rows[run] for run in runs} == {RunState.QUEUED}, "no alarm, no run"
    read = follow(night, "purged-queue", QUEUE="default", JOB="note").read
    assert "would be sent to queue default" in read
    night.live(3)
    ended_once(night, runs)
    fires = [run for run in night.memory.runs() if run.due <= night.clock() - 2 * MINUTE]
    assert {run.state for run in fires} == {RunState.SUCCEEDED}
    assert {run.attempt for run in fires} == {1}


class NoKey(Hook):
    """The key behind tables and queues is disabled."""

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        raise Misconfigured(f"{operation} on {detail.place}: KMSInvalidStateException; enable the key")


def test_after_the_key_came_back_everything_starts(night: Night) -> None:
    runs = one_offs(night, 5, delay=200)
    night.hooks = {role: NoKey() for role in ROLES}
    night.live(10)
    before = {str(run.ref): run.state for run in night.memory.runs()}
    assert {before[run] for run in runs} == {RunState.QUEUED}

    follow(night, "disabled-key", acts={"aws kms enable-key": night.hooks.clear})
    night.live(5)
    ended_once(night, runs)
    late = [
        run for run in night.memory.runs() if run.state is not RunState.SKIPPED and run.due < night.clock() - MINUTE
    ]
    assert {run.state for run in late} == {RunState.SUCCEEDED}


def test_batches_that_broken_functions_hid_do_not_wait_for_their_visibility(night: Night) -> None:
    def hides(queue: str | None) -> int:
        """A function without its modules: Lambda has taken the batch, and no code of ours runs."""
        return len(night.memory.queues[queue].take(10, 900))

    night.instead = dict.fromkeys(_STARTED, hides)
    runs = one_offs(night, 15)
    night.live(2)
    assert night.memory.queues[None].load().at_hand >= 15, "hidden for the visibility of the queue"
    redeployed: Callable[[], object] = night.instead.clear
    follow(night, "bad-deployment", acts={"cdk deploy": redeployed})
    night.live(1)
    ended_once(night, runs)
    night.live(20)  # the hidden ones come back, and find their runs ended
    ended_once(night, runs)
    assert {run.attempt for run in night.memory.runs() if run.state is RunState.SUCCEEDED} == {1}


def test_another_region_goes_on_from_a_dump(night: Night, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dump = tmp_path / "installation.jsonl.gz"
    assert NightShell(night).say("move", "dump", str(dump), "--all-tenants", "--no-history").code == 0
    night.live(5)
    start = night.clock.now() - timedelta(minutes=3)
    lost = {str(run.ref): run for run in night.memory.runs() if run.due <= night.clock()}
    there = Night(monkeypatch, at=night.clock.now())
    barred: Callable[[], object] = lambda: night.asleep.update(ROLES)  # noqa: E731
    knows = {"DUMP": str(dump), "START": f"{start:%FT%TZ}", "TENANT": "acme"}
    read = follow(there, "lost-region", acts={"aws iam put-role-policy": barred}, **knows).read
    assert night.asleep == set(ROLES)
    assert "created: " in read
    assert {one.name for one in there.scheduler.list_schedules().items} == set("abgr")
    there.live(5)
    fires = {str(run.ref): run for run in there.memory.runs() if run.due <= there.clock() - MINUTE}
    assert min(run.due for run in fires.values()) > start.timestamp() * 1_000, "what was before is the old region's"
    assert {(run.state, run.attempt) for run in fires.values()} == {(RunState.SUCCEEDED, 1)}
    ended = {ref for ref, run in lost.items() if run.state is RunState.SUCCEEDED}
    again = ended & fires.keys()
    assert len(again) == 4 * 2, "of four schedules those after START and before the loss"
    assert {ref.partition("#")[0] for ref in fires.keys() - ended} == {f"acme/{name}" for name in "abrg"}
