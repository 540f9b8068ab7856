"""Health of a worker process: what its endpoints say while it starts, works, loses its queue and stops."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from quarterjack import Registry, Scheduler
from quarterjack.clock import system_clock
from quarterjack.daemon.figures import ProcessFigures
from quarterjack.daemon.health import HealthServer, parse_address
from quarterjack.daemon.roles import service_of
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.domain.policies import Priority
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.extras import install_remedy
from quarterjack.settings import Settings
from quarterjack.signals.sinks import EmbeddedLines, PrometheusFigures
from quarterjack.signals.worker import WorkerFigures
from quarterjack.testing import Memory

from tests.support.scenes.world import Faults


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, problem.read().decode()


@contextmanager
def served(**given: Any) -> Iterator[int]:
    server = HealthServer("0", **given)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def until(holds: Callable[[], bool]) -> bool:
    pause = threading.Event()
    return any(holds() or pause.wait(0.02) for _ in range(1_000))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", ("127.0.0.1", 8080)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:8080", ("0.0.0.0", 8080)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_a_port_alone_is_on_loopback(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "http", "70000", "-1", ":8080", "host:", "8080x", "٣"])
def test_what_is_no_address_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--health=.*use 8080"):
        parse_address(text)


def test_a_taken_port_is_refused() -> None:
    with served(alive=lambda: None, ready=lambda: None) as port, pytest.raises(InvalidInput, match="cannot be served"):
        HealthServer(str(port), alive=lambda: None, ready=lambda: None)


def test_checks_that_find_something_are_503_with_the_reason() -> None:
    with served(alive=lambda: "a thread has ended", ready=lambda: None) as port:
        status, text = ask(port, "/healthz")
        assert (status, json.loads(text)) == (503, {"ok": False, "problem": "a thread has ended"})
        assert ask(port, "/readyz?verbose=1")[0] == 200
        assert ask(port, "/metrics") == (501, ask(port, "/metrics")[1])
        assert install_remedy("metrics") in ask(port, "/metrics")[1]
        assert ask(port, "/")[0] == 404


def test_a_worker_is_ready_once_its_queue_answers_and_not_while_it_does_not_or_while_it_stops() -> None:
    idle = threading.Event()
    memory = Memory(system_clock, idle=lambda seconds: idle.wait(0.02))
    jobs, ended = Registry(), threading.Event()
    jobs.job("note")(lambda ctx, payload: ended.set())
    lines = list[dict[str, Any]]()
    scraped = PrometheusFigures("quarterjack-worker")
    embedded = EmbeddedLines("quarterjack-worker", lambda text: lines.append(json.loads(text)), system_clock)
    silent = threading.Event()

    def answer() -> None:
        if silent.is_set():
            raise Unavailable("no answer")

    faults = Faults().at("receive", before=answer, times=None)
    figures = ProcessFigures([scraped, embedded], WorkerFigures(lambda: jobs))
    process = WorkerProcess(memory.connect(faults, attempts=1), jobs, concurrency=2, figures=figures)
    assert (process.find_ailment(), process.find_obstacle()) == (
        "it does not poll yet",
        "the queue was not asked yet",
    )
    stop = threading.Event()
    running = threading.Thread(target=process.run, kwargs={"stop": stop, "grace": 10}, daemon=True)
    with served(alive=process.find_ailment, ready=process.find_obstacle, figures=scraped.text) as port:
        running.start()
        assert until(lambda: ask(port, "/readyz")[0] == 200)
        assert ask(port, "/healthz")[0] == 200
        Scheduler("acme", jobs=jobs, services=memory.connect(), clock=system_clock).submit("note")
        assert ended.wait(20)
        assert until(lambda: "quarterjack_succeeded_total" in ask(port, "/metrics")[1])
        text = ask(port, "/metrics")[1]
        assert 'quarterjack_started_total{service="quarterjack-worker"} 1.0' in text
        assert 'quarterjack_slots{service="quarterjack-worker"} 2.0' in text
        assert "quarterjack_process_memory_bytes" in text
        silent.set()
        assert until(lambda: ask(port, "/readyz")[0] == 503)
        assert "does not answer" in ask(port, "/readyz")[1]
        assert ask(port, "/healthz")[0] == 200, "to start it anew would not help"
        stop.set()
        running.join(30)
        assert ask(port, "/readyz") == (503, json.dumps({"ok": False, "problem": "it is stopping"}))
    (line,) = lines
    assert (line["Started"], line["Succeeded"], line["Slots"]) == ([1], [1], [2]), (
        "what was left was written at the end"
    )


def test_a_thread_that_hangs_or_has_ended_is_an_ailment() -> None:
    process = WorkerProcess(Memory(system_clock).connect(), Registry(), concurrency=1)
    process._polling = [threading.current_thread()]
    process._polled = {(Priority.NORMAL, 0): 0.0}  # long ago, by a monotonic clock
    process._polled[Priority.NORMAL, 0] -= 1_000
    assert "has not polled" in (process.find_ailment() or "")
    process._polling = [threading.Thread()]
    assert process.find_ailment() == "a thread that polls has ended"


def test_a_sink_that_fails_stops_no_run(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def take(self, measurements: object) -> None:
            raise OSError("closed")

        def flush(self) -> None:
            raise OSError("closed")

    figures = ProcessFigures([Broken()], WorkerFigures(Registry))
    figures.done([])
    figures.started([])
    figures.end(1, lambda: 0)
    assert "figures.failed" in caplog.text


def test_a_process_is_the_service_of_its_queues_function() -> None:
    assert service_of(Settings()) == "quarterjack-worker"
    assert service_of(Settings(prefix="p", work_queue="reports")) == "p-worker-reports"
    assert service_of(Settings(work_queue="default")) == "quarterjack-worker"
