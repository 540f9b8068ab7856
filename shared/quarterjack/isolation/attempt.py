"""The worker's side of an attempt: request a fork, answer the process's requests, and end it at one of its limits."""

from __future__ import annotations

import contextlib
import logging
import mmap
import selectors
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from quarterjack import logs
from quarterjack.domain.run import Failure, SiblingRows
from quarterjack.isolation.preload import place_of
from quarterjack.isolation.preloaded_parent import PreloadedParent
from quarterjack.isolation.wire import (
    ASKED,
    CANCELLED,
    FLAGS,
    LineReader,
    capture_surroundings,
    line,
    pack_error,
    unpack_ended,
    unpacked_bytes,
)
from quarterjack.middlewares import layers_of, name_of
from quarterjack.state.retry import is_permanent
from quarterjack.stores.siblings import CommitResult
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.delivery.visibility import JobProgress
from quarterjack.worker.execution.perform import limit_of, timeout_of
from quarterjack.worker.execution.run_store import RunStore
from quarterjack.worker.stages import Abandoned, AttemptResult, Cancelled, Failed, LeasedRun

log = logging.getLogger(__name__)

_OF_RUN = (
    *("revision", "job", "due", "not_before", "created_at", "fence", "attempt", "slices"),
    *("scheduled_at", "timezone", "backfill", "skipped_until"),
    *("wait_no", "awaits", "wake_at", "asked", "asked_before"),
)  # what a job can reach of its run
_OUTPUT = (1, 2)  # the worker's standard output and error, which are the job's too
_DEATH = 5.0  # seconds until a killed process is gone; longer only in an uninterruptible call of the kernel


def perform_isolated(parent: PreloadedParent, worker: WorkerContext, leased: LeasedRun) -> AttemptResult:
    """Run one attempt in a process of its own, to its end or to the limit of one of its policies; then nothing of it is left."""
    timeout_at = timeout_of(worker, leased)
    try:
        attempt = IsolatedAttempt(parent, worker, leased)
    except OSError as problem:
        return _not_started(problem)
    try:
        return watch(worker, leased, attempt.ends, timeout_at, tell_cancelled=attempt.tell_cancelled)
    finally:
        attempt.end()


def watch(
    worker: WorkerContext,
    leased: LeasedRun,
    ends: list[AttemptResult],
    timeout_at: int | None,
    *,
    tell_cancelled: Callable[[], None] = lambda: None,
) -> AttemptResult:
    """Wait for the job's end, or for what ends it. ``tell_cancelled`` is called while its cancellation is asked for."""
    in_flight = leased.in_flight
    with in_flight.changed:
        while True:
            if ends:
                return ends[0]
            if in_flight.lost:
                return Abandoned()
            limit = limit_of(leased, timeout_at, worker.clock())
            if isinstance(limit, (Failed, Cancelled)):
                return limit
            if in_flight.cancel_seen is not None:
                tell_cancelled()
            in_flight.changed.wait(limit)


class IsolatedAttempt:
    """One attempt's process. One thread has it forked, gives it its order, answers its questions and closes the sockets at its death."""

    def __init__(self, parent: PreloadedParent, worker: WorkerContext, leased: LeasedRun) -> None:
        self._parent, self._worker, self._leased = parent, worker, leased
        self.ends = list[AttemptResult]()  # how the attempt ended; who waits for its message's changes is notified
        self._ending = False
        with contextlib.ExitStack() as failing:
            mine, theirs = (failing.enter_context(contextlib.ExitStack()) for _ in range(2))
            self._control, control = _pair(mine, theirs)
            self._talk, talk = _pair(mine, theirs)
            file = theirs.enter_context(tempfile.TemporaryFile())
            file.truncate(FLAGS)
            self._flags = mine.enter_context(mmap.mmap(file.fileno(), FLAGS))
            given = (control.fileno(), talk.fileno(), file.fileno(), *_OUTPUT)
            run = leased.run
            order = {
                "surroundings": capture_surroundings(),
                "place": vars(place_of(leased.job)),
                "run": {**{name: getattr(run, name) for name in _OF_RUN}, "ref": list(run.ref)},
                "timezone": leased.spec.timezone,
                "retry": leased.policies.retry.as_dict(),
                "redact": asdict(leased.policies.redact),
                "payload": leased.payload,
                "readable": logs.is_readable(),
                "middleware": [name_of(each) for each in layers_of(leased.job, worker.jobs.around)],
            }
            self._thread = threading.Thread(
                target=self._run,
                args=(line(order), given, mine, theirs),
                name=f"isolated {leased.run.ref}",
                daemon=True,
            )
            self._thread.start()
            failing.pop_all()

    def tell_cancelled(self) -> None:
        """From now on ``ctx.cancelled`` is true."""
        self._flags[CANCELLED] = 1

    def end(self) -> None:
        """Kill its remaining processes, and wait until they are dead."""
        self._ending = True
        with contextlib.suppress(OSError):  # it is dead already, and the socket closed
            self._control.shutdown(socket.SHUT_WR)
        self._thread.join(_DEATH)

    def _run(
        self, order: bytes, given: tuple[int, ...], mine: contextlib.ExitStack, theirs: contextlib.ExitStack
    ) -> None:
        with mine:
            try:
                with theirs:
                    self._parent.fork(given)
            except OSError as problem:
                self._ended(_not_started(problem))
                return
            with contextlib.suppress(OSError):  # it died, or is being killed
                self._talk.sendall(order)
            self._ended(self._died(self._listen()))

    def _listen(self) -> int | None:
        """Follow its process until that is dead; its exit code, or None if the preloaded parent died."""
        talk, control = LineReader(self._talk), LineReader(self._control)
        with selectors.PollSelector() as selector:
            selector.register(self._talk, selectors.EVENT_READ)
            selector.register(self._control, selectors.EVENT_READ)
            while True:
                if any(key.fileobj is self._control for key, _ in selector.select()):
                    codes = control.read()
                    self._hear(talk.rest())  # written before it died
                    return codes[0]["code"] if codes else None
                self._hear(talk.read())
                if talk.is_over:
                    selector.unregister(self._talk)

    def _hear(self, messages: list[dict[str, Any]]) -> None:
        for said in messages:
            if "ask" in said:
                with contextlib.suppress(OSError):  # it died meanwhile
                    self._talk.sendall(line({"number": said["number"], **self._answer(said)}))
            elif "ended" in said:
                self._ended(unpack_ended(said["ended"]))
            else:
                self._leased.in_flight.progress = JobProgress(fraction=said["progress"], stage=said["stage"])

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Which run and under which fence, the worker knows better than the job."""
        try:
            if asked["ask"] not in ASKED:
                raise ValueError(f"nobody here can {asked['ask']!r}")
            given = unpacked_bytes(asked["given"]) if asked["ask"] == "commit" else asked["given"]
            value = getattr(RunStore(self._worker, self._leased), asked["ask"])(**given)
            if isinstance(value, CommitResult):
                value = vars(value)
            if isinstance(value, SiblingRows):
                value = {"steps": dict(value.steps), "checkpoint": value.checkpoint, "asked": value.asked}
        except Exception as problem:  # noqa: BLE001 (it is the job's to see)
            return {"error": pack_error(problem)}
        return {"value": value}

    def _ended(self, ended: AttemptResult) -> None:
        in_flight = self._leased.in_flight
        with in_flight.changed:
            if not self.ends:
                self.ends.append(ended)
                in_flight.changed.notify_all()

    def _died(self, code: int | None) -> Failed:
        """Its process ended before the job did; ``code`` as of subprocess, None if it is not known."""
        if code is None:
            word, text = "parent died", "the process that the job's was forked from died, and the job's process with it"
        elif code >= 0:
            word, text = f"exit {code}", f"the job's process ended with exit code {code} before the job did"
        else:
            word = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            text = f"the job's process was ended by {word}" + (" (out of memory?)" if word == "SIGKILL" else "")
        extra = {"run_id": str(self._leased.run.ref), "job": self._leased.job.name, "code": word}
        if self._ending and not self.ends:
            log.warning("job.killed", extra=extra)
        elif not self.ends:
            log.warning("job.process_died", extra=extra)
        permanent = is_permanent(("ProcessDied", "Exception"), None, self._leased.policies.retry)
        return Failed(Failure(kind="ProcessDied", message=text, code=word, permanent=permanent))


def _not_started(problem: OSError) -> Failed:
    return Failed(Failure(kind="ProcessNotStarted", message=f"no process could be started for the job: {problem}"))


def _pair(mine: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    return mine.enter_context(one), theirs.enter_context(other)
