"""Logs for tests of the merge: whose reads end early, and the lines that processes write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quarterjack.ports.run_logs import LogLineRow, RunLogsQuery
from quarterjack.run_logs.merge import LogPiece

RUN = "acme/nightly#0001777896000000"


def line(at: datetime, event: str = "said", run_id: str = RUN, **fields: Any) -> str:
    """A line as ``JsonFormatter`` writes it."""
    first = {"time": at.isoformat(timespec="milliseconds"), "level": "INFO", "logger": "x", "event": event}
    return json.dumps({**first, "run_id": run_id, **fields})


def row(at: int, text: str, source: str = "a") -> LogLineRow:
    return LogLineRow(at=at, source=source, fields={"event": text, "run_id": RUN})


@dataclass(frozen=True)
class ShortLog:
    """A log of which one read looks at ``step`` lines; those of other runs are None."""

    name: str
    lines: Sequence[tuple[int, str | None]]  # by time
    step: int

    def read(self, asked: RunLogsQuery, begin: int, most: int, resume: str | None) -> LogPiece:
        first = next((n for n, (at, _) in enumerate(self.lines) if at >= begin), len(self.lines))
        first = first if resume is None else int(resume)
        seen = self.lines[first : first + max(self.step, 1)]
        after = first + len(seen)
        while sum(text is not None for _, text in seen) < most and after < len(self.lines) and self.step > 3:
            seen, after = [*seen, self.lines[after]], after + 1
        found = [row(at, text, self.name) for at, text in seen if text is not None and at <= asked.end]
        latest = seen[-1][0] if seen else 0
        return LogPiece(lines=found, done=after >= len(self.lines), known_to=latest, resume=str(after))
