"""Time zones as tables of segments between two changes of the clock, and the walk from wall clock to instants over them."""

from __future__ import annotations

import difflib
from bisect import bisect_left, bisect_right
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, Protocol
from zoneinfo import ZoneInfo

from quarterjack.errors import ExpressionError
from quarterjack.timing.zones import tzif, windows
from quarterjack.values import value

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

Gap = Literal["next_valid", "skip", "shift"]
Repeated = Literal["first", "second", "both"]

FOREVER = 10**15  # seconds; beyond every date that Python can name
LAST_YEAR = 2499  # no fire is later, which bounds the tables of changes
FIRST_SECOND = -62_135_596_800 + 3 * 86400  # 0001-01-04
LAST_SECOND = 16_725_225_600 - 3 * 86400  # 2499-12-29
LONGEST_OFFSET = 2 * 86400  # seconds; more than any offset, so a local time is within it of its instant
_LISTED_UNTIL = 2040  # the first table ends here: later than most schedules do
_AHEAD = 20  # years that are added when a later instant is asked for
_LONGEST_NAME = 64  # characters of a wrong name that are compared with the known ones


@value(slots=True)
class Segments:
    """The time between changes. Segment ``n`` lasts from ``starts[n]`` until ``starts[n + 1]``."""

    horizon: int  # changes are known up to here
    starts: list[int]  # the first began before all dates
    offsets: list[int]  # seconds east of Greenwich
    opens: list[int]  # local: what the wall clock shows when it begins
    closes: list[int]  # local: what it would show when it ends (excluded)
    seen: list[int]  # local: the latest shown before: ``seen`` to ``opens`` is skipped, ``opens`` to ``seen`` repeated
    shown: list[int]  # local: the latest shown when it ends
    # Local: the part of each segment that counts under each policy for repeated times: from, and until (excluded).
    windows: dict[str, tuple[list[int], list[int]]]

    @classmethod
    def of(cls, instants: list[int], offsets: list[int], horizon: int) -> Segments:
        """Lay out the changes at ``instants``; ``offsets`` has one more, for the time before the first."""
        starts = [-FOREVER, *instants]
        opens = [start + offset for start, offset in zip(starts, offsets, strict=True)]
        closes = [end + offset for end, offset in zip([*instants, horizon], offsets, strict=True)]
        shown = list(accumulate(closes, max))
        seen = [-2 * FOREVER, *shown[:-1]]
        # Local: the earliest that a later segment shows.
        again = [2 * FOREVER, *accumulate(reversed(opens), min)][-2::-1]
        windows = {
            "first": (list(map(max, opens, seen)), closes),
            "second": (opens, list(map(min, closes, again))),
            "both": (opens, closes),
        }
        return cls(horizon, starts, offsets, opens, closes, seen, shown, windows)


class ZoneRules:
    """The offsets of one zone. The table grows when a later instant is asked for."""

    def __init__(self, name: str, changes: tzif.ZoneChanges) -> None:
        self.name = name
        self._changes = changes
        self._segments = self._tabulate(_LISTED_UNTIL)

    def reach(self, second: int) -> Segments:
        """The segments, up to ``second`` at least."""
        if second >= self._segments.horizon:
            year = min(datetime.fromtimestamp(second, UTC).year + _AHEAD, LAST_YEAR + 1)
            self._segments = self._tabulate(year)  # replaced as a whole: other threads may be reading
        return self._segments

    def offset(self, second: int) -> int:
        """Seconds east of Greenwich at ``second``."""
        segments = self.reach(second)
        return segments.offsets[bisect_right(segments.starts, second) - 1]

    def local(self, second: int) -> int:
        """What the wall clock shows at ``second``."""
        return second + self.offset(second)

    def showing(self, second: int) -> Literal["once", "first", "second"]:
        """Whether the wall clock shows this time once, or twice and ``second`` is the first or a later time."""
        segments = self.reach(second + LONGEST_OFFSET)
        at = bisect_right(segments.starts, second) - 1
        local = second + segments.offsets[at]
        if local < segments.seen[at]:
            return "second"
        return "once" if local < segments.windows["second"][1][at] else "first"

    def changes(self, after: int, until: int) -> list[tuple[int, int, int]]:
        """The changes in ``(after, until]``: instant, offset before, offset after."""
        segments = self.reach(until)
        first, last = (bisect_right(segments.starts, second) for second in (after, until))
        return [(segments.starts[n], segments.offsets[n - 1], segments.offsets[n]) for n in range(first, last)]

    def reaches(self, local: int) -> int:
        """The first instant at which the wall clock shows ``local`` or later."""
        segments = self.reach(min(local + LONGEST_OFFSET, LAST_SECOND))
        at = bisect_right(segments.shown, local)
        return max(segments.starts[at], local - segments.offsets[at])

    def _tabulate(self, year: int) -> Segments:
        instants, offsets = list(self._changes.instants), list(self._changes.offsets)
        if not self._changes.yearly:
            return Segments.of(instants, offsets, FOREVER)
        listed = self._changes.listed_until
        begin = datetime.fromtimestamp(listed, UTC).year
        end = max(year, begin + 2)
        coming = ((each.instant(year), each.after) for year in range(begin, end) for each in self._changes.yearly)
        for instant, offset in sorted(coming):
            if offset != offsets[-1] and instant > listed:
                instants.append(instant)
                offsets.append(offset)
        return Segments.of(instants, offsets, int(datetime(end, 1, 1, tzinfo=UTC).timestamp()))


def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name, such as ``Europe/Berlin``.

    Anything else (offsets, paths, ``localtime``, wrong case) raises ``ExpressionError``, which proposes similar names.
    """
    check_name(name)
    return ZoneInfo(name)


class Packaged(ZoneInfo):
    """A zone by the rules of the ``tzdata`` package, for instants at which the machine's rules differ."""

    def __reduce__(self) -> tuple[object, ...]:
        return packaged, (self.key,)


@cache  # bounded by the number of zones
def packaged(name: str) -> Packaged:
    """Zone ``name`` by the rules of ``tzdata``; the name must have been checked."""
    with _file(name).open("rb") as file:
        return Packaged.from_file(file, key=name)


def check_name(name: object) -> None:
    """Raise ``ExpressionError`` unless ``name`` is in the IANA database."""
    if not isinstance(name, str) or name not in names():
        remedy = _remedy(name) if isinstance(name, str) else "give a name such as 'Europe/Berlin'"
        raise ExpressionError("timezone", name, "not a name of the IANA time zone database", remedy)


@cache  # bounded by the number of zones
def table(name: str) -> ZoneRules:
    """The segments of zone ``name``; the name must have been checked."""
    return ZoneRules(name, tzif.read(_file(name).read_bytes()))


def _file(name: str) -> Traversable:
    return _data().joinpath("zoneinfo", *name.split("/"))


def _data() -> Traversable:
    """The package with the files. ``importlib.resources`` takes a tenth of the SDK's import, and a schedule in UTC needs none of it."""
    found: Traversable = import_module("importlib.resources").files("tzdata")
    return found


@cache
def names() -> frozenset[str]:
    """Every name of the IANA database that may be used."""
    return frozenset(_data().joinpath("zones").read_text("ascii").split())


def _remedy(name: str) -> str:
    if name in windows.ZONES:
        return f"it is a name of Windows: give {windows.ZONES[name]!r}"
    wanted = name[:_LONGEST_NAME].lower()
    spelled = {known.lower(): known for known in names()}
    cities = {known.rpartition("/")[2]: known for known in spelled}
    near = difflib.get_close_matches(wanted, spelled, n=3, cutoff=0.75)
    near = near or [cities[city] for city in difflib.get_close_matches(wanted, cities, n=3, cutoff=0.8)]
    if not near:
        return "give a name such as 'Europe/Berlin' or 'UTC'"
    return "did you mean " + " or ".join(repr(spelled[known]) for known in near) + "?"


class WallClockPattern(Protocol):
    """The wall-clock seconds (counted as if they were UTC) at which something is due."""

    def match(self, local: int) -> int:
        """The first matching second at or after ``local``; ``FOREVER`` if there is none."""


@value(slots=True)
class WallClock:
    """The fires of a pattern in a zone: a ``Timetable``."""

    pattern: WallClockPattern
    zone: ZoneRules
    gap: Gap  # a skipped wall time: fire at the first valid instant, not at all, or as if the clocks had not changed
    repeated: Repeated  # a wall time that comes twice: fire at the first, the second or both

    def next(self, after: int) -> int | None:
        """The first fire later than ``after``, in UTC milliseconds."""
        second = max(after // 1000 + 1, FIRST_SECOND)
        if second > LAST_SECOND:
            return None
        segments = self.zone.reach(second)
        # At the first second of a segment begin in the one before: there may be a gap between them.
        at = bisect_left(segments.starts, second) - 1
        froms, untils = segments.windows[self.repeated]
        offset = segments.offsets[at]
        local = max(second + offset, froms[at])
        found = self.pattern.match(local)
        due = self._shifted(segments, at, second + segments.offsets[at - 1]) if self.gap == "shift" else FOREVER
        due = min(due, found - offset) if found < untils[at] else due
        if due == FOREVER:
            due = self._onward(at, local, found)
        return due * 1000 if due <= LAST_SECOND else None

    def _onward(self, at: int, local: int, found: int) -> int:
        """The first fire in a later segment. Nothing matches between ``local`` and ``found``, so most need no search."""
        coming = found if found < FOREVER else local  # without a match only a repeated time can follow: it is near
        segments = self.zone.reach(min(coming + LONGEST_OFFSET, LAST_SECOND))
        froms, untils = segments.windows[self.repeated]
        if found < untils[at]:  # the table ended in this segment, and goes further now
            return found - segments.offsets[at]
        for later in range(at + 1, len(segments.starts)):
            due = self._after_gap(segments, later, local, found)
            begin = froms[later]
            if not local <= begin <= found:
                found = self.pattern.match(begin)
            local = begin
            if found < untils[later]:
                due = min(due, found - segments.offsets[later])
            if due < FOREVER:
                return due
        beyond = segments.horizon <= min(found + LONGEST_OFFSET, LAST_SECOND)  # the match that was wanted is skipped
        return self._onward(len(segments.starts) - 1, local, found) if beyond and found < FOREVER else FOREVER

    def _after_gap(self, segments: Segments, at: int, local: int, found: int) -> int:
        """When the gap before segment ``at`` fires first."""
        skipped = segments.seen[at]
        if self.gap == "skip" or skipped >= segments.opens[at]:
            return FOREVER
        if self.gap == "shift":
            return self._shifted(segments, at, skipped)
        hit = found if local <= skipped <= found else self.pattern.match(skipped)
        return segments.starts[at] if hit < segments.opens[at] else FOREVER

    def _shifted(self, segments: Segments, at: int, local: int) -> int:
        """The first fire of the gap before segment ``at`` from ``local`` on, read with the offset before the gap."""
        local = max(local, segments.seen[at])
        if local >= segments.opens[at]:
            return FOREVER
        hit = self.pattern.match(local)
        return hit - segments.offsets[at - 1] if hit < segments.opens[at] else FOREVER
