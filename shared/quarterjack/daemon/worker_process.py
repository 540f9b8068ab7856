"""A worker that polls: it keeps to its concurrency, and when it is told to stop finishes what it can and gives back the rest."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from quarterjack import logs
from quarterjack.daemon.figures import ProcessFigures
from quarterjack.daemon.lane_shares import LaneShares
from quarterjack.daemon.memory import check_limit, resident
from quarterjack.daemon.own_version import own_version, registrar_of
from quarterjack.daemon.worker_record import (
    RecordKeeper,
    catalogue_of,
    process_identity,
)
from quarterjack.daemon.worker_shell import WorkerShell, tell_unusable_secrets
from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import BATCH, DEFAULT_QUEUE, LOW_SHARE, percentages
from quarterjack.errors import Unavailable
from quarterjack.isolation import PreloadedParent, check_isolated, modules_of, perform_isolated
from quarterjack.jobs import Registry
from quarterjack.ports.queues import RawMessage
from quarterjack.ports.services import Services
from quarterjack.posix import check_posix
from quarterjack.services import system_clock
from quarterjack.settings import Settings
from quarterjack.state.worker_record import WorkerKind
from quarterjack.values import replace
from quarterjack.version import VERSION
from quarterjack.worker.context import Done, KnownJobs
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.versions import OwnVersion

log = logging.getLogger(__name__)

CONCURRENCY = 10  # runs of a worker at the same time, where nobody says

_POLL = 5.0  # seconds of a long poll: also the longest that stopping waits for one
_POLL_OF_LAST = 1.0  # seconds of a long poll of one of several lanes that holds the last free slot
_ASIDE = (
    0.5  # seconds without a poll of an empty lane while others are crowded: it asks again and again, and keeps no slot
)
_COMPANY = (
    0.05  # seconds without a poll after one that did not fill its batch: later messages share the next's requests
)
_PAUSE = 1.0  # seconds after a service was unavailable
_WATCH = 5.0  # seconds between two looks at the memory of a process that has a limit
_HANGS = (
    120.0  # seconds without a round after which a thread that polls hangs: far beyond the deadlines of its requests
)
_LETTING_GO = 5.0  # seconds until released runs end: their isolated processes are killed, their threads abandoned


def process_name(kind: str) -> str:
    """Unique among processes, readable in logs and attempts' rows."""
    return f"{kind}@{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"


class WorkerProcess:
    """A worker that polls: at most ``concurrency`` messages at hand, from the queue that ``services`` take orders from.

    Of a queue with lanes low runs keep ``low_share`` percent of the slots.

    Beyond ``max_memory`` MB (resident) it stops by itself. It ``keeps_record`` of what it is and does, for `workers list`; its jobs it
    publishes in any case. Once it has started it calls ``alongside`` in a thread, with the event that stops it.
    Raises JobError for a job with ``isolation="process"`` that a process of its own could not import, InvalidInput
    for a ``max_memory`` that is reached already.
    """

    def __init__(
        self,
        services: Services,
        jobs: KnownJobs,
        *,
        concurrency: int = CONCURRENCY,
        low_share: int = LOW_SHARE,
        queue: str | None = None,
        max_memory: int | None = None,
        keeps_record: bool = True,
        alongside: Callable[[threading.Event], object] | None = None,
        figures: ProcessFigures | None = None,
        version: OwnVersion | None = None,
    ) -> None:
        """``version``: its application version; None: that of its jobs."""
        check_posix("a worker")
        if max_memory is not None:
            check_limit(max_memory)
        self._max_memory, self._alongside, self._jobs = max_memory, alongside, jobs
        self._services, self.queue = services, queue or DEFAULT_QUEUE
        self._pollers, self._lanes = min(services.work.width, concurrency), services.work.lanes
        self._stopping = threading.Event()
        self._shares = LaneShares(concurrency, percentages(low_share))
        self.concurrency = concurrency
        self._recycling = False
        self._figures = figures or ProcessFigures()
        self._polling = list[threading.Thread]()
        self._polled = dict[tuple[Priority, int], float]()  # monotonic seconds of each poller's last round
        self._queue_problem: str | None = "the queue was not asked yet"
        if isinstance(jobs, Registry):
            check_isolated(jobs)
        self._isolated = modules_of(jobs) if isinstance(jobs, Registry) else []
        self._parent = PreloadedParent(self._isolated)
        name = process_name("worker")
        version = version or own_version(jobs, Settings())
        identify = partial(
            process_identity, name, jobs, app_version=version.name, queue=self.queue, concurrency=concurrency
        )
        keeper = RecordKeeper(
            services,
            WorkerKind.PROCESS,
            identify if keeps_record else None,
            system_clock,
            catalogue_of(services, jobs),
            registrar_of(services, version),
        )
        self._shell = WorkerShell(
            services,
            jobs,
            name=name,
            own_version=version,
            keeper=keeper,
            around=lambda ids: logs.RunFields(**ids),
            remaining=lambda: 0.0 if self._stopping.is_set() else None,  # then a job that checkpoints goes on elsewhere
            started=self._figures.started,
            report=self._report,
            isolated=partial(perform_isolated, self._parent),
        )

    def run(self, *, stop: threading.Event, grace: float) -> bool:
        """Work until ``stop``, then wind up. True: it stopped by itself, for an abandoned thread or its memory; start another process."""
        tell_unusable_secrets(self._jobs)
        if self._isolated:
            self._parent.start()
        self._shell.start()
        if self._alongside is not None:
            threading.Thread(target=self._alongside, args=(stop,), name="alongside", daemon=True).start()
        threading.Thread(target=self._recycle, args=(stop,), name="recycle", daemon=True).start()
        self._polling = [
            threading.Thread(target=self._poll, args=(lane, number), name="poll", daemon=True)
            for lane in self._lanes
            for number in range(self._pollers)
        ]
        for thread in self._polling:
            thread.start()
        self._figures.begin(self.concurrency, self._shell.at_hand)
        started = {"worker": self._shell.worker.name, "concurrency": self.concurrency, "queue": self.queue}
        started["release"] = VERSION
        log.info("worker.started", extra=started)
        stop.wait()
        self._stopping.set()
        unfinished = self._shell.wait(grace)
        released = self._shell.release_all()
        for thread in self._polling:
            thread.join(_POLL)  # what a last poll still brings, it gives back itself
        released += self._shell.release_all()
        self._shell.wait(_LETTING_GO)
        self._shell.stop()
        self._parent.close()
        self._figures.end(self.concurrency, self._shell.at_hand)
        log.info("worker.stopped", extra={"unfinished": unfinished, "released": released})
        return self._recycling

    def find_ailment(self) -> str | None:
        """Why this process should be started anew; None: its threads poll, or it is winding up."""
        if self._stopping.is_set():
            return None
        if not self._polling:
            return "it does not poll yet"
        if not all(thread.is_alive() for thread in self._polling):
            return "a thread that polls has ended"
        now = time.monotonic()
        longest = max((now - at for at in self._polled.values()), default=0)
        return f"a thread has not polled for {longest:.0f} s" if longest > _HANGS else None

    def find_obstacle(self) -> str | None:
        """Why it takes no work now; None: it does. Its jobs are imported before there is a process."""
        return "it is stopping" if self._stopping.is_set() else self._queue_problem

    def _report(self, done: Sequence[Done]) -> None:
        for lane, slots in Counter(received.delivery.share for received, _ in done).items():
            self._shares.release(lane, slots)  # all at once: so the next poll asks for as many
        self._figures.done(done)

    def _recycle(self, stop: threading.Event) -> None:
        """Stop when a job's thread was abandoned, since only the process's end ends what it still does; or beyond ``max_memory``."""
        held = self._await_end(stop)
        if stop.is_set():  # then the process ends anyway, and whoever stopped it does not want another
            return
        self._recycling = True
        if held is None:
            log.error("worker.recycling", extra={"worker": self._shell.worker.name})
        else:
            log.info("worker.recycling", extra={"worker": self._shell.worker.name, "memory_mb": round(held)})
        stop.set()

    def _await_end(self, stop: threading.Event) -> float | None:
        """Wait for an abandoned thread (None), or for more memory (MB) than the limit."""
        abandoned, limit = self._shell.worker.abandoned, self._max_memory
        while not abandoned.wait(None if limit is None else _WATCH) and not stop.is_set():
            held = resident()
            if limit is not None and held is not None and held > limit:
                return held
        return None

    def _poll(self, lane: Priority, number: int) -> None:
        """Poll a lane, as one of its pollers."""
        eager = False  # the last poll brought something
        while not self._stopping.is_set():
            self._polled[lane, number] = time.monotonic()
            try:
                eager = self._poll_once(lane, number, eager=eager)
            except Exception:  # a worker that stops polling is worse than one that says so every second
                eager = False
                self._shares.polled(lane, number, full=False)
                log.exception("worker.poll_failed")
                self._stopping.wait(_PAUSE)

    def _poll_once(self, lane: Priority, number: int, *, eager: bool) -> bool:
        """Poll and start what comes; whether anything came.

        The only lane holds its part of the slots while it waits. Of several an idle one holds a single slot, and none for longer than
        its request takes while others are crowded.
        """
        alone = len(self._lanes) == 1
        part = self.concurrency // self._pollers  # this poller holds so many slots while it waits, at the most
        slots = self._shares.take(lane, min(BATCH, part) if alone or eager else 1, timeout=_PAUSE)
        if not slots:
            return eager
        aside = not alone and self._shares.are_wanted(besides=lane)
        wait = _POLL if alone or self._shares.free else _POLL_OF_LAST
        deliveries = self._received(slots, lane, number, 0 if aside or (eager and not alone) else wait)
        full = len(deliveries) == slots
        self._shares.polled(lane, number, full=full)
        if len(deliveries) == BATCH:  # then more may wait; they go with these, in the same requests to the ledger
            free = self._shares.take_free(lane, min(BATCH, max(part - BATCH, 0)))
            deliveries += self._received(free, lane, number, 0)
        if self._stopping.is_set():
            if deliveries:
                self._services.work.hide([delivery.receipt for delivery in deliveries], 0)
            return False
        self._start(deliveries)
        if aside and not deliveries:
            self._stopping.wait(_ASIDE)
        elif deliveries and not full:
            self._stopping.wait(_COMPANY)
        return bool(deliveries)

    def _received(self, slots: int, lane: Priority, number: int, wait: float) -> list[RawMessage]:
        """As many messages as there are slots for, at the most; what is not needed of these is free again."""
        deliveries = list[RawMessage]()
        work = self._services.work
        try:
            if slots:
                deliveries += work.receive(
                    most=slots,
                    wait=wait,
                    visibility=HIDDEN,
                    lane=lane,
                    poller=number,
                    pollers=self._pollers,
                )
                self._queue_problem = None
        except Unavailable as problem:
            self._queue_problem = f"the queue does not answer: {problem}"
            log.warning("worker.unavailable", extra={"error": str(problem)})
            self._stopping.wait(_PAUSE)
        except Exception as problem:  # what was received before must start all the same
            self._queue_problem = f"the queue refuses: {type(problem).__name__}"
            log.exception("worker.receive_failed")
            self._stopping.wait(_PAUSE)
        if len(deliveries) < slots:
            self._shares.release(lane, slots - len(deliveries))
        return self._aged(deliveries) if lane is Priority.LOW else deliveries

    def _aged(self, deliveries: Sequence[RawMessage]) -> list[RawMessage]:
        """Messages of the low lane, of which those that are old enough take normal slots."""
        since = system_clock() - self._services.work.low_age
        found = [replace(each, aged=0 < each.sent_at <= since) for each in deliveries]
        self._shares.move(Priority.LOW, Priority.NORMAL, sum(each.aged for each in found))
        return found

    def _start(self, deliveries: Sequence[RawMessage]) -> None:
        try:
            started = self._shell.work(deliveries) if deliveries else True
        except Exception:  # the messages come back when their visibility ends; this worker goes on
            log.exception("worker.take_failed")
            for delivery in deliveries:
                self._shares.release(delivery.share)
            return
        if not started:  # it can do no more now
            self._stopping.wait(_PAUSE)
