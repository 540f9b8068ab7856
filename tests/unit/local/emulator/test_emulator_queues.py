"""The emulator's queues: in the order in which messages became visible, quiet tenants first; all of it by order and counts."""

from __future__ import annotations

import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.names import one_off_ref
from quarterjack.domain.tenants.agenda_layout import group_of
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.emulator.messages import Message, Messages
from quarterjack.local.emulator.queues import index_queues
from quarterjack.local.emulator.tenants import IN_FLIGHT, RECENT, SILENT
from quarterjack.local.engine import FAIR_QUEUES

NOW = 1_000_000.0


class Queue:
    """A queue of the running emulator."""

    def __init__(self, cloud: LocalCloud, **attributes: str) -> None:
        keys = {name.lower(): value for name, value in cloud.credentials.items()}
        self.sqs: Any = boto3.client("sqs", endpoint_url=cloud.endpoint, region_name=cloud.region, **keys)
        suffix = ".fifo" if attributes else ""
        self.url = self.sqs.create_queue(QueueName=uuid.uuid4().hex + suffix, Attributes=attributes)["QueueUrl"]

    def send(self, text: str, group: str | None = None, delay: int = 0) -> None:
        of = {} if group is None else {"MessageGroupId": group}
        self.sqs.send_message(QueueUrl=self.url, MessageBody=text, DelaySeconds=delay, **of)

    def send_many(self, tenant: str, count: int) -> None:
        for _ in range(0, count, 10):
            entries = [{"Id": str(n), "MessageBody": tenant, "MessageGroupId": tenant} for n in range(10)]
            self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries)

    def take(self, most: int = 10) -> list[str]:
        """The texts of messages that are in flight from now on."""
        found = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=most, VisibilityTimeout=600)
        return [message["Body"] for message in found.get("Messages", [])]

    def wait_for(self, visible: int) -> None:
        name, deadline = "ApproximateNumberOfMessages", time.monotonic() + 20
        while (
            int(self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=[name])["Attributes"][name]) < visible
        ):
            assert time.monotonic() < deadline


@pytest.fixture(scope="module")
def unfair() -> Iterator[LocalCloud]:
    with LocalCloud(variables={FAIR_QUEUES: "false"}) as cloud:
        yield cloud


def noisy_neighbour(queue: Queue) -> list[str]:
    """What is received after 30 messages of a tenant with a backlog are in flight and another has sent two."""
    queue.send_many("flood", 60)
    assert [queue.take() for _ in range(3)] == [["flood"] * 10] * 3
    queue.send("b1", "quiet")
    queue.send("b2", "quiet")
    return queue.take() + queue.take()


def test_a_quiet_tenant_comes_before_the_backlog_of_a_noisy_one(local_cloud: LocalCloud) -> None:
    assert noisy_neighbour(Queue(local_cloud)) == ["b1", "b2"] + ["flood"] * 18


def test_without_fair_queues_it_waits_for_all_of_it(unfair: LocalCloud) -> None:
    assert noisy_neighbour(Queue(unfair)) == ["flood"] * 20


def test_messages_come_in_the_order_in_which_they_became_visible(local_cloud: LocalCloud, unfair: LocalCloud) -> None:
    for cloud in (local_cloud, unfair):
        queue = Queue(cloud)
        queue.send("sent first", delay=1)
        queue.send("visible first")
        queue.wait_for(2)
        assert [queue.take(1), queue.take(1), queue.take(1)] == [["visible first"], ["sent first"], []]


def test_a_fifo_queue_is_as_it_was(local_cloud: LocalCloud) -> None:
    queue = Queue(local_cloud, FifoQueue="true", ContentBasedDeduplication="true")
    for text in ("a1", "a2", "b1"):
        queue.send(text, text[0])
    assert [queue.take(1), queue.take()] == [["a1"], ["b1"]], "a group waits for its message in flight"


def test_a_release_that_works_otherwise_is_left_as_it_is() -> None:
    module = SimpleNamespace(_collect_msgs=len)
    index_queues(module)
    assert module._collect_msgs is len


# Who is noisy.


class Played:
    """A queue in memory, with a clock that is moved."""

    def __init__(self, *, fair: bool = True) -> None:
        self.now, self.handles, self.ids = NOW, count(), count()
        self.queue = Messages((), clock=lambda: self.now, complete=_complete, fair=fair)

    def send(self, tenant: str | None, count: int = 1, *, delay: float = 0.0) -> list[Message]:
        sent: list[Message] = [
            {"id": str(next(self.ids)), "group_id": tenant, "sent_at": self.now, "visible_at": self.now + delay}
            for _ in range(count)
        ]
        for message in sent:
            self.queue.append(message)
        return sent

    def receive(self, most: int, visibility: int = 10_000) -> list[Message]:
        return self.queue.receive(most, visibility, lambda: str(next(self.handles)))

    def take(self, most: int) -> list[str | None]:
        """The tenants of messages that are in flight from now on."""
        return [message["group_id"] for message in self.receive(most)]

    def end(self, tenant: str) -> None:
        """What is in flight of a tenant is deleted."""
        for message in self.queue:
            if message["receive_count"] and message["group_id"] == tenant:
                self.queue.remove(message)


def _complete(message: Message) -> None:
    for name, value in {"receipt_handle": None, "receive_count": 0, "first_receive_at": None}.items():
        message.setdefault(name, value)


def test_a_tenth_of_many_in_flight_is_not_noisy() -> None:
    queue = Played()
    for tenant in map(str, range(10)):
        queue.send(tenant, IN_FLIGHT)
    queue.take(10 * IN_FLIGHT)
    queue.send("0")
    queue.send("new")
    assert queue.take(1) == ["0"]


def test_fewer_than_30_in_flight_are_not_noisy_until_their_processing_time_is() -> None:
    queue = Played()
    queue.send("flood", 100)
    queue.take(IN_FLIGHT - 1)
    queue.send("quiet")
    assert queue.take(1) == ["flood"], "no time has passed"
    queue.now += 1
    assert queue.take(1) == ["quiet"]


def test_processing_time_is_forgotten_after_a_minute() -> None:
    queue = Played()
    queue.send("slow", 5)
    queue.take(5)
    queue.now += 10
    queue.take(1)
    queue.end("slow")
    queue.take(1)  # it sees that they have ended
    queue.send("slow", 2)
    queue.send("quiet")
    queue.now += 1
    assert queue.take(1) == ["quiet"]
    queue.send("quiet")
    queue.now += 2 * RECENT
    queue.end("quiet")
    queue.take(0)
    queue.now += 2 * RECENT
    assert queue.take(1) == ["slow"]


def test_of_several_noisy_tenants_the_one_with_the_fewest_in_flight_is_next() -> None:
    queue = Played()
    queue.send("many", 100)
    queue.take(40)
    queue.send("few", 100)
    queue.now += 1
    queue.take(30)
    queue.now += 1
    assert Counter(queue.take(10)) == {"few": 10}
    assert Counter(queue.take(10)) == {"few": 5, "many": 5}, "40 each, then by turns"
    queue.send("quiet")
    assert queue.take(2)[0] == "quiet"


def test_who_has_sent_nothing_for_five_minutes_is_quiet_again() -> None:
    queue = Played()
    queue.send("flood", 100)
    queue.take(IN_FLIGHT)
    queue.now += SILENT
    queue.send("other")
    assert queue.take(1) == ["flood"]
    queue.send("flood")
    assert queue.take(1) == ["other"], "it sends again"


def test_messages_without_a_group_are_tenants_of_their_own() -> None:
    queue = Played()
    queue.send(None, 50)
    queue.take(40)
    queue.now += 1
    queue.send("quiet")
    assert queue.take(1) == [None]


def test_of_two_noisy_tenants_one_of_weight_three_has_three_times_as_much_in_flight() -> None:
    queue = Played()
    runs = [one_off_ref("heavy", str(number)) for number in range(200)]
    queue.send("light", 200)  # it comes first
    for run in runs:
        queue.send(group_of(run, 3))
    taken = list[str | None]()
    for _ in range(20):
        queue.now += 1
        taken += queue.take(6)
    in_flight = Counter((group or "").partition("#")[0] for group in taken[-80:])
    assert in_flight == {"heavy": 60, "light": 20}


# The index says what a walk over all messages would.


@given(st.data())
def test_the_index_says_what_a_walk_would(data: st.DataObject) -> None:
    played = Played(fair=False)
    queue, sent = played.queue, list[Message]()

    def visible() -> list[Message]:
        found = [message for message in queue if message["visible_at"] <= played.now]
        return sorted(found, key=lambda message: (message["visible_at"], int(message["id"])))

    for _ in range(data.draw(st.integers(1, 40))):
        act = data.draw(st.sampled_from(["send", "receive", "delete", "change", "wait", "expire", "returned"]))
        held = [message for message in queue if message["receipt_handle"] is not None]
        if act == "send":
            sent += played.send(data.draw(st.sampled_from([None, "a", "b"])), delay=data.draw(st.integers(0, 5)))
        elif act == "receive":
            most = data.draw(st.integers(1, 3))
            became = {message["id"]: message["visible_at"] for message in visible()}
            received = [message["id"] for message in played.receive(most, data.draw(st.integers(0, 5)))]
            assert [became[each] for each in received] == list(became.values())[:most]
            assert len({*received}) == len(received)
        elif act == "delete" and held:
            queue.remove(data.draw(st.sampled_from(held)))
        elif act == "change" and held:
            queue.change_visibility(data.draw(st.sampled_from(held)), data.draw(st.integers(0, 5)))
        elif act == "wait":
            played.now += data.draw(st.integers(1, 4))
        elif act == "expire":
            queue.expire(played.now - 10)
            assert all(message["sent_at"] > played.now - 10 for message in queue)
        elif act == "returned":
            twice = [message["id"] for message in visible() if message["receive_count"] >= 2]
            assert sorted(message["id"] for message in queue.returned(2)) == sorted(twice)
        check_counts_and_handles(played, sent, len(visible()))


def check_counts_and_handles(played: Played, sent: list[Message], visible: int) -> None:
    queue = played.queue
    hidden = [message for message in queue if message["visible_at"] > played.now]
    in_flight = sum(message["receive_count"] > 0 for message in hidden)
    assert queue.counts() == (visible, in_flight, len(hidden) - in_flight)
    for message in sent:
        handle = message["receipt_handle"]
        assert handle is None or queue.found(handle) in ((message,) if message in list(queue) else (None,))


def test_a_receive_and_a_delete_cost_the_same_in_a_queue_of_a_hundred_and_of_ten_thousand() -> None:
    """Counted in calls of Python functions, which no load changes."""

    def calls(backlog: int) -> int:
        played, counted = Played(), 0
        for tenant in range(10):
            played.send(str(tenant), backlog // 10)
        played.receive(10)

        def profile(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            for message in played.receive(10):
                played.queue.remove(message)
        finally:
            sys.setprofile(None)
        return counted

    assert calls(10_000) <= calls(100) * 1.2
