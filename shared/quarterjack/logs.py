"""Logs of the processes: each line is a JSON object with a stable event name and ids as fields; a job's lines have its run's.

At a terminal the same lines are for people.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, TextIO

from quarterjack import masking
from quarterjack.terminal import in_one_line, printable, span

log = logging.getLogger(__name__)
_run: ContextVar[dict[str, Any] | None] = ContextVar("quarterjack_run", default=None)
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_TAKEN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}
_PLAIN = "\x1b[0m"
_UNSAID = frozenset({"tenant", "fence", "slice"})  # in lines for people: the run's id has the tenant
_KEPT = frozenset({"time", "timestamp", "level"})  # never a secret
_REMEMBERED = 10_000  # starts of runs
_encode = json.JSONEncoder(default=str).encode


class JsonFormatter(logging.Formatter):
    """A record as one JSON line: time, level, logger, event (the message), its extra fields, and the fields of the present run."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        run = present_run()
        line |= run
        line |= own_fields(record, line)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _encode(masked_line(line, run))


class ReadableFormatter(logging.Formatter):
    """A record as a line for people: time in UTC, level, job and run, what happened, how long it took, other fields that have a value.

    The first line of another day begins with its date. The time that an attempt took counts from its line ``run.started``.
    """

    def __init__(self, *, colours: bool = False) -> None:
        super().__init__()
        self._colours = _COLOURS if colours else {}
        self._day = datetime.now(UTC).date()
        self._began: dict[str, float] = {}  # times of starts, by run
        self._lock = threading.Lock()

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        of_run = present_run()
        fields = dict(of_run)
        fields |= own_fields(record, fields)
        fields = masked_line(fields, of_run)
        job, run = fields.pop("job", None), fields.pop("run_id", None)
        what = self._what(record, str(run), fields)
        rest = (f"{name}={value}" for name, value in fields.items() if value and name not in _UNSAID)
        colour = self._colours.get(record.levelno, "")
        level = f"{colour}{record.levelname:<7}{_PLAIN if colour else ''}"
        parts = [level, *(in_one_line(str(part)) for part in (job, run, what, *rest) if part)]
        line = f"{self._date(at)}{at:%H:%M:%S}Z  {'  '.join(parts)}"
        if not record.exc_info:
            return line
        return f"{line}\n{printable(masking.of_line(self.formatException(record.exc_info)))}"

    def _date(self, at: datetime) -> str:
        """The date as a line of its own, if it is another one than that of the line before."""
        with self._lock:
            before, self._day = self._day, max(self._day, at.date())
        return f"{self._day:%A, %Y-%m-%d}\n" if before != self._day else ""

    def _what(self, record: logging.LogRecord, run: str, fields: dict[str, Any]) -> str:
        """What happened, from the fields that say it, which are taken out."""
        event = masking.of_line(record.getMessage())
        if not record.name.startswith("quarterjack.worker."):  # a job's line may look like the worker's
            return event
        if event == "run.started":
            self._remember(run, record.created)
            return f"started {_span(fields.pop('lateness_ms', 0))} late{_attempt(fields)}"
        if event == "run.ended":
            began = self._began.pop(run, None)
            took = "" if began is None else f" ({_span((record.created - began) * 1_000)})"
            error = ": ".join(filter(None, (fields.pop("error_type", None), fields.pop("error", None))))
            reason = fields.pop("reason", None)
            said = error or (reason if fields.get("state") not in ("SUCCEEDED", str(reason).upper()) else None)
            return f"{fields.pop('state', 'ended')}{took}{_attempt(fields)}" + (f"  {said}" if said else "")
        return event

    def _remember(self, run: str, began: float) -> None:
        with self._lock:
            if len(self._began) >= _REMEMBERED:  # starts whose ends were never logged
                self._began.pop(next(iter(self._began)))
            self._began[run] = began


def _span(ms: float) -> str:
    return span(timedelta(milliseconds=max(ms, 0)))


def _attempt(fields: dict[str, Any]) -> str:
    """The number of the attempt, from the second one on."""
    number = fields.pop("attempt", 1)
    return f", attempt {number}" if number != 1 else ""


def present_run() -> Mapping[str, Any]:
    """The fields of the run whose code this is; none outside of a run."""
    return _run.get() or {}


def masked_line(line: dict[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a line without secrets; the line itself if no secret is known. The fields of its run, and the time, stay."""
    if not masking.is_active():
        return line
    return {
        masking.of_line(name): value if name in _KEPT or name in run else masking.of_fields(value)
        for name, value in line.items()
    }


def own_fields(record: logging.LogRecord, line: Mapping[str, Any]) -> dict[str, Any]:
    """The extra fields of a record. One that would replace a field of the line, such as the run, gets a "_" at its end."""
    return {
        f"{name}_" if name in line and _is_taken(name, value, line) else name: value
        for name, value in vars(record).items()
        if name not in _OWN
    }


def _is_taken(name: str, value: object, line: Mapping[str, Any]) -> bool:
    """Whether a field that is in the line has another value there."""
    return str(line[name]) != str(value)


class KeepRunFields(logging.Filter):
    """For handlers whose formatter is not ours: no extra field of a record replaces a field of the present run."""

    def filter(self, record: logging.LogRecord) -> bool:
        given, run = vars(record), _run.get() or {}
        for name in run:
            if name in given and _is_taken(name, given[name], run):
                given[f"{name}_"] = given.pop(name)
        return True


class Lines(logging.StreamHandler[TextIO]):
    """Writes a line when it is logged, or, within ``AtOnce``, all lines of the thread in one write.

    Only the write is under the lock. Each write releases the interpreter lock: in a worker with many threads, two single writes for
    each run took a quarter of its CPU.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        passed = self.filter(record)
        if passed:
            self.emit(record)
        return bool(passed)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + self.terminator
            held: dict[Lines, list[str]] | None = getattr(_of_thread, "held", None)
            if held is None:
                self.write(line)
            else:
                held.setdefault(self, []).append(line)
        except Exception:  # noqa: BLE001 (as logging does: the caller of a logger must not fail)
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """See ``log_unwritable``."""
        log_unwritable(record)

    def write(self, lines: str) -> None:
        self.acquire()
        try:
            self.stream.write(lines)
            self.flush()
        finally:
            self.release()


_of_thread = threading.local()


class AtOnce:
    """Lines that this thread logs within are written at its end. Use it only for code that returns at once: it delays the lines."""

    def __enter__(self) -> None:
        _of_thread.held = {}

    def __exit__(self, *_: object) -> None:
        held: dict[Lines, list[str]] = _of_thread.held
        del _of_thread.held
        for handler, lines in held.items():
            try:
                handler.write("".join(lines))
            except Exception:  # noqa: BLE001 (see above)
                handler.handleError(logging.makeLogRecord({"msg": "lines that were held"}))


class RunFields:
    """Adds fields to every line that is logged within. A class, because a generator takes twice the time."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _run.set(self._fields)

    def __exit__(self, *_: object) -> None:
        _run.reset(self._token)


def configure(
    stream: TextIO = sys.stderr, level: int = logging.INFO, *, readable: bool = False, colours: bool = False
) -> None:
    """Log to a stream: JSON lines, or ``readable`` ones."""
    handler = Lines(stream)
    handler.setFormatter(ReadableFormatter(colours=colours) if readable else JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    log_unhandled()


def log_unwritable(record: logging.LogRecord) -> None:
    """Log, in place of a line that cannot be written (``"%d" % "text"``), where it is. Python would print its arguments as they are."""
    if record.name == log.name and record.msg == "line.unwritable":  # nothing can be written
        return
    problem = sys.exc_info()[0]
    about = {"of": record.name, "at": f"{record.pathname}:{record.lineno}", "because": problem and problem.__name__}
    log.error("line.unwritable", extra=about)


def log_unhandled() -> None:
    """Log what a thread or a finaliser raises and nobody handles, and warnings. Python would print them with the secrets in them."""

    def of_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_type is not SystemExit and args.exc_value is not None:
            name = None if args.thread is None else args.thread.name
            info = (args.exc_type, args.exc_value, args.exc_traceback)
            log.error("thread.failed", extra={"of": name}, exc_info=info)

    def of_finaliser(args: sys.UnraisableHookArgs) -> None:
        if args.exc_value is not None:
            info = (args.exc_type, args.exc_value, args.exc_traceback)
            log.error("finaliser.failed", extra={"of": type(args.object).__name__}, exc_info=info)

    threading.excepthook, sys.unraisablehook = of_thread, of_finaliser
    logging.captureWarnings(capture=True)


def is_readable() -> bool:
    """Whether this process logs lines for people, so that the processes that it starts do, too."""
    return any(isinstance(handler.formatter, ReadableFormatter) for handler in logging.getLogger().handlers)


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that adds the run's fields to every line.

    A field whose name logging reserves ("name", "module" …), or that is one of the run's, gets a "_" at its end.
    """

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        run = self.extra or {}
        given = (kwargs.get("extra") or {}).items()
        own = {f"{key}_" if key in _TAKEN or key in run else key: value for key, value in given}
        kwargs["extra"] = {**own, **run}
        return msg, kwargs
