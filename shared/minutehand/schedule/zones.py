"""Time zones as tables of segments: between two changes the wall clock runs evenly.

The rules come from the ``tzdata`` package, never from the machine, so that every component computes the same instants.
Everything is in whole seconds: ``second`` is UTC since 1970, ``local`` is what the wall clock shows, counted likewise.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

from minutehand.errors import ExpressionError
from minutehand.schedule import tzif

FOREVER = 10**15  # seconds; beyond every date that Python can name
LAST_YEAR = 9998  # Python's dates go from year 1 to 9999; the engine keeps away from both ends
FIRST_SECOND = -62_135_596_800 + 3 * 86400  # 0001-01-04
LAST_SECOND = 253_370_764_800 - 3 * 86400  # 9998-12-29
_LISTED_UNTIL = 2040  # years worked out at first: longer than most schedules live
_AHEAD = 20  # years added when somebody asks further
_LONGEST_NAME = 64  # characters: spares the search for near names a flood


class Zone:
    """The segments of one zone. Segment ``n`` lasts from ``starts[n]`` until ``starts[n + 1]``.

    For each segment, in local seconds:

    ``opens``   what the wall clock shows when it begins
    ``closes``  what it would show when it ends (excluded)
    ``seen``    the latest that any earlier segment showed: from ``seen`` to ``opens`` is skipped, from ``opens`` to ``seen`` repeated
    ``windows`` what counts under each policy for repeated times: from (included) and until (excluded)
    """

    def __init__(self, name: str, changes: tzif.Changes) -> None:
        self.name = name
        self._changes = changes
        self._tabulate(_LISTED_UNTIL)

    def reach(self, second: int) -> None:
        """Make sure that the table covers ``second``."""
        if second >= self.horizon:
            self._tabulate(min(datetime.fromtimestamp(second, UTC).year + _AHEAD, LAST_YEAR + 1))

    def segment(self, second: int) -> int:
        """The segment that holds ``second``."""
        self.reach(second)
        return bisect_right(self.starts, second) - 1

    def offset(self, second: int) -> int:
        """Seconds east of Greenwich at ``second``."""
        return self.offsets[self.segment(second)]

    def _tabulate(self, year: int) -> None:
        instants, self.offsets = list(self._changes.instants), list(self._changes.offsets)
        self.horizon = FOREVER
        if self._changes.yearly:
            self._continue(instants, year)
        self.starts = [-FOREVER, *instants]
        ends = [*instants, self.horizon]
        self.opens = [start + offset for start, offset in zip(self.starts, self.offsets, strict=True)]
        self.closes = [end + offset for end, offset in zip(ends, self.offsets, strict=True)]
        self.seen = _running_max(self.closes)
        again = _coming_min(self.opens)
        self.windows = {
            "first": (list(map(max, self.opens, self.seen)), self.closes),
            "second": (self.opens, list(map(min, self.closes, again))),
            "both": (self.opens, self.closes),
        }

    def _continue(self, instants: list[int], year: int) -> None:
        """Add the yearly changes that come after the listed ones, up to the start of ``year`` or a little beyond the list."""
        assert self._changes.yearly
        listed = instants[-1] if instants else -FOREVER
        begin = datetime.fromtimestamp(listed, UTC).year if instants else 1
        year = max(year, begin + 2)
        self.horizon = _start_of(year)
        coming = sorted((change.instant(y), change.after) for y in range(begin, year) for change in self._changes.yearly)
        for instant, offset in coming:
            if listed < instant < self.horizon and offset != self.offsets[-1]:
                instants.append(instant)
                self.offsets.append(offset)


def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name, such as ``Europe/Berlin``.

    Raises ``ExpressionError`` (field ``timezone``) for anything else: offsets, paths, ``localtime``, wrong case; it suggests near names.
    """
    check_name(name)
    return ZoneInfo(name)


def check_name(name: object) -> None:
    """Raise ``ExpressionError`` unless ``name`` is in the IANA database."""
    if not isinstance(name, str) or name not in _names():
        raise ExpressionError("timezone", name, "not a name of the IANA time zone database", _remedy(name))


@lru_cache(maxsize=None)  # bounded by the number of zones
def table(name: str) -> Zone:
    """The segments of zone ``name``; the name must have been checked."""
    parts = ("zoneinfo", *name.split("/"))
    return Zone(name, tzif.read(resources.files("tzdata").joinpath(*parts).read_bytes()))


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("ascii").split())


def _remedy(name: object) -> str:
    if not isinstance(name, str):
        return "give a name such as 'Europe/Berlin'"
    wanted = name[:_LONGEST_NAME].lower()
    spelled = {known.lower(): known for known in _names()}
    cities = {known.rpartition("/")[2]: known for known in spelled}
    near = difflib.get_close_matches(wanted, spelled, n=3, cutoff=0.75) or [
        cities[city] for city in difflib.get_close_matches(wanted, cities, n=3, cutoff=0.8)
    ]
    if near:
        return "did you mean " + " or ".join(repr(spelled[known]) for known in near) + "?"
    return "give a name such as 'Europe/Berlin' or 'UTC'"


def _start_of(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


def _running_max(closes: list[int]) -> list[int]:
    seen, latest = [], -2 * FOREVER
    for close in closes:
        seen.append(latest)
        latest = max(latest, close)
    return seen


def _coming_min(opens: list[int]) -> list[int]:
    again, earliest = [], 2 * FOREVER
    for begin in reversed(opens):
        again.append(earliest)
        earliest = min(earliest, begin)
    return again[::-1]
