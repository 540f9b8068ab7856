"""The window of a timeline: where it begins, how long it is, its parts, and the windows beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from statistics import median

from quarterjack.console.forms import in_address, time_typed, zone_of
from quarterjack.errors import InvalidInput

_DAY = timedelta(days=1)
_PAST = 0.6  # share of a window that lies before now, unless it is asked for
_FIRES = 20  # of the median schedule in a window that fits
_FIRST, _LAST = datetime(1971, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Span:
    """A length that a window can have."""

    title: str
    length: timedelta
    parts: int  # that it is divided into

    @property
    def part(self) -> timedelta:
        """The length of a part."""
        return self.length / self.parts


SPANS: Mapping[str, Span] = {
    "15m": Span("15 minutes", timedelta(minutes=15), 5),
    "1h": Span("1 hour", timedelta(hours=1), 6),
    "3h": Span("3 hours", timedelta(hours=3), 6),
    "6h": Span("6 hours", timedelta(hours=6), 6),
    "12h": Span("12 hours", timedelta(hours=12), 6),
    "1d": Span("1 day", _DAY, 8),
    "3d": Span("3 days", timedelta(days=3), 6),
    "7d": Span("1 week", timedelta(days=7), 7),
    "30d": Span("30 days", timedelta(days=30), 6),
    "90d": Span("90 days", timedelta(days=90), 6),
}
_WORDS = tuple(SPANS)


@dataclass(frozen=True, kw_only=True)
class Window:
    """A span of time, with the zone that it is shown in."""

    word: str  # of SPANS
    start: datetime  # in the zone
    moves: bool  # with the clock: its start was not asked for

    @property
    def span(self) -> Span:
        """Its length and parts."""
        return SPANS[self.word]

    @property
    def end(self) -> datetime:
        """Its end, in the zone: as many seconds later, also across a clock change."""
        return self.after(self.span.length)

    def after(self, time: timedelta) -> datetime:
        """An instant so long after the start, in the zone."""
        return (self.start.astimezone(UTC) + time).astimezone(self.start.tzinfo)

    @property
    def parts(self) -> Sequence[datetime]:
        """Where its parts begin."""
        return [self.after(self.span.part * number) for number in range(self.span.parts)]

    def share(self, at: datetime) -> float:
        """Where an instant lies: 0 is the start, 1 the end; beyond them it is one of the two."""
        return min(max((at - self.start) / self.span.length, 0.0), 1.0)

    def label(self, at: datetime) -> str:
        """A part's beginning in few characters: the time of day, or the day."""
        by_day = self.span.part >= _DAY or (at.hour, at.minute) == (0, 0)
        return f"{at:%a} {at.day} {at:%b}" if by_day else f"{at:%H:%M}"

    def inside(self, at: datetime) -> dict[str, str]:
        """The query of the part that begins at an instant, as a window of its own; of this one if there is no smaller."""
        fitting = [word for word, span in SPANS.items() if span.length <= self.span.part]
        return _query(at, fitting[-1] if fitting else _WORDS[0])

    def beside(self, parts: float) -> dict[str, str]:
        """The query of the window that lies so many of its lengths later."""
        return _query(self.after(self.span.length * parts), self.word)

    def zoomed(self, step: int) -> dict[str, str] | None:
        """The query of the next larger (1) or smaller (-1) window with the same middle."""
        place = _WORDS.index(self.word) + step
        if not 0 <= place < len(_WORDS):
            return None
        other = SPANS[_WORDS[place]]
        return _query(self.after((self.span.length - other.length) / 2), _WORDS[place])


def window_of(
    now: datetime, *, start: str | None, span: str | None, zone_name: str, fires: Iterable[Sequence[datetime]]
) -> Window:
    """The window that an address asks for. Without a span it fits the density of the next fires. Raises InvalidInput."""
    if span is not None and span not in SPANS:
        raise InvalidInput("span", span, "is not a span of a timeline", f"use one of {', '.join(SPANS)}")
    word = span or fitting(fires)
    local = zone_of(zone_name)
    if start is not None:
        return Window(word=word, start=_moment(start, local), moves=False)
    length = SPANS[word]
    return Window(word=word, start=_floor(now - length.length * _PAST, min(length.part, _DAY), local), moves=True)


def fitting(fires: Iterable[Sequence[datetime]]) -> str:
    """The word of the span in which the median schedule has about twenty fires, by the next fires of each."""
    gaps = [(some[-1] - some[0]).total_seconds() / (len(some) - 1) for some in fires if len(some) > 1]
    if not gaps:
        return "1d"
    wanted = timedelta(seconds=median(gaps) * _FIRES)
    return next((word for word, span in SPANS.items() if span.length >= wanted), _WORDS[-1])


def _moment(text: str, local: tzinfo) -> datetime:
    """The beginning that an address says, in the zone of the window. Raises InvalidInput."""
    try:
        found = time_typed(text, "from", local).astimezone(local)
        if _FIRST <= found <= _LAST:
            return found
    except OverflowError:
        pass
    raise InvalidInput("from", text, "is not a time of a timeline", "use a time like 2026-05-04T08:00")


def _floor(at: datetime, step: timedelta, local: tzinfo) -> datetime:
    """The last multiple of a step, counted from the local midnight, that is not later."""
    here = at.astimezone(local)
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    since = (here - midnight) // step * step  # of the local clock
    return (midnight + since).astimezone(local)


def _query(start: datetime, word: str) -> dict[str, str]:
    return {"from": in_address(start), "span": word}
