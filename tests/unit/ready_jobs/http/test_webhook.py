"""Events to a webhook: signed as Standard Webhooks says, and what each answer of the receiver means."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
from collections.abc import Iterator

import pytest
from quarterjack import errors
from quarterjack.domain.history.outgoing_event import OutgoingEvent, parse_target
from quarterjack.historian.events import events_of
from quarterjack.ready_jobs.http.webhook import WebhookSink, signature

from tests.support.builders import NOON, a_run
from tests.support.http_endpoint import Endpoint, Handler, serving
from tests.support.transitions import life

KEY, OTHER = b"k" * 24, b"o" * 32
SECRET, NEXT = (f"whsec_{base64.b64encode(key).decode()}" for key in (KEY, OTHER))
AT = 1_795_161_600


@pytest.fixture
def receiver() -> Iterator[Endpoint]:
    with serving() as endpoint:
        yield endpoint


def sink(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, *, secret: str = SECRET) -> WebhookSink:
    monkeypatch.setenv("ACME_HOOK", secret)
    target = parse_target(f"webhook:{endpoint.url}/hook?v=1", None, "env:ACME_HOOK")
    return WebhookSink(target, networks=("127.0.0.0/8",), allow_env=True, now=lambda: AT + 0.5)


def some(count: int = 1) -> list[OutgoingEvent]:
    return [event for number in range(count) for event in events_of(life(a_run(NOON + number), sequence=10 * number))]


def verified(endpoint: Endpoint, key: bytes, place: int = 0) -> bool:
    """Whether a receiver that follows the specification accepts a request."""
    asked = endpoint.asked[place]
    content = f"{asked.headers['webhook-id']}.{asked.headers['webhook-timestamp']}.".encode() + asked.body
    expected = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return expected in asked.headers["webhook-signature"].split(" ")


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of standardwebhooks.com."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body) == expected


def test_an_event_arrives_signed(receiver: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    (event,) = some()
    sink(receiver, monkeypatch).publish([event])
    (asked,) = receiver.asked
    assert (asked.method, asked.path) == ("POST", "/hook?v=1")
    assert asked.headers["webhook-id"] == event.id
    assert asked.headers["webhook-timestamp"] == str(AT)
    assert asked.headers["content-type"] == "application/json"
    assert json.loads(asked.body)["type"] == "run.succeeded"
    assert verified(receiver, KEY)
    assert not verified(receiver, OTHER)


def test_while_a_secret_is_rotated_both_keys_sign(receiver: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    sink(receiver, monkeypatch, secret=f"{NEXT} {SECRET}").publish(some())
    assert verified(receiver, KEY)
    assert verified(receiver, OTHER)


def test_many_events_are_sent_each_once(receiver: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    events = some(30)
    sink(receiver, monkeypatch).publish(events)
    assert sorted(asked.headers["webhook-id"] for asked in receiver.asked) == sorted(event.id for event in events)
    assert all(verified(receiver, KEY, place) for place in range(30))


@pytest.mark.parametrize("status", [201, 204])
def test_any_success_is_one(receiver: Endpoint, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    assert sink(receiver.answers(status), monkeypatch).publish(some()) == {}


@pytest.mark.parametrize("status", [301, 401, 404, 410, 429, 500, 503])
def test_what_may_be_different_tomorrow_is_tried_again(
    receiver: Endpoint, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    (event,) = some()
    (problem,) = sink(receiver.answers(status), monkeypatch).publish([event]).values()
    assert isinstance(problem, errors.EventFailed)
    assert f"answered {status} to event {event.id}" in str(problem)
    assert problem.is_outage is (status != 500)


def test_one_event_that_the_receiver_fails_on_stops_no_other(
    receiver: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = some(30)

    def answer(handler: Handler) -> None:
        status = 500 if handler.headers["webhook-id"] == events[3].id else 204
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    failed = sink(receiver.answers(answer), monkeypatch).publish(events)
    assert list(failed) == [events[3].id]
    assert len(receiver.asked) == 30


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_the_receiver_will_never_take_is_refused(
    receiver: Endpoint, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    (problem,) = sink(receiver.answers(status), monkeypatch).publish(some()).values()
    assert isinstance(problem, errors.EventRefused)


def test_a_receiver_that_is_gone_is_an_outage(receiver: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sink(receiver, monkeypatch)
    receiver.answers(lambda handler: handler.connection.close())
    (problem,) = made.publish(some()).values()
    assert isinstance(problem, errors.EventFailed)
    assert problem.is_outage


@pytest.mark.parametrize(
    "secret",
    ["plain", "whsec_", "whsec_???", *(f"whsec_{base64.b64encode(b'k' * size).decode()}" for size in (5, 23, 65))],
)
def test_a_secret_that_is_none_is_refused_at_the_start_without_showing_it(
    receiver: Endpoint, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    with pytest.raises(errors.Misconfigured, match=r"QUARTERJACK_EVENT_SECRET.*store whsec_") as refused:
        sink(receiver, monkeypatch, secret=secret)
    assert secret not in str(refused.value).replace("store whsec_", "")


@pytest.mark.parametrize("length", [24, 64])
def test_the_shortest_and_the_longest_key_are_taken(
    receiver: Endpoint, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    key = b"l" * length
    sink(receiver, monkeypatch, secret=f"whsec_{base64.b64encode(key).decode()}").publish(some())
    assert verified(receiver, key)


def test_plain_http_is_for_hosts_in_the_named_networks_only(
    receiver: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks for one receiver inside do not let events go unencrypted to hosts outside of them."""
    monkeypatch.setenv("ACME_HOOK", SECRET)
    public = parse_target("webhook:http://93.184.215.14/hook", None, "env:ACME_HOOK")
    with pytest.raises(errors.InvalidInput, match="is not encrypted"):
        WebhookSink(public, networks=("10.0.0.0/8",), allow_env=True)
    named = parse_target("webhook:http://hooks.example.com/hook", None, "env:ACME_HOOK")
    made = WebhookSink(named, networks=("10.0.0.0/8", "127.0.0.1/32"), allow_env=True)
    for addresses in (["93.184.215.14"], ["127.0.0.1", "93.184.215.14"]):
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
        with pytest.raises(errors.Misconfigured, match=r"QUARTERJACK_EVENTS='http://hooks.*is not encrypted.*https://"):
            made.publish(some())
    assert receiver.asked == []


def test_a_private_address_is_reached_only_if_it_is_allowed(
    receiver: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_HOOK", SECRET)
    plain = parse_target(f"webhook:{receiver.url}", None, "env:ACME_HOOK")
    with pytest.raises(errors.InvalidInput, match="is not encrypted"):
        WebhookSink(plain, allow_env=True)
    private = parse_target("webhook:https://127.0.0.1:1/hook", None, "env:ACME_HOOK")
    with pytest.raises(errors.Misconfigured, match=r"no public address.*QUARTERJACK_EVENT_NETWORKS"):
        WebhookSink(private, allow_env=True).publish(some())
    assert receiver.asked == []
