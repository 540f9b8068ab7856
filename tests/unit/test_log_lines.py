"""Log lines for people: what a worker says at a terminal."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import logs
from quarterjack.logs import ReadableFormatter, RunFields

NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
RUN: dict[str, Any] = {"run_id": "acme/nightly#1", "job": "report", "tenant": "acme"}
WORKER = "quarterjack.worker.execution.perform"


@pytest.fixture
def formatter() -> ReadableFormatter:
    made = ReadableFormatter()
    made._day = NOON.date()  # also in a session that began the day before
    return made


def line(
    formatter: ReadableFormatter,
    event: str,
    *,
    name: str = WORKER,
    level: int = logging.INFO,
    at: datetime = NOON,
    **fields: object,
) -> str:
    record = logging.getLogger().makeRecord(name, level, "", 0, event, (), None, extra=fields)
    record.created = at.timestamp()
    return formatter.format(record)


def test_a_run_from_start_to_end(formatter: ReadableFormatter) -> None:
    said = line(formatter, "run.started", **RUN, attempt=1, fence=1, slice=0, lateness_ms=412)
    assert said == "12:00:00Z  INFO     report  acme/nightly#1  started 412 ms late"
    later = NOON + timedelta(seconds=125)
    said = line(formatter, "run.ended", at=later, **RUN, attempt=1, state="SUCCEEDED", reason="succeeded")
    assert said == "12:02:05Z  INFO     report  acme/nightly#1  SUCCEEDED (2 min 5 s)"


def test_a_failure_says_its_error_and_attempt(formatter: ReadableFormatter) -> None:
    line(formatter, "run.started", **RUN, attempt=2)
    failed: dict[str, Any] = {
        "state": "RETRYING",
        "reason": "retry",
        "error_type": "ConnectionError",
        "error": "the post\noffice",
    }
    said = line(formatter, "run.ended", level=logging.WARNING, **RUN, attempt=2, **failed)
    assert said == (
        "12:00:00Z  WARNING  report  acme/nightly#1  RETRYING (0 ms), attempt 2  ConnectionError: the post\\noffice"
    )


def test_an_end_without_a_start_has_no_duration_but_its_reason(formatter: ReadableFormatter) -> None:
    said = line(formatter, "run.ended", level=logging.WARNING, **RUN, state="EXPIRED", reason="deadline passed")
    assert said == "12:00:00Z  WARNING  report  acme/nightly#1  EXPIRED  deadline passed"


def test_a_line_of_the_job_has_its_run_and_cannot_pass_for_the_worker(formatter: ReadableFormatter) -> None:
    with RunFields(**RUN):
        said = line(formatter, "greeted", name="quarterjack.job.report", whom="Ada", none=None)
        assert said == "12:00:00Z  INFO     report  acme/nightly#1  greeted  whom=Ada"
        said = line(formatter, "run.ended", name="quarterjack.job.report", state="DEAD", whom="\x1b[2Kx")
        assert said == "12:00:00Z  INFO     report  acme/nightly#1  run.ended  state=DEAD  whom=\\x1b[2Kx"


def test_other_lines_have_their_fields_that_say_something(formatter: ReadableFormatter) -> None:
    said = line(formatter, "tick.done", name="quarterjack.daemon.roles", shards=16, locked=0, stopped=False, claimed=2)
    assert said == "12:00:00Z  INFO     tick.done  shards=16  claimed=2"


def test_another_day_is_said_once(formatter: ReadableFormatter) -> None:
    tomorrow = NOON + timedelta(days=1)
    assert line(formatter, "a").startswith("12:00:00Z")
    heading, first = line(formatter, "b", at=tomorrow).splitlines()
    assert heading == f"{tomorrow:%A, %Y-%m-%d}"
    assert first.startswith("12:00:00Z")
    assert line(formatter, "c", at=tomorrow).startswith("12:00:00Z")
    assert line(formatter, "d").startswith("12:00:00Z"), "a line that comes late begins no day"


def test_a_traceback_stands_below_without_control_characters(formatter: ReadableFormatter) -> None:
    try:
        raise ValueError("\x1b[2K")
    except ValueError as problem:
        record = logging.getLogger().makeRecord(
            "x", logging.ERROR, "", 0, "work.defect", (), (ValueError, problem, problem.__traceback__)
        )
    first, *trace = formatter.format(record).splitlines()
    assert first.endswith("ERROR    work.defect")
    assert trace[-1] == "ValueError: \\x1b[2K"


def test_colours_mark_what_is_wrong() -> None:
    formatter = ReadableFormatter(colours=True)
    assert "\x1b" not in line(formatter, "fine")
    assert re.search("\x1b\\[33mWARNING\x1b\\[0m", line(formatter, "so so", level=logging.WARNING))


def test_starts_without_an_end_do_not_pile_up(formatter: ReadableFormatter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_REMEMBERED", 2)
    for number in range(5):
        line(formatter, "run.started", run_id=f"acme/s#{number}", job="report")
    assert list(formatter._began) == ["acme/s#3", "acme/s#4"]


@pytest.fixture
def _root() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before, level


@pytest.mark.usefixtures("_root")
@pytest.mark.parametrize("readable", [False, True])
def test_processes_that_it_starts_are_told(readable: bool) -> None:
    logs.configure(io.StringIO(), readable=readable)
    assert logs.is_readable() is readable
