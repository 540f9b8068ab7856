"""The logs of processes on this machine: a file of JSON lines for each, in one folder."""

from __future__ import annotations

import re
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from quarterjack.domain.times import SECOND, to_ms
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.ports.run_logs import LogLineRow, RunLogsPage, RunLogsQuery
from quarterjack.run_logs.merge import LogPiece, fields_of, read_merged

_MOST = 16_000_000  # bytes of one file that one call reads
_NEAR = 65_536  # bytes: the search for an instant ends when it is known so closely
_LATE = 2 * SECOND  # ms by which a line may stand behind one that is later
_EVERY = 32  # lines between two checks of the time
_TIME = re.compile(rb'\{"time": ?"([0-9T:.+Z-]{19,40})"')
_BY_TIME = attrgetter("at")


class FileRunLogs:
    """The ``*.log`` files of a folder, as ``quarterjack local`` writes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def place(self) -> str:
        """See ``RunLogs``."""
        return f"the files of processes in {self._folder}"

    @property
    def remedy(self) -> str:
        """See ``RunLogs``."""
        return "QUARTERJACK_LOGS names the folder; it is that of `quarterjack local`, whose files are gone when it ends without --data"

    def has_lines_of(self, worker: str) -> bool:
        """See ``RunLogs``."""
        del worker
        return True

    def read(self, asked: RunLogsQuery) -> RunLogsPage:
        """See ``RunLogs``. Files are read from the interval's begin on, found by halving."""
        if not self._folder.is_dir():
            remedy = "give the folder that `quarterjack local` names"
            raise Misconfigured(f"QUARTERJACK_LOGS={str(self._folder)!r} is no folder; {remedy}")
        return read_merged(asked, [_LogFile(path) for path in sorted(self._folder.glob("*.log"))])


class _LogFile:
    def __init__(self, path: Path) -> None:
        self.name, self._path = path.stem, path

    def read(self, asked: RunLogsQuery, begin: int, most: int, resume: str | None) -> LogPiece | None:
        del most  # lines do not stand in order, so all of a piece is read
        try:
            with self._path.open("rb") as file:
                file.seek(_offset_of(file, begin - _LATE) if resume is None else _offset_in(resume))
                return self._piece(file, asked, begin)
        except FileNotFoundError:
            return None

    def _piece(self, file: BinaryIO, asked: RunLogsQuery, begin: int) -> LogPiece:
        end_of_piece = file.tell() + _MOST
        found, latest = list[LogLineRow](), 0
        for number, raw in enumerate(file):
            fields = fields_of(raw, asked.run_id)
            if fields is not None or number % _EVERY == 0:
                latest = max(latest, at := _time_of(raw) or 0)
                if fields is not None and begin <= (at or latest) <= asked.end:
                    found.append(LogLineRow(at=at or latest, source=self.name, fields=fields))
            if latest > asked.end + _LATE:
                break
            if file.tell() >= end_of_piece and raw.endswith(b"\n"):
                found.sort(key=_BY_TIME)
                return LogPiece(lines=found, done=False, known_to=latest - _LATE, resume=str(file.tell()))
        return LogPiece(lines=sorted(found, key=_BY_TIME))


def _offset_in(resume: str) -> int:
    if not (resume.isascii() and resume.isdecimal()):
        raise InvalidInput("cursor", resume, "is no place in a file", "pass the cursor of the page before")
    return int(resume)


def _offset_of(file: BinaryIO, at: int) -> int:
    """Where a line begins before which all lines are earlier than an instant."""
    low, high = 0, file.seek(0, 2)
    while high - low > _NEAR:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()  # the rest of a line
        time, after = _next_time(file, high)
        if time is not None and time < at:
            low = after
        else:
            high = middle
    return low


def _next_time(file: BinaryIO, end: int) -> tuple[int | None, int]:
    """The time of the next line that has one, and where it begins."""
    while (begin := file.tell()) < end:
        if not (line := file.readline()):
            break
        if (time := _time_of(line)) is not None:
            return time, begin
    return None, end


def _time_of(line: bytes) -> int | None:
    found = _TIME.match(line)
    try:
        return None if found is None else to_ms(datetime.fromisoformat(found[1].decode()), "time")
    except ValueError:
        return None
