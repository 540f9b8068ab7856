"""The history's books: pages of entries by tenant and day, appended by the historian, folded by hours later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Protocol

from quarterjack.domain.history.entry import Book
from quarterjack.domain.times import MINUTE
from quarterjack.state.history.search import Summary

SPAN = 5 * MINUTE  # ms between the first and the last place of an appended page, at the most
UNIT = 4_096  # bytes of a strong read that cost one read unit


@dataclass
class ReadMeter:
    """What reads have cost."""

    units: float = 0.0  # read units
    requests: int = 0

    def add(self, size: int) -> None:
        """One request that read so many bytes."""
        self.spend(max(1, ceil(size / UNIT)))

    def spend(self, units: float) -> None:
        """One request that cost so many units."""
        self.requests += 1
        self.units += units


@dataclass(frozen=True, kw_only=True)
class PagePut:
    """A page to append. The same entries make the same page, so that a batch that is handled twice replaces its own pages."""

    tenant: str
    book: Book
    first: int  # UTC ms: the earliest place in it
    last: int  # UTC ms: the latest; both are in one hour
    written: int  # hours since 1970: when it is written, by the clock of who writes it; nothing rests on that
    body: bytes  # see ``state.history.codec``
    digest: str  # of tenant, book and body
    summary: (
        Summary | None
    )  # of a large page: its body lies beside it, and is read only if the summary may hold what is searched
    spread: bool = False  # to one of several partitions: there are many at a time
    expires: int = 0  # UTC ms


@dataclass(frozen=True, kw_only=True)
class HistoryPage:
    """A page as it is read: with its body, or with a summary and where the body is."""

    last: int  # UTC ms: the latest place in it
    written: int = 0  # hours since 1970
    part: int = 0  # of its hour, where the hour was folded: entries of one place are in one part
    body: bytes | None = None
    summary: Summary | None = None
    partition: str = ""  # of the body, where it is not here
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Day:
    """What is known of a tenant's day without reading it."""

    number: int  # days since 1970, UTC
    spreads: int = 1  # partitions in use
    folded: int = 0  # hours since 1970: the hours before are folded; what was written into them after they were closed is noted as late
    late: Mapping[int, int] = field(
        default_factory=dict
    )  # by hour of the day: the close (an hour since 1970) whose fold finds all late writes into it


@dataclass(frozen=True, kw_only=True)
class Hour:
    """The index of an hour that was folded."""

    number: int  # 0 to 23
    folded: int  # hours since 1970: it holds what was written before the close of that name
    kept: bool = False  # its pages were large already: it was not folded, and is read as they are
    pages: Sequence[HistoryPage] = ()


@dataclass(frozen=True, kw_only=True)
class LateDay:
    """A day of a tenant that was written to late, so that it has to be folded again."""

    tenant: str
    book: Book
    day: int  # days since 1970
    written: int  # hours since 1970: the close whose fold finds all such writes


class History(Protocol):
    """Entries of all tenants. Places are UTC ms; days and hours are those of UTC. Reads add their cost to ``meter``."""

    def append(self, pages: Sequence[PagePut]) -> None:
        """Put pages, note their days, and what is late. Raises Unavailable if not all is done; the same call again is harmless."""

    def close(self, hour: int) -> None:
        """Before hours before this one (since 1970) are folded: what is appended into them from now on is noted as late."""

    def days(self, tenant: str, book: Book, *, first: int, last: int, meter: ReadMeter) -> Sequence[Day]:
        """The days in ``[first, last]`` (since 1970) that have pages, the latest first."""

    def hours(
        self, tenant: str, book: Book, day: int, meter: ReadMeter, *, first: int = 0, last: int = 23
    ) -> Iterator[Hour]:
        """The folded ones among these hours of a day, the latest first, read as they are asked for."""

    def pages(
        self, tenant: str, book: Book, day: int, spreads: int, *, first: int, last: int, meter: ReadMeter
    ) -> Sequence[Iterator[HistoryPage]]:
        """Of each of so many partitions the appended pages whose latest place is in ``[first, last]``, the latest first.

        What comes first is read here, of all partitions at the same time; further pages are read as they are asked for.
        """

    def bodies(self, pages: Sequence[HistoryPage], meter: ReadMeter) -> Sequence[bytes]:
        """The bodies of pages, in their order. Raises Unavailable."""

    def fold(self, tenant: str, book: Book, day: int, hour: Hour, expires: int) -> None:
        """Store an hour's folded pages, which have bodies, and then its index, which replaces the one before. Raises Unavailable."""

    def put_stats(self, tenant: str, day: int, hour: int | None, parts: Sequence[bytes], folded: int) -> None:
        """Store the statistics of an hour, or of the whole day, unless later ones are stored; ``folded`` as in ``Hour``."""

    def put_totals(self, tenant: str, day: int, hour: int, outcomes: Mapping[str, int], folded: int) -> None:
        """Store how many runs of an hour ended in which state, unless a later count is stored; ``folded`` as in ``Hour``."""

    def totals(self, tenant: str, *, first: int, last: int, meter: ReadMeter) -> Mapping[int, Mapping[str, int]]:
        """These counts of hours in ``[first, last]`` (since 1970), of those hours that were folded and have any."""

    def stats(
        self, tenant: str, *, first: int, last: int, hourly: bool, meter: ReadMeter
    ) -> Mapping[tuple[int, int | None], Sequence[bytes]]:
        """The statistics of days in ``[first, last]``: of their hours, or of whole days, by day and hour (None)."""

    def note_folded(self, tenant: str, book: Book, day: int, written: int) -> None:
        """Note up to which hour (since 1970) a day is folded."""

    def tenants(self, book: Book, day: int, *, begin: str = "") -> Iterator[str]:
        """The tenants that have pages of a day, in order of their names, from ``begin`` on."""

    def late(self, book: Book) -> Iterator[LateDay]:
        """The days that were written to late, as long as nobody forgets them."""

    def forget_late(self, late: LateDay) -> None:
        """Forget a day, unless it was written to later than that."""
