"""HTTP jobs as their users see them: a real server answers, the run says what became of it."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from quarterjack import Context, Registry, Retry, Scheduler, schedule
from quarterjack.declare import job_of
from quarterjack.errors import InvalidInput, JobError
from quarterjack.ready_jobs.http import Request, Secret, http_job, send
from quarterjack.ready_jobs.http.exchange import LARGEST
from quarterjack.ready_jobs.http.exchange import exchange as exchange_plainly
from quarterjack.ready_jobs.http.send import retry_after
from quarterjack.testing import Harness

from tests.support.http_endpoint import Endpoint, Handler, serving
from tests.support.http_jobs import LOCAL, NOON, harness_of, once

# What is sent.


def test_an_endpoint_gets_the_payload_and_who_is_asking(endpoint: Endpoint) -> None:
    harness = harness_of(f"{endpoint.url}/orders?dry=1", headers={"X-Team": "crm"})
    endpoint.answers((201, {"X-Request-Id": "r-7", "Set-Cookie": "id=1"}, b'{"made": 3}'))
    run = once(harness, {"day": "2026-05-04", "name": "Zoë"})
    (asked,) = endpoint.asked
    assert (asked.method, asked.path) == ("POST", "/orders?dry=1")
    assert json.loads(asked.body) == {"day": "2026-05-04", "name": "Zoë"}
    sent = {
        "content-type": "application/json",
        "host": endpoint.url.removeprefix("http://"),
        "idempotency-key": run.id,
        "quarterjack-attempt": "1",
        "quarterjack-run": run.id,
        "quarterjack-scheduled-at": "2026-05-04T12:00:00+00:00",
        "user-agent": "quarterjack",
        "x-team": "crm",
    }
    assert sent.items() <= asked.headers.items()
    assert run.state == "SUCCEEDED"
    assert run.result["status"] == 201
    assert run.result["body"] == '{"made": 3}'
    assert run.result["headers"]["x-request-id"] == "r-7"
    assert "set-cookie" not in run.result["headers"]


def test_an_open_job_takes_its_request_from_the_payload(endpoint: Endpoint) -> None:
    endpoint.answers((404, {}, b"gone already"))
    payload = {"url": f"{endpoint.url}/carts/7", "method": "delete", "headers": {"X-Why": "old"}, "expect": [204, 404]}
    run = once(harness_of(None), payload)
    (asked,) = endpoint.asked
    assert (asked.method, asked.path, asked.headers["x-why"], asked.body) == ("DELETE", "/carts/7", "old", b"")
    assert (run.state, run.result["status"]) == ("SUCCEEDED", 404)


@pytest.mark.parametrize(
    ("payload", "method", "body", "kind"),
    [
        ({}, "GET", b"", None),
        ({"body": {"a": [1, "ü"]}}, "POST", '{"a":[1,"ü"]}'.encode(), "application/json"),
        ({"body": "a,b\n1,2", "headers": {"content-type": "text/csv"}}, "POST", b"a,b\n1,2", "text/csv"),
        ({"body": "ü", "method": "PUT"}, "PUT", "ü".encode(), "text/plain; charset=utf-8"),
    ],
)
def test_the_body_decides_on_method_and_type(
    endpoint: Endpoint, payload: dict[str, Any], method: str, body: bytes, kind: str | None
) -> None:
    once(harness_of(None), {"url": endpoint.url, **payload})
    (asked,) = endpoint.asked
    assert (asked.method, asked.body, asked.headers.get("content-type")) == (method, body, kind)


def test_a_job_of_ones_own_may_send_too(endpoint: Endpoint) -> None:
    jobs = Registry()

    @jobs.job("call")
    def call(ctx: Any, payload: dict[str, str]) -> int:
        request = Request(url=f"{endpoint.url}/{payload['region']}")
        return int(send(ctx, request, networks=("127.0.0.1",))["status"])

    assert once(Harness(jobs, at=NOON), {"region": "eu"}).result == 200
    assert endpoint.asked[0].path == "/eu"


def test_the_key_is_the_same_in_every_attempt_and_short_enough(endpoint: Endpoint) -> None:
    endpoint.answers(500, 200)
    jobs = Registry()
    http_job("call", url=endpoint.url, registry=jobs, **LOCAL)  # type: ignore[arg-type]
    harness = Harness(jobs, at=NOON, tenant="t" * 64)
    harness.scheduler.create_schedule("n" * 200, "call", "0 13 * * *")
    harness.advance(hours=2)
    keys = [asked.headers["idempotency-key"] for asked in endpoint.asked]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert len(keys[0]) <= 255
    assert [asked.headers["quarterjack-attempt"] for asked in endpoint.asked] == ["1", "2"]


# What an answer means.


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_passing_error_is_tried_again(endpoint: Endpoint, status: int) -> None:
    endpoint.answers((status, {}, b"not now"), 200)
    run = once(harness_of(endpoint.url))
    assert (run.state, run.attempt) == ("SUCCEEDED", 2)
    (failed,) = run.failed_attempts
    assert (failed.error_type, failed.error_code) == ("UnexpectedStatus", str(status))
    assert failed.error.startswith(f"POST {endpoint.url} answered {status} ")
    assert failed.error.endswith(": not now")


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 409, 410, 422])
def test_an_error_that_stays_is_dead_at_once(endpoint: Endpoint, status: int) -> None:
    endpoint.answers((status, {}, b"no"), 200)
    harness = harness_of(endpoint.url)
    run = once(harness)
    assert (run.state, run.attempt, len(endpoint.asked)) == ("DEAD", 1, 1)
    (dead,) = harness.scheduler.list_dead(error_type="UnexpectedStatus").items
    assert dead.id == run.id


def test_a_schedule_that_has_retries_of_its_own_tries_no_permanent_error_again(endpoint: Endpoint) -> None:
    """Its Retry replaces the job's; what is permanent is for the answer to say."""
    endpoint.answers(404)
    once(harness_of(endpoint.url), retry=Retry(max_attempts=5))
    assert len(endpoint.asked) == 1


def test_which_statuses_are_a_success_and_which_are_tried_again_can_be_said(endpoint: Endpoint) -> None:
    endpoint.answers(409, 200, 202)
    run = once(harness_of(endpoint.url, expect=(202,), again=(409, 200)))
    assert (run.state, run.attempt) == ("SUCCEEDED", 3)


@pytest.mark.parametrize("value", ["120", "Mon, 04 May 2026 12:02:00 GMT"])
def test_retry_after_is_read_in_both_forms(value: str) -> None:
    assert retry_after(value, NOON) == 120


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("soon", None),
        ("-5", None),
        ("Mon, 04 May 2026", None),
        ("Mon, 04 May 2026 11:00:00 GMT", 0),
        ("9" * 40, 86_400),
    ],
)
def test_a_retry_after_that_asks_for_nothing_sensible_is_bounded_or_ignored(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after(value, NOON) == seconds


def test_retry_after_is_kept(endpoint: Endpoint) -> None:
    endpoint.answers((429, {"Retry-After": "300"}, b""), 200)
    run = once(harness_of(endpoint.url, retry=Retry(base=1.0)))
    assert run.state == "SUCCEEDED"
    assert run.failed_attempts[0].next_attempt_at == NOON + timedelta(seconds=300)


def test_only_so_much_of_an_answer_is_kept(endpoint: Endpoint) -> None:
    endpoint.answers((200, {}, b"x" * 2_000_000 + b"end"))
    run = once(harness_of(endpoint.url, keep=5))
    assert (run.result["body"], run.result["bytes"], run.result["more"]) == ("xxxxx", 1024 * 1024, True)
    endpoint.answers((200, {}, b"\xff\xfe" + b"the end"))
    assert once(harness_of(endpoint.url, keep=3)).result["body"] == "end"
    assert once(harness_of(endpoint.url, keep=0)).result["body"] == ""


# What can go wrong with a connection.


def test_a_connection_that_is_refused_or_cut_is_tried_again(endpoint: Endpoint) -> None:
    def hang_up(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhal")

    endpoint.answers(lambda handler: None, hang_up, 200)
    run = once(harness_of(endpoint.url))
    assert (run.state, run.attempt) == ("SUCCEEDED", 3)
    assert [failed.error_type for failed in run.failed_attempts] == ["ConnectionError"] * 2


def test_nobody_at_the_port_is_a_connection_error() -> None:
    with serving() as gone:
        url = gone.url
    run = once(harness_of(url, retry=Retry(max_attempts=1)))
    assert (run.state, run.error_type) == ("DEAD", "ConnectionError")
    assert f"{url} cannot be reached" in str(run.error)


def hang(handler: Handler) -> None:
    handler.endpoint.released.wait(30)


def drip(handler: Handler) -> None:
    """A byte at a time: no wait for one of them is ever long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(200):
        if handler.endpoint.released.wait(0.05):
            return
        handler.wfile.write(b"X-Slow: 1\r\n" if handler.path == "/headers" else b"x")
        handler.wfile.flush()


def drip_body(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")  # its end is that of the connection
    for _ in range(200):
        if handler.endpoint.released.wait(0.05):
            return
        handler.wfile.write(b"x")


@pytest.mark.parametrize(("path", "reply"), [("/headers", drip), ("/body", drip_body)])
def test_an_endpoint_that_drips_does_not_hold_the_worker(endpoint: Endpoint, path: str, reply: Any) -> None:
    endpoint.answers(reply)
    run = once(harness_of(endpoint.url + path, timeout=0.5, retry=Retry(max_attempts=1)))
    assert (run.state, run.error_type) == ("DEAD", "TimeoutError")
    assert run.error == "no complete response within 0.5 s"


def test_a_cancelled_run_lets_go_of_its_request(endpoint: Endpoint) -> None:
    """Its worker learns of it at a heartbeat, in another thread; the request does not last until its timeout."""
    harness, outlasted = harness_of(f"{endpoint.url}", timeout=60), threading.Event()

    def cancelled_meanwhile(handler: Handler) -> None:
        harness.scheduler.cancel_run("default/~once#once")
        harness.heartbeat()
        if not handler.endpoint.released.wait(30):
            outlasted.set()

    endpoint.answers(cancelled_meanwhile)
    run = once(harness)
    assert not outlasted.is_set(), "the request ends before its answer"
    assert (run.state, run.reason) == ("CANCELLED", "requested")


def test_a_request_fits_into_what_is_left_of_the_function(endpoint: Endpoint) -> None:
    endpoint.answers(hang)
    jobs = Registry()

    @jobs.job("call", retry=Retry(max_attempts=1))
    def call(ctx: Context, payload: object) -> None:
        send(replace(ctx, remaining=lambda: 2.5), Request(url=endpoint.url), networks=("127.0.0.1",))

    run = once(Harness(jobs, at=NOON))
    assert (run.error_type, run.error) == ("TimeoutError", "no complete response within 0.5 s")


# Redirects.


def test_a_redirect_is_an_answer_unless_it_shall_be_exchange_and_follow(endpoint: Endpoint, other: Endpoint) -> None:
    endpoint.answers((307, {"Location": f"{other.url}/there"}, b""))
    assert once(harness_of(endpoint.url)).state == "DEAD"
    assert once(harness_of(endpoint.url, redirects=1), {"a": 1}).state == "SUCCEEDED"
    (asked,) = other.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/there", b'{"a":1}')


def test_what_is_for_one_host_is_not_sent_to_another(secure: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_TOKEN", "hush-1")
    to = secure.url.replace("127.0.0.1", "127.0.0.2")  # nobody is there; what would be sent is enough
    secure.answers((307, {"Location": to}, b""))
    headers = {"X-Token": Secret(env="CRM_TOKEN"), "Authorization": "Basic eA==", "X-Team": "crm"}
    sent: list[Any] = []

    def spying(*given: Any) -> Any:
        sent.append(given[2])
        return exchange_plainly(*given)

    monkeypatch.setattr(sys.modules["quarterjack.ready_jobs.http.send"], "exchange", spying)
    once(harness_of(secure.url, redirects=1, headers=headers, allow_env_secrets=True, retry=Retry(max_attempts=1)))
    assert {"X-Token", "Authorization", "X-Team"} <= set(sent[0])
    assert {"X-Token", "Authorization", "X-Team"} & set(sent[1]) == {"X-Team"}
    assert sent[1]["Host"] == to.removeprefix("https://")


def test_a_redirect_that_would_make_a_get_of_a_post_is_not_exchange_and_follow(
    endpoint: Endpoint, other: Endpoint
) -> None:
    endpoint.answers((302, {"Location": other.url}, b""))
    assert once(harness_of(endpoint.url, redirects=5)).state == "DEAD"
    assert once(harness_of(endpoint.url, redirects=5, method="GET")).state == "SUCCEEDED"
    assert [asked.method for asked in other.asked] == ["GET"]


@pytest.mark.parametrize(
    "to", ["http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "http://[::1]/", "//\\x"]
)
def test_no_redirect_gets_around_the_guard(endpoint: Endpoint, to: str) -> None:
    endpoint.answers((307, {"Location": to}, b""))
    run = once(harness_of(endpoint.url, redirects=3))
    assert (run.state, run.attempt, run.error_type) == ("DEAD", 1, "Permanent")


def test_redirects_come_to_an_end(endpoint: Endpoint) -> None:
    endpoint.answers((307, {"Location": "/again"}, b""))
    assert once(harness_of(endpoint.url, redirects=5)).error_code == "307"
    assert len(endpoint.asked) == 6


# Secrets.


def secret_of(url: str | None, **declared: Any) -> Harness:
    headers = {"Authorization": Secret(env="CRM_TOKEN", form="Bearer {}")}
    return harness_of(url, **{"headers": headers, "allow_env_secrets": True} | declared)


def test_a_secret_is_sent_and_seen_nowhere_else(
    secure: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in the result of an endpoint that repeats what it was sent, nor in an error, a traceback or a log line."""
    caplog.set_level("DEBUG")
    monkeypatch.setenv("CRM_TOKEN", "hush-2")
    # A header and a body that are cut in the middle of it.
    echo = (200, {"ETag": "x" * 195 + "hush-2"}, b"you sent Bearer hush-2")
    secure.answers((500, {}, b"you sent Bearer hush-2"), echo)
    harness = secret_of(secure.url)
    run = once(harness)
    assert [asked.headers["authorization"] for asked in secure.asked] == ["Bearer hush-2"] * 2
    assert (run.state, run.result["body"]) == ("SUCCEEDED", "you sent Bearer [secret]")
    assert run.result["headers"]["etag"] == "x" * 195 + "[secr"
    assert run.failed_attempts[0].error.endswith("you sent Bearer [secret]")
    everything = repr(run) + repr(harness.memory.runs()) + caplog.text + repr([vars(line) for line in caplog.records])
    assert "hush" not in everything


def test_a_large_body_is_masked_up_to_where_it_is_cut(secure: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_TOKEN", "hush-0123456789")
    secure.answers((200, {}, b"." * (LARGEST - 6) + b"hush-0123456789" + b"." * 100))
    run = once(secret_of(secure.url))
    assert run.result["more"]
    assert "hush" not in run.result["body"]


def test_a_url_that_is_a_secret_is_not_shown_either(secure: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", f"{secure.url}/services/T0/hush-3-0123?key=hush%2D3-4567")
    secure.answers((404, {}, b"cannot POST /services/T0/hush-3-0123, nor T0/hush-3-0123 with hush-3-4567"))
    hook = {"hosts": ("127.0.0.1",), "allow_env_secrets": True}
    run = once(harness_of(Secret(env="HOOK"), **hook))  # type: ignore[arg-type]
    assert secure.asked[0].path == "/services/T0/hush-3-0123?key=hush%2D3-4567"
    assert run.error == f"POST {secure.url} answered 404 Not Found: cannot POST [secret], nor T0/[secret] with [secret]"
    monkeypatch.setenv("HOOK2", "ftp://hush-4")
    run = once(harness_of(Secret(env="HOOK2"), **hook))  # type: ignore[arg-type]
    assert run.error_type == "Permanent"
    assert "hush-4" not in repr(run)


def test_a_secret_that_is_not_there_says_where_it_should_be(secure: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    run = once(secret_of(secure.url, headers={"X": Secret(env="NOT_SET")}, retry=Retry(max_attempts=1)))
    assert (run.state, run.error_type) == ("DEAD", "Misconfigured")
    assert "NOT_SET is not set" in str(run.error)
    monkeypatch.setenv("CRM_TOKEN", "hush")
    run = once(secret_of(secure.url, allow_env_secrets=False, retry=Retry(max_attempts=1)))
    assert (run.state, run.error_type) == ("DEAD", "Misconfigured")
    assert "allow_env_secrets=True" in str(run.error)
    assert secure.asked == []


def test_a_secret_is_not_sent_in_the_clear(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_TOKEN", "hush-6")
    monkeypatch.setenv("HOOK", endpoint.url)
    with pytest.raises(InvalidInput, match="over https only"):
        secret_of(endpoint.url)
    with pytest.raises(InvalidInput, match="over https only"):
        secret_of(None, hosts=("127.0.0.1",)).scheduler.submit("call", {"url": endpoint.url})
    given: Any = Secret(env="HOOK")
    run = once(harness_of(given, hosts=("127.0.0.1",), allow_env_secrets=True))
    assert (run.state, run.error_type) == ("DEAD", "Permanent")
    assert "over https only" in str(run.error)
    assert endpoint.asked == []


def test_secrets_go_to_declared_hosts_only(secure: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="would be sent to any host that a payload names"):
        secret_of(None)
    with pytest.raises(InvalidInput, match="the URL is a Secret"):
        harness_of(Secret(env="HOOK"))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="name the hosts"):
        send(cast("Any", None), Request(url=secure.url, headers={"X-Token": Secret(env="CRM_TOKEN")}))
    monkeypatch.setenv("CRM_TOKEN", "hush-5")
    harness = secret_of(None, hosts=("127.0.0.1",))
    assert once(harness, {"url": secure.url}).state == "SUCCEEDED"
    assert secure.asked[0].headers["authorization"] == "Bearer hush-5"
    with pytest.raises(InvalidInput, match=r"evil\.example is not among the hosts"):
        harness.scheduler.submit("call", {"url": "https://evil.example/"})


def test_no_error_tells_an_internal_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant who may name hosts could otherwise map the inside by its errors."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.77", 9))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
    for networks in ((), ("127.0.0.77",)):  # refused by the guard, or by the machine
        run = once(harness_of("http://db.inside.example:9/", networks=networks, retry=Retry(max_attempts=1)))
        assert run.state == "DEAD"
        assert "db.inside.example" in str(run.error)
        assert "127.0.0.77" not in repr(run)


# At the door.


REFUSED: list[Any] = [
    None,
    "https://example.com",
    {},
    {"url": "file:///etc/passwd"},
    {"url": "https://ada:secret@example.com/"},
    {"url": "https://example.com/ä"},
    {"url": "https://example.com/\r\nX: 1"},
    {"url": "https://example.com:99999/"},
    {"url": "https://"},
    {"url": "http://169.254.169.254/latest/meta-data/iam"},
    {"url": "http://[fd00:ec2::254]/"},
    {"url": "http://10.0.0.1/"},
    {"url": "https://example.com", "method": "BREW"},
    {"url": "https://example.com", "method": "GET", "body": 1},
    {"url": "https://example.com", "headers": {"X": "a\r\nHost: b"}},
    {"url": "https://example.com", "headers": {"Host": "b"}},
    {"url": "https://example.com", "headers": {"Idempotency-Key": "mine"}},
    {"url": "https://example.com", "headers": {"x-team": "theirs"}},
    {"url": "https://example.com", "headers": "X: 1"},
    {"url": "https://example.com", "timeout": 0},
    {"url": "https://example.com", "timeout": 10_000},
    {"url": "https://example.com", "expect": [99]},
    {"url": "https://example.com", "redirects": 100},
    {"url": "https://example.com", "keep": 10**9},
    {"url": "https://example.com", "verify": False},
]


@pytest.mark.parametrize("payload", REFUSED, ids=repr)
def test_a_payload_of_which_no_request_can_be_made_is_refused_at_the_call(payload: Any) -> None:
    harness = harness_of(None, headers={"X-Team": "crm"})
    scheduler = harness.scheduler
    scheduler.create_schedule("good", "call", "0 * * * *", payload={"url": "https://example.com"})
    for refused in (
        lambda: scheduler.submit("call", payload),
        lambda: scheduler.create_schedule("bad", "call", "0 * * * *", payload=payload),
        lambda: scheduler.upsert_schedule("bad", "call", "0 * * * *", payload=payload),
        lambda: scheduler.update_schedule("good", payload=payload),
    ):
        with pytest.raises(InvalidInput, match="payload"):
            refused()
    assert harness.runs() == []
    assert scheduler.get_schedule("good").revision == 1


def test_what_got_past_the_door_is_dead_at_once(endpoint: Endpoint) -> None:
    """An SDK that does not know the job cannot check."""
    harness = harness_of(None)
    harness.scheduler.create_schedule("s", "call", "0 0 1 1 *", payload={"url": endpoint.url})
    with pytest.raises(InvalidInput, match="payload: url"):
        harness.scheduler.trigger("s", payload={"url": "gopher://x"})
    stranger = Scheduler(jobs=Registry(), services=harness.memory.connect(), clock=harness.clock)
    run = stranger.trigger("s", payload={"url": "gopher://x"})
    harness.advance(minutes=1)
    found = harness.scheduler.get_run(run.id)
    assert (found.state, found.error_type, found.attempt) == ("DEAD", "Permanent", 1)


@pytest.mark.parametrize(
    "declared",
    [
        {"url": "ftp://example.com"},
        {"url": "http://169.254.169.254"},
        {"url": "https://example.com", "hosts": ("example.org",)},
        {"url": "https://example.com", "hosts": "example.com"},
        {"url": "https://example.com", "networks": ("10.0.0.1/8",)},
        {"url": "https://example.com", "method": "TRACE"},
        {"headers": {"X": 1}},
    ],
)
def test_what_could_never_be_sent_is_refused_when_it_is_declared(declared: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        http_job("call", registry=Registry(), **declared)


def test_an_endpoint_that_takes_no_body_takes_no_payload() -> None:
    harness = harness_of("https://example.com", method="GET")
    with pytest.raises(InvalidInput, match="cannot be sent with GET"):
        harness.scheduler.submit("call", {"a": 1})


def test_it_is_a_job_like_any_other() -> None:
    jobs = Registry()
    http_job("call", url="https://example.com", registry=jobs)
    function = http_job("call", url="https://example.com", registry=jobs)  # its module is imported again
    with pytest.raises(JobError, match="declared twice"):
        http_job("call", url="https://example.org", registry=jobs)
    schedule("0 9 * * *", registry=jobs)(function)
    assert [job_of(found, jobs) for found in jobs.declared()] == ["call"]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("watchdog")]
