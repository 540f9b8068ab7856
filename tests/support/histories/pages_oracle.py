"""What the history's books must say of a ledger, and whether they do, by whatever way they are read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from quarterjack.domain.history.entry import Book, HistoryEntry, RunKind
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import FAILED, RunRow, RunState
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.history.read import Reading, parse_position
from quarterjack.state.history.search import Search
from quarterjack.stores.history.books import History
from quarterjack.stores.history.pages import ReadMeter

_SAME = (
    *("state", "job", "due", "not_before", "created_at", "started_at", "attempt", "fence", "revision"),
    *("backfill", "skipped", "skipped_until"),
)
BETWEEN = (RunState.RETRYING, RunState.CONTINUED)
LISTED = (RunKind.ONE_OFF, RunKind.TRIGGER, RunKind.REPLAY, RunKind.BACKFILL)
_FAR = 60 * DAY
_SEARCHES = 4  # of those below, for each comparison
Wanted = Mapping[str, Any]  # a search that is told apart by ``meets``


def kind_of(row: RunRow) -> RunKind:
    """Where a run comes from, by its key."""
    if row.replay_of:
        return RunKind.REPLAY
    if "~" in row.ref.owner:
        return RunKind.ONE_OFF
    if row.backfill:
        return RunKind.BACKFILL
    return RunKind.FIRE if row.ref.key.isdigit() or row.skipped else RunKind.TRIGGER


class PagesOracle:
    """The last rows of all runs of a tenant, as of ``now`` (UTC ms); tags that each schedule has had at some time."""

    def __init__(
        self, tenant: str, rows: Sequence[RunRow], tags: Mapping[str, Sequence[Mapping[str, str]]], now: int
    ) -> None:
        self.tenant, self.tags, self.now = tenant, tags, now
        self.rows = {row.ref: row for row in rows if row.ref.tenant == tenant}

    def violations(self, history: History, dice: Random) -> Iterator[str]:
        whole = self._read(history, Book.ENDED, Search())
        yield from self._ended(whole)
        yield from self._found_by_searches(history, whole, dice)
        yield from self._open(self._read(history, Book.OPEN, Search()))

    def _read(
        self,
        history: History,
        book: Book,
        search: Search,
        *,
        after: int = 0,
        upto: int | None = None,
        dice: Random | None = None,
    ) -> list[HistoryEntry]:
        """All that a search finds; with ``dice`` in several calls, each of which goes on from the last one's cursor."""
        found: list[HistoryEntry] = []
        position: str | None = None
        while True:
            most = 10**9 if dice is None else dice.randint(1, 20)
            reading = Reading(
                history,
                self.tenant,
                book,
                search,
                after=after,
                upto=self.now + _FAR if upto is None else upto,
                meter=ReadMeter(),
                is_over=lambda: dice is not None and dice.random() < 0.3,
            )
            for entry in reading.entries(None if position is None else parse_position(position)):
                found.append(entry)
                most -= 1
                if not most:
                    break
            if reading.position is None:
                return found
            position = str(reading.position)

    # The book of what has ended.

    def _ended(self, entries: Sequence[HistoryEntry]) -> Iterator[str]:
        times = Counter(entry.run for entry in entries)
        yield from (f"page: {ref} is listed {count} times" for ref, count in times.items() if count > 1)
        listed = {entry.run: entry for entry in entries}
        for ref, row in self.rows.items():
            if row.is_terminal and ref not in listed:
                yield f"page missing: {ref} is {row.state}"
            elif not row.is_terminal and ref in listed:
                yield f"page not withdrawn: {ref} is {row.state}, and {listed[ref].state} in the history"
        for entry in entries:
            if entry.run not in self.rows:
                yield f"page invented: {entry.run}"
            elif self.rows[entry.run].is_terminal:
                yield from self._says(entry, self.rows[entry.run])
        places = [(-entry.at, entry.run) for entry in entries]
        if places != sorted(places):
            yield "page order: entries are not in order"

    def _says(self, entry: HistoryEntry, row: RunRow) -> Iterator[str]:
        wanted = {name: getattr(row, name) for name in _SAME} | {
            "at": row.ended_at,
            "kind": kind_of(row),
            "reason": None if row.reason is None else row.reason[:80],
            "error_type": None if row.failure is None else row.failure.kind[:80],
        }
        for name, value in wanted.items():
            if getattr(entry, name) != value:
                yield f"page: {row.ref} has {name}={value}, and {getattr(entry, name)} in the history"
        known = self.tags.get(entry.schedule or "", [{}])
        if dict(entry.tags) not in [{}, *known] or (len(known) == 1 and dict(entry.tags) != known[0]):
            yield f"page: {row.ref} has the tags {dict(entry.tags)}, of {known}"

    # Searches.

    def _found_by_searches(self, history: History, whole: Sequence[HistoryEntry], dice: Random) -> Iterator[str]:
        """Each search finds what it must, in one call or in many: the whole in one way, a part of it in the other."""
        begin = min((entry.at for entry in whole), default=self.now)
        for search in dice.sample(list(self._searches(whole, dice)), k=_SEARCHES):
            after, upto = sorted(dice.choices([begin - 1, begin + MINUTE, self.now - MINUTE, self.now + DAY], k=2))
            ways = dice.sample((None, dice), k=2)
            for bounds, way in zip(((0, self.now + _FAR), (after, upto)), ways, strict=True):
                wanted = [entry for entry in whole if bounds[0] < entry.at <= bounds[1] and meets(entry, search)]
                found = self._read(history, Book.ENDED, search, after=bounds[0], upto=bounds[1], dice=way)
                if search.tag is not None:  # an entry that was written twice may have the tags of either time
                    found, wanted = self._of_one_tag(found), self._of_one_tag(wanted)
                if found != wanted:
                    yield f"search: {search} in {bounds} finds {len(found)} of {len(wanted)}{_first(found, wanted)}"

    def _of_one_tag(self, entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
        return [entry for entry in entries if len(self.tags.get(entry.schedule or "", ())) <= 1]

    def _searches(self, whole: Sequence[HistoryEntry], dice: Random) -> Iterator[Search]:
        yield Search()
        yield Search(states=FAILED)
        yield Search(states=frozenset({RunState.SUPERSEDED}))
        yield Search(kinds=frozenset({RunKind.ONE_OFF}))
        yield Search(prefix="z-", states=frozenset({RunState.SUCCEEDED}))
        yield Search(tag=("team", dice.choice([None, "blue", "green", "red"])))
        if whole:
            one = dice.choice(whole)
            yield Search(job=one.job, states=frozenset({one.state}))
            yield Search(schedule=one.schedule) if one.schedule else Search(kinds=frozenset({one.kind}))
            yield Search(error_type=one.error_type or "ValueError")

    # The book of what is open.

    def _open(self, entries: Sequence[HistoryEntry]) -> Iterator[str]:
        """Who must be listed is; who is listed and has ended is left out by whoever reads the ledger, if it is still there."""
        times = Counter(entry.run for entry in entries)
        yield from (f"open: {ref} is listed {count} times" for ref, count in times.items() if count > 1)
        yield from (f"open: {ref} is in no ledger" for ref in times if ref not in self.rows)
        for ref, row in self.rows.items():
            waits = row.state in BETWEEN or kind_of(row) in LISTED
            if not row.is_terminal and waits and ref not in times:
                yield f"open missing: {ref} is {row.state}"


def meets(entry: HistoryEntry, search: Search) -> bool:
    """What the conditions of a search mean."""
    schedule = None if "~" in entry.run.owner else entry.run.owner.partition("/")[2]
    return all(
        (
            search.states is None or entry.state in search.states,
            search.job is None or entry.job == search.job,
            search.schedule is None or schedule == search.schedule,
            search.prefix is None or (schedule is not None and schedule.startswith(search.prefix)),
            search.tag is None or _tagged(entry.tags, *search.tag),
            search.error_type is None or entry.error_type == search.error_type,
            search.kinds is None or entry.kind in search.kinds,
        )
    )


def _tagged(tags: Mapping[str, str], key: str, value: str | None) -> bool:
    return key in tags and (value is None or tags[key] == value)


def _first(found: Sequence[HistoryEntry], wanted: Sequence[HistoryEntry]) -> str:
    """Where two lists begin to differ."""
    refs: defaultdict[RunRef, int] = defaultdict(int)
    for entry in wanted:
        refs[entry.run] += 1
    for entry in found:
        refs[entry.run] -= 1
    return "".join(f", {ref}: {-count:+}" for ref, count in list(refs.items()) if count)[:200]
