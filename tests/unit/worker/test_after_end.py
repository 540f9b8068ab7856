"""What follows from an end is one list, and it is gone through for every message, whichever way it went."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from quarterjack.worker import after_end
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.pipeline import run_batch
from quarterjack.worker.stages import Outcome, ReceivedMessage

from tests.support.scenes.world import Faults, World, fails


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a further hook was told: action and reason of each outcome."""
    told: list[str] = []

    def hook(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
        told.append(f"{outcome.action} {outcome.why}".strip())

    monkeypatch.setattr(after_end, "HOOKS", (*after_end.HOOKS, hook))
    return told


def test_ends_of_a_batch_and_of_single_messages_meet_the_same_hooks(seen: list[str]) -> None:
    world = World()
    for job in ("note", "note", "bad", "once"):
        world.scheduler.submit(job)
    world.work(together=True)
    assert sorted(seen) == ["settled", "settled", "settled", "settled ValueError"]
    seen.clear()
    world.scheduler.submit("note")
    world.work(together=False)
    assert seen == ["settled"]


def test_messages_that_never_came_to_a_lease_meet_them_too(seen: list[str]) -> None:
    world = World()
    run = world.scheduler.submit("note", delay=30)
    world.wait(30)
    world.scheduler.cancel_run(run.id)
    world.work()
    world.scheduler.submit("note")
    world.work(world.worker(Faults().at("lease", before=fails, times=None)))
    assert seen == ["refused ended", "kept unavailable"]


def test_a_hook_that_fails_stops_neither_the_others_nor_the_report(
    seen: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(after_end, "HOOKS", (broken, *after_end.HOOKS))
    world = World()
    world.scheduler.submit("note")
    with caplog.at_level(logging.ERROR):
        (outcome,) = world.work()
    assert (outcome.action, seen) == ("settled", ["settled"])
    assert "work.hook_failed" in caplog.messages


def test_a_message_is_finished_once_although_its_batch_is_given_up(seen: list[str]) -> None:
    world, done = World(), []
    world.scheduler.submit("note")

    def report(ended: object) -> None:
        done.append(ended)
        raise KeyError("ours")

    worker = replace(world.worker(), report=report)
    received = receive(worker, world.services.work.receive(most=1, wait=0, visibility=60))
    run_batch(worker, received)
    assert (len(done), seen) == (1, ["settled"])
