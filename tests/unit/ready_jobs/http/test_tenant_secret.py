"""Secrets of tenants in HTTP jobs and notifiers: whose they are, where they are sent to, and that no answer shows them."""

from __future__ import annotations

import base64
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry, RunState, Scheduler
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.ready_jobs.http import Request, Secret, http_job, send
from quarterjack.ready_jobs.http.secrets import resolve
from quarterjack.ready_jobs.notifiers import webhook_notifier
from quarterjack.testing import Harness

from tests.support.builders import a_notice
from tests.support.certificates import certified
from tests.support.http_endpoint import Endpoint, Handler, serving

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HUSH = 'hush/a "0123456789"'
LOCAL: dict[str, Any] = {"networks": ("127.0.0.0/8",)}


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    context, certificate = certified(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(context) as endpoint:
        yield endpoint


def echo(handler: Handler) -> None:
    """Answer with all that was sent, in several encodings."""
    asked = handler.endpoint.asked[-1]
    sent = {"headers": dict(asked.headers), "body": asked.body.decode(), "path": asked.path}
    text = json.dumps(sent)
    encoded = base64.b64encode(f"got {asked.headers.get('authorization')}".encode()).decode()
    content = json.dumps({"sent": sent, "again": text, "encoded": encoded}).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def harness_of(jobs: Registry) -> Harness:
    harness = Harness(jobs, at=NOON, tenant="acme", secrets={"crm": HUSH})
    harness.set_secret("crm", "other-0123456789", tenant="beta")
    return harness


def once(harness: Harness, payload: object = None, job: str = "call") -> Any:
    run = harness.scheduler.submit(job, payload)
    harness.advance(minutes=30)
    return harness.scheduler.get_run(run.id)


def is_nowhere(harness: Harness, run: object, caplog: pytest.LogCaptureFixture) -> bool:
    rows = [row for table in harness.memory._tables.values() for row in table]
    told = f"{rows!r} {run!r} {caplog.text} {json.dumps([dict(vars(record), args=None) for record in caplog.records], default=repr)}"
    forms = (HUSH, json.dumps(HUSH)[1:-1], "hush", base64.b64encode(HUSH.encode()).decode()[:12])
    return not any(form in told for form in forms)


def test_each_tenants_runs_send_its_own(secure: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "quarterjack")
    jobs = Registry()
    headers = {"Authorization": Secret(tenant="crm", form="Bearer {}")}
    http_job("call", url=f"{secure.url}/in", headers=headers, registry=jobs, **LOCAL)
    harness = harness_of(jobs)
    secure.answers(echo)
    run = once(harness)
    assert run.state is RunState.SUCCEEDED, run.error
    other = Scheduler("beta", jobs=jobs, services=harness._services, clock=harness.clock)
    other.submit("call")
    harness.advance(minutes=1)
    assert [asked.headers["authorization"] for asked in secure.asked] == [f"Bearer {HUSH}", "Bearer other-0123456789"]
    assert "[secret]" in run.result["body"]
    assert is_nowhere(harness, run, caplog)


def test_a_payload_may_name_one_and_never_says_whose(secure: Endpoint) -> None:
    jobs = Registry()
    http_job("call", hosts=("127.0.0.1",), registry=jobs, **LOCAL)
    harness = harness_of(jobs)
    secure.answers(echo)
    named = {"url": secure.url, "headers": {"X-Key": {"secret": "crm"}, "X-Other": "plain"}}
    run = once(harness, named)
    assert run.state is RunState.SUCCEEDED, run.error
    assert (secure.asked[0].headers["x-key"], secure.asked[0].headers["x-other"]) == (HUSH, "plain")
    assert harness.scheduler.get_run(run.id).payload == named
    formed = {"url": secure.url, "headers": {"Authorization": {"secret": "crm", "form": "Bearer {}"}}}
    once(harness, formed)
    assert secure.asked[1].headers["authorization"] == f"Bearer {HUSH}"


@pytest.mark.parametrize(
    "header",
    [
        {"secret": "../beta/crm"},
        {"secret": "/quarterjack/tenants/beta/crm"},
        {"secret": "beta/crm"},
        {"secret": 7},
        {"secret": "crm", "tenant": "beta"},
        {"parameter": "/acme/crm"},
        {"tenant": "crm"},
        {"secret": "crm", "form": "no place"},
        {},
    ],
)
def test_a_payload_that_says_more_than_a_name_is_refused_at_the_call(header: Any) -> None:
    jobs = Registry()
    http_job("call", hosts=("127.0.0.1",), registry=jobs, **LOCAL)
    with pytest.raises(InvalidInput):
        harness_of(jobs).scheduler.submit("call", {"url": "https://127.0.0.1/", "headers": {"X-Key": header}})


def test_a_payload_names_none_where_it_names_the_host(secure: Endpoint) -> None:
    jobs = Registry()
    http_job("call", registry=jobs, **LOCAL)
    with pytest.raises(InvalidInput, match="any host that a payload names"):
        harness_of(jobs).scheduler.submit("call", {"url": secure.url, "headers": {"X-Key": {"secret": "crm"}}})


def test_a_payload_sends_none_in_the_clear(endpoint: Endpoint) -> None:
    jobs = Registry()
    http_job("call", hosts=("127.0.0.1",), registry=jobs, **LOCAL)
    with pytest.raises(InvalidInput, match="over https only"):
        harness_of(jobs).scheduler.submit("call", {"url": endpoint.url, "headers": {"X-Key": {"secret": "crm"}}})


@pytest.mark.parametrize("where", ["header", "body", "url"])
def test_a_job_that_puts_its_secret_into_a_request_itself_needs_https_too(
    endpoint: Endpoint, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = Registry()

    @jobs.job("call", retry=Retry(max_attempts=1))
    def call(ctx: Context, payload: object) -> Any:
        secret = "hush-0123456789" if ctx.secret("plain") else ""
        parts: dict[str, Any] = {
            "header": {"url": endpoint.url, "headers": {"X-Key": f"Key {secret}"}},
            "body": {"url": endpoint.url, "body": {"token": secret}},
            "url": {"url": f"{endpoint.url}/?token={secret}"},
        }
        return send(ctx, Request(**parts[where]), **LOCAL)

    harness = harness_of(jobs)
    harness.set_secret("plain", "hush-0123456789")
    run = once(harness)
    assert (run.state, run.error_type, endpoint.asked) == (RunState.DEAD, "Permanent", [])
    assert "over https only" in str(run.error)
    assert is_nowhere(harness, run, caplog)


def test_what_such_a_request_is_answered_is_masked_so_that_a_step_may_keep_it(
    secure: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = Registry()

    @jobs.job("call", retry=Retry(max_attempts=1))
    def call(ctx: Context, payload: object) -> Any:
        request = Request(url=secure.url, headers={"Authorization": f"Bearer {ctx.secret('crm')}"})
        return ctx.step("call", lambda: send(ctx, request, **LOCAL))

    harness = harness_of(jobs)
    secure.answers(echo)
    run = once(harness)
    assert run.state is RunState.SUCCEEDED, run.error
    assert is_nowhere(harness, run, caplog)


def test_outside_of_a_run_there_is_no_tenant() -> None:
    with pytest.raises(Misconfigured, match="this is not a run"):
        resolve(Secret(tenant="crm"))


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a:1", 7])
def test_a_declaration_with_no_name_of_a_secret_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInput):
        Secret(tenant=name)


# A signing secret.


def _signing(*letters: bytes) -> str:
    return " ".join(f"whsec_{base64.b64encode(letter * 24).decode()}" for letter in letters)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("secret", ["tenant", "env"])
def test_a_signing_secret_that_the_receiver_repeats_is_masked(
    endpoint: Endpoint, status: int, secret: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is never sent; but a receiver may say what it compared with, all of it or one of two."""
    caplog.set_level(logging.DEBUG, "quarterjack")
    both = _signing(b"k", b"o")
    monkeypatch.setenv("SIGNING", both)
    jobs = Registry()
    place = Secret(tenant="signing") if secret == "tenant" else Secret(env="SIGNING")
    webhook_notifier(
        "hook",
        url=endpoint.url,
        signing=place,
        registry=jobs,
        allow_env_secrets=True,
        retry=Retry(max_attempts=1),
        **LOCAL,
    )
    harness = harness_of(jobs)
    harness.set_secret("signing", both)
    first, second = both.split()
    shown = f"expected a signature by {second} or {first.removeprefix('whsec_')}, of {both}"
    endpoint.answers((status, {"X-Request-Id": second}, shown.encode()))
    notice = a_notice(schedule="invoices", job="work")
    run = once(harness, notice.document(), "hook")
    assert run.state is (RunState.SUCCEEDED if status == 200 else RunState.DEAD)
    rows = repr([row for table in harness.memory._tables.values() for row in table])
    for word in (*both.split(), *(word.removeprefix("whsec_") for word in both.split())):
        assert word not in f"{rows} {run!r} {caplog.text}"
    assert "[secret]" in f"{run.result} {run.error}"
