"""An hour's entries as few large pages: parts by time, within a part what failed and what is of one job together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from quarterjack.domain.history.entry import HistoryEntry
from quarterjack.domain.run import RunState

PART = (
    12_000  # entries that a listing reads to sort them: 200 to 400 KB; fewer would be less of one job than fills a page
)
PAGE = 1_000  # entries of a page: what a search reads or passes over
_LEAST = 250  # entries of a page that ends where a job ends

_GOOD = (RunState.SUCCEEDED, RunState.SKIPPED, RunState.SHADOWED)


def parts(entries: Iterable[HistoryEntry]) -> Iterator[list[list[HistoryEntry]]]:
    """The pages of each part. ``entries`` come the latest first; those of one place are in one part, so parts do not overlap."""
    rest = iter(entries)
    held: list[HistoryEntry] = list(islice(rest, 1))
    while held:
        held += islice(rest, PART - len(held))
        following: list[HistoryEntry] = []
        for entry in rest:
            if entry.at != held[-1].at:
                following = [entry]
                break
            held.append(entry)
        yield list(_pages(held))
        held = following


def _pages(part: Sequence[HistoryEntry]) -> Iterator[list[HistoryEntry]]:
    """Changes, which every search reads, are in pages of their own; a page of other entries ends with a job if it is large enough."""
    page: list[HistoryEntry] = []
    for entry in sorted(part, key=_kind):
        if page and _is_full(page, entry):
            yield page
            page = []
        page.append(entry)
    if page:
        yield page


def _kind(entry: HistoryEntry) -> tuple[bool, bool, str, str, int]:
    is_change = entry.again or entry.withdrawn
    return not is_change, entry.state in _GOOD, entry.job, entry.run.owner, entry.at


def _is_full(page: Sequence[HistoryEntry], following: HistoryEntry) -> bool:
    here, there = _kind(page[-1]), _kind(following)
    return len(page) >= PAGE or here[0] != there[0] or (here[1:3] != there[1:3] and len(page) >= _LEAST)
