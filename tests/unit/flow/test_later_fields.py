"""Fields of a message that this release does not know, such as those of ADR 0029, go along whenever it sends the message again."""

from __future__ import annotations

import json
from typing import Any

from quarterjack import Registry
from quarterjack.domain.schedule import Freeze
from quarterjack.domain.times import MINUTE
from quarterjack.testing.process import bury_all

from tests.support.builders import an_audit_entry
from tests.support.scenes.world import NOON, World

LATER: dict[str, Any] = {"priority": "high", "version": "2026.11", "pipeline": {"run": "p/1", "task": "t"}, "epoch": 3}


def submitted(job: str = "note", **options: Any) -> World:
    """A run whose only message comes from a later release."""
    world = World()
    world.scheduler.submit(job, **options)
    (stored,) = world.memory.work
    stored.body = json.dumps(json.loads(stored.body) | LATER)
    return world


def sent_again(world: World) -> dict[str, Any]:
    """What the message that waits says."""
    (stored,) = world.memory.work
    body: dict[str, Any] = json.loads(stored.body)
    return body


def test_a_retry_takes_them_along() -> None:
    world = submitted("bad")
    world.work()
    again = sent_again(world)
    assert again.items() >= LATER.items()
    assert again["fence"] == 1


def test_a_message_that_is_far_too_early_takes_them_along() -> None:
    world = submitted(delay=100)
    (stored,) = world.memory.work
    stored.body = json.dumps(json.loads(stored.body) | {"not_before": NOON + 300_000, "due": NOON + 300_000})
    world.wait(101)
    (outcome,) = world.work()
    assert outcome.action == "postponed"
    assert sent_again(world).items() >= LATER.items()


def test_a_message_of_an_unknown_job_takes_them_along() -> None:
    world = submitted()
    world.work(world.worker(jobs=Registry()))
    again = sent_again(world)
    assert again.items() >= LATER.items()
    assert again["unknown_since"] == NOON


def test_a_freeze_takes_them_along() -> None:
    world = submitted()
    world.services.schedules.freeze(Freeze(tenant="acme", until=NOON + MINUTE, created_at=NOON), an_audit_entry("acme"))
    (outcome,) = world.work()
    assert outcome.action == "postponed"
    assert sent_again(world).items() >= LATER.items()


def test_the_undertaker_sends_them_back_with_the_message() -> None:
    world = submitted()
    (stored,) = world.memory.work
    (delivery,) = world.memory.work.take(1)
    world.services.work.delete(delivery.receipt)
    world.memory.dead.put(stored.body)
    assert bury_all(world.services, world.clock) == 1
    again = sent_again(world)
    assert again.items() >= LATER.items()
    assert again["returned"] == 1
