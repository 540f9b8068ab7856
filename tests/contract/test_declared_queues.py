"""Declared queues: every message goes to the queue that it names, and a queue that is not there stops no other."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from quarterjack.domain.message import decode
from quarterjack.domain.queue import Queue
from quarterjack.domain.times import MINUTE
from quarterjack.errors import Misconfigured
from quarterjack.local.installation import create_queues
from quarterjack.ports.queues import OutgoingMessage
from quarterjack.ports.services import Services

from tests.support.builders import NOON, a_message, a_run
from tests.support.engines import Engine

DECLARED = [Queue(name="reports", memory=1024), Queue(name="mail-2")]


def declare(engine: Engine) -> None:
    """Create them, as a deployment would."""
    for queue in DECLARED:
        engine.memory.add_queue(queue.name)
    if engine.settings is not None:
        create_queues(engine.clients["sqs"], engine.settings, DECLARED)


def remove(engine: Engine, queue: str) -> None:
    """Delete one, as a deployment does that no longer declares it."""
    engine.memory.remove_queue(queue)
    if engine.settings is not None:
        sqs = engine.clients["sqs"]
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=engine.settings.queue(f"work-{queue}"))["QueueUrl"])


def worker_of(engine: Engine, queue: str) -> Services:
    """The services of a worker that serves this queue."""
    return engine.memory.connect(queue=queue) if engine.settings is None else engine.again(work_queue=queue)


def orders(*queues: str | None) -> list[OutgoingMessage]:
    """One a minute, each naming its queue."""
    return [
        OutgoingMessage(replace(a_message(a_run(NOON + i * MINUTE)), queue=queue), delay=0)
        for i, queue in enumerate(queues)
    ]


def received(services: Services) -> list[int]:
    """Which of the orders are there: minutes past noon."""
    found: list[int] = []
    while deliveries := services.work.receive(most=10, wait=1 if not found else 0, visibility=30):
        found += [(decode(delivery.body).not_before - NOON) // MINUTE for delivery in deliveries]
        services.work.erase([delivery.receipt for delivery in deliveries])
    return sorted(found)


def test_each_message_goes_to_the_queue_that_it_names(engine: Engine) -> None:
    declare(engine)
    mixed = orders(*["reports", None, "mail-2"] * 9, None)
    assert list(engine.services.work.send(mixed)) == [True] * 28
    assert received(worker_of(engine, "reports")) == list(range(0, 27, 3))
    assert received(worker_of(engine, "mail-2")) == list(range(2, 27, 3))
    assert received(engine.services) == [*range(1, 27, 3), 27]


def test_a_worker_holds_and_deletes_what_it_received_from_its_own_queue(engine: Engine) -> None:
    declare(engine)
    worker = worker_of(engine, "reports")
    worker.work.send(orders("reports", "reports", None))
    held = worker.work.receive(most=10, wait=1, visibility=30)
    held = [*held, *(worker.work.receive(most=10, wait=1, visibility=30) if len(held) < 2 else [])]
    worker.work.delete(held[0].receipt)
    worker.work.hide([held[1].receipt], 0)
    assert received(worker) == [(decode(held[1].body).not_before - NOON) // MINUTE]
    assert received(engine.services) == [2]


def test_a_queue_that_is_not_there_refuses_its_messages_and_no_others(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    declare(engine)
    mixed = orders("gone", "reports", None, "gone", "../evil")
    with caplog.at_level(logging.ERROR):
        assert list(engine.services.work.send(mixed)) == [False, True, True, False, False]
    refused = [(line.queue, line.messages) for line in caplog.records if line.getMessage() == "queue.refused"]  # type: ignore[attr-defined]
    assert refused == [("gone", 2), ("../evil", 1)]
    assert (received(worker_of(engine, "reports")), received(engine.services)) == ([1], [2])


def test_a_queue_that_goes_while_it_is_in_use_and_comes_again(engine: Engine) -> None:
    declare(engine)
    assert list(engine.services.work.send(orders("mail-2"))) == [True]
    remove(engine, "mail-2")
    assert list(engine.services.work.send(orders("mail-2", None))) == [False, True]
    declare(engine)
    assert list(engine.services.work.send(orders("mail-2"))) == [True]


def test_without_the_default_queue_nothing_is_right(engine: Engine) -> None:
    if engine.settings is None:
        pytest.skip("in memory it is always there")
    with pytest.raises(Misconfigured, match="QUARTERJACK_PREFIX"):
        engine.again(prefix="nobody").work.send(orders(None))


def test_the_queues_that_exist_have_names(engine: Engine) -> None:
    assert list(engine.services.work.names()) == []
    declare(engine)
    assert list(engine.services.work.names()) == ["mail-2", "reports"]
