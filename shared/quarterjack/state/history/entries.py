"""From changes of runs to entries of the history's books.

Each entry names its place (book, run, time) and the order of the change. So a batch may be handled twice, in other parts, or after a later
one: of the entries at a place the greatest order holds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from quarterjack.domain.history.entry import Book, HistoryEntry, RunKind, kind_of
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow, RunState
from quarterjack.values import replace

REASON = 80  # characters of a reason or an error's class that an entry keeps
_BETWEEN = frozenset({RunState.RETRYING, RunState.CONTINUED, RunState.PARKED})
_LISTED = frozenset(
    set(RunKind) - {RunKind.FIRE}
)  # kinds of which every run that has not ended is in the list of open runs

Placed = Mapping[Book, Sequence[HistoryEntry]]


_CORRECTIONS = 16  # orders of one change: its own, and those of corrections


def order_of(sequence: int) -> int:
    """The order of a change."""
    return _CORRECTIONS * sequence


def corrected(order: int) -> int:
    """The order of a correction that was made after an entry of this order had been read: it lies before that of any later change."""
    return order + 1 if order % _CORRECTIONS < _CORRECTIONS - 1 else order


def placed(changes: Iterable[RunChange]) -> Placed:
    """The entries of a batch by book: the last for each place. A run that was made and ended in the batch is in no list of open runs."""
    by_run: dict[RunRef, list[RunChange]] = {}
    for change in changes:
        by_run.setdefault(change.ref, []).append(change)
    found: dict[Book, list[HistoryEntry]] = {Book.ENDED: [], Book.OPEN: []}
    for several in by_run.values():
        several.sort(key=lambda change: change.sequence)
        found[Book.ENDED] += latest(entry for change in several for entry in ended_entries(change))
        opened = latest(entry for change in several for entry in _open_entries(change))
        if not (_was_never_open(several[0]) and all(entry.withdrawn for entry in opened)):
            found[Book.OPEN] += opened
    return found


def latest(entries: Iterable[HistoryEntry]) -> Iterable[HistoryEntry]:
    """The entry that holds at each place. It stands for those of former batches that another one here has withdrawn or replaced."""
    held: dict[tuple[RunRef, int], HistoryEntry] = {}
    for entry in entries:
        there = held.setdefault((entry.run, entry.at), entry)
        if there is not entry:
            later = max(there, entry, key=lambda each: each.order)
            held[entry.run, entry.at] = replace(later, again=there.again or entry.again)
    return held.values()


def entry_of(run: RunRow, at: int, order: int, *, again: bool = False) -> HistoryEntry:
    return HistoryEntry(
        run=run.ref,
        at=at,
        order=order,
        again=again,
        state=run.state,
        job=run.job,
        due=run.due,
        not_before=run.not_before,
        created_at=run.created_at,
        started_at=run.started_at,
        attempt=run.attempt,
        fence=run.fence,
        revision=run.revision,
        kind=kind_of(run),
        reason=None if run.reason is None else run.reason[:REASON],
        error_type=None if run.failure is None else run.failure.kind[:REASON],
        backfill=run.backfill,
        replay_of=run.replay_of,
        app_version=run.app_version,
        skipped=run.skipped,
        skipped_until=run.skipped_until,
        tags=run.own_tags,
    )


def withdrawal_of(run: RunRow, at: int, order: int) -> HistoryEntry:
    """The withdrawal of a run from a place; it says no more of the run than it must, so that it is short."""
    due = run.due
    return HistoryEntry(
        run=run.ref,
        at=at,
        order=order,
        withdrawn=True,
        again=True,
        state=RunState.CANCELLED,
        job="",
        due=due,
        not_before=due,
        created_at=due,
    )


def tells(entry: HistoryEntry, run: RunRow) -> bool:
    """Whether an entry says of an ended run what its row says; the row does not know the tags of its schedule."""
    row = replace(entry_of(run, entry.at, entry.order, again=entry.again), tags={**entry.tags, **run.own_tags})
    return row == entry


def end_of(run: RunRow | None) -> int | None:
    """The place (UTC ms) of a run among the ended ones; None: it has not ended, or is not there."""
    return run.ended_at if run is not None and run.is_terminal else None


def ended_entries(change: RunChange) -> Iterator[HistoryEntry]:
    """At most two: the withdrawal from the old place, the entry at the new one. A removal after the retention changes nothing."""
    if change.expired:
        return
    old, new, order = change.old, change.new, order_of(change.sequence)
    before, after = end_of(old), end_of(new)
    if old is not None and before is not None and before != after:
        yield withdrawal_of(old, before, order)
    if new is not None and after is not None and not _is_told(old, new, after):
        yield entry_of(new, after, order, again=before == after)


def _is_told(old: RunRow | None, new: RunRow, at: int) -> bool:
    """Whether the entry of the old image says the same, and nobody asks for it to be written again."""
    if old is None or end_of(old) != at or old.relisted != new.relisted:
        return False
    return entry_of(old, at, 0) == entry_of(new, at, 0)


def is_open(run: RunRow | None) -> bool:
    """Whether the run belongs into the list of open runs. Waiting fires of schedules do not: the ledger lists them by schedule."""
    return run is not None and not run.is_terminal and (kind_of(run) in _LISTED or run.state in _BETWEEN)


def open_place(run: RunRow) -> int:
    """The place (UTC ms) of a run among the open ones: when it is due, or when it was claimed if that is later.

    So the past fires of a backfill, all of a batch, are in one page, and not in hours that were folded long ago.
    """
    return max(run.due, run.created_at)


def _open_entries(change: RunChange) -> Iterator[HistoryEntry]:
    """At most two: the entry of a run that appears or is claimed anew, the withdrawal of one that has ended or moved."""
    old, new, order = change.old, change.new, order_of(change.sequence)
    after = None if new is None or new.is_terminal else open_place(new)
    before = None if old is None or old.is_terminal else open_place(old)
    if old is not None and before is not None and before != after and _may_be_listed(old):
        yield withdrawal_of(old, before, order)
    if new is None or after is None or not is_open(new):
        return
    if before != after or new.state in _BETWEEN or (old is not None and new.relisted != old.relisted):
        yield entry_of(new, after, order, again=before == after or _was_here_before(new))


def _was_here_before(run: RunRow) -> bool:
    """Whether an entry of former batches may be at the place: a one-off may be rescheduled to and fro."""
    return run.ref.is_one_off and run.revision > 0


def _may_be_listed(run: RunRow) -> bool:
    """Whether a run that has not ended may be in the list: a fire gets there by its first retry or slice."""
    return kind_of(run) in _LISTED or run.state in _BETWEEN or run.leases > 1


def _was_never_open(first: RunChange) -> bool:
    old = first.old
    return old is None or (kind_of(old) not in _LISTED and old.fence == 0)


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


class Merge:
    """Takes pages in descending order of their last place, and gives entries out once no later page can change or precede them."""

    def __init__(self) -> None:
        self._held: dict[
            tuple[RunRef, int], tuple[HistoryEntry, int]
        ] = {}  # the entry, and the last place of a page that has it
        self._heap: list[tuple[int, RunRef]] = []

    def add(self, entries: Iterable[HistoryEntry], last: int) -> None:
        """Entries of a page whose latest place is ``last`` (UTC ms)."""
        for entry in entries:
            place = (entry.run, entry.at)
            held = self._held.get(place)
            if held is None:
                heapq.heappush(self._heap, (-entry.at, entry.run))
            if held is None or entry.order > held[0].order:
                self._held[place] = (entry, max(last, last if held is None else held[1]))

    def before(self, watermark: int | None) -> Iterator[HistoryEntry]:
        """The entries beyond the watermark, the latest first, withdrawn ones too: every page that is still to come ends there or before.

        None: there is no further page.
        """
        while self._heap and (watermark is None or -self._heap[0][0] > watermark):
            at, run = heapq.heappop(self._heap)
            yield self._held.pop((run, -at))[0]

    def reaches(self, default: int) -> int:
        """The greatest last place of a page with entries that were not given out: who goes on later must begin there."""
        return max((last for _, last in self._held.values()), default=default)
