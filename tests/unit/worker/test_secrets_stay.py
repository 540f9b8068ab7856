"""A thousand runs that let their secrets out in every way that they have: afterwards none of twenty secrets is found anywhere."""

from __future__ import annotations

import asyncio
import base64
import gzip
import html
import json
import logging
import random
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, quote_plus

import pytest
from quarterjack import Context, Registry, Retry, Scheduler
from quarterjack.cli.shell import print_json, text_of
from quarterjack.cli.shell import values as fields_of
from quarterjack.logs import JsonFormatter, ReadableFormatter
from quarterjack.ready_jobs.http import Request, Secret, http_job, send
from quarterjack.ready_jobs.http.exchange import _trust
from quarterjack.testing import Harness
from quarterjack.testing.memory.queues import MemoryQueue, Stored

from tests.support.certificates import certified
from tests.support.http_endpoint import Endpoint, Handler, serving

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
TOPIC = "arn:aws:sns:eu-central-1:123456789012:failures"
RUNS = [200, pytest.param(1_000, marks=pytest.mark.proof)]
LOCAL: dict[str, Any] = {"networks": ("127.0.0.0/8",), "hosts": ("127.0.0.1",)}
library = logging.getLogger("some.library")


def _secrets(tenant: str) -> dict[str, str]:
    """Ten of a tenant, of the kinds that there are."""
    chance = random.Random(tenant)

    def word(length: int, letters: str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") -> str:
        return "".join(chance.choices(letters, k=length))

    return {
        "token": word(40),
        "short": word(8),
        "marks": f'{word(6)}/"{word(4)}"&<{word(4)}>+= {word(4)}\\',
        "words": f"Grüße {word(5)} ünd {word(5)} € {word(4)}",
        "url": f"https://hooks.example.com/services/{word(9)}/{word(24)}",
        "database": f"postgres://app:{word(12)}@db.example.com:5432/crm",
        "json": json.dumps({"host": "db.example.com", "user": "app", "password": word(14)}),
        "key": "\n".join(("-----BEGIN PRIVATE KEY-----", word(64), word(64), word(40), "-----END PRIVATE KEY-----")),
        "basic": f"app:{word(16)}",
        "hook": f"whsec_{base64.b64encode(word(24).encode()).decode()}",
    }


SECRETS = {tenant: _secrets(tenant) for tenant in ("acme", "beta")}


def written(secret: str) -> list[str]:
    """A secret as texts write it, by the standard library alone."""
    raw = secret.encode()
    in_json = json.dumps(secret)[1:-1]
    return [
        *(secret, in_json, json.dumps(in_json)[1:-1], repr(secret)[1:-1], repr(raw)[2:-1], html.escape(secret)),
        *(quote(secret, safe=""), quote(secret), quote_plus(secret), raw.hex(), raw.hex().upper()),
        *(base64.b64encode(before + raw + b"..").decode() for before in (b"", b"a", b"ab")),
        *(base64.urlsafe_b64encode(raw).decode().rstrip("="), json.dumps(secret, ensure_ascii=False)[1:-1]),
    ]


def needles() -> list[str]:
    """What is searched: all writings of all secrets, and what is secret in those that have parts."""
    found = set[str]()
    for secrets in SECRETS.values():
        parts = [json.loads(secrets["json"])["password"], secrets["database"].split(":")[2].split("@")[0]]
        parts += [
            secrets["url"].split("/")[-1],
            *secrets["key"].splitlines()[1:-1],
            secrets["hook"].removeprefix("whsec_"),
        ]
        found.update(form for secret in (*secrets.values(), *parts) for form in written(secret))
        # In a longer text in base64 the ends belong to the neighbours, too.
        found.update(
            base64.b64encode(before + secret.encode() + b"..").decode()[4:-4]
            for secret in (*secrets.values(), *parts)
            for before in (b"", b"a", b"ab")
        )
    return sorted(found)


# The jobs.


def _let_out(ctx: Context, secret: str, how: int) -> Any:
    """One of the ways, by its number. Some raise, some return, some log."""
    ways: list[Callable[[], Any]] = [
        lambda: _raise(ValueError(f"no login with {secret}")),
        lambda: _raise_from(secret),
        lambda: _raise(RuntimeError("x" * (1_990 + how % 7) + secret * 60)),
        lambda: _raise(KeyError({"token": secret, "in locals": [secret]})),
        lambda: _raise(ExceptionGroup("several", [ValueError(secret), OSError(5, secret)])),
        lambda: {"token": secret, "all": written(secret), "n": 1},
        lambda: {"large": "x" * 1_000, "text": json.dumps({"again": json.dumps(secret)})},
        lambda: [secret] * 3_000,
        lambda: {(secret, 1): "no JSON"},
        lambda: _log(ctx, secret),
        lambda: ctx.progress(0.5, secret[:100]),
        lambda: ctx.step("keep", lambda: {"token": secret}),
        lambda: ctx.checkpoint({"all": [secret]}),
        lambda: _in_thread(ctx, secret),
        lambda: _noted(secret),
    ]
    return ways[how % len(ways)]()


def _raise(problem: Exception) -> None:
    local = {"in a local variable": str(problem)}
    assert local
    raise problem


def _raise_from(secret: str) -> None:
    try:
        _raise(ConnectionError(f"https://user:{secret}@example.com"))
    except ConnectionError as problem:
        raise RuntimeError("no connection") from problem


def _noted(secret: str) -> None:
    problem: Any = TypeError("see the note")
    problem.add_note(f"used {secret!r}")
    problem.code = secret
    raise problem


def _log(ctx: Context, secret: str) -> None:
    for text in written(secret):
        library.warning("with %s in the middle", text)
    ctx.logger.info("token %s", secret, extra={"token": secret, "deep": {"of": [secret, secret.encode()]}})
    library.warning({"a dict": secret})
    try:
        raise ValueError(secret)
    except ValueError:
        library.exception("failed with %r", secret)


def _in_thread(ctx: Context, secret: str) -> None:
    thread = threading.Thread(target=_log, args=(ctx, secret))
    thread.start()
    thread.join()


def _echo(handler: Handler) -> None:
    """Answer with all that was asked, in the status that it asks for."""
    asked = handler.endpoint.asked[-1]
    sent = " ".join((asked.path, *asked.headers.values(), asked.body.decode("utf-8", "replace")))
    content = json.dumps({"sent": sent, "all": written(asked.headers.get("x-key", "none"))}).encode()
    handler.send_response(200 if len(handler.endpoint.asked) % 3 else 422)
    handler.send_header("Content-Length", str(len(content)))
    handler.send_header("X-Request-Id", quote(asked.headers.get("x-key", "none")))
    handler.end_headers()
    handler.wfile.write(content)


def _registry(url: str) -> Registry:
    jobs, once = Registry(), Retry(max_attempts=2, base=1)

    @jobs.job("plain", retry=once)
    def plain(ctx: Context, payload: dict[str, Any]) -> Any:
        return _let_out(ctx, ctx.secret(payload["secret"]), payload["how"])

    @jobs.job("async", retry=once)
    async def coroutine(ctx: Context, payload: dict[str, Any]) -> Any:
        secret = await asyncio.to_thread(ctx.secret, payload["secret"])
        return _let_out(ctx, secret, payload["how"])

    @jobs.job("send", retry=once)
    def sends(ctx: Context, payload: dict[str, Any]) -> Any:
        secret = quote(ctx.secret(payload["secret"]), safe="")
        request = Request(url=f"{url}/{payload['how']}", method="POST", headers={"X-Key": secret}, body={"n": secret})
        return ctx.step("call", lambda: send(ctx, request, **LOCAL))

    @jobs.job("every", retry=Retry(max_attempts=1))
    def every(ctx: Context, payload: Any) -> None:
        _raise(ValueError(f"nightly: {ctx.secret('marks')}"))

    http_job("http", retry=once, registry=jobs, **LOCAL)
    http_job("fixed", url=url, headers={"X-Key": Secret(tenant="token")}, retry=once, registry=jobs, **LOCAL)
    return jobs


# Where is looked.


class Terminal:
    """The log as JSON lines and as lines for people."""

    def __init__(self) -> None:
        self.streams = [StringIO(), StringIO()]
        self._handlers = []
        for stream, formatter in zip(self.streams, (JsonFormatter(), ReadableFormatter()), strict=True):
            handler = logging.StreamHandler(stream)
            handler.setFormatter(formatter)
            self._handlers.append(handler)

    def __enter__(self) -> Self:
        for handler in self._handlers:
            logging.getLogger().addHandler(handler)
        return self

    def __exit__(self, *_: object) -> None:
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)


def _views(harness: Harness, schedulers: list[Scheduler]) -> Iterator[str]:
    """What the SDK returns of each run, and what the command line prints of it."""
    for run in harness.runs():
        scheduler = next(each for each in schedulers if each.tenant == run.tenant)
        found = scheduler.get_run(run.id)
        yield repr(found)
        printed = StringIO()
        print_json(fields_of(found), to=printed)
        yield printed.getvalue()
        yield "\n".join(text_of(value) for value in fields_of(found).values())


def _traces(harness: Harness, schedulers: list[Scheduler]) -> dict[str, str]:
    memory = harness.memory
    archived = [gzip.decompress(content).decode() for content in memory.archived.values() if content[:2] == b"\x1f\x8b"]
    tables = {table.suffix: repr(list(rows)) for table, rows in memory._tables.items()}
    return {
        **{f"table {name}": rows for name, rows in tables.items()},
        "bucket": repr(memory._payloads),
        "archive": "\n".join(archived),
        "notices": "\n".join(notice.encode() + notice.subject + notice.text for notice in harness.notices),
        "events": json.dumps(harness.events, ensure_ascii=False),
        "views": "\n".join(_views(harness, schedulers)),
        "dead list": repr([scheduler.list_dead(limit=100).items for scheduler in schedulers]),
    }


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    context, certificate = certified(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    _trust.cache_clear()
    with serving(context) as endpoint:
        yield endpoint.answers(_echo)
    _trust.cache_clear()


def _submit(schedulers: list[Scheduler], url: str, count: int) -> None:
    names = [name for name in SECRETS["acme"] if name != "key"]  # of the kinds that a header can hold as they are
    every = list(SECRETS["acme"])
    for number in range(count):
        scheduler, job = (
            schedulers[number % 2],
            ("plain", "async", "plain", "send", "http", "plain", "async", "fixed")[number % 8],
        )
        name = every[number // 2 % len(every)]
        payload: Any = {"secret": name, "how": number // 3}
        if job == "http":
            plain = name if name in names and name not in ("words", "key") else "token"
            payload = {"url": f"{url}/{number}", "method": "POST", "headers": {"X-Key": {"secret": plain}}}
        scheduler.submit(job, None if job == "fixed" else payload, idempotency_key=f"n{number}")


@pytest.mark.parametrize("count", RUNS)
def test_after_many_runs_with_twenty_secrets_not_one_is_found(
    count: int, secure: Endpoint, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert sum(map(len, SECRETS.values())) == 20
    sent = list[str]()
    put = MemoryQueue.put

    def noted(queue: MemoryQueue, body: str, delay: int = 0) -> Stored:
        sent.append(body)
        return put(queue, body, delay)

    monkeypatch.setattr(MemoryQueue, "put", noted)
    logging.getLogger("some.library").setLevel(logging.DEBUG)
    jobs = _registry(secure.url)
    with Terminal() as terminal:
        harness = Harness(jobs, at=NOON, tenant="acme", events=True)
        for tenant, secrets in SECRETS.items():
            for name, value in secrets.items():
                harness.set_secret(name, value, tenant=tenant)
        beta = Scheduler("beta", jobs=jobs, services=harness._services, clock=harness.clock)
        schedulers = [harness.scheduler, beta]
        for scheduler in schedulers:
            scheduler.create_schedule("nightly", "every", "*/5 * * * *", on_failure=TOPIC)
        _submit(schedulers, secure.url, count)
        harness.advance(minutes=20)
    runs = harness.runs()
    traces = _traces(harness, schedulers)
    log, people = (stream.getvalue() for stream in terminal.streams)
    captured = capfd.readouterr()
    traces |= {"log": log, "terminal": people, "queues": "\n".join(sent), "output": captured.out + captured.err}

    # It did what it should: all ran, in all the ways, and left traces everywhere.
    assert len(runs) >= count
    states = {str(run.state) for run in runs}
    assert {"SUCCEEDED", "DEAD"} <= states <= {"SUCCEEDED", "DEAD", "QUEUED"}
    assert len({run.error_type for run in runs}) >= 8
    assert len(secure.asked) >= count // 5
    for place in (
        "log",
        "terminal",
        "archive",
        "notices",
        "events",
        "views",
        "dead list",
        "queues",
        "table runs",
        "bucket",
    ):
        assert traces[place].count("[secret]") > 5 or place in ("dead list", "bucket"), place

    looked_for = needles()
    assert len(looked_for) > 200
    found = [(place, needle) for place, text in traces.items() for needle in looked_for if needle in text]
    assert found == []
