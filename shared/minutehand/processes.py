"""The functions as long-running processes, on any container or laptop: the same flow, long polling instead of events."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import cycle

from minutehand import logs
from minutehand.auditor.audit import AuditReport, audit
from minutehand.domain.formats.message import Message
from minutehand.domain.job import Context
from minutehand.domain.policies import Isolation
from minutehand.domain.queue import BATCH, DEFAULT_QUEUE, declared_name, striped, striped_text
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.flow.assignment import Assignment, Ended
from minutehand.flow.desk import Desk
from minutehand.flow.erase import Eraser
from minutehand.flow.heartbeat import HIDDEN, Heartbeat, Ticket
from minutehand.flow.outcome import Outcome
from minutehand.flow.perform import perform
from minutehand.flow.settle import release_ticket
from minutehand.flow.task import Task
from minutehand.flow.together import groups, start_together
from minutehand.flow.work import Jobs, Worker
from minutehand.isolation import PreloadedParent, check_isolated, modules_of, perform_isolated
from minutehand.jobs import Registry
from minutehand.ports.services import Services
from minutehand.ports.work_queue import RawMessage
from minutehand.sdk.queues import check_declared
from minutehand.services import connect, system_clock
from minutehand.settings import Settings
from minutehand.state.transitions.lease import HEARTBEAT
from minutehand.ticker.fan_out import FanOutConfig
from minutehand.ticker.tick import TickReport, tick
from minutehand.undertaker.bury import bury_one

log = logging.getLogger(__name__)

CONCURRENCY = 10  # runs of a worker at the same time, where nobody says

_POLL = 5.0  # seconds of a long poll: also the longest that stopping waits for one
_TURN = 1.0  # seconds of a long poll of one stripe by whoever has others to look after
_COMPANY = 0.05  # seconds without a poll after one that did not fill its batch: who comes meanwhile shares the next one's requests
_PAUSE = 1.0  # seconds after a service was unavailable
_LETTING_GO = (
    5.0  # seconds until released runs are let go: their isolated processes are killed, their threads abandoned
)


def process_name(kind: str) -> str:
    """Unique among processes, readable in logs and attempts' rows."""
    return f"{kind}@{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"


# Ticker, undertaker, auditor.


def run_ticker(
    where: Settings | Services,
    *,
    stop: threading.Event,
    period: float = 60.0,
    report: Callable[[TickReport], None] | None = None,
) -> None:
    """Tick now and then every ``period`` seconds until ``stop``, with the threads and writes of the settings (services: one, and any)."""
    holder = process_name("ticker")
    if isinstance(where, Settings):
        spread = FanOutConfig(threads=where.ticker_threads, writes=where.ticker_writes, wait=stop.wait)
        services = connect(where, stats=spread.stats)
    else:
        services, spread = where, FanOutConfig()
    while not stop.is_set():
        started = system_clock()
        try:
            done = tick(services, clock=system_clock, holder=holder, spread=spread)
        except Unavailable as problem:
            log.warning("tick.unavailable", extra={"error": str(problem)})
        else:
            log_tick(done)
            if report is not None:
                report(done)
        stop.wait(max(period - (system_clock() - started) / SECOND, 0))


def log_tick(report: TickReport) -> None:
    """One line a tick: this one speaks even when it did nothing, because its absence is the alarm."""
    counts = {name: value for name, value in vars(report.handled).items() if value and not isinstance(value, list)}
    places = {"shards": report.shards, "locked": report.locked, "unavailable": report.unavailable}
    state = {"behind_ms": report.behind, "stopped": report.stopped, "throttled": report.throttled}
    log.info("tick.done", extra=state | places | counts)


def run_undertaker(where: Settings | Services, *, stop: threading.Event) -> None:
    """Record dead letters until ``stop``."""
    services = _connected(where)
    while not stop.is_set():
        try:
            letters = services.dead.receive(most=10, wait=_POLL)
        except Unavailable as problem:
            log.warning("undertaker.unavailable", extra={"error": str(problem)})
            stop.wait(_PAUSE)
            continue
        for letter in letters:
            _bury(letter, services)


def _bury(letter: RawMessage, services: Services) -> None:
    """A letter that cannot be recorded now stays where it is and comes back."""
    try:
        bury_one(letter, services, system_clock)
        services.dead.delete(letter.receipt)
    except Exception:
        log.exception("undertaker.left", extra={"message_id": letter.id})


def run_auditor(where: Settings | Services) -> AuditReport:
    """Audit once."""
    return audit(_connected(where), clock=system_clock)


def _connected(where: Settings | Services) -> Services:
    return connect(where) if isinstance(where, Settings) else where


# Worker.


def run_worker(
    settings: Settings, jobs: Registry, *, stop: threading.Event, concurrency: int | None = None, grace: float = 10.0
) -> bool:
    """Work until ``stop``; then finish what can be finished within ``grace`` seconds and release the rest.

    Orders come from ``settings.work_queue``; ``concurrency`` is by default what that queue declares, or CONCURRENCY. InvalidInput
    for a queue that neither the jobs declare nor the cloud has.
    Runs execute in threads. A thread cannot be killed: when this returns, end the process, so that a released run's thread ends
    too. True: it stopped by itself because a job's thread had to be abandoned; start another process.
    """
    services = connect(settings)
    queue = declared_name(settings.work_queue)
    if queue is not None:
        check_declared(queue, jobs, services.work)
    declared = jobs.find_queue(queue)
    services = _with_all_stripes(services, settings, queue)
    most = concurrency or (None if declared is None else declared.concurrency) or CONCURRENCY
    process = WorkerProcess(services, jobs, concurrency=most, queue=queue)
    process.run(stop=stop, grace=grace)
    return process.must_recycle


def _with_all_stripes(services: Services, settings: Settings, queue: str | None) -> Services:
    """The same services, that know of every stripe which they take from, whatever MINUTEHAND_STRIPES says."""
    try:
        there = services.work.count_stripes()
    except Unavailable as problem:  # then what the settings say has to do
        log.warning("worker.stripes_not_counted", extra={"error": str(problem)})
        return services
    if there <= services.work.stripes:
        return services
    known = {**striped(settings.stripes), queue: there}
    return connect(replace(settings, stripes=striped_text(known)))


class WorkerProcess:
    """A worker that polls: at most ``concurrency`` messages at hand, from the queue that ``services`` take orders from.

    Raises JobError for a job with ``isolation="process"`` that a process of its own could not import.
    """

    def __init__(
        self, services: Services, jobs: Jobs, *, concurrency: int = CONCURRENCY, queue: str | None = None
    ) -> None:
        self._services, self._queue = services, queue or DEFAULT_QUEUE
        self._pollers = min(services.work.stripes, concurrency)
        self._heartbeat = Heartbeat(services)
        self._eraser = Eraser(services.work)
        self._stopping = threading.Event()
        self._slots = threading.Semaphore(concurrency)
        self._concurrency = concurrency
        self._busy = 0
        self._recycling = False
        self._changed = threading.Condition()
        desk = Desk(
            services=services,
            clock=system_clock,
            heartbeat=self._heartbeat,
            eraser=self._eraser,
            wait=threading.Event().wait,
            random=random.Random(),
            name=process_name("worker"),
        )
        if isinstance(jobs, Registry):
            check_isolated(jobs)
        self._isolated = modules_of(jobs) if isinstance(jobs, Registry) else []
        self._parent = PreloadedParent(self._isolated)
        self._worker = Worker(desk=desk, jobs=jobs, around=_around, remaining=self._remaining, execute=self._execute)

    def run(self, *, stop: threading.Event, grace: float) -> None:
        """Work until ``stop``, then wind up."""
        if self._isolated:
            self._parent.start()
        ended = threading.Event()
        beating = threading.Thread(target=self._beat, args=(ended,), name="heartbeat", daemon=True)
        polling = [
            threading.Thread(target=self._poll, args=(number,), name="poll", daemon=True)
            for number in range(self._pollers)
        ]
        threading.Thread(target=self._eraser.serve, args=(ended,), name="eraser", daemon=True).start()
        beating.start()
        for thread in polling:
            thread.start()
        threading.Thread(target=self._recycle, args=(stop,), name="recycle", daemon=True).start()
        started = {"worker": self._worker.desk.name, "concurrency": self._concurrency, "queue": self._queue}
        log.info("worker.started", extra=started)
        stop.wait()
        self._stopping.set()
        unfinished = self._finish(grace)
        released = self._release_all()
        for thread in polling:
            thread.join(_POLL)  # what a last poll still brings, it gives back itself
        released += self._release_all()
        self._finish(_LETTING_GO)
        ended.set()
        self._eraser.stop()
        self._parent.close()
        log.info("worker.stopped", extra={"unfinished": unfinished, "released": released})

    def _remaining(self) -> float | None:
        """A process has no time limit; once it stops, a job that checkpoints goes on elsewhere."""
        return 0.0 if self._stopping.is_set() else None

    @property
    def must_recycle(self) -> bool:
        """Whether it stopped because a job's thread had to be abandoned: end this process and start another."""
        return self._recycling

    def _recycle(self, stop: threading.Event) -> None:
        """Stop when a job's thread was abandoned: what it still does is nobody's, and only the process's end ends it."""
        self._worker.desk.abandoned.wait()
        if stop.is_set():  # then the process ends anyway, and whoever stopped it does not want another
            return
        self._recycling = True
        log.error("worker.recycling", extra={"worker": self._worker.desk.name})
        stop.set()

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(HEARTBEAT / SECOND):
            try:
                self._heartbeat.beat(system_clock())
            except Exception:  # the next beat may succeed, and without beats every lease is lost
                log.exception("heartbeat.failed")

    def _poll(self, number: int) -> None:
        """Poll every so many'th stripe in turn. Alone with its one, as a rule, it waits longer for it."""
        stripes = range(number, self._services.work.stripes, self._pollers)
        wait = _POLL if len(stripes) == 1 else _TURN
        for stripe in cycle(stripes):
            if self._stopping.is_set():
                return
            try:
                self._poll_once(stripe, wait)
            except Exception:  # a worker that stops polling is worse than one that says so every second
                log.exception("worker.poll_failed")
                self._stopping.wait(_PAUSE)

    def _poll_once(self, stripe: int, wait: float) -> None:
        if not self._slots.acquire(timeout=_PAUSE):
            return
        part = self._concurrency // self._pollers  # this poller holds so many slots while it waits, at the most
        slots = 1 + self._free_slots(min(BATCH, part) - 1)
        deliveries = self._received(slots, stripe, wait)
        if len(deliveries) == BATCH:  # then more may wait; they go with these, in the same requests to the ledger
            deliveries += self._received(self._free_slots(min(BATCH, part - BATCH)), stripe, 0)
        if self._stopping.is_set():
            self._give_back(deliveries)
            return
        self._start(deliveries)
        if 0 < len(deliveries) < slots:
            self._stopping.wait(_COMPANY)

    def _free_slots(self, most: int) -> int:
        """Slots taken of those that are free."""
        taken = 0
        while taken < most and self._slots.acquire(blocking=False):
            taken += 1
        return taken

    def _received(self, slots: int, stripe: int, wait: float) -> list[RawMessage]:
        """As many messages as there are slots for, at the most; what is not needed of these is free again."""
        deliveries = list(self._receive(slots, stripe, wait)) if slots else []
        if len(deliveries) < slots:
            self._slots.release(slots - len(deliveries))
        return deliveries

    def _receive(self, most: int, stripe: int, wait: float) -> Sequence[RawMessage]:
        try:
            return self._services.work.receive(most=most, wait=wait, visibility=HIDDEN, stripe=stripe)
        except Unavailable as problem:
            log.warning("worker.unavailable", extra={"error": str(problem)})
        except Exception:  # a worker that stops polling is worse than one that says so every second
            log.exception("worker.receive_failed")
        self._stopping.wait(_PAUSE)
        return []

    def _give_back(self, deliveries: Sequence[RawMessage]) -> None:
        if deliveries:
            self._services.work.hide([delivery.receipt for delivery in deliveries], 0)

    def _start(self, deliveries: Sequence[RawMessage]) -> None:
        try:
            tasks = self._worker.take(deliveries) if deliveries else []
        except Exception:  # the messages come back when their visibility ends; this worker goes on
            log.exception("worker.take_failed")
            for _ in deliveries:
                self._slots.release()
            return
        with self._changed:
            self._busy += len(tasks)
        started = [start_together(self._worker, group, self._done) for group in groups(self._worker, tasks)]
        if not all(started):  # it can do no more now
            self._stopping.wait(_PAUSE)

    def _done(self, done: Sequence[tuple[Task, Outcome]]) -> None:
        """Their slots are free, all at once: so the next poll asks for as many."""
        self._slots.release(len(done))
        with self._changed:
            self._busy -= len(done)
            self._changed.notify_all()

    def _finish(self, grace: float) -> int:
        """Wait for what is at hand; how many messages are still."""
        with self._changed:
            self._changed.wait_for(lambda: self._busy == 0, timeout=grace)
            return self._busy

    def _release_all(self) -> int:
        return sum(self._release(ticket) for ticket in self._heartbeat.at_hand())

    def _release(self, ticket: Ticket) -> bool:
        try:
            released = release_ticket(self._worker.desk, ticket)
            if released:
                log.info("run.released", extra={"run_id": str(ticket.ref), "tenant": ticket.ref.tenant})
            return released
        except Unavailable as problem:  # then its lease runs out
            log.warning("worker.not_released", extra={"run_id": str(ticket.ref), "error": str(problem)})
            return False

    def _execute(self, assignment: Assignment, context: Context, payload: str | None) -> Ended:
        if assignment.policies.isolation is Isolation.PROCESS:
            return perform_isolated(self._parent, assignment, context, payload)
        return perform(assignment, context, payload)


def _around(message: Message) -> AbstractContextManager[None]:
    return logs.of_run(run_id=str(message.run), job=message.job, tenant=message.run.tenant)
