"""Ticker, undertaker, historian and auditor as processes write the figures that their functions write."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import count
from typing import Any

import pytest
from quarterjack import Registry, Retry, Scheduler
from quarterjack.clock import system_clock
from quarterjack.daemon import auditor_hour, roles
from quarterjack.daemon.figures import PERIOD, RoundFigures
from quarterjack.daemon.roles import run_auditor, run_historian, run_ticker, run_undertaker
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.message import SCHEMA
from quarterjack.domain.names import parse_run_id
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.historian import deliver as delivery
from quarterjack.ports.services import Services
from quarterjack.settings import Settings
from quarterjack.signals.catalogue import counted
from quarterjack.signals.sinks import EmbeddedLines
from quarterjack.testing import Memory
from quarterjack.testing.memory import stream
from quarterjack.testing.process import make_worker, work_off
from quarterjack.ticker.tick import TickReport
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN

from tests.support.builders import NOON, a_run
from tests.support.consumers import Consumer


class Lines(EmbeddedLines):
    def __init__(self, stop: threading.Event) -> None:
        self.written = list[dict[str, Any]]()
        super().__init__("it", lambda text: self.written.append(json.loads(text)), system_clock)
        self._stop = stop

    def flush(self) -> None:
        super().flush()
        self._stop.set()


def test_a_ticker_writes_each_tick() -> None:
    memory, stop = Memory(system_clock), threading.Event()
    jobs = Registry()
    jobs.job("note")(lambda ctx, payload: None)
    services = memory.connect()
    Scheduler("acme", jobs=jobs, services=services).create_schedule("s", "note", "rate(1 minute)")
    lines = Lines(stop)
    run_ticker(services, stop=stop, period=0.1, sinks=[lines])
    total = lines.written[0]
    assert (total["Ticks"], total["service"]) == ([1], "it")
    assert "BehindBy" in total


@pytest.mark.parametrize(("refused", "calls"), [({2, 3}, 4), ({1}, 1)])
@pytest.mark.parametrize("role", [run_ticker, run_undertaker])
def test_a_right_or_key_that_is_taken_away_ends_no_process_and_a_wrong_setting_does(
    role: Callable[..., None], refused: set[int], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, stop = count(1), threading.Event()
    made = list[int]()

    def call(*_: object, **__: object) -> Any:
        made.append(next(numbers))
        if made[-1] in refused:
            raise Misconfigured("the key is disabled")
        if made[-1] == 4:
            stop.set()
        return TickReport(now=0) if role is run_ticker else []

    services = Memory(system_clock).connect()
    monkeypatch.setattr(roles, "connect", lambda settings: services)
    monkeypatch.setattr(roles, "_PAUSE", 0.01)
    monkeypatch.setattr(roles, "tick", call)
    monkeypatch.setattr(services.dead, "receive", call)
    with nullcontext() if 1 not in refused else pytest.raises(Misconfigured):
        role(Settings(), stop=stop, **({"period": 0.01} if role is run_ticker else {}))
    assert len(made) == calls


def test_an_undertaker_writes_its_burials(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, stop, jobs = Memory(system_clock), threading.Event(), Registry()
    jobs.job("bad", retry=Retry(max_attempts=1))(lambda ctx, payload: 1 / 0)
    services = memory.connect()
    Scheduler("acme", jobs=jobs, services=services).submit("bad")
    worker = make_worker(services, jobs, system_clock, wait=lambda seconds: None)
    work_off(worker, receive(worker, services.work.receive(most=1, wait=0, visibility=HIDDEN)))
    monkeypatch.setattr(roles, "connect", lambda settings: services)
    lines = Lines(stop)
    run_undertaker(Settings(metric_jobs="bad"), stop=stop, sinks=[lines])
    assert [(line["Dead"], line.get("job")) for line in lines.written] == [([1], None), ([1], "bad")]


# The historian.


def _historian_writes(
    services: Services, monkeypatch: pytest.MonkeyPatch, fails: Callable[[RunChange], Exception | None], rounds: int = 2
) -> Mapping[str, Any]:
    """The line of a historian that ends after so many rounds."""
    stop, waits = threading.Event(), iter(range(1, rounds + 1))
    monkeypatch.setattr(stop, "wait", lambda seconds: stop.set() if next(waits) == rounds else None)
    monkeypatch.setattr(delivery, "CONSUMERS", (Consumer(fails),))
    monkeypatch.setattr(roles, "connect", lambda settings: services)
    lines = Lines(threading.Event())
    run_historian(Settings(), stop=stop, sinks=[lines])
    (line,) = lines.written
    return line


def test_a_historian_writes_its_rounds_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    services = Memory(system_clock).connect()
    services.ledger.claim([a_run()])
    line = _historian_writes(services, monkeypatch, lambda change: None)
    assert (line["HistorianBatches"], line["HistorianChanges"], len(line["HistorianDelay"])) == ([1], [1], 1)
    assert "HistorianStopped" not in line


def test_a_historian_counts_the_batches_before_the_one_that_stops_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its position is behind them, so they do not come again: what was set aside of them would never alarm."""
    monkeypatch.setattr(stream, "PAGE", 4)
    memory = Memory(system_clock)
    services = memory.connect()
    services.ledger.claim([a_run(NOON + number) for number in range(5)])
    numbers = [change.sequence for change in memory.changes()]
    errors: list[Exception] = [Unavailable("no answer")]

    def fails(change: RunChange) -> Exception | None:
        if change.sequence == numbers[0]:
            return ValueError("garbage")
        return errors.pop() if change.sequence == numbers[-1] and errors else None

    line = _historian_writes(services, monkeypatch, fails)
    found = {
        name: line[name] for name in ("HistorianStopped", "HistorianSetAside", "HistorianChanges", "HistorianBatches")
    }
    assert found == {
        "HistorianStopped": [1],
        "HistorianSetAside": [1],
        "HistorianChanges": [5],
        "HistorianBatches": [2],
    }


def test_rounds_are_written_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    lines = Lines(threading.Event())
    rounds = RoundFigures([lines])
    for seconds in (1.0, PERIOD - 2.0):
        now[0] += seconds
        rounds.add(lambda: counted(HistorianBatches=1))
    assert lines.written == []
    now[0] += 1.0
    rounds.add(lambda: counted(HistorianBatches=1))
    assert [line["HistorianBatches"] for line in lines.written] == [[3]]
    now[0] += 1.0
    rounds.add(list)
    rounds.flush()
    assert len(lines.written) == 1


# The auditor.


def _audited(monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> Mapping[str, Any]:
    """The line of an auditor's process."""
    services, lines = Memory(system_clock).connect(), Lines(threading.Event())
    monkeypatch.setattr(roles, "connect", lambda settings: services)
    with pytest.raises(Unavailable) if fails else nullcontext():
        run_auditor(Settings(), sinks=[lines])
    (line,) = lines.written
    return line


def test_an_auditor_writes_its_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    line = _audited(monkeypatch)
    assert (line["Audits"], line["service"]) == ([1], "it")
    assert "AuditDaysNotClosed" not in line


def test_an_auditor_that_could_not_close_days_says_so_and_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditor_hour, "close_days", _unavailable)
    line = _audited(monkeypatch)
    assert (line["AuditDaysNotClosed"], line["Audits"]) == ([1], [1])


def test_an_audit_that_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditor_hour, "close_days", _unavailable)
    monkeypatch.setattr(auditor_hour, "audit", _unavailable)
    line = _audited(monkeypatch, fails=True)
    assert line["AuditDaysNotClosed"] == [1]
    assert "Audits" not in line


def test_an_auditor_that_could_not_compact_the_history_says_so_and_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditor_hour, "compact_pages", _unavailable)
    line = _audited(monkeypatch)
    assert (line["HistoryNotFolded"], line["Audits"]) == ([1], [1])


def _unavailable(*given: object, **named: object) -> None:
    raise Unavailable("no answer")


@pytest.mark.parametrize("newer", ["letter", "row"])
def test_an_undertaker_leaves_what_a_later_release_wrote_with_one_warning(
    newer: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory, stop, jobs = Memory(system_clock), threading.Event(), Registry()
    jobs.job("note")(lambda ctx, payload: None)
    services = memory.connect()
    run = Scheduler("acme", jobs=jobs, services=services).submit("note")
    if newer == "row":
        ref = parse_run_id(run.id)
        row = memory.row(ref)
        assert row is not None
        memory.put_row(ref, {**row, "v": SCHEMA + 1})
        (message,) = memory.messages()
        memory.dead.put(message.encode())
    else:
        memory.dead.put(json.dumps({"letter": SCHEMA + 1, "body": "{}", "reason": "x"}))
    monkeypatch.setattr(roles, "connect", lambda settings: services)
    run_undertaker(Settings(), stop=stop, sinks=[Lines(stop)])
    (told,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (told.message, told.levelname, told.exc_info) == ("letter.too_new", "WARNING", None)
    assert len(memory.dead) == 1
