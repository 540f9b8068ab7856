"""The queues: delay, visibility, receipts, receive counts, batches, dead letters."""

from __future__ import annotations

import pytest
from quarterjack.domain.message import DeadLetter, decode, decode_letter
from quarterjack.domain.names import one_off_ref
from quarterjack.domain.payload import PayloadOwner, owner_of_object
from quarterjack.domain.times import DAY, MINUTE, SECOND
from quarterjack.errors import NotFound
from quarterjack.ports.queues import OutgoingMessage
from quarterjack.ports.services import Services

from tests.support.builders import NOON, a_message, a_run
from tests.support.engines import Engine


def parcels(count: int, *, delay: int = 0, **later: str) -> list[OutgoingMessage]:
    return [OutgoingMessage(a_message(a_run(NOON + i * MINUTE), later=later), delay) for i in range(count)]


def drained(engine: Engine, most: int = 1_000) -> list[int]:
    """The fires of all messages that are visible."""
    dues: list[int] = []
    while found := engine.receive(wait=0):
        for delivery in found:
            dues.append(decode(delivery.body).not_before)
            engine.services.work.delete(delivery.receipt)
        assert len(dues) <= most
    return sorted(dues)


def test_a_message_arrives_as_it_was_sent(engine: Engine) -> None:
    later = {"of a later release": {"text": "ä \u2028 😀 \x7f \ud83d \uffff", "日本": "本"}}
    message = a_message(later=later, trace="Root=1-a;Parent=b;Sampled=1")
    assert list(engine.services.work.send([OutgoingMessage(message, 0)])) == [True]
    (delivery,) = engine.receive()
    assert (decode(delivery.body), decode(delivery.body).later) == (message, later)
    assert delivery.receives == 1
    assert delivery.id


def test_a_delivery_says_when_the_message_was_sent_however_late_and_often_it_comes(engine: Engine) -> None:
    before = engine.clock()
    engine.services.work.send(parcels(1, delay=1))
    after = engine.clock()
    first = engine.receive(wait=3, visibility=1)[0]
    second = engine.receive(wait=3)[0]
    assert before - SECOND < first.sent_at < after + SECOND, "some engines round it to seconds"
    assert second.sent_at == first.sent_at


def test_nothing_to_send_is_no_call(services: Services) -> None:
    assert list(services.work.send([])) == []


def test_more_than_a_batch_is_sent_whole(engine: Engine) -> None:
    assert list(engine.services.work.send(parcels(23))) == [True] * 23
    assert drained(engine) == [NOON + i * MINUTE for i in range(23)]


def test_more_than_a_megabyte_is_sent_in_several_batches(engine: Engine) -> None:
    big = parcels(20, text="x" * 65_000)
    assert list(engine.services.work.send(big)) == [True] * 20
    assert len(drained(engine)) == 20


def test_a_delayed_message_is_not_there_yet(engine: Engine) -> None:
    engine.services.work.send([*parcels(1, delay=900), OutgoingMessage(a_message(a_run(NOON - 1)), 1)])
    sent = engine.clock()
    assert engine.receive(wait=0) == []
    (delivery,) = engine.receive(wait=3)
    assert decode(delivery.body).not_before == NOON - 1
    assert engine.clock() - sent >= 1 * SECOND - 50, "SQS counts whole seconds from when it got the message"


def test_a_received_message_is_hidden_and_comes_back(engine: Engine) -> None:
    engine.services.work.send(parcels(1))
    (first,) = engine.receive(visibility=1)
    assert engine.receive(wait=0) == []
    (second,) = engine.receive(wait=3)
    assert (second.body, second.receives) == (first.body, 2)
    assert second.receipt != first.receipt


def test_hiding_with_zero_shows_it_at_once(engine: Engine) -> None:
    engine.services.work.send(parcels(12))
    held = [*engine.receive(), *engine.receive()]
    assert len(held) == 12
    engine.services.work.hide([delivery.receipt for delivery in held], 0)
    assert len(drained(engine)) == 12


def test_hiding_extends(engine: Engine) -> None:
    engine.services.work.send(parcels(1))
    (delivery,) = engine.receive(visibility=1)
    engine.services.work.hide([delivery.receipt], 900)
    assert engine.receive(wait=1) == []


def test_hiding_until_a_moment_that_has_passed_shows_it(engine: Engine) -> None:
    engine.services.work.send(parcels(1))
    (delivery,) = engine.receive()
    engine.services.work.hide([delivery.receipt], -5)
    assert len(drained(engine)) == 1


def test_deleting_twice_is_nothing(engine: Engine) -> None:
    engine.services.work.send(parcels(1))
    (delivery,) = engine.receive()
    engine.services.work.delete(delivery.receipt)
    engine.services.work.delete(delivery.receipt)
    assert engine.receive(wait=0) == []


def test_hiding_what_is_gone_is_passed_over(engine: Engine) -> None:
    engine.services.work.send(parcels(2))
    held = engine.receive()
    assert len(held) == 2
    engine.services.work.delete(held[0].receipt)
    engine.services.work.hide([delivery.receipt for delivery in held], 0)
    assert len(drained(engine)) == 1


def test_erasing_goes_in_batches_and_passes_over_what_is_gone(engine: Engine) -> None:
    engine.services.work.send(parcels(23))
    held = [delivery for _ in range(3) for delivery in engine.receive()]
    assert len(held) == 23
    engine.services.work.delete(held[5].receipt)
    engine.services.work.erase([delivery.receipt for delivery in held])
    engine.services.work.erase([])
    engine.services.work.hide([delivery.receipt for delivery in held], 0)
    assert engine.receive(wait=0) == []


def test_a_receipt_of_an_earlier_delivery_deletes_nothing(engine: Engine) -> None:
    """AWS: "the request succeeds, but the message might not be deleted"; the protocol must stand the stricter reading."""
    engine.is_wrong("stale receipt")
    engine.services.work.send(parcels(1))
    (first,) = engine.receive(visibility=0)
    (second,) = engine.receive(visibility=30)
    engine.services.work.delete(first.receipt)
    engine.services.work.hide([second.receipt], 0)
    assert len(drained(engine)) == 1


def test_a_message_is_received_by_one_at_a_time(engine: Engine) -> None:
    engine.services.work.send(parcels(10))
    seen = [decode(delivery.body).not_before for _ in range(5) for delivery in engine.receive(4, wait=0)]
    assert sorted(seen) == [NOON + i * MINUTE for i in range(10)]


def test_at_most_ten_at_once(engine: Engine) -> None:
    engine.services.work.send(parcels(15))
    assert len(engine.receive(99, wait=0)) <= 10
    assert len(engine.receive(0, wait=0)) == 1, "at least one is asked for"


# Dead letters.


def test_a_verdict_arrives_as_it_was_sent(services: Services) -> None:
    letter = DeadLetter(
        body=a_message().encode(), reason="failed", fence=3, error_type="ValueError", error="ä", traceback="Tr…"
    )
    services.dead.send(letter)
    (delivery,) = services.dead.receive(most=10, wait=3)
    assert decode_letter(delivery.body) == letter
    services.dead.delete(delivery.receipt)
    services.dead.delete(delivery.receipt)


def test_a_message_received_too_often_moves_to_the_dead_letters(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real limit is 1,000; what counts here is that the message arrives there as it was."""
    _limit_receives(engine, 2, monkeypatch)
    (sent,) = parcels(1)
    engine.services.work.send([sent])
    for receives in (1, 2):
        (delivery,) = engine.receive(visibility=0)
        assert delivery.receives == receives
    assert engine.receive(wait=0) == []
    (moved,) = engine.services.dead.receive(most=10, wait=3)
    assert moved.body == sent.message.encode()
    assert decode_letter(moved.body) is None


def _limit_receives(engine: Engine, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.settings is None:
        monkeypatch.setattr("quarterjack.testing.memory.queues.MAX_RECEIVES", limit)
        return
    sqs = engine.clients["sqs"]
    url = sqs.get_queue_url(QueueName=engine.settings.queue("work"))["QueueUrl"]
    policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]["RedrivePolicy"]
    assert '"maxReceiveCount": 1000' in policy
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy.replace("1000", str(limit))})


# Payloads.


def test_a_payload_comes_back_by_its_key(services: Services) -> None:
    text = '{"ä":"' + "x" * 100_000 + '"}'
    key = services.payloads.put("acme/s", text)
    assert services.payloads.put("acme/s", text) != key, "what is being removed is not what is being stored"
    assert services.payloads.get("acme", key) == text
    with pytest.raises(NotFound, match="not an object of tenant 'acm'"):
        services.payloads.get("acm", key)
    result = services.payloads.keep("acme", text)
    assert services.payloads.keep("acme", text) == result, "stored once"
    assert services.payloads.keep("other", text) != result, "but never shared between tenants"


@pytest.mark.parametrize("whose", [one_off_ref("acme", "with/a@payload:of-its-own"), "acme/with/a@payload:of-its-own"])
def test_a_payload_is_of_a_run_or_a_schedule_and_can_be_removed(engine: Engine, whose: PayloadOwner) -> None:
    payloads, now = engine.services.payloads, engine.clock()
    result = payloads.keep("acme", "[1]")
    keys = sorted(payloads.put(whose, "[1]") for _ in range(2))
    assert len({result, *keys}) == 3

    def found(after: str = "", before: int = now + DAY) -> list[str]:
        return [key for key in payloads.stored(after=after, before=before) if owner_of_object(key) == whose]

    assert (found(), found(after=keys[0]), found(before=now - DAY)) == (keys, keys[1:], [])
    assert result not in payloads.stored(after="", before=now + DAY)
    payloads.remove(keys[:1])
    assert found() == keys[1:]
    assert payloads.get("acme", result) == payloads.get("acme", keys[1]) == "[1]"
