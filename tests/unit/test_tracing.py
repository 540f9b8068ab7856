"""One trace a run: what a tick does and what becomes of its runs at the worker have one trace, by the header in the message."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from quarterjack import Retry, Scheduler, tracing
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.domain.names import parse_run_id
from quarterjack.fires.claim import TRACED, sampled
from quarterjack.jobs import Registry
from quarterjack.services import system_clock
from quarterjack.testing import Harness, Memory

START = datetime(2030, 1, 1, tzinfo=UTC)
HEADER = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
ON_THE_WAY = ["claim", "send", "queue wait", "lease", "job", "settle"]
KEYS = [
    f"run-{number}" for number in range(4 * TRACED)
]  # the same in each run of the tests: of random ids none may be sampled


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans that have ended, as the SDK exports them."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == f"quarterjack.{name}"]


def ids(span: ReadableSpan) -> tuple[int, int]:
    """Of its trace, and of its parent."""
    assert span.context is not None
    return span.context.trace_id, 0 if span.parent is None else span.parent.span_id


def every_minute(body: Any = lambda ctx: None, **policies: Any) -> Harness:
    jobs = Registry()

    @jobs.job("count", **policies)
    def count(ctx: Any, payload: Any) -> Any:
        return body(ctx)

    harness = Harness(jobs, at=START)
    harness.scheduler.create_schedule("often", job="count", expression="rate(1 minute)")
    return harness


def of_runs(spans: InMemorySpanExporter, name: str) -> dict[str, ReadableSpan]:
    """The spans of a name, by run."""
    return {str((span.attributes or {})["quarterjack.run_id"]): span for span in named(spans, name)}


def test_every_span_of_a_run_is_in_the_trace_of_its_tick(spans: InMemorySpanExporter) -> None:
    harness = every_minute()
    runs = harness.advance(timedelta(minutes=4 * TRACED))
    traced = of_runs(spans, "settle")
    assert 0 < len(traced) < len(runs)
    assert all(sampled(parse_run_id(run), HEADER) for run in traced)
    ticks = {ids(span)[0]: span for span in named(spans, "tick")}
    for run in traced:
        way = {name: of_runs(spans, name)[run] for name in ON_THE_WAY[2:]}
        (trace_id,) = {ids(span)[0] for span in way.values()}
        sends = {span.context.span_id for span in named(spans, "send") if span.context and ids(span)[0] == trace_id}
        assert {ids(span)[1] for span in way.values()} <= sends
        assert trace_id in ticks
        assert trace_id in {ids(span)[0] for span in named(spans, "claim")}
        starts = [span.start_time or 0 for name, span in way.items() if name != "job"]  # a job's is by the real clock
        assert starts == sorted(starts)
        assert (way["job"].attributes or {})["quarterjack.job"] == "count"


def test_a_tick_is_one_trace_with_its_claims_and_sends(spans: InMemorySpanExporter) -> None:
    every_minute().advance(timedelta(minutes=3))
    tick = named(spans, "tick")[0]
    assert tick.context is not None
    children = [
        span for name in ("claim", "send") for span in named(spans, name) if ids(span)[0] == tick.context.trace_id
    ]
    assert {span.name for span in children} == {"quarterjack.claim", "quarterjack.send"}
    assert {ids(span)[1] for span in children} == {tick.context.span_id}


def test_a_job_has_its_span_about_it_and_a_failure_is_told_without_its_text(spans: InMemorySpanExporter) -> None:
    seen = []

    def body(ctx: Any) -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)
        raise ValueError("password=hunter2")

    harness = every_minute(body, retry=Retry(max_attempts=1))
    harness.advance(timedelta(minutes=4 * TRACED))
    jobs = named(spans, "job")
    assert jobs
    assert {span.context.span_id for span in jobs if span.context} <= set(seen)
    for span in jobs:
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["error.type"] == "ValueError"
    assert not any("hunter2" in span.to_json() for span in spans.get_finished_spans())


def test_an_error_within_a_span_ends_it_without_its_text(spans: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="hunter2"), tracing.span("send", HEADER):
        raise ValueError("password=hunter2")
    (span,) = named(spans, "send")
    assert (span.status.status_code, (span.attributes or {})["error.type"]) == (StatusCode.ERROR, "ValueError")
    assert "hunter2" not in span.to_json()


def test_a_submission_within_a_trace_goes_on_in_it(spans: InMemorySpanExporter) -> None:
    harness = every_minute()
    with tracing.span("request") as request:
        trace_id = request.get_span_context().trace_id
        submitted = {harness.scheduler.submit("count", idempotency_key=key).id for key in KEYS}
    harness.advance(timedelta(seconds=5))
    traced = of_runs(spans, "job")
    assert 0 < len(set(traced) & submitted) < len(submitted)
    assert {ids(traced[run])[0] for run in submitted & set(traced)} == {trace_id}


def test_a_worker_process_goes_on_in_the_trace_too(spans: InMemorySpanExporter) -> None:
    """Jobs run in threads there, in which no span is the present one."""
    jobs, memory, seen = Registry(), Memory(system_clock, idle=lambda seconds: threading.Event().wait(0.02)), []
    ended = threading.Semaphore(0)

    @jobs.job("count")
    def count(ctx: Any, payload: Any) -> None:
        seen.append((ctx.run_id, trace.get_current_span().get_span_context().span_id))
        ended.release()

    scheduler = Scheduler(jobs=jobs, services=memory.connect())
    with tracing.span("request") as request:
        trace_id = request.get_span_context().trace_id
        submitted = [scheduler.submit("count", idempotency_key=key).id for key in KEYS]
    stop, process = threading.Event(), WorkerProcess(memory.connect(), jobs, keeps_record=False)
    running = threading.Thread(target=process.run, kwargs={"stop": stop, "grace": 10})
    running.start()
    assert all(ended.acquire(timeout=30) for _ in submitted)
    stop.set()
    running.join(30)
    assert {ids(span)[0] for span in of_runs(spans, "job").values()} == {trace_id}
    at_work = {run: span.context.span_id for run, span in of_runs(spans, "job").items() if span.context}
    assert at_work.items() <= dict(seen).items()
    for name in ON_THE_WAY[2:]:
        assert of_runs(spans, name).keys() == at_work.keys()


def test_a_header_goes_there_and_back(spans: InMemorySpanExporter) -> None:
    with tracing.span("job", HEADER) as job:
        assert f"{job.get_span_context().trace_id:032x}" == "5759e988bd862e3fe1be46a994272793"
        found = tracing.header()
    assert found is not None
    assert re.fullmatch(r"Root=1-5759e988-bd862e3fe1be46a994272793;Parent=[0-9a-f]{16};Sampled=1", found)
    assert ids(named(spans, "job")[0])[1] == 0x53995C3F42CD8AD8


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "nonsense",
        HEADER.replace("Sampled=1", "Sampled=0"),
        HEADER.replace(";Sampled=1", ""),
        HEADER.replace("53995c3f42cd8ad8", "53995c3f"),
        HEADER.replace("5759e988-", ""),
        HEADER + "\n",
        HEADER + ";Self=" + "1" * 100_000,
        "Root=1-00000000-000000000000000000000000;Parent=0000000000000000;Sampled=1",
    ],
)
def test_a_header_that_is_none_or_not_sampled_begins_nothing(spans: InMemorySpanExporter, header: str | None) -> None:
    tracing.past_span("lease", header, 1, 2, {})
    assert not spans.get_finished_spans()


def test_what_ended_before_it_began_by_another_clock_takes_no_time(spans: InMemorySpanExporter) -> None:
    tracing.past_span("queue wait", HEADER, 2_000, 1_000, {})
    (span,) = named(spans, "queue wait")
    assert span.start_time == span.end_time == 2_000_000_000


def test_without_the_api_nothing_is_made_and_lambdas_trace_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    harness = every_minute()
    assert all(run.state == "SUCCEEDED" for run in harness.advance(timedelta(minutes=TRACED)))
    assert tracing.header() is None
    with tracing.span("tick", HEADER) as nothing:
        assert nothing is None
    assert "opentelemetry.trace" not in sys.modules


def test_spans_of_nobody_are_no_trace_in_a_message(caplog: pytest.LogCaptureFixture) -> None:
    """The API without an SDK: spans are not recorded."""
    caplog.set_level(logging.ERROR)
    with tracing.span("send"):
        assert tracing.header() is None
    assert all(run.state == "SUCCEEDED" for run in every_minute().advance(timedelta(minutes=TRACED)))
    assert not caplog.records
