"""A ready job that runs commands, such as the lines of a crontab.

    # jobs.py
    from quarterjack.ready_jobs.command import command_job

    command = command_job("command")

A command runs in a process group of its own. Its timeout, a cancellation and a lost lease end the whole group with SIGTERM and, after a
grace period, SIGKILL. If the worker dies, the kernel kills the group (Linux). Processes that a command leaves running when it exits by
itself are not ended, as with cron.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from quarterjack import lifeline
from quarterjack.domain.job import Context, JobFunction
from quarterjack.domain.names import check_limit
from quarterjack.domain.policies import Retry
from quarterjack.errors import InvalidInput, Permanent
from quarterjack.jobs import Registry, default_registry
from quarterjack.posix import pwd

TAIL = 1_500  # characters at the end of the output that a run keeps: as many as an error's message may have
LOGGED = 200  # first lines of the output that are logged: log storage is billed by size
GRACE = 5.0  # seconds from SIGTERM to SIGKILL
_LAST_WORDS = 1.0  # seconds to read the output after the exit: a process that the command left running may keep it open
_LOOK = 0.2  # seconds between two checks for cancellation
_RESERVE = 10.0  # seconds of a Lambda function's time that are kept to kill the group and settle the run


class CommandFailed(Exception):
    """A command ended with an exit code other than 0, or by a signal. ``code`` is "exit 3" or "SIGKILL"."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class CommandTimeout(CommandFailed, TimeoutError):
    """A command exceeded its timeout; its process group was killed."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """The payload of a command's run: exactly one of ``command`` and ``argv``, and any other field."""

    command: str | None = None  # a line for the shell
    argv: tuple[str, ...] = ()  # or program and arguments, without a shell
    shell: str = "/bin/sh"  # which runs the line with -c
    environment: Mapping[str, str] = field(default_factory=dict)  # added to the worker's variables, or replacing them
    directory: str | None = None  # to start in; None: the user's home, as cron does
    stdin: str = ""  # text for its standard input
    timeout: float | None = None  # seconds; None: no limit but the worker's
    user: str | None = None  # name of the user that it runs as; None: the worker's

    @classmethod
    def of(cls, payload: Any) -> Command:
        """The command of a payload: such a dict, or a line of shell. Raises InvalidInput."""
        given = {"command": payload} if isinstance(payload, str) else payload
        known = [f.name for f in fields(cls)]
        if not isinstance(given, Mapping) or not set(given) <= set(known):
            raise InvalidInput("payload", payload, "is not a command", f"use a dict with some of {', '.join(known)}")
        _check(given)
        return cls(**{**given, "argv": tuple(given.get("argv") or ())})


def command_job(name: str = "command", *, registry: Registry = default_registry, **policies: Any) -> JobFunction:
    """Register the job that runs commands, under a name and with the policies of ``@job``. Its payload is a ``Command``.

    By default a failed command is not repeated, as with cron, and on worker processes it has a process of its own. A tenant whose jobs
    are limited may run it only if its profile has the job's full name: no pattern gives it.
    """
    given: dict[str, Any] = {"isolation": "process", "retry": Retry(max_attempts=1), **policies, "by_name": True}
    return registry.job(name, **given)(run_command)


def run_command(ctx: Context, payload: Any) -> dict[str, Any]:
    """Run a command to its end. Returns its exit code, the seconds it took and the end of its output, errors included.

    Raises CommandFailed with the end of its output, CommandTimeout, and Permanent if it cannot be started as asked.
    """
    try:
        command = Command.of(payload)
    except InvalidInput as problem:
        raise Permanent(str(problem)) from problem
    began, left = time.monotonic(), ctx.remaining()
    limits = [command.timeout, None if left is None else max(0.0, left - _RESERVE)]
    with _Group(command, ctx) as group:
        code = group.wait(min((limit for limit in limits if limit is not None), default=float("inf")))
    seconds = round(time.monotonic() - began, 3)
    if code is None:
        raise CommandTimeout(_with_output(f"killed after {seconds:g} s", group.tail), "timeout")
    if code != 0:
        word = f"exit {code}" if code > 0 else signal.Signals(-code).name
        raise CommandFailed(_with_output(word, group.tail), word)
    return {"exit_code": 0, "seconds": seconds, "output": group.tail}


class _Group:
    def __init__(self, command: Command, ctx: Context) -> None:
        self._ctx = ctx
        self._watched, self._held = os.pipe()
        try:
            self._process = _start(command, ctx, self._watched)
        except BaseException:
            self._close()
            raise
        lifeline.tie(self._watched, self._process.pid)
        self._exited, self._output = threading.Event(), bytearray()
        self._reader = self._thread(self._read)
        self._thread(self._await_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._exited.is_set():
            self._kill()
        self._reader.join(_LAST_WORDS)
        self._process.wait()
        lifeline.untie(self._watched)
        self._close()

    @property
    def tail(self) -> str:
        return bytes(self._output).decode(errors="replace").strip("\n")[-TAIL:]

    def wait(self, limit: float) -> int | None:
        """Its exit code (negative: the signal that ended it), or None if it was killed after ``limit`` seconds."""
        end = time.monotonic() + limit
        while not self._exited.wait(_LOOK):
            self._ctx.raise_if_cancelled()
            if time.monotonic() >= end:
                self._kill()
                return None
        return self._process.wait()

    def _kill(self) -> None:
        """Send SIGTERM to the group and, after the grace period or its exit, SIGKILL to the processes left in it."""
        self._signal(signal.SIGTERM)
        self._exited.wait(GRACE)
        self._signal(signal.SIGKILL)
        self._exited.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: only the dead are left in it
            os.killpg(self._process.pid, number)

    def _await_exit(self) -> None:
        """Wait for the death of the process without reaping it, so that its number is not reused before the group is signalled."""
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        self._exited.set()

    def _read(self) -> None:
        """Keep the end of the output and log its first lines."""
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            for number, line in enumerate(iter(lambda: pipe.readline(8 * TAIL), b"")):
                self._output += line
                del self._output[: -4 * TAIL]
                if number < LOGGED:
                    text = line.decode(errors="replace").rstrip("\n")[:TAIL]
                    self._ctx.logger.info("command.output", extra={"line": text})
                elif number == LOGGED:
                    self._ctx.logger.info("command.output_cut", extra={"lines": LOGGED})

    def _thread(self, body: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=body, name=f"command {self._ctx.run_id}", daemon=True)
        thread.start()
        return thread

    def _close(self) -> None:
        os.close(self._watched)
        os.close(self._held)


def _start(command: Command, ctx: Context, lifeline: int) -> subprocess.Popen[bytes]:
    switch, own = _user(command.user)
    run = {
        "QUARTERJACK_RUN_ID": ctx.run_id,
        "QUARTERJACK_IDEMPOTENCY_KEY": ctx.idempotency_key,
        "QUARTERJACK_SCHEDULED_AT": ctx.scheduled_at.isoformat(),
        "QUARTERJACK_ATTEMPT": str(ctx.attempt),
    }
    environment = {**os.environ, **own, **run, **command.environment}
    # Standard input is a file, so that no thread has to write to a pipe.
    with tempfile.TemporaryFile() if command.stdin else Path(os.devnull).open("r+b") as given:
        given.write(command.stdin.encode())
        given.seek(0)
        try:
            return subprocess.Popen(  # noqa: S603 (the job runs its owner's command)
                command.argv or [command.shell, "-c", str(command.command)],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=command.directory or environment.get("HOME") or "/",
                env=environment,
                start_new_session=True,
                pass_fds=(lifeline,),
                **switch,
            )
        except (OSError, subprocess.SubprocessError) as problem:
            raise Permanent(f"the command cannot be started: {problem}") from problem


def _user(name: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Arguments of Popen and variables for the user of a command. Raises Permanent if this process may not change to that user."""
    uid = os.geteuid()
    if name is None:
        return {}, {}
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise Permanent(
            f"user={name!r}: this machine has no such user; create it, or remove it from the payload"
        ) from None
    own = {"HOME": entry.pw_dir, "LOGNAME": name, "USER": name}
    if entry.pw_uid == uid:
        return {}, own
    if uid != 0:
        raise Permanent(
            f"user={name!r}: this worker runs as user {uid} and cannot change; start it as root or as {name}, "
            "or take the user out of the payload"
        )
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": os.getgrouplist(name, entry.pw_gid)}, own


def _with_output(what: str, tail: str) -> str:
    """An error message with the last line of the output first, because messages are cut at their end."""
    if not tail:
        return f"{what}, without any output"
    before, _, last = tail.rpartition("\n")
    return f"{what}: {last}" + (f"\nbefore that:\n{before}" if before else "")


def _check(given: Mapping[str, Any]) -> None:
    for name in ("command", "shell", "directory", "stdin", "user"):
        value = given.get(name)
        if value is not None and (not isinstance(value, str) or "\0" in value):
            raise InvalidInput(f"payload.{name}", value, "is not a text", "write it as a text")
    argv = given.get("argv") or ()
    if not isinstance(argv, (list, tuple)) or not all(isinstance(word, str) for word in argv):
        raise InvalidInput("payload.argv", argv, "is not a list of texts", 'write e.g. ["python", "-m", "report"]')
    if bool(argv) == bool(given.get("command")):
        raise InvalidInput("payload", dict(given), "has none or both of command and argv", "give exactly one of them")
    environment = given.get("environment", {})
    pairs = environment.items() if isinstance(environment, Mapping) else [("=", "")]
    if not all(isinstance(text, str) and "\0" not in text for pair in pairs for text in pair) or any(
        "=" in name for name, _ in pairs
    ):
        raise InvalidInput("payload.environment", environment, "is not a dict of variables", "use texts on both sides")
    check_limit("payload.timeout", given.get("timeout"))
