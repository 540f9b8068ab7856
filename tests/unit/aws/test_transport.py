"""Requests to a service on the loopback: what is sent, what is read, what is sent again, and how often."""

from __future__ import annotations

import json
import socket
import threading
import time
from datetime import datetime
from email.utils import formatdate
from typing import Any
from zlib import crc32

import pytest
from quarterjack.aws import transport
from quarterjack.aws.connections import Connections
from quarterjack.aws.errors import ConnectFailed, NoResponse, ServiceError, translated
from quarterjack.aws.transport import ATTEMPTS, DEADLINE
from quarterjack.clock import SteadyClock
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.version import VERSION

from tests.support.http_servers import HANG_UP, OK, Response, Service, connections_to, error, transport_to

FAILED: Response = (500, {}, b"")


def nobody() -> str:
    """A URL at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_request_is_signed_and_its_response_read(service: Service) -> None:
    content = b'{"Item": {"owner": {"S": "acme"}}}'
    service.answers.append((200, {"x-amz-crc32": str(crc32(content))}, content))
    found = transport_to(service.url).call("get_item", {"TableName": "t"})
    assert found == {"Item": {"owner": {"S": "acme"}}}
    (request,) = service.requests
    assert (request.target, request.body) == ("DynamoDB_20120810.GetItem", {"TableName": "t"})
    assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/")
    assert "x-amzn-query-mode" not in request.headers


def test_requests_name_this_package_and_its_version(service: Service) -> None:
    transport_to(service.url).call("get_item", {})
    assert service.requests[0].headers["user-agent"] == f"quarterjack/{VERSION}"


def test_only_a_transaction_has_a_token_and_repeats_it(service: Service) -> None:
    service.answers.append(FAILED)
    transport_to(service.url).call("transact_write_items", {"TransactItems": []})
    first, second = (request.body["ClientRequestToken"] for request in service.requests)
    assert first == second


@pytest.mark.parametrize("wrong", [-3_600_000, 3_600_000])
def test_a_request_that_was_signed_at_a_wrong_time_is_signed_again_with_that_of_the_answer(
    service: Service, wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS refuses signatures that are five minutes off: a process on such a host could not even begin."""
    monkeypatch.setattr(transport, "system_clock", SteadyClock(lambda: time.time_ns() + wrong * 1_000_000))
    refused = error("InvalidSignatureException", date=formatdate(usegmt=True))
    service.answers.append(refused)
    assert transport_to(service.url, attempts=1).call("get_item", {}) == {}
    signed = [parsed_date(request.headers["x-amz-date"]) for request in service.requests]
    assert [round((at - time.time()) / 60) for at in signed] == [round(wrong / 60_000), 0]
    service.answers.append(refused)
    with pytest.raises(ServiceError):  # the clock is right: the signature is wrong for another reason
        transport_to(service.url).call("get_item", {})
    assert len(service.requests) == 3


def parsed_date(text: str) -> float:
    return datetime.strptime(text, "%Y%m%dT%H%M%S%z").timestamp()


# What is repeated.


def test_a_request_without_a_good_response_is_sent_again(service: Service) -> None:
    waits: list[float] = []
    service.answers += [HANG_UP, (200, {"x-amz-crc32": "1"}, b"{}"), FAILED]
    assert transport_to(service.url, waits).call("update_item", {}) == {}
    assert len(service.requests) == 4
    assert len(waits) == 3


@pytest.mark.parametrize("attempts", [1, 2, ATTEMPTS])
def test_it_is_sent_as_often_as_is_allowed(service: Service, attempts: int) -> None:
    service.answers += [HANG_UP] * ATTEMPTS
    with pytest.raises(NoResponse, match=service.url):
        transport_to(service.url, attempts=attempts).call("update_item", {})
    assert len(service.requests) == attempts


PASSING = [
    *((408, {}, b""), (429, {}, b""), (503, {}, b"<html>")),
    *(error(code) for code in ("RequestTimeoutException", "KmsThrottled", "ThrottlingException")),
    error("KmsThrottled", x_amzn_query_error="KMS.ThrottlingException;Sender"),
]


@pytest.mark.parametrize("answer", PASSING)
def test_a_passing_error_is_repeated_and_unavailable_in_the_end(service: Service, answer: Any) -> None:
    """Of a proxy as well: a 408 to a connection that it closes, for one."""
    over = transport_to(service.url, service="sqs")
    service.answers.append(answer)
    assert over.call("get_item", {}) == {}
    assert len(service.requests) == 2
    service.answers += [answer] * ATTEMPTS
    with pytest.raises(ServiceError) as refused:
        over.call("get_item", {})
    assert len(service.requests) == 2 + ATTEMPTS
    assert isinstance(translated(refused.value.response, "get_item"), Unavailable)


def test_constant_errors_use_up_the_retries_and_successes_give_them_back(service: Service) -> None:
    over, calls = transport_to(service.url), 100
    service.always = FAILED

    def call_all() -> int:
        before = len(service.requests)
        for _ in range(calls):
            with pytest.raises(ServiceError):
                over.call("get_item", {})
        return len(service.requests) - before

    assert call_all() == calls + 20
    assert call_all() == calls, "nothing is repeated any more"
    service.always = OK
    for _ in range(5):
        over.call("get_item", {})
    service.always = FAILED
    assert call_all() == calls + 1


def test_a_success_after_a_retry_gives_back_what_the_retry_took(service: Service) -> None:
    over = transport_to(service.url)
    for _ in range(100):
        service.answers.append(FAILED)
        assert over.call("get_item", {}) == {}
    assert len(service.requests) == 200


def test_a_refusal_is_not_repeated_and_carries_its_fields(service: Service) -> None:
    said = {"__type": "com.amazonaws#ConditionalCheckFailedException", "message": "no", "Item": {"a": {"S": "b"}}}
    service.answers.append((400, {}, json.dumps(said).encode()))
    with pytest.raises(ServiceError, match="ConditionalCheckFailedException") as refused:
        transport_to(service.url).call("put_item", {})
    assert refused.value.response["Item"] == {"a": {"S": "b"}}
    assert len(service.requests) == 1


def test_after_a_freeze_the_second_attempt_succeeds_over_a_new_connection(service: Service) -> None:
    """The service has closed what it kept, and neither the clock nor the connection shows it yet."""
    over = transport_to(service.url)
    over.call("get_item", {})
    service.answers.append(HANG_UP)
    assert over.call("get_item", {}) == {}
    before, frozen, after = service.ports
    assert before == frozen != after


# Errors of SQS.


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (error("QueueDoesNotExist"), "QueueDoesNotExist"),
        (
            error("QueueDoesNotExist", x_amzn_query_error="AWS.SimpleQueueService.NonExistentQueue;Sender"),
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
    ],
)
def test_a_queue_that_is_not_there_is_known_by_both_names(service: Service, answer: Any, code: str) -> None:
    service.answers.append(answer)
    with pytest.raises(ServiceError, match=code) as refused:
        transport_to(service.url, service="sqs").call("get_queue_url", {})
    problem = translated(refused.value.response, "get_queue_url")
    assert isinstance(problem, Misconfigured)
    assert "QUARTERJACK_PREFIX" in str(problem)
    (request,) = service.requests
    assert request.headers["x-amzn-query-mode"] == "true"
    assert "x-amzn-query-mode" in request.headers["authorization"]


# Sent or not.


def test_nobody_there_is_said_at_once() -> None:
    waits: list[float] = []
    with pytest.raises(ConnectFailed, match="could not connect"):
        transport_to(nobody(), waits, service="sqs").call("send_message", {})
    assert waits == []


def test_a_request_that_was_sent_once_is_never_said_not_to_have_been(service: Service) -> None:
    """The service hangs up over the first attempt, and is gone at the second."""
    service.answers.append(HANG_UP)
    over = transport_to(service.url)

    def gone(_: float) -> None:
        over.connections = connections_to(nobody())

    over._wait = gone
    with pytest.raises(NoResponse, match="sent before") as problem:
        over.call("update_item", {})
    assert not isinstance(problem.value, ConnectFailed)
    assert len(service.requests) == 1


@pytest.mark.parametrize("said", [b"<html>Welcome to our network</html>", b"[]", b"\xff"])
def test_content_that_no_service_sends_is_no_response(service: Service, said: bytes) -> None:
    service.answers.append((200, {}, said))
    assert transport_to(service.url).call("update_item", {}) == {}
    service.answers += [(200, {"x-amz-crc32": "none"}, b"{}")] * ATTEMPTS
    with pytest.raises(NoResponse, match="checksum"):
        transport_to(service.url).call("update_item", {})
    service.answers += [(200, {}, said)] * ATTEMPTS
    with pytest.raises(NoResponse, match="not JSON"):
        transport_to(service.url).call("update_item", {})


# Deadlines and threads.


@pytest.mark.parametrize(("arguments", "wait"), [({}, 0), ({"WaitTimeSeconds": 20}, 20)])
def test_a_long_poll_may_take_its_wait_and_no_request_more_than_its_deadline(arguments: Any, wait: int) -> None:
    seconds: list[float] = []

    class Noted(Connections):
        def post(self, headers: Any, body: bytes, limit: float) -> Any:
            seconds.append(limit)
            raise ConnectFailed

    over = transport_to("http://127.0.0.1:9", service="sqs")
    over.connections = Noted("http://127.0.0.1:9/", over.connections._trust)
    with pytest.raises(ConnectFailed):
        over.call("receive_message", arguments)
    assert seconds == [DEADLINE + wait]


def test_threads_do_not_share_a_connection(service: Service) -> None:
    over, meet = transport_to(service.url), threading.Barrier(4)

    def ask(number: int) -> None:
        meet.wait()
        for _ in range(20):
            over.call("get_item", {"number": number})

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(request.body["number"] for request in service.requests) == sorted([0, 1, 2, 3] * 20)
    assert len(set(service.ports)) <= 4
