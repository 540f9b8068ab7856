"""The figures of processes: what a worker's shell tells and, once a minute, what the process takes; and those of other roles."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from quarterjack.daemon.memory import resident
from quarterjack.signals.catalogue import measured
from quarterjack.signals.measurement import Measurement
from quarterjack.signals.sinks import Sink
from quarterjack.signals.worker import WorkerFigures
from quarterjack.worker.context import Done
from quarterjack.worker.stages import LeasedRun

log = logging.getLogger(__name__)

PERIOD = 60.0  # seconds between two looks at the process


class ProcessFigures:
    """Passes figures on to ``sinks``; without any it does nothing. Raises nothing: a run does not depend on it."""

    def __init__(self, sinks: Sequence[Sink] = (), figures: WorkerFigures | None = None) -> None:
        self._sinks, self._figures = sinks, figures if sinks else None
        self._ended = threading.Event()
        self._looked = (time.monotonic(), time.process_time())

    def started(self, leased: Sequence[LeasedRun]) -> None:
        """Attempts begin."""
        if self._figures is not None:
            figures = self._figures
            self._pass_on(lambda: figures.of_starts(leased))

    def done(self, done: Sequence[Done]) -> None:
        """Messages are done."""
        if self._figures is not None:
            figures = self._figures
            self._pass_on(lambda: figures.of_ends(done))

    def begin(self, slots: int, in_use: Callable[[], int]) -> None:
        """Look at the process from now on, in a thread of its own."""
        if self._sinks:
            self._look(slots, in_use)
            threading.Thread(target=self._serve, args=(slots, in_use), name="figures", daemon=True).start()

    def end(self, slots: int, in_use: Callable[[], int]) -> None:
        """The process ends: pass on what is left."""
        self._ended.set()
        if self._sinks:
            self._look(slots, in_use)
            self._flush()

    def _serve(self, slots: int, in_use: Callable[[], int]) -> None:
        while not self._ended.wait(PERIOD):
            self._look(slots, in_use)
            self._flush()

    def _look(self, slots: int, in_use: Callable[[], int]) -> None:
        self._pass_on(lambda: [measured("Slots", slots), measured("SlotsInUse", in_use()), *self._process()])

    def _process(self) -> list[Measurement]:
        now, (then, used) = (time.monotonic(), time.process_time()), self._looked
        self._looked = now
        found = [] if now[0] <= then else [measured("ProcessCpu", 100 * (now[1] - used) / (now[0] - then))]
        memory = resident()
        return found if memory is None else [*found, measured("ProcessMemory", memory)]

    def _pass_on(self, make: Callable[[], Sequence[Measurement]]) -> None:
        pass_on(self._sinks, make)

    def _flush(self) -> None:
        flush(self._sinks)


class RoundFigures:
    """Passes the figures of a role's rounds on to ``sinks``, which write them once a minute. Raises nothing. For any thread."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks, self._flushed = sinks, time.monotonic()

    def add(self, make: Callable[[], Sequence[Measurement]]) -> None:
        """A round is over; ``make`` measures it."""
        pass_on(self._sinks, make)
        if time.monotonic() - self._flushed >= PERIOD:
            self.flush()

    def flush(self) -> None:
        """Write what is left."""
        self._flushed = time.monotonic()
        flush(self._sinks)


def pass_on(sinks: Sequence[Sink], make: Callable[[], Sequence[Measurement]]) -> None:
    """Give the sinks what ``make`` measures. Raises nothing."""
    try:
        made = make() if sinks else ()
        for sink in sinks:
            sink.take(made)
    except Exception:
        log.exception("figures.failed")


def flush(sinks: Sequence[Sink]) -> None:
    """Raises nothing."""
    try:
        for sink in sinks:
            sink.flush()
    except Exception:  # such as a closed standard output
        log.exception("figures.failed")
