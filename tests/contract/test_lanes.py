"""Lanes: a queue with SQS queues of their own for high and low runs; whoever does not know of them, or finds none, loses nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from quarterjack.domain.message import decode
from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import Queue, held_part
from quarterjack.domain.times import MINUTE
from quarterjack.local.installation import create_queues
from quarterjack.ports.queues import OutgoingMessage, RawMessage
from quarterjack.ports.services import Services
from quarterjack.sqs.stripes import stripe_of

from tests.support.builders import NOON, a_message, a_run
from tests.support.engines import Engine

HIGH, NORMAL, LOW = Priority
EACH = 12  # messages of a priority


def declare(engine: Engine, *, stripes: int = 1) -> None:
    """The queue `reports` with lanes, and the default one without."""
    engine.memory.add_queue("reports", stripes=stripes, priorities=True)
    if engine.settings is not None:
        create_queues(engine.clients["sqs"], engine.settings, [Queue(name="reports", stripes=stripes, priorities=True)])


def knowing(engine: Engine, *, queue: str | None = "reports", stripes: int = 1, lanes: bool = True) -> Services:
    """The services of a process that takes its orders from ``queue``, and believes in its lanes or not."""
    known = ["reports"] if lanes else []
    if engine.settings is None:
        return engine.memory.connect(queue=queue, stripes={"reports": stripes}, prioritised=known)
    return engine.again(work_queue=queue, stripes=f"reports={stripes}", priorities=",".join(known) or None)


def orders(queue: str | None, priorities: Iterable[Priority] = Priority) -> list[OutgoingMessage]:
    """Messages of each priority in turn, each of a minute of its own."""
    given = [priority for _ in range(EACH) for priority in priorities]
    runs = [a_message(a_run(NOON + i * MINUTE)) for i in range(len(given))]
    messages = [replace(each, queue=queue, priority=priority) for each, priority in zip(runs, given, strict=True)]
    return [OutgoingMessage(message, delay=0) for message in messages]


def taken(services: Services, lane: Priority, stripe: int = 0) -> list[RawMessage]:
    """All that is visible there."""
    found: list[RawMessage] = []
    work = services.work
    while more := work.receive(
        most=10, wait=0 if found else 1, visibility=30, lane=lane, poller=stripe, pollers=work.width
    ):
        found += more
    return found


def due(deliveries: Iterable[RawMessage]) -> set[int]:
    return {(decode(delivery.body).not_before - NOON) // MINUTE for delivery in deliveries}


@pytest.mark.parametrize("stripes", [1, 2])
def test_each_message_takes_the_lane_of_its_priority_and_there_its_stripe(engine: Engine, stripes: int) -> None:
    declare(engine, stripes=stripes)
    services, sent = knowing(engine, stripes=stripes), orders("reports")
    assert all(services.work.send(sent))
    assert (list(services.work.lanes), services.work.width) == ([HIGH, NORMAL, LOW], stripes)
    for lane in Priority:
        for number in range(stripes):
            found = taken(services, lane, number)
            expected = {
                i
                for i, each in enumerate(sent)
                if (each.message.priority, stripe_of(each.message.run, stripes)) == (lane, number)
            }
            assert due(found) == expected
            assert {delivery.lane for delivery in found} == {lane}


def test_what_is_held_and_deleted_is_of_the_lane_that_it_came_by(engine: Engine) -> None:
    declare(engine, stripes=2)
    services = knowing(engine, stripes=2)
    services.work.send(orders("reports"))
    places = [(lane, number) for lane in Priority for number in range(2)]
    everything = [delivery for place in places for delivery in taken(services, *place)]
    assert len(everything) == 3 * EACH
    services.work.hide([delivery.receipt for delivery in everything], 0)
    again = [delivery for place in places for delivery in taken(services, *place)]
    assert due(again) == set(range(3 * EACH)), "shown again, each in its lane"
    for delivery in again[:5]:
        services.work.delete(delivery.receipt)
    services.work.erase([delivery.receipt for delivery in again[5:-1]])
    services.work.hide([again[-1].receipt], 0)
    assert due([delivery for place in places for delivery in taken(services, *place)]) == due(again[-1:])


def test_a_queue_without_lanes_takes_every_priority(engine: Engine) -> None:
    services, sent = knowing(engine, queue=None), orders(None)
    assert all(services.work.send(sent))
    services.work.discover()
    assert list(services.work.lanes) == [NORMAL]
    assert due(taken(services, NORMAL)) == set(range(3 * EACH))


def test_who_does_not_know_of_lanes_sends_the_normal_way(engine: Engine) -> None:
    declare(engine)
    sender = knowing(engine, lanes=False)
    assert all(sender.work.send(orders("reports")))
    assert list(sender.work.lanes) == [NORMAL]
    sender.work.discover()
    assert list(sender.work.lanes) == [HIGH, NORMAL, LOW]
    assert due(taken(knowing(engine), NORMAL)) == set(range(3 * EACH))


def test_who_believes_in_lanes_that_are_not_there_sends_the_normal_way_and_to_each_stripe(engine: Engine) -> None:
    engine.memory.add_queue("reports", stripes=2)
    if engine.settings is not None:
        create_queues(engine.clients["sqs"], engine.settings, [Queue(name="reports", stripes=2)])
    services, sent = knowing(engine, stripes=2), orders("reports")
    assert all(services.work.send(sent))
    for number in range(2):
        expected = {i for i, each in enumerate(sent) if stripe_of(each.message.run, 2) == number}
        assert due(taken(services, NORMAL, number)) == expected
    told = knowing(engine, stripes=2, lanes=False)
    told.work.discover()
    assert list(told.work.lanes) == [NORMAL]


def test_all_lanes_are_counted(engine: Engine) -> None:
    declare(engine)
    services = knowing(engine)
    services.work.send([*orders("reports"), *orders("reports", [LOW])])
    parts = [held_part(queue, lane) for queue in ("reports", None) for lane in Priority]
    loads = {part: [depth.waiting for depth in found] for part, found in services.work.load(parts).items()}
    of_one = {held_part(None, lane): [0] for lane in Priority}  # it is not divided: each is all of it
    assert loads == {"reports_high": [EACH], "reports": [EACH], "reports_low": [2 * EACH], **of_one}
    found = knowing(engine, lanes=False).work.survey()
    assert {(each.queue, each.label): None if each.depth is None else each.depth.waiting for each in found} == {
        (None, "0"): 0,
        ("reports", "0"): EACH,
        ("reports", "high-0"): EACH,
        ("reports", "low-0"): 2 * EACH,
    }
    assert found[1].label == "0", "its own first"
    assert services.work.names() == ["reports"]
    services.work.discover()
    assert services.work.width == 1
