"""``Scheduler.run_logs``: whose lines, in which order, masked, page by page; and what it says where there are none."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Context, LogLine, Redact, Registry, Retry, Scheduler
from quarterjack.errors import Forbidden, InvalidInput, NotFound
from quarterjack.ports.run_logs import RunLogsPage, RunLogsQuery
from quarterjack.sdk.session import over
from quarterjack.testing import Harness

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
jobs = Registry()
of_library = logging.getLogger("library")


@jobs.job("talk", redact=Redact(fields=("iban",)))
def talk(ctx: Context, payload: Any) -> None:
    ctx.logger.info("hello", extra={"iban": "DE02120300000000202051", "amount": 7, "more": {"password": "hunter22"}})
    of_library.warning("paid by %s", payload["iban"])
    ctx.logger.error("Authorization: Bearer abcdefgh1234")


@jobs.job("fail", retry=Retry(max_attempts=2, base=10))
def fail(ctx: Context, payload: Any) -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        ctx.logger.exception("it failed")
        raise


def harness() -> Harness:
    return Harness(jobs, at=NOON)


def lines(scheduler: Scheduler, run_id: str, limit: int = 100) -> list[LogLine]:
    found, cursor = list[LogLine](), None
    while True:
        page = scheduler.run_logs(run_id, limit=limit, cursor=cursor)
        found += page.items
        if (cursor := page.cursor) is None:
            return found


def test_the_lines_of_a_job_and_of_its_run() -> None:
    here = harness()
    run, other = (here.scheduler.submit("talk", {"iban": "DE02", "n": n}) for n in range(2))
    here.advance(minutes=1)
    found = lines(here.scheduler, run.id)
    assert [(line.event, line.level) for line in found] == [
        ("run.started", "INFO"),
        ("hello", "INFO"),
        ("paid by [redacted]", "WARNING"),
        ("Authorization: [redacted]", "ERROR"),
        ("run.ended", "INFO"),
    ]
    assert found[1].fields == {"iban": "[redacted]", "amount": 7, "more": {"password": "[redacted]"}}
    assert {line.source for line in found} == {"harness"}
    assert len(lines(here.scheduler, other.id)) == len(found)


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_attempts_are_in_order_of_time_on_all_pages(limit: int) -> None:
    here = harness()
    here.scheduler.create_schedule("s", "fail", "0 13 * * *")
    here.advance(hours=2)
    (run,) = here.scheduler.list_runs("s", before=NOON + timedelta(hours=2)).items
    found = lines(here.scheduler, run.id, limit)
    attempt = ["run.started", "it failed", "run.ended"]
    assert [line.event for line in found] == [*attempt, *attempt, "schedule.failing", "run.dead"]
    assert found == sorted(found, key=lambda line: line.at)
    assert "ValueError: boom" in (found[1].traceback or "")
    assert found[0].at >= NOON + timedelta(hours=1)


def test_the_harness_leaves_logging_as_it_was() -> None:
    root, own = logging.getLogger(), logging.getLogger("quarterjack")
    before = (list(root.handlers), own.level)
    here = harness()
    here.scheduler.submit("talk", {"iban": "DE02"})
    here.advance(minutes=1)
    assert (list(root.handlers), own.level) == before


@dataclass(frozen=True)
class Elsewhere:
    """Logs that have nothing, or not all."""

    sources: Sequence[str] = ("worker",)
    has: bool = True
    place: str = "the log groups"
    remedy: str = "name the group"

    def has_lines_of(self, worker: str) -> bool:
        del worker
        return self.has

    def read(self, asked: RunLogsQuery) -> RunLogsPage:
        return RunLogsPage(lines=[], position=None, searched_to=asked.end, sources=self.sources)


@pytest.mark.parametrize(
    ("elsewhere", "after", "said"),
    [
        (Elsewhere(sources=()), 60, "there is no log in the log groups; name the group"),
        (Elsewhere(has=False), 60, "on the process worker, which does not log to the log groups; name the group"),
        (Elsewhere(), 1, "lines come some seconds late: look again"),
        (Elsewhere(), 600, "over their retention, or a worker logs elsewhere; name the group"),
    ],
)
def test_missing_lines_are_explained(elsewhere: Elsewhere, after: int, said: str) -> None:
    here = harness()
    run = here.scheduler.submit("talk", {"iban": "DE02"})
    here.advance(seconds=after)
    services = replace(here.scheduler.session.services, logs=elsewhere)
    page = over(here.scheduler, replace(here.scheduler.session, services=services)).run_logs(run.id)
    assert not page.items
    assert page.missing is not None
    assert said in page.missing


def test_a_run_that_waits_has_no_lines() -> None:
    here = harness()
    run = here.scheduler.submit("talk", {"iban": "DE02"}, delay=3_600)
    assert here.scheduler.run_logs(run.id).missing == "no worker has started it, so nothing was logged about it"


def test_the_queue_of_the_run_says_whose_log_is_read() -> None:
    @dataclass(frozen=True)
    class Asking(Elsewhere):
        def read(self, asked: RunLogsQuery) -> RunLogsPage:
            queues.append(asked.queues)
            return super().read(asked)

    queues = list[Sequence[str | None]]()
    here = Harness(with_queue(), at=NOON)
    logs = Asking()
    session = here.scheduler.session
    scheduler = over(here.scheduler, replace(session, services=replace(session.services, logs=logs)))
    scheduler.create_schedule("s", "quick", "0 13 * * *", queue="reports")
    once = scheduler.submit("quick", queue="reports")
    usual = scheduler.submit("quick")
    here.advance(hours=2)
    (fire,) = scheduler.list_runs("s", before=NOON + timedelta(hours=2)).items
    for run in (fire, once, usual):
        scheduler.run_logs(run.id)
    assert queues == [("reports",), ("reports",), (None,)]


def with_queue() -> Registry:
    made = Registry()
    made.queue("reports")
    made.job("quick")(lambda ctx, payload: None)
    return made


def test_who_may_not_read_logs_is_refused() -> None:
    here = harness()
    run = here.scheduler.submit("talk", {"iban": "DE02"})
    here.advance(minutes=1)
    here.tenants.grant("default", "iam:*", "admin")
    here.tenants.grant("default", "app:viewer", "viewer")
    here.tenants.grant("default", "app:operator", "operator", jobs=["talk"])
    with pytest.raises(Forbidden) as refused:
        here.scheduler.acting_as("viewer").run_logs(run.id)
    assert refused.value.verb == "read-logs"
    assert here.scheduler.acting_as("operator").run_logs(run.id).items


def test_a_run_that_there_is_not_and_a_foreign_cursor_are_refused() -> None:
    here = harness()
    runs = [here.scheduler.submit("talk", {"iban": "DE02"}) for _ in range(2)]
    here.advance(minutes=1)
    with pytest.raises(NotFound, match="no such run"):
        here.scheduler.run_logs("default/~nothing#once")
    page = here.scheduler.run_logs(runs[0].id, limit=1)
    assert page.cursor is not None
    with pytest.raises(InvalidInput, match="not of this listing"):
        here.scheduler.run_logs(runs[1].id, limit=1, cursor=page.cursor)
