"""Log lines: one JSON object each, written when it is logged, or together with what its thread logs with it."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest
from quarterjack import logs
from quarterjack.logs import AtOnce, KeepRunFields, RunFields, RunLogger


class Stream(io.StringIO):
    """Counts what is written at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


@pytest.fixture
def stream() -> Iterator[Stream]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    found = Stream()
    logs.configure(stream=found)
    yield found
    root.handlers[:], root.level = before, level


log = logging.getLogger("quarterjack.test")


def events(stream: Stream) -> list[str]:
    return [json.loads(line)["event"] for line in stream.getvalue().splitlines()]


def test_a_line_says_when_who_what_and_its_fields(stream: Stream) -> None:
    record = log.makeRecord(
        "quarterjack.x", logging.INFO, "", 0, "run.started", (), None, extra={"fence": 3, "at": {1}}
    )
    record.created = 1_795_302_245.9996
    with RunFields(run_id="acme/a#1"):
        logging.getLogger().handle(record)
    line = json.loads(stream.getvalue())
    first = {
        "time": "2026-11-21T23:04:05.999+00:00",
        "level": "INFO",
        "logger": "quarterjack.x",
        "event": "run.started",
    }
    assert line == {**first, "run_id": "acme/a#1", "fence": 3, "at": "{1}"}


def test_an_error_brings_its_traceback(stream: Stream) -> None:
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("work.defect")
    assert "ValueError: no" in json.loads(stream.getvalue())["traceback"]


def test_a_line_is_written_when_it_is_logged(stream: Stream) -> None:
    log.info("first")
    assert events(stream) == ["first"]
    log.info("second")
    assert len(stream.writes) == 2


def test_lines_at_once_are_one_write_at_the_end_whatever_happens(stream: Stream) -> None:
    def log_them() -> None:
        with AtOnce():
            log.info("first")
            log.info("second")
            assert stream.writes == []
            other = threading.Thread(target=log.info, args=("of another thread",))
            other.start()
            other.join()
            raise KeyError

    with pytest.raises(KeyError):
        log_them()
    log.info("after")
    assert events(stream) == ["of another thread", "first", "second", "after"]
    assert len(stream.writes) == 3


def test_a_stream_that_is_gone_stops_nobody(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    stream.close()
    log.info("first")
    with AtOnce():
        log.info("second")


def test_no_extra_field_passes_for_another_run(stream: Stream) -> None:
    """`quarterjack runs logs` and queries of logs go by these fields."""
    job = RunLogger(logging.getLogger("quarterjack.job.a"), {"run_id": "acme/a#1", "tenant": "acme"})
    spoof = {"run_id": "other/b#1", "tenant": "other", "level": "x", "event": "run.ended", "n": float("nan")}
    with RunFields(run_id="acme/a#1", tenant="acme"):
        job.info("said", extra={"tenant": "other", "job": "mine"})
        logging.getLogger("acme.module").info("said", extra=spoof)
        log.info("said", extra={"run_id": "acme/a#1"})
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert all((line["run_id"], line["tenant"]) == ("acme/a#1", "acme") for line in (first, second, third))
    assert (first["tenant_"], first["job"]) == ("other", "mine")
    assert (second["event"], second["level"], second["event_"]) == ("said", "INFO", "run.ended")
    assert "n" in second
    assert "run_id_" not in third


def test_nor_under_another_formatter(stream: Stream) -> None:
    record = log.makeRecord("x", logging.INFO, "", 0, "said", (), None, extra={"run_id": "other/b#1", "n": 1})
    with RunFields(run_id="acme/a#1"):
        assert KeepRunFields().filter(record)
        assert KeepRunFields().filter(record)
    assert "run_id" not in vars(record)
    assert (vars(record)["run_id_"], vars(record)["n"]) == ("other/b#1", 1)
