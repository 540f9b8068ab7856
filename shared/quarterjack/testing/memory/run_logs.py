"""The log lines of the runs of an installation in memory: the last ones that were logged while it worked, under its clock."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy

from quarterjack.domain.times import SECOND
from quarterjack.logs import JsonFormatter
from quarterjack.ports.run_logs import LogLineRow, RunLogsPage, RunLogsQuery
from quarterjack.run_logs.merge import LogPiece, fields_of, read_merged
from quarterjack.testing.memory.calls import Calls

_MOST = 10_000  # lines
_SOURCE = "harness"
_OWN = "quarterjack"  # the loggers of jobs (``ctx.logger``) and of the worker are below it


class MemoryLog(logging.Handler):
    """What is logged while it ``listens``."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(JsonFormatter())
        self._clock = clock
        self.lines: deque[tuple[int, str]] = deque(maxlen=_MOST)  # UTC ms, and a line of JSON

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``. The time of a line is that of the installation's clock."""
        try:
            stamped, at = copy(record), self._clock()
            stamped.created = at / SECOND
            self.lines.append((at, self.format(stamped)))
        except Exception:  # noqa: BLE001 (as logging does: the caller of a logger must not fail)
            self.handleError(record)

    @contextmanager
    def listens(self) -> Iterator[None]:
        """Meanwhile Quarterjack's loggers log as in a worker: from INFO on, unless the test has set another level."""
        root, own = logging.getLogger(), logging.getLogger(_OWN)
        level = own.level
        root.addHandler(self)
        if level == logging.NOTSET:
            own.setLevel(min(logging.INFO, own.getEffectiveLevel()))
        try:
            yield
        finally:
            own.setLevel(level)
            root.removeHandler(self)


class MemoryRunLogs:
    """The log as one process sees it."""

    place = "the log of the harness"
    remedy = "log with ctx.logger"

    def __init__(self, calls: Calls, log: MemoryLog) -> None:
        self._calls, self._log = calls, log

    def has_lines_of(self, worker: str) -> bool:
        """See ``RunLogs``."""
        del worker
        return True

    def read(self, asked: RunLogsQuery) -> RunLogsPage:
        """See ``RunLogs``."""
        lines = self._calls.one("FilterLogEvents", "logs", "read", lambda: list(self._log.lines), asked.run_id)
        return read_merged(asked, [_Lines(lines)])


class _Lines:
    name = _SOURCE

    def __init__(self, lines: Sequence[tuple[int, str]]) -> None:
        self._lines = lines

    def read(self, asked: RunLogsQuery, begin: int, most: int, resume: str | None) -> LogPiece:
        del most, resume
        inside = ((at, text) for at, text in self._lines if begin <= at <= asked.end)
        found = [(at, fields) for at, text in inside if (fields := fields_of(text, asked.run_id)) is not None]
        return LogPiece(lines=[LogLineRow(at=at, source=self.name, fields=fields) for at, fields in found])
