"""Log events of the processes: JSON lines, read as the files grow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]  # a log line's fields; `event` is its stable name


class LogFollower:
    """Reads the complete new lines of log files at each call of ``new``; lines that are no events of ours are skipped.

    It begins at the present ends of the files. A replaced process appends to the same file.
    """

    def __init__(self, *logs: Path) -> None:
        self._offsets = {log: log.stat().st_size if log.exists() else 0 for log in logs}

    def copy(self) -> LogFollower:
        """Another reader from the same position on."""
        other = LogFollower()
        other._offsets = dict(self._offsets)
        return other

    def new(self) -> Iterator[tuple[str, Event]]:
        """Events since the last call, with the name of their process; by process and in order."""
        for log in self._offsets:
            for event in self._read(log):
                yield log.stem, event

    def _read(self, log: Path) -> Iterator[Event]:
        if not log.exists():
            return
        with log.open("rb") as file:
            file.seek(self._offsets[log])
            for line in file:
                if not line.endswith(b"\n"):
                    return  # still being written
                self._offsets[log] += len(line)
                event = parse(line)
                if event is not None:
                    yield event


def parse(line: bytes) -> Event | None:
    """The fields of a log line; None if it is no event of ours (a traceback, a library's warning)."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and isinstance(fields.get("event"), str) else None
