"""Notifiers against real servers on loopback: what an incident sends, what is repeated, what is refused, and that no secret shows."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry, RunState
from quarterjack.domain.notice import Notice
from quarterjack.errors import InvalidInput
from quarterjack.ready_jobs.http import Secret
from quarterjack.ready_jobs.notifiers import (
    pagerduty_notifier,
    slack_notifier,
    sns_notifier,
    webhook_notifier,
)
from quarterjack.testing import Harness

from tests.support.builders import a_notice
from tests.support.http_endpoint import Endpoint, Handler

KEY, OTHER = b"k" * 24, b"o" * 32
SIGNING, NEXT = (f"whsec_{base64.b64encode(key).decode()}" for key in (KEY, OTHER))
LOCAL: Any = {"networks": ("127.0.0.0/8",), "allow_env_secrets": True}
NOTICE = a_notice(
    schedule="invoices",
    job="work",
    incident="failure-1",
    began="2026-05-04T08:00:00.000Z",
    at="2026-05-04T08:00:00.000Z",
    text="acme/invoices fails: <b>&</b>",
)


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_SIGNING", SIGNING)
    monkeypatch.setenv("ACME_ROUTING", "R0UTINGKEY0123456789")


class Installation:
    """A schedule that fails as long as it is told to, and a notifier of its incidents."""

    def __init__(self, declare: Callable[[Registry], str]) -> None:
        self.jobs, self.broken = Registry(), True
        self.jobs.job("work", retry=Retry(max_attempts=1))(self._work)
        to = declare(self.jobs)
        self.harness = Harness(self.jobs, at=datetime(2026, 5, 4, 7, 59, tzinfo=UTC), tenant="acme")
        self.harness.scheduler.create_schedule("invoices", "work", "0 * * * *", on_failure=to, on_recovery=to)

    def _work(self, ctx: Context, payload: object) -> None:
        if self.broken:
            raise ConnectionError("the mail server does not answer")

    def incident(self) -> None:
        """It fails at eight and nine, and works at ten."""
        self.harness.advance(hours=2)
        self.broken = False
        self.harness.advance(hours=1)


def told(endpoint: Endpoint) -> list[Any]:
    return [json.loads(asked.body) for asked in endpoint.asked]


def alone(declare: Callable[[Registry], str], notice: Notice = NOTICE) -> Any:
    """The run of a notifier that is submitted by hand, at its end."""
    jobs = Registry()
    to = declare(jobs)
    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, tzinfo=UTC), tenant="acme")
    run = harness.scheduler.submit(to.removeprefix("job:"), notice.document())
    harness.advance(hours=2)
    found = harness.scheduler.get_run(run.id)
    rows = [row for table in harness.memory._tables.values() for row in table]
    assert rows
    assert not any(word in repr(rows) for word in (SIGNING, "R0UTINGKEY0123456789"))
    return found


def hook(endpoint: Endpoint, **more: Any) -> Callable[[Registry], str]:
    def declare(jobs: Registry) -> str:
        signing = Secret(env="ACME_SIGNING")
        return webhook_notifier("hook", url=f"{endpoint.url}/in", signing=signing, registry=jobs, **(LOCAL | more))

    return declare


def is_signed(endpoint: Endpoint, key: bytes, place: int = 0) -> bool:
    """Whether a receiver that follows the specification accepts a request."""
    asked = endpoint.asked[place]
    at = asked.headers["webhook-timestamp"]
    content = f"{asked.headers['webhook-id']}.{at}.".encode() + asked.body
    expected = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return expected in asked.headers["webhook-signature"].split(" ") and abs(time.time() - int(at)) < 300


# The webhook.


def test_an_incident_is_told_to_a_webhook_with_a_signature(endpoint: Endpoint) -> None:
    installation = Installation(hook(endpoint))
    installation.incident()
    failing, recovered = told(endpoint)
    assert (failing["type"], recovered["type"]) == ("schedule.failing", "schedule.recovered")
    assert (failing["data"]["kind"], failing["data"]["error_type"]) == ("failure", "ConnectionError")
    assert failing["data"]["incident"] == recovered["data"]["incident"]
    assert [failing["id"], recovered["id"]] == [asked.headers["webhook-id"] for asked in endpoint.asked]
    assert is_signed(endpoint, KEY, 0)
    assert is_signed(endpoint, KEY, 1)
    assert not is_signed(endpoint, OTHER)
    assert endpoint.asked[0].headers["content-type"] == "application/json"


def test_while_the_secret_is_rotated_both_keys_sign(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_SIGNING", f"{NEXT} {SIGNING}")
    alone(hook(endpoint))
    assert is_signed(endpoint, KEY)
    assert is_signed(endpoint, OTHER)


@pytest.mark.parametrize("status", [500, 503, 408, 425, 429])
def test_what_may_pass_is_repeated_under_the_same_id(endpoint: Endpoint, status: int) -> None:
    endpoint.answers(status, status, 204)
    assert alone(hook(endpoint)).state is RunState.SUCCEEDED
    assert len({asked.headers["webhook-id"] for asked in endpoint.asked}) == 1
    assert (len(endpoint.asked), is_signed(endpoint, KEY, 2)) == (3, True)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 413, 422])
def test_a_refusal_is_not_repeated(endpoint: Endpoint, status: int) -> None:
    endpoint.answers(status)
    run = alone(hook(endpoint))
    assert (run.state, run.error_code, len(endpoint.asked)) == (RunState.DEAD, str(status), 1)


def test_a_redirect_is_not_followed(endpoint: Endpoint, other: Endpoint) -> None:
    endpoint.answers((307, {"Location": other.url}, b""))
    run = alone(hook(endpoint))
    assert (run.state, len(endpoint.asked), other.asked) == (RunState.DEAD, 1, [])


def test_a_receiver_that_does_not_answer_in_time_is_asked_again(endpoint: Endpoint) -> None:
    def hang(handler: Handler) -> None:
        handler.endpoint.released.wait(10)

    endpoint.answers(hang, 200)
    run = alone(hook(endpoint, timeout=0.2))
    assert (run.state, [each.error_type for each in run.failed_attempts]) == (RunState.SUCCEEDED, ["TimeoutError"])


def test_nobody_there_is_repeated_until_the_attempts_are_used_up(endpoint: Endpoint) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = Endpoint(f"http://127.0.0.1:{taken.getsockname()[1]}")
        run = alone(hook(closed, retry=Retry(max_attempts=3, base=1)))
    assert (run.state, run.error_type, run.attempt) == (RunState.DEAD, "ConnectionError", 3)


def test_what_is_no_signing_secret_fails_without_a_request(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_SIGNING", "hunter2hunter2")
    run = alone(hook(endpoint))
    assert endpoint.asked == []
    assert "signing: what lies there is not a signing secret" in run.error
    assert "hunter2" not in run.error + run.failed_attempts[0].traceback


def test_without_encryption_it_stays_within_the_networks(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 80))]
    monkeypatch.setattr("quarterjack.ready_jobs.http.guard.socket.getaddrinfo", lambda *_, **__: outside)

    def declare(jobs: Registry) -> str:
        signing = Secret(env="ACME_SIGNING")
        return webhook_notifier("hook", url="http://hooks.internal/", signing=signing, registry=jobs, **LOCAL)

    run = alone(declare)
    assert run.state is RunState.DEAD
    assert "not encrypted" in run.error


def test_it_reaches_no_private_address_unless_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 443))]
    monkeypatch.setattr("quarterjack.ready_jobs.http.guard.socket.getaddrinfo", lambda *_, **__: inside)

    def declare(jobs: Registry) -> str:
        signing = Secret(env="ACME_SIGNING")
        url = "https://hooks.example.com/"
        return webhook_notifier("hook", url=url, signing=signing, allow_env_secrets=True, registry=jobs)

    run = alone(declare)
    assert run.state is RunState.DEAD
    assert "not at a public address" in run.error


# Presets.


def test_slack_gets_a_text_without_markup_in_it(endpoint: Endpoint) -> None:
    def declare(jobs: Registry) -> str:
        return slack_notifier("chat", url=f"{endpoint.url}/services/T/B/x", registry=jobs, **LOCAL)

    assert alone(declare).state is RunState.SUCCEEDED
    assert told(endpoint) == [
        {"text": ":red_circle: *acme/invoices fails*\nacme/invoices fails: &lt;b&gt;&amp;&lt;/b&gt;"}
    ]


def test_slack_is_told_the_recovery(endpoint: Endpoint) -> None:
    def declare(jobs: Registry) -> str:
        return slack_notifier("chat", url=f"{endpoint.url}/services/T/B/x", registry=jobs, **LOCAL)

    Installation(declare).incident()
    assert [body["text"].partition("\n")[0] for body in told(endpoint)] == [
        ":red_circle: *acme/invoices fails*",
        ":large_green_circle: *acme/invoices has recovered*",
    ]


def test_a_secret_url_is_shown_nowhere(secure: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_CHAT", f"{secure.url}/services/T0/B0/verysecretpart")
    secure.answers((404, {}, b"no_service at /services/T0/B0/verysecretpart"))

    def declare(jobs: Registry) -> str:
        where: Any = LOCAL | {"hosts": ("127.0.0.1",)}
        return slack_notifier("chat", url=Secret(env="ACME_CHAT"), registry=jobs, **where)

    run = alone(declare)
    assert (run.state, secure.asked[0].path) == (RunState.DEAD, "/services/T0/B0/verysecretpart")
    assert "verysecretpart" not in repr(run)


def pager(endpoint: Endpoint) -> Callable[[Registry], str]:
    def declare(jobs: Registry) -> str:
        key = Secret(env="ACME_ROUTING")
        url = f"{endpoint.url}/v2/enqueue"
        return pagerduty_notifier("oncall", routing_key=key, url=url, severity="critical", registry=jobs, **LOCAL)

    return declare


def test_pagerduty_opens_one_alert_and_resolves_it(secure: Endpoint) -> None:
    secure.answers(202)
    Installation(pager(secure)).incident()
    opened, resolved = told(secure)
    assert (opened["event_action"], resolved["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == resolved["dedup_key"]
    assert opened["dedup_key"].startswith("quarterjack/acme/invoices/")
    assert {opened["routing_key"], resolved["routing_key"]} == {"R0UTINGKEY0123456789"}
    shown = opened["payload"]
    assert (shown["source"], shown["severity"], shown["component"]) == ("acme/invoices", "critical", "work")
    assert "the mail server does not answer" in shown["summary"]


def test_the_routing_key_is_masked_where_the_receiver_repeats_it(secure: Endpoint) -> None:
    secure.answers((400, {}, b'{"message": "invalid key R0UTINGKEY0123456789"}'))
    run = alone(pager(secure))
    assert (run.state, run.error_code, len(secure.asked)) == (RunState.DEAD, "400", 1)
    assert "[secret]" in run.error
    assert "R0UTINGKEY" not in repr(run)


def test_long_names_have_a_short_key() -> None:
    from quarterjack.ready_jobs.notifiers import _dedup_key

    names = [Notice(**vars(NOTICE) | {"incident": "x" * length}) for length in (10, 300)]
    short, long = map(_dedup_key, names)
    assert short == f"quarterjack/acme/invoices/{'x' * 10}"
    assert len(long) <= 255


# Declarations.

UNTYPED: Any = "whsec_x"


@pytest.mark.parametrize(
    ("declare", "field"),
    [
        (lambda jobs: webhook_notifier("n", url="ftp://x", signing=Secret(env="S"), registry=jobs), "url"),
        (lambda jobs: webhook_notifier("n", url="http://hooks.example.com", signing=Secret(env="S"), registry=jobs), "url"),
        (lambda jobs: webhook_notifier("n", url="https://169.254.169.254/", signing=Secret(env="S"), registry=jobs), "url"),
        (lambda jobs: webhook_notifier("n", url=Secret(env="U"), signing=Secret(env="S"), registry=jobs), "hosts"),
        (lambda jobs: webhook_notifier("n", url="https://a.example", signing=UNTYPED, registry=jobs), "signing"),
        (lambda jobs: webhook_notifier("n", url="https://a.example", signing=Secret(env="S"), timeout=0, registry=jobs), "timeout"),
        (lambda jobs: pagerduty_notifier("n", routing_key=UNTYPED, registry=jobs), "routing_key"),
        (lambda jobs: pagerduty_notifier("n", routing_key=Secret(env="K"), severity="loud", registry=jobs), "severity"),  # type: ignore[arg-type]
        (lambda jobs: pagerduty_notifier("n", routing_key=Secret(env="K"), url="http://a.example", registry=jobs), "url"),
        (lambda jobs: sns_notifier("n", "arn:aws:sqs:eu-west-1:123456789012:q", registry=jobs), "topic"),
        (lambda jobs: sns_notifier("not a name!", "arn:aws:sns:eu-west-1:123456789012:t", registry=jobs), "job"),
    ],
)  # fmt: skip
def test_a_declaration_that_cannot_work_is_refused(declare: Callable[[Registry], str], field: str) -> None:
    jobs = Registry()
    with pytest.raises(InvalidInput) as refused:
        declare(jobs)
    assert refused.value.field == field
    assert "whsec_x" not in str(refused.value)
    assert jobs.names() == []


@pytest.mark.parametrize(
    "payload",
    [
        None,
        "fails",
        {},
        {"schema": 1},
        NOTICE.document() | {"schema": 2},
        NOTICE.document() | {"kind": "joy"},
        {"schema": 9},
    ],
)
def test_what_is_no_notice_is_refused_where_it_is_submitted(endpoint: Endpoint, payload: object) -> None:
    jobs = Registry()
    hook(endpoint)(jobs)
    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, tzinfo=UTC))
    with pytest.raises(InvalidInput, match="is not a notice"):
        harness.scheduler.submit("hook", payload)


def test_doctor_sees_secrets_of_the_environment(endpoint: Endpoint) -> None:
    jobs = Registry()
    hook(endpoint)(jobs)
    (job,) = jobs
    assert getattr(job.function, "env_secrets", ()) == ("ACME_SIGNING",)
