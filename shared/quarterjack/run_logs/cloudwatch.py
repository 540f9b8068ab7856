"""The logs of the installation's functions in CloudWatch Logs, and of further groups to which containers send theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from quarterjack.aws import Client
from quarterjack.aws.errors import DENIED, ServiceError
from quarterjack.concurrency.forks import HoldsLocks
from quarterjack.concurrency.pools import RequestPool
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.errors import InvalidInput, Misconfigured, QuarterjackError
from quarterjack.ports.run_logs import LogLineRow, RunLogsPage, RunLogsQuery
from quarterjack.run_logs.merge import LogPiece, LogSource, Read, fields_of, read_merged

_REQUESTS = 5  # of one log in one read: CloudWatch searches about 1 MB in each
_OTHERS = ("undertaker", "ticker", "auditor")  # functions that log about a run, beside the worker of its queue
_MISSING, _BAD_TOKEN = "ResourceNotFoundException", "InvalidParameterException"


class CloudWatchRunLogs(HoldsLocks):
    """``connect`` makes the client when it is first needed. ``groups`` are log groups of processes, by their names."""

    def __init__(self, connect: Callable[[], Client], prefix: str, groups: Sequence[str], *, pool: RequestPool) -> None:
        self._connect, self._prefix, self._groups, self._pool = connect, f"/aws/lambda/{prefix}-", groups, pool
        self._made: Client | None = None
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()

    @property
    def place(self) -> str:
        """See ``RunLogs``."""
        return " and ".join(("the log groups " + self._prefix + "…", *self._groups))

    @property
    def remedy(self) -> str:
        """See ``RunLogs``."""
        return "send the standard error of worker processes to a log group, and name that in QUARTERJACK_LOG_GROUPS"

    def has_lines_of(self, worker: str) -> bool:
        """See ``RunLogs``. A function's invocation has the id of its request as its name, a process `worker@host:…`."""
        return bool(self._groups) or "@" not in worker

    def read(self, asked: RunLogsQuery) -> RunLogsPage:
        """See ``RunLogs``. Up to five requests for each group, several groups at once."""
        with self._lock:
            self._made = client = self._made or self._connect()
        workers = ("worker" if name in (None, DEFAULT_QUEUE) else f"worker-{name}" for name in asked.queues)
        parts = dict.fromkeys((*workers, *_OTHERS))
        sources: list[LogSource] = [_LogGroup(client, part, self._prefix + part) for part in parts]
        sources += [_LogGroup(client, group, group) for group in self._groups]
        return read_merged(asked, sources, self._at_once)

    def _at_once(self, reads: Sequence[Read]) -> Sequence[LogPiece | None]:
        return self._pool.map(lambda read: (read(), 0), reads)


class _LogGroup:
    def __init__(self, client: Client, name: str, group: str) -> None:
        self.name, self._group, self._client = name, group, client

    def read(self, asked: RunLogsQuery, begin: int, most: int, resume: str | None) -> LogPiece | None:
        lines, latest = list[LogLineRow](), 0
        for _ in range(_REQUESTS):
            answer = self._ask(asked, begin, resume)
            if answer is None:
                return None
            for event in answer.get("events", ()):
                latest = max(latest, int(event["timestamp"]))
                if (fields := fields_of(event["message"], asked.run_id)) is not None:
                    lines.append(LogLineRow(at=int(event["timestamp"]), source=self.name, fields=fields))
            resume = answer.get("nextToken")
            if resume is None or len(lines) >= most:
                break
        lines.sort(key=lambda line: line.at)
        return LogPiece(lines=lines, done=resume is None, known_to=latest, resume=resume)

    def _ask(self, asked: RunLogsQuery, begin: int, token: str | None) -> dict[str, Any] | None:
        """A page of the lines that hold the run's id as a text; None if there is no such group."""
        span: dict[str, Any] = {"startTime": begin, "endTime": asked.end}
        more = {} if token is None else {"nextToken": token}
        pattern = f'"{asked.run_id}"'
        try:
            return self._client.call(
                "filter_log_events", logGroupName=self._group, filterPattern=pattern, **span, **more
            )
        except QuarterjackError as problem:
            code = _code(problem)
            if code == _MISSING:
                return None
            if code == _BAD_TOKEN and token is not None:
                raise InvalidInput("cursor", token, "has expired", "begin with the first page again") from problem
            if code in DENIED:
                right = f"logs:FilterLogEvents on log-group:{self._group}:*"
                remedy = f"its role needs {right}; the construct's grant_reading and grant_scheduling for all tenants give it"
                raise Misconfigured(f"this process may not read the log group {self._group}; {remedy}") from problem
            raise


def _code(problem: BaseException) -> str:
    """The service's code of an error."""
    cause = problem.__cause__
    return str(cause.response["Error"]["Code"]) if isinstance(cause, ServiceError) else ""
