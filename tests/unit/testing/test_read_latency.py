"""Reads of an installation in memory that take their time, by a clock that nobody waits for."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest
from quarterjack import Registry
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.services import system_clock
from quarterjack.testing import Detail, Harness, Hook, ManualClock, Memory
from quarterjack.testing.memory import calls

from tests.support.slow_reads import READ_MS, slow_reads

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
ONLY_READS = re.compile(r"(?:Batch)?Get|Query|Scan|List|Filter")


def memory_of(ms: int) -> tuple[Memory, ManualClock]:
    clock = ManualClock(NOON)
    return Memory(clock, read_latency_ms=ms), clock


def test_each_read_moves_the_clock_and_a_write_does_not() -> None:
    memory, clock = memory_of(150)
    services, began = memory.connect(), clock()
    key = services.payloads.keep("acme", "{}")
    assert clock() == began
    services.payloads.get("acme", key)
    assert clock() == began + 150
    services.schedules.head("acme", "nightly")
    assert clock() == began + 300


def test_the_latency_of_all_processes_changes_while_they_run() -> None:
    memory, clock = memory_of(0)
    first, second, began = memory.connect(), memory.connect(), clock()
    first.schedules.head("acme", "nightly")
    assert clock() == began
    memory.read_latency_ms = 40
    first.schedules.head("acme", "nightly")
    second.schedules.head("acme", "nightly")
    assert (memory.read_latency_ms, clock()) == (40, began + 80)


def test_an_answer_is_as_old_as_its_read_took() -> None:
    """The read is made first: what is written while its answer is under way is not in it."""
    memory, clock = memory_of(150)

    class Notes(Hook):
        at: tuple[int, int]

        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            self.at = (clock(), 0)
            return ()

        def after_call(self, operation: str, detail: Detail) -> None:
            self.at = (self.at[0], clock())

    notes = Notes()
    memory.connect(notes).schedules.head("acme", "nightly")
    assert notes.at[1] - notes.at[0] == 150


def test_a_read_that_fails_takes_no_time() -> None:
    memory, clock = memory_of(150)

    class Down(Hook):
        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            raise Unavailable("down")

    began = clock()
    with pytest.raises(Unavailable):
        memory.connect(Down()).schedules.head("acme", "nightly")
    assert clock() == began


def test_reads_of_several_threads_lose_no_time() -> None:
    memory, clock = memory_of(1)
    services, began = memory.connect(), clock()

    def reads() -> None:
        for _ in range(200):
            services.schedules.head("acme", "nightly")

    threads = [Thread(target=reads) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert clock() - began == 4 * 200


def test_every_operation_that_only_reads_is_slow() -> None:
    folder = Path(calls.__file__).parent
    operations = {
        name
        for module in folder.glob("*.py")
        for name in re.findall(r'_?calls\.(?:one|many)\(\s*"(\w+)"', module.read_text())
    }
    assert {name for name in operations if ONLY_READS.match(name)} == calls.READS


@pytest.mark.parametrize("ms", [-1, 1.5, True, 3_600_001])
def test_a_latency_that_is_none_is_refused(ms: int) -> None:
    with pytest.raises(InvalidInput, match="read_latency_ms"):
        memory_of(ms)


def test_a_clock_that_nobody_moves_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ManualClock"):
        Memory(system_clock, read_latency_ms=1)


def test_a_page_of_an_answer_ends_by_the_simulated_clock() -> None:
    """Some of its reads are more than a page of an answer may take, so that a search comes in pieces."""
    jobs = Registry()
    jobs.job("note")(lambda ctx, payload: None)
    harness = Harness(jobs, at=NOON)
    for _ in range(3):
        harness.scheduler.submit("note")
        harness.advance(hours=30)
    assert harness.scheduler.list_runs().cursor is None
    with slow_reads(harness):
        began = harness.clock()
        assert harness.scheduler.list_runs().cursor is not None
        assert harness.clock() - began >= 2 * READ_MS
    assert harness.memory.read_latency_ms == 0
