"""The books of the history equal the ledger: random histories, delivered again and again, in parts, with crashes between any two writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random
from typing import Any
from zlib import crc32

import pytest
from quarterjack.domain.history.entry import Book, HistoryEntry
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.names import RunRef, aside_ref, fire_ref, one_off_ref
from quarterjack.domain.run import Failure, RunRow, RunState
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND, from_ms
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.historian.pages import write_pages
from quarterjack.historian.rebuild import RebuildReport, RebuildSpec, rebuild
from quarterjack.history.read import Position, Reading, parse_position
from quarterjack.ports.services import Services
from quarterjack.state.history.entries import end_of, is_open
from quarterjack.state.history.search import Search
from quarterjack.stores.history.pages import ReadMeter
from quarterjack.stores.rows import run_row
from quarterjack.testing import ManualClock, Memory
from quarterjack.testing.memory.calls import Crash, Detail, Hook

from tests.support.builders import NOON

TENANT = "acme"
EVER = 10**14


class Story:
    """Random changes of some runs, each with its images, in the order of their sequence numbers."""

    def __init__(self, random: Random, runs: int = 12, steps: int = 120, spread: int = 3 * HOUR) -> None:
        self.random, self.rows, self.changes = random, dict[RunRef, RunRow](), list[RunChange]()
        self._numbers, self._at = count(1_000), NOON
        refs = [self._ref(number) for number in range(runs)]
        for _ in range(steps):
            self._at += random.randrange(max(1, 2 * spread // steps))
            self._step(random.choice(refs))

    def _ref(self, number: int) -> RunRef:
        due = NOON + number * MINUTE
        return self.random.choice(
            [
                fire_ref(f"{TENANT}/report", due),
                one_off_ref(TENANT, f"k{number}"),
                aside_ref(f"{TENANT}/report", due, f"trigger-{number}"),
                aside_ref(f"{TENANT}/report", due, "gap"),
            ]
        )

    def _step(self, ref: RunRef) -> None:
        old = self.rows.get(ref)
        new = self._new(ref) if old is None else self._next(old)
        if new is None:
            self.rows.pop(ref, None)
        else:
            self.rows[ref] = new
        sequence = next(self._numbers)
        self.changes.append(RunChange(ref=ref, sequence=sequence, at=self._at // SECOND * SECOND, old=old, new=new))

    def _new(self, ref: RunRef) -> RunRow:
        due = ref.instant or NOON + 5 * MINUTE
        row = RunRow(
            ref=ref,
            state=RunState.QUEUED,
            revision=1,
            job="report",
            due=due,
            not_before=due,
            created_at=self._at,
            backfill=self.random.choice([None, "b1"]) if ref.is_fire else None,
        )
        if ref.key.endswith("~gap"):
            return replace(row, state=RunState.SKIPPED, ended_at=self._at, skipped=1, skipped_until=due)
        return row

    def _next(self, old: RunRow) -> RunRow | None:
        if old.skipped is not None:  # recounted: its place stays
            return replace(old, skipped=old.skipped + 1)
        if old.is_terminal:
            choices: list[RunRow | None] = [
                replace(old, state=RunState.QUEUED, ended_at=None, reason=None),  # taken over, revived
                replace(old, buried_at=self._at),
                replace(old, relisted=(old.relisted or 0) + 1),
                replace(old, state=RunState.SKIPPED, reason="skipped"),
            ]
            return self.random.choice(choices)
        if (
            old.fence == 0 and self.random.random() < 0.3
        ):  # claimed under another revision, or by its chain in place of a backfill
            return replace(old, revision=old.revision + 1, created_at=self._at, backfill=None)
        if old.state is RunState.RUNNING:
            ended = self.random.choice([RunState.SUCCEEDED, RunState.DEAD, RunState.RETRYING, RunState.CONTINUED])
        else:
            ended = self.random.choice([RunState.RUNNING, RunState.RUNNING, RunState.CANCELLED])
        at = self._at - self.random.choice([0, 0, 0, 90 * MINUTE])  # clocks of workers differ
        changed = replace(
            old, state=ended, fence=old.fence + (ended is RunState.RUNNING), started_at=old.started_at or at
        )
        if ended is RunState.DEAD:
            changed = replace(changed, failure=Failure(kind="ValueError", message="boom"))
        return replace(changed, ended_at=at) if changed.is_terminal else changed

    def ended(self) -> list[tuple[int, RunRef, RunState, int | None]]:
        """What the book of ended runs has to hold, the latest first."""
        rows = [row for row in self.rows.values() if row.is_terminal]
        return sorted(
            ((end_of(row) or 0, row.ref, row.state, row.skipped) for row in rows), key=lambda e: (-e[0], e[1])
        )


class Kill(Hook):
    """Kills the process at one of its requests, before or after the request takes effect."""

    def __init__(self, at: int, *, after: bool) -> None:
        self._left, self._after = at, after

    def before_call(self, operation: str, detail: Detail) -> Any:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Crash
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        if self._left == 0 and self._after:
            raise Crash


class Stall(Hook):
    """Holds the process up before one of its requests, while something else happens."""

    def __init__(self, at: int, meanwhile: Callable[[], object]) -> None:
        self._left, self._meanwhile = at, meanwhile

    def before_call(self, operation: str, detail: Detail) -> Any:
        self._left -= 1
        if self._left == 0:
            self._meanwhile()
        return ()


def deliver(changes: Sequence[RunChange], services: Services, now: int) -> None:
    write_pages(changes, HistorianContext(services=services, now=now, batch="shard#1"))


def batches(changes: Sequence[RunChange], random: Random) -> Iterator[Sequence[RunChange]]:
    """The changes of two shards, each in order, in batches that are cut anyhow; some come again in other parts."""
    for shard in (0, 1):
        mine, begin = [c for c in changes if crc32(str(c.ref).encode()) % 2 == shard], 0
        while begin < len(mine):
            size = random.choice([1, 3, 10, 40])
            yield mine[begin : begin + size]
            if random.random() < 0.3:  # it was handled, but nobody knows
                cut = random.randrange(1, size + 1)
                yield mine[begin : begin + cut]
                yield mine[begin + cut : begin + size + 5]
            begin += size


def read(
    services: Services, book: Book = Book.ENDED, search: Search | None = None, **bounds: Any
) -> list[HistoryEntry]:
    given = {"after": 0, "upto": EVER} | bounds
    reading = Reading(services.history, TENANT, book, search or Search(), meter=ReadMeter(), **given)
    found = list(reading.entries())
    assert reading.position is None
    assert reading.searched == given["after"]
    return found


def read_in_parts(services: Services, size: int, **how: Any) -> list[HistoryEntry]:
    """The same, by calls that end after some entries, or at once if ``is_over``."""
    found: list[HistoryEntry] = []
    position: Position | None = None
    for _ in range(10_000):
        reading = Reading(services.history, TENANT, Book.ENDED, Search(), after=0, upto=EVER, meter=ReadMeter(), **how)
        for taken, entry in enumerate(reading.entries(position), 1):
            found.append(entry)
            if taken == size:
                break
        else:
            if reading.position is None:
                return found
        position = parse_position(str(reading.position))
    raise AssertionError("the reading does not end")


def die_and_do(memory: Memory, random: Random, act: Callable[[Services], object]) -> None:
    """The process dies at one of its requests, some times, and then does it all."""
    while random.random() < 0.3:
        with suppress(Crash):
            act(memory.connect(Kill(random.randrange(1, 12), after=random.random() < 0.5)))
    act(memory.connect())


def _deliver_at(batch: Sequence[RunChange], now: int, services: Services) -> None:
    deliver(batch, services, now)


def check(services: Services, story: Story) -> None:
    wanted = story.ended()
    assert [(e.at, e.run, e.state, e.skipped) for e in read(services)] == wanted
    parts = read_in_parts(services, 3)
    assert [(e.at, e.run) for e in parts] == [(at, run) for at, run, _, _ in wanted]
    hurried = read_in_parts(services, 100, is_over=lambda: True)
    assert [(e.at, e.run) for e in hurried] == [(at, run) for at, run, _, _ in wanted]
    dead = read(services, search=Search(states=frozenset({RunState.DEAD})))
    assert [e.run for e in dead] == [run for _, run, state, _ in wanted if state is RunState.DEAD]
    middle = NOON + HOUR
    cut = read(services, after=NOON, upto=middle)
    assert [e.run for e in cut] == [run for at, run, _, _ in wanted if NOON < at <= middle]
    open_runs = {row.ref for row in story.rows.values() if is_open(row)}
    assert open_runs <= {entry.run for entry in read(services, Book.OPEN)}


@pytest.mark.parametrize("seed", range(30))
def test_the_books_equal_the_ledger(seed: int) -> None:
    """With ``folds``, hours are folded in between; some batches come hours late, and then entries are late."""
    random = Random(seed)
    clock, folds = ManualClock(from_ms(NOON)), bool(seed % 3)
    story, memory = Story(random, spread=random.choice([3, 30]) * HOUR), Memory(clock)
    for row in story.rows.values():
        memory.put_row(row.ref, run_row(row))
    for batch in batches(story.changes, random):
        delay = random.choice([SECOND, SECOND, 5 * HOUR])
        at = max([clock(), *(change.at + delay for change in batch)])
        clock.advance(timedelta(milliseconds=at - clock()))
        die_and_do(memory, random, partial(_deliver_at, batch, clock()))
        if folds and random.random() < 0.5:
            die_and_do(memory, random, lambda services: compact_pages(services, clock=clock, budget=HOUR))
    check(memory.connect(), story)
    clock.advance(timedelta(days=2))
    report = compact_pages(memory.connect(), clock=clock, budget=HOUR)
    assert report.failed == report.stopped == 0
    assert compact_pages(memory.connect(), clock=clock, budget=HOUR).hours == 0
    check(memory.connect(), story)
    listed = {entry.run for entry in read(memory.connect(), Book.OPEN)}  # after the fold: no run that has ended
    assert listed <= {row.ref for row in story.rows.values() if not row.is_terminal}


@pytest.mark.parametrize("seed", range(40))
def test_the_books_equal_the_ledger_whatever_the_clocks_of_historians_say(seed: int) -> None:
    """Clocks are hours off, historians stall at any request while hours are folded, and so do the folds."""
    random = Random(2_000 + seed)
    clock = ManualClock(from_ms(NOON))
    story, memory = Story(random, spread=random.choice([3, 30]) * HOUR), Memory(clock)
    for row in story.rows.values():
        memory.put_row(row.ref, run_row(row))

    def stalled(most: int, meanwhile: Callable[[], object]) -> Services:
        return memory.connect(*([Stall(random.randrange(1, most), meanwhile)] if random.random() < 0.4 else []))

    def fold_it(services: Services) -> None:
        skew = random.choice([0, 0, -HOUR, HOUR])
        compact_pages(services, clock=lambda: clock() + skew, budget=HOUR)

    def fold_meanwhile() -> None:
        clock.advance(timedelta(minutes=random.choice([0, 30, 200])))
        fold_it(memory.connect())

    for batch in batches(story.changes, random):
        at = max([clock(), *(change.at + SECOND for change in batch)])
        clock.advance(timedelta(milliseconds=at - clock()))
        now = clock() + random.choice([0, 0, -20 * MINUTE, -3 * HOUR, 3 * HOUR])
        deliver(batch, stalled(12, fold_meanwhile), now)
        if random.random() < 0.3:
            fold_it(stalled(60, partial(deliver, batch, memory.connect(), now)))
    check(memory.connect(), story)
    clock.advance(timedelta(days=2))
    assert compact_pages(memory.connect(), clock=clock, budget=HOUR).failed == 0
    check(memory.connect(), story)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("at", range(1, 14))
def test_a_page_that_is_written_while_its_hour_is_folded_is_listed_at_once(at: int, *, first: bool) -> None:
    """The historian stalls before its n-th request; the hour may have been folded before, with nothing in it."""
    clock = ManualClock(from_ms(NOON))
    memory = Memory(clock)

    def end(key: str, ended_at: int) -> RunChange:
        row = _ended_row(one_off_ref(TENANT, key), ended_at)
        return RunChange(ref=row.ref, sequence=ended_at, at=ended_at, old=None, new=row)

    def fold_later() -> None:
        clock.advance(timedelta(hours=1))
        compact_pages(memory.connect(), clock=clock, budget=HOUR)

    deliver([end("a", NOON - (0 if first else HOUR))], memory.connect(), clock())
    for _ in range(3):
        fold_later()
    deliver([end("b", NOON + SECOND)], memory.connect(Stall(at, fold_later)), NOON + SECOND)
    assert one_off_ref(TENANT, "b") in {entry.run for entry in read(memory.connect())}
    for _ in range(3):
        fold_later()
    (day,) = memory.connect().history.days(TENANT, Book.ENDED, first=0, last=NOON // DAY, meter=ReadMeter())
    hours = memory.connect().history.hours(TENANT, Book.ENDED, day.number, ReadMeter())
    hour = next(hour for hour in hours if hour.number == NOON // HOUR % 24)
    assert sum(page.summary.count for page in hour.pages if page.summary) == 1 + first, "it is folded with the rest"
    assert len(read(memory.connect())) == 2


def _ended_row(ref: RunRef, ended_at: int) -> RunRow:
    return RunRow(
        ref=ref,
        state=RunState.SUCCEEDED,
        revision=1,
        job="report",
        due=NOON,
        not_before=NOON,
        created_at=NOON,
        ended_at=ended_at,
    )


@pytest.mark.parametrize("seed", range(24))
def test_a_rebuilt_history_equals_the_ledger(seed: int) -> None:
    """The stream was not followed for a while; hours are folded before or after; what was missed may still come."""
    random = Random(1_000 + seed)
    clock = ManualClock(from_ms(NOON))
    story, memory = Story(random, spread=random.choice([3, 30]) * HOUR), Memory(clock)
    first, second = sorted(random.sample(range(len(story.changes)), 2))
    for part, is_seen in (
        (story.changes[:first], True),
        (story.changes[first:second], False),
        (story.changes[second:], True),
    ):
        for change in part:
            if change.new is None:
                memory.remove_row(change.ref)
            else:
                memory.put_row(change.ref, run_row(change.new) | {"buried_at": change.new.buried_at or 0})
        if not part:
            continue
        clock.advance(timedelta(milliseconds=max(0, part[-1].at + SECOND - clock())))
        for batch in batches(part, random):
            if is_seen:
                deliver(batch, memory.connect(), clock())
        if random.random() < 0.5:
            compact_pages(memory.connect(), clock=clock, budget=HOUR)
        if random.random() < 0.3:
            die_and_do(memory, random, lambda services: made_again(services, clock))
    die_and_do(memory, random, lambda services: made_again(services, clock))
    check(memory.connect(), story)
    assert made_again(memory.connect(), clock).corrected == made_again(memory.connect(), clock).added == 0
    for batch in batches(story.changes[first:second], random):  # they come after all
        deliver(batch, memory.connect(), clock())
    check(memory.connect(), story)
    clock.advance(timedelta(days=3))
    compact_pages(memory.connect(), clock=clock, budget=HOUR)
    check(memory.connect(), story)


def made_again(services: Services, clock: ManualClock) -> RebuildReport:
    return rebuild(RebuildSpec(tenant=TENANT, after=0, upto=EVER), services, clock=clock)
