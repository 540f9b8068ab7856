"""The roles as processes: ticker, worker, undertaker, historian and auditor, until they are told to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial

from quarterjack.auditor.walk import AuditReport
from quarterjack.daemon.auditor_hour import audit_hour
from quarterjack.daemon.declarations import DeclarationApplier
from quarterjack.daemon.event_sink import with_events
from quarterjack.daemon.figures import ProcessFigures, RoundFigures, flush, pass_on
from quarterjack.daemon.memory import keep_imported, limit_arenas
from quarterjack.daemon.own_version import own_version
from quarterjack.daemon.worker_process import CONCURRENCY, WorkerProcess, process_name
from quarterjack.domain.queue import declared_name
from quarterjack.domain.times import SECOND
from quarterjack.errors import Misconfigured, QuarterjackError, TooNew, Unavailable
from quarterjack.historian.deliver import StreamReader
from quarterjack.historian.follow import FollowReport, StreamFollower
from quarterjack.jobs import Registry
from quarterjack.owner.job_terms import check_declared
from quarterjack.ports.services import Services
from quarterjack.services import connect, system_clock
from quarterjack.settings import Settings
from quarterjack.signals.measurement import Measurement, metered
from quarterjack.signals.reports import (
    of_burial,
    of_events_round,
    of_gauges,
    of_history_round,
    of_tick,
)
from quarterjack.signals.sinks import Sink, loaded_open_telemetry
from quarterjack.signals.worker import WorkerFigures
from quarterjack.ticker.fan_out import FanOutConfig
from quarterjack.ticker.gauges import measure
from quarterjack.ticker.tick import TickReport, tick
from quarterjack.undertaker.bury import bury_one

log = logging.getLogger(__name__)

_POLL = 5.0  # seconds of a long poll: also the longest that stopping waits for one
HISTORIAN_PERIOD = 2.0  # seconds: a longer one makes fewer and fuller batches
_PAUSE = 1.0  # seconds after a service was unavailable


def run_ticker(
    where: Settings | Services,
    *,
    stop: threading.Event,
    period: float = 60.0,
    report: Callable[[TickReport], None] | None = None,
    sinks: Sequence[Sink] = (),
) -> None:
    """Tick now and then every ``period`` seconds until ``stop``, with the threads and writes of the settings (services: one, and any).

    Figures of each tick go to ``sinks``. Raises Misconfigured at the first tick: a wrong setting. Later, somebody has taken away a right
    or a key, and gives it back.
    """
    spread, holder = FanOutConfig(), process_name("ticker")
    if isinstance(where, Settings):  # this process is a ticker
        keep_imported()
        services = connect(where)
        spread = FanOutConfig(threads=where.ticker_threads, writes=where.ticker_writes, wait=stop.wait)
    else:
        services = where
    has_ticked = False
    while not stop.is_set():
        started = system_clock()
        try:
            done = tick(services, clock=system_clock, holder=holder, spread=spread)
        except Unavailable as problem:
            log.warning("tick.unavailable", extra={"error": str(problem)})
        except Misconfigured as problem:
            if not has_ticked:
                raise
            log.error("tick.refused", extra={"error": str(problem)})
        else:
            has_ticked = True
            _log_tick(done)
            if sinks:
                pass_on(sinks, partial(_figures_of, done, services))
                flush(sinks)
            if report is not None:
                report(done)
        stop.wait(max(period - (system_clock() - started) / SECOND, 0))


def _figures_of(done: TickReport, services: Services) -> list[Measurement]:
    """Of a tick, and every five minutes of what waits."""
    found = of_tick(done, whole=True)
    return found + of_gauges(measure(services, system_clock())) if done.is_measured else found


def _log_tick(report: TickReport) -> None:
    """One line a tick: this one speaks even when it did nothing, because its absence is the alarm."""
    counts = {name: value for name, value in report.handled.numbers().items() if value}
    places = {"shards": report.shards, "locked": report.locked, "unavailable": report.unavailable}
    state = {"behind_ms": report.behind, "stopped": report.stopped, "throttled": report.throttled}
    log.info("tick.done", extra=state | places | counts)


def run_undertaker(settings: Settings, *, stop: threading.Event, sinks: Sequence[Sink] = ()) -> None:
    """Record dead letters until ``stop``. Figures go to ``sinks``. Raises Misconfigured at the first receipt, as the ticker does."""
    services, named = connect(settings), metered(settings)
    has_received = False
    while not stop.is_set():
        try:
            letters = services.dead.receive(most=10, wait=_POLL)
            has_received = True
        except (Unavailable, Misconfigured) as problem:
            if not has_received and isinstance(problem, Misconfigured):
                raise
            log.warning("undertaker.unavailable", extra={"error": str(problem)})
            stop.wait(_PAUSE)
            continue
        for letter in letters:
            try:
                burial = bury_one(letter, services, system_clock)
                services.dead.delete(letter.receipt)
                pass_on(sinks, partial(of_burial, burial, named))
            except TooNew:  # the later release's undertaker records it
                continue
            except Exception:  # it stays where it is and comes back
                log.exception("undertaker.left", extra={"message_id": letter.id})
        if letters:
            flush(sinks)


def run_historian(
    settings: Settings,
    *,
    stop: threading.Event,
    period: float = HISTORIAN_PERIOD,
    report: Callable[[FollowReport], None] | None = None,
    sinks: Sequence[Sink] = (),
    event_sinks: Sequence[Sink] = (),
) -> None:
    """Follow the stream of runs until ``stop``: a round every ``period`` seconds, and at once where more is left.

    What stops a round is logged, and the next one begins with the same changes. A second reader, in a thread of its own, publishes
    events where QUARTERJACK_EVENTS says so. Figures of the history go to ``sinks``, those of events to ``event_sinks``, once a minute
    and at the end. Misconfigured if the history is off, or a setting of events is wrong.
    """
    if not settings.history:
        raise Misconfigured("QUARTERJACK_HISTORY=off: the runs have no stream; set it to 'on', or run no historian")
    services = connect(settings)
    publishing = with_events(services, settings)
    of_history, of_events = RoundFigures(sinks), RoundFigures(event_sinks)
    if publishing.events is not None:
        events = StreamFollower(publishing, system_clock, StreamReader.EVENTS)

        def tell_events(done: FollowReport) -> None:
            of_events.add(partial(of_events_round, done))

        threading.Thread(target=_follow, args=(events, stop, period, tell_events), name="events", daemon=True).start()

    def tell(done: FollowReport) -> None:
        of_history.add(partial(of_history_round, done))
        if report is not None and not done.stopped:
            report(done)

    try:
        _follow(StreamFollower(services, system_clock), stop, period, tell)
    finally:
        of_history.flush()
        of_events.flush()


def _follow(
    follower: StreamFollower, stop: threading.Event, period: float, tell: Callable[[FollowReport], None]
) -> None:
    """``tell`` gets the report of each round, of those that an error stopped as well."""
    while not stop.is_set():
        started, done = system_clock(), FollowReport()
        try:
            follower.poll(done)
        except QuarterjackError as problem:
            log.warning("historian.stopped", extra={"error": str(problem)})
        except Exception:  # a defect of a consumer: the batch stays, and the delay of the historian tells it
            log.exception("historian.stopped")
        _log_round(done)
        tell(done)
        if done.has_more and not done.stopped:
            continue
        stop.wait(max(period - (system_clock() - started) / SECOND, 0.1))


def _log_round(report: FollowReport) -> None:
    """One line for a round that had something to do."""
    counts = {
        name: value for name, value in vars(report).items() if value and name not in ("delay", "has_more", "stopped")
    }
    if counts:
        log.info("historian.done", extra=counts | {"delay_ms": report.delay})


def run_auditor(settings: Settings, *, sinks: Sequence[Sink] = ()) -> AuditReport:
    """One hour of the auditor. Figures go to ``sinks``, after an error too."""
    try:
        return audit_hour(
            connect(settings),
            clock=system_clock,
            history=settings.history,
            emit=lambda made: pass_on(sinks, lambda: made),
        )
    finally:
        flush(sinks)


def worker_process(
    settings: Settings,
    jobs: Registry,
    *,
    concurrency: int | None = None,
    max_memory: int | None = None,
    apply: Sequence[str] | None = None,
    sinks: Sequence[Sink] = (),
) -> WorkerProcess:
    """A worker that has found its queue, and has begun nothing.

    Orders come from ``settings.work_queue``; ``concurrency`` is by default what that queue declares, or CONCURRENCY. InvalidInput
    for a queue that neither the jobs declare nor the cloud has, or a ``max_memory`` (MB, resident) that is reached before any run.
    Once it has started it applies the schedules that the packages ``apply`` declare, for the settings' tenant.
    Its figures go to ``sinks``, and to OpenTelemetry if this process has loaded the API.
    """
    limit_arenas()
    keep_imported()
    services = connect(settings)
    queue = declared_name(settings.work_queue)
    if queue is not None:
        check_declared(queue, jobs, services.work)
    declared = jobs.find_queue(queue)
    try:
        services.work.discover()
    except Unavailable as problem:  # then what the settings say has to do
        log.warning("worker.queue_not_discovered", extra={"error": str(problem)})
    most = concurrency or (None if declared is None else declared.concurrency) or CONCURRENCY
    alongside, version = None, own_version(jobs, settings)
    if apply is not None:
        name = process_name("worker")
        applier = DeclarationApplier(services, apply, jobs, tenant=settings.tenant, by=name, clock=system_clock)
        alongside = applier.run
    return WorkerProcess(
        services,
        jobs,
        concurrency=most,
        low_share=settings.low_share,
        queue=queue,
        max_memory=max_memory,
        keeps_record=settings.history,
        version=version,
        alongside=alongside,
        figures=ProcessFigures(
            [*sinks, *loaded_open_telemetry(service_of(settings))],
            WorkerFigures(lambda: jobs, metered(settings), version.name),
        ),
    )


def service_of(settings: Settings, part: str = "worker") -> str:
    """The value of the dimension `service`: a worker's is that of the function of its queue."""
    queue = declared_name(settings.work_queue) if part == "worker" else None
    return f"{settings.prefix}-{part}" + ("" if queue is None else f"-{queue}")
