"""What is beside tables, queues and buckets, in memory: topics, a receiver of events, the secrets of tenants, log lines of runs.

Topics and the receiver keep what they are sent. A new value of a secret is used at once: nothing is cached. Of the log lines the last ones
are kept that were logged while the installation worked, under its clock.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import UTC, datetime
from typing import NamedTuple

from quarterjack.domain.history.outgoing_event import EVENT_TYPES, OutgoingEvent
from quarterjack.domain.notice import Notice
from quarterjack.domain.times import SECOND
from quarterjack.logs import JsonFormatter
from quarterjack.ports.receivers import FailedEvents
from quarterjack.ports.run_logs import LogLineRow, RunLogsPage, RunLogsQuery
from quarterjack.ports.secrets import StoredSecret, no_secret, place_of, storable_value
from quarterjack.run_logs.merge import LogPiece, fields_of, read_merged
from quarterjack.testing.memory.calls import Calls


class Published(NamedTuple):
    """One publication."""

    topic: str  # its ARN
    notice: Notice


class MemoryNotices:
    """Topics as one process sees them; every ARN is a topic."""

    def __init__(self, calls: Calls, published: list[Published]) -> None:
        self._calls, self._published = calls, published

    def publish(self, topic: str, notice: Notice) -> None:
        published = Published(topic, notice)
        self._calls.one("Publish", "topics", "publish", lambda: self._published.append(published), topic)


class MemoryEvents:
    """A receiver of events, which takes all of them."""

    types = EVENT_TYPES

    def __init__(self) -> None:
        self.taken: list[OutgoingEvent] = []  # in order, as often as they were sent

    def publish(self, events: Sequence[OutgoingEvent]) -> FailedEvents:
        self.taken += events
        return {}


PREFIX = "memory"


class MemorySecrets:
    """Parameters of SSM as one process sees them."""

    def __init__(self, calls: Calls, parameters: dict[str, tuple[str, int, int]], clock: Callable[[], int]) -> None:
        self._calls, self._parameters, self._clock = calls, parameters, clock  # by name: value, version, UTC ms

    def get(self, tenant: str, name: str) -> str:
        place = place_of(PREFIX, tenant, name)
        found = self._calls.one("GetParameter", "secrets", "get", lambda: self._parameters.get(place), place)
        if found is None:
            raise no_secret(place, tenant, name)
        return found[0]

    def put(self, tenant: str, name: str, value: str) -> None:
        place, text = place_of(PREFIX, tenant, name), storable_value(value)

        def put() -> None:
            _, version, _ = self._parameters.get(place, ("", 0, 0))
            self._parameters[place] = (text, version + 1, self._clock())

        self._calls.one("PutParameter", "secrets", "put", put, place)

    def delete(self, tenant: str, name: str) -> bool:
        place = place_of(PREFIX, tenant, name)
        return (
            self._calls.one("DeleteParameter", "secrets", "delete", lambda: self._parameters.pop(place, None), place)
            is not None
        )

    def list(self, tenant: str) -> list[StoredSecret]:
        folder = place_of(PREFIX, tenant, "x")[:-1]
        found = self._calls.one("GetParametersByPath", "secrets", "list", lambda: dict(self._parameters), folder)
        return [
            StoredSecret(
                name=place.removeprefix(folder), changed_at=datetime.fromtimestamp(at / 1_000, UTC), version=version
            )
            for place, (_, version, at) in sorted(found.items())
            if place.startswith(folder)
        ]


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
