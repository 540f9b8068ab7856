"""The log lines of one run, wherever its processes write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class LogLineRow:
    """One line, not yet masked."""

    at: int  # UTC ms
    source: str  # the process, or the function without the installation's prefix
    fields: Mapping[str, Any]  # as logged; long values are cut


@dataclass(frozen=True, kw_only=True)
class RunLogsQuery:
    """Which lines: of one run, in an interval."""

    run_id: str
    begin: int  # UTC ms; the first instant
    end: int  # UTC ms; the last one
    queues: Sequence[str | None] = (None,)  # declared queues whose workers may have run it; None: the default one
    limit: int = 100  # lines
    position: str | None = None  # of the answer before; None: from the beginning


@dataclass(frozen=True, kw_only=True)
class RunLogsPage:
    """The next lines in order of time, and how far the search has come."""

    lines: Sequence[LogLineRow]
    position: str | None  # where to go on; None: all of the interval was searched
    searched_to: int  # UTC ms: all earlier lines were looked at
    sources: Sequence[str]  # names of the logs that there are


class RunLogs(Protocol):
    """Where processes log to, as far as this process knows."""

    @property
    def place(self) -> str:
        """In words: "the log groups /aws/lambda/quarterjack-…"."""

    @property
    def remedy(self) -> str:
        """What to do if the lines of a process are not there."""

    def has_lines_of(self, worker: str) -> bool:
        """Whether a worker, as ``RunRow.worker`` names it, logs there, as far as that is known."""

    def read(self, asked: RunLogsQuery) -> RunLogsPage:
        """Lines of a run. A read ends after ``limit`` lines or a bounded amount of work, so it may return few lines, or none.

        Raises InvalidInput (the position), Misconfigured (a permission or a folder is missing), Unavailable.
        """
