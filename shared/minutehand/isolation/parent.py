"""The worker's side: start a child, answer what it asks, and end it when one of its limits is reached."""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minutehand.domain.job import Context
from minutehand.domain.policies import Retry
from minutehand.domain.run import Failure
from minutehand.flow.assignment import Assignment, Cancelled, Ended, Failed
from minutehand.flow.perform import timeout_of, watch
from minutehand.isolation.places import place_of
from minutehand.isolation.wire import CANCELLED, FLAGS, line, pack_beside, pack_error, unpack_ended
from minutehand.ports.ledger import BesideKind
from minutehand.state.decisions import is_permanent

log = logging.getLogger(__name__)

_LAUNCHER = Path(__file__).with_name("launch.py")
_LAST_WORDS = 1.0  # seconds to read what a dead child had said; only one whose forks left its process group needs them
_DEATH = 5.0  # seconds until a killed process is gone; longer only in an uninterruptible call of the kernel


def perform_isolated(assignment: Assignment, context: Context, payload: str | None) -> Ended:
    """Run one attempt in a process of its own, to its end or to the limit of one of its policies; then nothing of it is left."""
    ends, timeout_at = list[Ended](), timeout_of(assignment)
    try:
        child = Child(assignment, context, payload, ends)
    except OSError as problem:
        return Failed(Failure(kind="ProcessNotStarted", message=f"no process could be started for the job: {problem}"))
    try:
        return watch(assignment, ends, timeout_at, tell_cancelled=child.tell_cancelled)
    finally:
        child.end()


class Child:
    """One attempt's process. ``ends`` receives how the attempt ended, once, and who waits on the ticket is notified."""

    def __init__(self, assignment: Assignment, context: Context, payload: str | None, ends: list[Ended]) -> None:
        self._assignment, self._context, self._ends = assignment, context, ends
        self._ending = self._gone = False
        self._lock = threading.Lock()  # held while the process is killed or reaped: its number is its own until then
        with contextlib.ExitStack() as opened:
            file = opened.enter_context(tempfile.TemporaryFile())
            file.truncate(FLAGS)
            self._talk, other = socket.socketpair()
            opened.callback(other.close)
            try:
                self._process = _spawn(other.fileno(), file.fileno())
            except OSError:
                self._talk.close()
                raise
            self._flags = mmap.mmap(file.fileno(), FLAGS)
        self._ear = self._thread("ear", self._listen, line(_order(assignment, payload)))
        self._vigil = self._thread("vigil", self._await_death)

    def _thread(self, name: str, body: Callable[..., None], *given: object) -> threading.Thread:
        thread = threading.Thread(target=body, args=given, name=f"{name} {self._assignment.run.ref}", daemon=True)
        thread.start()
        return thread

    def tell_cancelled(self) -> None:
        """From now on ``ctx.cancelled`` is true."""
        self._flags[CANCELLED] = 1

    def end(self) -> None:
        """Kill what is left of it, and close what was open."""
        with self._lock:
            self._ending = True
            if not self._gone:
                _kill(self._process.pid)
        self._vigil.join(_DEATH)
        with contextlib.suppress(OSError):
            self._talk.shutdown(socket.SHUT_RDWR)
        self._ear.join(_DEATH)
        self._talk.close()
        self._flags.close()
        if self._process.stdin is not None:
            self._process.stdin.close()

    # What it says.

    def _listen(self, order: bytes) -> None:
        try:
            self._talk.sendall(order)
            with self._talk.makefile("rb") as lines:
                for text in lines:
                    self._hear(json.loads(text))
        except OSError as problem:  # it died, or is being killed
            log.debug("child.silent", extra={"run_id": str(self._assignment.run.ref), "error": str(problem)})

    def _hear(self, said: dict[str, Any]) -> None:
        if "ask" in said:
            self._talk.sendall(line({"number": said["number"], **self._answer(said)}))
        elif "ended" in said:
            self._ended(unpack_ended(said["ended"]))
        else:
            self._assignment.ticket.progress, self._assignment.ticket.stage = said["progress"], said["stage"]

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"value": self._do(asked)}
        except Exception as problem:  # noqa: BLE001 (it is the job's to see)
            return {"error": pack_error(problem)}

    def _do(self, asked: dict[str, Any]) -> Any:
        services, run = self._assignment.desk.services, self._assignment.run
        match asked["ask"]:
            case "keep":
                return self._keep(BesideKind(asked["kind"]), asked["name"], asked["text"])
            case "beside":
                return pack_beside(services.ledger.beside(run.ref))
            case "keep large":
                return services.payloads.keep(run.ref.tenant, asked["text"])
            case "get large":
                return services.payloads.get(asked["key"])
            case "remaining":
                return self._context.remaining()
            case verb:
                raise ValueError(f"nobody here can {verb!r}")

    def _keep(self, kind: BesideKind, name: str, text: str) -> bool:
        desk, run = self._assignment.desk, self._assignment.run
        expires = desk.expires(desk.clock())
        kept = desk.services.ledger.keep(run.ref, fence=run.fence, kind=kind, name=name, text=text, expires=expires)
        if not kept:
            self._assignment.ticket.lose()
        return kept

    # How it ended.

    def _ended(self, ended: Ended) -> None:
        ticket = self._assignment.ticket
        if isinstance(ended, Failed) and ticket.cancel_seen is not None:
            ended = Cancelled("requested", ended.failure)
        with ticket.changed:
            if not self._ends:
                self._ends.append(ended)
                ticket.changed.notify_all()

    def _await_death(self) -> None:
        """Wait for its end, take along what it started, and say how it died unless it had said how it ended."""
        pid = self._process.pid
        if hasattr(os, "waitid"):  # dead, but not reaped: nobody else can have its number yet
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        with self._lock:
            _kill(pid)
            code = self._process.wait()
            self._gone = True
        self._ear.join(_LAST_WORDS)
        failure = died(code, self._assignment.policies.retry)
        if not self._ends:
            event = "job.killed" if self._ending else "job.process_died"
            extra = {"run_id": str(self._assignment.run.ref), "job": self._assignment.job.name}
            log.warning(event, extra=extra | {"code": failure.code})
        self._ended(Failed(failure))


def died(code: int, retry: Retry) -> Failure:
    """The failure of an attempt whose process ended by itself before the job did; ``code`` as of subprocess."""
    permanent = is_permanent(("ProcessDied", "Exception"), None, retry)
    if code >= 0:
        text, word = f"the job's process ended with exit code {code} before the job did", f"exit {code}"
    else:
        word = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        text = f"the job's process was ended by {word}" + (" (out of memory?)" if word == "SIGKILL" else "")
    return Failure(kind="ProcessDied", message=text, code=word, permanent=permanent)


def _order(assignment: Assignment, payload: str | None) -> dict[str, Any]:
    run = assignment.run
    return {
        "path": sys.path,
        "place": vars(place_of(assignment.job)),
        "message": assignment.message.encode(),
        "fence": run.fence,
        "attempt": run.attempt,
        "slices": run.slices,
        "retry": assignment.policies.retry.as_dict(),
        "payload": payload,
    }


def _spawn(talk: int, flags: int) -> subprocess.Popen[bytes]:
    """A new interpreter, not a fork: this process has threads. It leads a session and process group of its own."""
    return subprocess.Popen(  # noqa: S603 (our own interpreter and file)
        [sys.executable, str(_LAUNCHER), str(talk), str(flags)],
        stdin=subprocess.PIPE,
        pass_fds=(talk, flags),
        start_new_session=True,
    )


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: only the dead are left in it
        os.killpg(group, signal.SIGKILL)
