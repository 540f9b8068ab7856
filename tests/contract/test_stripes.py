"""Stripes: a queue of several SQS queues. Each run has its own; whoever knows of too few or too many of them loses nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest
from quarterjack.domain.message import decode
from quarterjack.domain.queue import Queue
from quarterjack.domain.times import MINUTE
from quarterjack.local.installation import create_queues
from quarterjack.ports.queues import OutgoingMessage, RawMessage
from quarterjack.ports.services import Services
from quarterjack.sqs.stripes import stripe_of

from tests.support.builders import NOON, a_message, a_run
from tests.support.engines import Engine

MANY = 60


def declare(engine: Engine, *, default: int = 1, reports: int = 1) -> None:
    """Create these stripes, as a deployment would."""
    engine.memory.add_queue(None, stripes=default)
    engine.memory.add_queue("reports", stripes=reports)
    if engine.settings is not None:
        settings = replace(engine.settings, stripes=f"default={default}")
        create_queues(engine.clients["sqs"], settings, [Queue(name="reports", stripes=reports)])


def knowing(engine: Engine, *, queue: str | None = None, default: int = 1, reports: int = 1) -> Services:
    """The services of a process that believes in so many stripes and takes its orders from ``queue``."""
    if engine.settings is None:
        return engine.memory.connect(queue=queue, stripes={None: default, "reports": reports})
    return engine.again(work_queue=queue, stripes=f"default={default},reports={reports}")


def orders(queue: str | None, number: int = MANY) -> list[OutgoingMessage]:
    return [OutgoingMessage(replace(a_message(a_run(NOON + i * MINUTE)), queue=queue), delay=0) for i in range(number)]


def stripe(parcel: OutgoingMessage, stripes: int) -> int:
    return stripe_of(parcel.message.run, stripes)


def taken(services: Services, stripe: int) -> list[RawMessage]:
    """All that is visible in a stripe."""
    found: list[RawMessage] = []
    work = services.work
    while more := work.receive(most=10, wait=0 if found else 1, visibility=30, poller=stripe, pollers=work.width):
        found += more
    return found


def due(deliveries: Sequence[RawMessage]) -> set[int]:
    return {(decode(delivery.body).not_before - NOON) // MINUTE for delivery in deliveries}


@pytest.mark.parametrize("queue", [None, "reports"])
def test_each_run_has_its_stripe_and_all_of_them_are_used(engine: Engine, queue: str | None) -> None:
    declare(engine, default=3, reports=3)
    services = knowing(engine, queue=queue, default=3, reports=3)
    sent = orders(queue)
    assert list(services.work.send(sent)) == [True] * MANY
    assert services.work.width == 3
    for number in range(3):
        expected = {i for i, parcel in enumerate(sent) if stripe(parcel, 3) == number}
        assert due(taken(services, number)) == expected
        assert len(expected) > MANY / 6


def test_what_is_held_and_deleted_is_of_the_stripe_that_it_came_from(engine: Engine) -> None:
    declare(engine, reports=3)
    services = knowing(engine, queue="reports", reports=3)
    services.work.send(orders("reports"))
    everything = [delivery for number in range(3) for delivery in taken(services, number)]
    assert due(everything) == set(range(MANY))
    services.work.hide([delivery.receipt for delivery in everything], 0)
    again = [delivery for number in range(3) for delivery in taken(services, number)]
    assert due(again) == set(range(MANY)), "shown again, each in its stripe"
    for delivery in again[:7]:
        services.work.delete(delivery.receipt)
    services.work.erase([delivery.receipt for delivery in again[7:-1]])
    services.work.hide([again[-1].receipt], 0)
    assert due([delivery for number in range(3) for delivery in taken(services, number)]) == due(again[-1:])


def test_what_each_stripe_holds_is_counted(engine: Engine) -> None:
    declare(engine, default=1, reports=3)
    services = knowing(engine, queue="reports", reports=3)
    sent = orders("reports")
    services.work.send([*sent, *(OutgoingMessage(parcel.message, delay=600) for parcel in orders(None, 7))])
    expected = [sum(stripe(parcel, 3) == number for parcel in sent) for number in range(3)]
    loads = services.work.load(["reports", None, "nobody"])
    assert [(load.waiting, load.at_hand) for load in loads["reports"]] == [(number, 0) for number in expected]
    assert [(load.waiting, load.at_hand, load.delayed) for load in loads[None]] == [(0, 0, 7)]
    assert loads["nobody"] == []
    held = taken(services, 1)
    services.work.delete(held[0].receipt)
    load = services.work.load(["reports"])["reports"][1]
    assert (load.waiting, load.at_hand, load.depth) == (0, expected[1] - 1, expected[1] - 1)


@pytest.mark.parametrize("queue", [None, "reports"])
def test_who_takes_finds_all_stripes_that_there_are(engine: Engine, queue: str | None) -> None:
    declare(engine, default=2, reports=4)
    work = knowing(engine, queue=queue).work
    assert work.width == 1
    work.discover()
    assert work.width == (2 if queue is None else 4)
    declare(engine, default=3, reports=5)
    work.discover()
    assert work.width == (3 if queue is None else 5)


def test_a_poller_receives_from_its_stripes_in_turn(engine: Engine) -> None:
    declare(engine, reports=5)
    work = knowing(engine, queue="reports", reports=5).work
    work.send(sent := orders("reports"))
    for poller in range(2):
        found = [
            each for _ in range(12) for each in work.receive(most=10, wait=0, visibility=30, poller=poller, pollers=2)
        ]
        stripes = {stripe_of(decode(each.body).run, 5) for each in found}
        assert stripes == set(range(poller, 5, 2))
    assert len(sent) == MANY


def test_a_sender_that_knows_of_fewer_sends_to_those(engine: Engine) -> None:
    declare(engine, reports=3)
    knowing(engine, reports=1).work.send(orders("reports"))
    assert due(taken(knowing(engine, queue="reports", reports=3), 0)) == set(range(MANY))


@pytest.mark.parametrize("queue", [None, "reports"])
def test_what_is_for_a_stripe_that_is_not_there_goes_to_the_first(
    engine: Engine, queue: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    declare(engine, default=2, reports=2)
    sent = orders(queue)
    with caplog.at_level(logging.WARNING):
        assert all(knowing(engine, default=3, reports=3).work.send(sent))
    detours = [line.messages for line in caplog.records if line.getMessage() == "stripe.missing"]  # type: ignore[attr-defined]
    assert detours == [sum(stripe(parcel, 3) == 2 for parcel in sent)]
    services = knowing(engine, queue=queue, default=2, reports=2)
    assert due([delivery for number in range(2) for delivery in taken(services, number)]) == set(range(MANY))


def test_a_queue_that_is_not_there_at_all_takes_nothing_in_any_stripe(engine: Engine) -> None:
    services = knowing(engine, reports=3)
    assert not any(services.work.send(orders("reports")))
    declare(engine, reports=2)
    assert all(services.work.send(orders("reports")))
    assert list(services.work.names()) == ["reports"], "stripes are no queues of their own"


def test_stripes_are_added_while_messages_wait(engine: Engine) -> None:
    declare(engine, reports=1)
    knowing(engine, reports=1).work.send(orders("reports", 20))
    declare(engine, reports=3)
    services = knowing(engine, queue="reports", reports=3)
    services.work.send(orders("reports")[20:])
    assert due([delivery for number in range(3) for delivery in taken(services, number)]) == set(range(MANY))


def test_a_survey_counts_every_stripe_of_every_queue(engine: Engine) -> None:
    declare(engine, default=2, reports=3)
    services = knowing(engine, default=2, reports=3)
    services.work.send([*orders(None), *orders("reports", 30)])
    found = services.work.survey()
    assert [(each.queue, each.number) for each in found] == [
        *((None, n) for n in range(2)),
        *(("reports", n) for n in range(3)),
    ]
    waiting = {
        name: sum(each.depth.waiting for each in found if each.depth and each.queue == name)
        for name in (None, "reports")
    }
    assert waiting == {None: MANY, "reports": 30}
    assert list(knowing(engine).work.survey()) == list(found), "whatever the caller knows of stripes"
