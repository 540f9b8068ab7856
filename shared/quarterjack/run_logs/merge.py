"""One list of the lines of several logs, in order of time, read piece by piece.

Each log is read up to a bound, so some are known further than others. The answer ends where the least known one ends: no line that is
found later belongs before it. A line is parsed to fields, and long values are cut to a size that a page can hold.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quarterjack.errors import InvalidInput
from quarterjack.ports.run_logs import LogLineRow, RunLogsPage, RunLogsQuery

TEXT = 16_000  # characters that are kept of a text: of a traceback its end, where the cause is
_MOST = 50  # fields of a line
_DATA = 4_000  # characters of JSON that are kept of a field that is no text
CUT = "… (cut)"
_TRACES = frozenset({"traceback", "exception"})


def fields_of(line: bytes | str, run_id: str) -> dict[str, Any] | None:
    """The fields of a line that is about a run; None for any other, and for one that is no JSON object."""
    if not (run_id.encode() in line if isinstance(line, bytes) else run_id in line):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return shortened(found) if isinstance(found, dict) and found.get("run_id") == run_id else None


def shortened(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with long values cut."""
    return {name[:TEXT]: _short(name, value) for name, value in list(fields.items())[:_MOST]}


def weight(fields: Mapping[str, Any]) -> int:
    """Characters of a line, roughly."""
    return sum(len(name) + (len(value) if isinstance(value, str) else _DATA // 10) for name, value in fields.items())


def _short(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if len(value) <= TEXT:
            return value
        return f"{CUT} {value[-TEXT:]}" if name in _TRACES else f"{value[:TEXT]}{CUT}"
    if isinstance(value, (dict, list)):
        text = json.dumps(value)
        return value if len(text) <= _DATA else f"{text[:_DATA]}{CUT}"
    return value


_HEAVY = 1_000_000  # characters of a page
_BEFORE_ALL = -1  # in place of the number of a log: no line of that very instant


@dataclass(frozen=True, kw_only=True)
class LogPiece:
    """The lines of a log from an instant on, as far as it was read."""

    lines: Sequence[LogLineRow] = ()  # by time
    done: bool = True  # all was read
    known_to: int = 0  # UTC ms: all earlier lines are among these; counts if it is not ``done``
    resume: str | None = None  # where to go on if there was no line, and none can be before some later instant


class LogSource(Protocol):
    """One log."""

    @property
    def name(self) -> str:
        """The source that its lines name."""

    def read(self, asked: RunLogsQuery, begin: int, most: int, resume: str | None) -> LogPiece | None:
        """Lines of a run from ``begin`` (UTC ms) on, ``most`` of them or more; None if there is no such log."""


@dataclass(frozen=True, kw_only=True)
class _Position:
    at: int  # UTC ms: all earlier lines were answered
    answered: Mapping[str, int] = field(default_factory=dict)  # by log: its first lines of that instant that were, too
    resume: Mapping[str, str] = field(default_factory=dict)  # by log

    @classmethod
    def of(cls, asked: RunLogsQuery) -> _Position:
        if asked.position is None:
            return cls(at=asked.begin)
        try:
            at, answered, resume = json.loads(asked.position)
            return cls(at=int(at), answered=dict(answered), resume=dict(resume))
        except (TypeError, ValueError):
            remedy = "pass the cursor of the page before"
            raise InvalidInput("cursor", asked.position, "is no place among log lines", remedy) from None

    def __str__(self) -> str:
        return json.dumps([self.at, self.answered, self.resume], separators=(",", ":"))


@dataclass(frozen=True, kw_only=True)
class _Log:
    """A log, with its lines that were not answered yet."""

    number: int  # among its siblings; decides the order within an instant
    name: str
    piece: LogPiece
    fresh: Sequence[LogLineRow]

    def known(self, position: _Position) -> tuple[int, int] | None:
        """Instant and number up to which its lines are known; None: all are."""
        if self.piece.done:
            return None
        if self.piece.known_to > position.at:
            return (self.piece.known_to, _BEFORE_ALL)
        return (self.fresh[-1].at, self.number) if self.fresh else (position.at, _BEFORE_ALL)


Read = Callable[[], LogPiece | None]
ReadAll = Callable[[Sequence[Read]], Sequence[LogPiece | None]]


def one_by_one(reads: Sequence[Read]) -> Sequence[LogPiece | None]:
    """Read the logs one after the other."""
    return [read() for read in reads]


def read_merged(asked: RunLogsQuery, sources: Sequence[LogSource], read_all: ReadAll = one_by_one) -> RunLogsPage:
    """The next lines of all logs. ``read_all`` may read several at once. Raises InvalidInput, and what reading raises."""
    position = _Position.of(asked)
    logs = _logs(asked, sources, position, read_all)
    ordered = sorted(((line.at, log.number, line) for log in logs for line in log.fresh), key=lambda one: one[:2])
    known = min((place for log in logs if (place := log.known(position)) is not None), default=None)
    certain = [one for one in ordered if known is None or one[:2] <= known]
    taken = certain[: _count(certain, asked.limit)]
    reached = None if known is None else known[0]
    if len(taken) < len(certain):
        reached = taken[-1][0]
    after = None if reached is None else _after(position, reached, logs, taken)
    return RunLogsPage(
        lines=[line for _, _, line in taken],
        position=None if after is None else str(after),
        searched_to=asked.end if after is None else after.at,
        sources=[log.name for log in logs],
    )


def _logs(asked: RunLogsQuery, sources: Sequence[LogSource], position: _Position, read_all: ReadAll) -> list[_Log]:
    most = asked.limit + max(position.answered.values(), default=0) + 1

    def read_of(source: LogSource) -> Read:
        return lambda: source.read(asked, position.at, most, position.resume.get(source.name))

    found = list[_Log]()
    for number, piece in enumerate(read_all([read_of(source) for source in sources])):
        if piece is not None:
            name = sources[number].name
            fresh = _fresh(piece.lines, position, name)
            found.append(_Log(number=number, name=name, piece=piece, fresh=fresh))
    return found


def _fresh(lines: Sequence[LogLineRow], position: _Position, name: str) -> Sequence[LogLineRow]:
    return lines[min(_count_at(position.at, lines), position.answered.get(name, 0)) :]


def _count_at(instant: int, lines: Sequence[LogLineRow]) -> int:
    return sum(line.at == instant for line in lines)


def _count(lines: Sequence[tuple[int, int, LogLineRow]], limit: int) -> int:
    """How many of the lines a page takes: at least one."""
    heavy = 0
    for count, (_, _, line) in enumerate(lines[:limit]):
        heavy += weight(line.fields)
        if heavy > _HEAVY and count:
            return count
    return min(len(lines), limit)


def _after(
    position: _Position, reached: int, logs: Sequence[_Log], taken: Sequence[tuple[int, int, LogLineRow]]
) -> _Position:
    names = {log.number: log.name for log in logs}
    answered = Counter(names[number] for at, number, _ in taken if at == reached)
    if reached > position.at:
        return _Position(at=reached, answered=dict(answered))
    answered.update(position.answered)
    resume = dict(position.resume)
    for log in logs:
        if not log.piece.done and not log.fresh and log.piece.resume is not None:
            resume[log.name] = log.piece.resume
            answered[log.name] -= _count_at(position.at, log.piece.lines)  # what is left of them comes after that place
    return _Position(at=reached, answered=dict(+answered), resume=resume)
