"""The archive's inbox is emptied into objects of tenants, and nothing is lost or read twice meanwhile."""

from __future__ import annotations

import gzip
import logging
import random
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack.domain.history.archive_objects import INBOX, hour_prefix
from quarterjack.domain.times import DAY, HOUR, MINUTE, from_ms
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.historian.archive import LATE, ArchiveFilter, archive, compact_archive, read_archive
from quarterjack.testing import ManualClock
from quarterjack.testing.memory.calls import Crash, Detail, Hook
from quarterjack.testing.memory.installation import Memory

from tests.support.builders import NOON, a_run
from tests.support.transitions import context_of, in_batches, life

START = NOON // HOUR * HOUR
TENANTS = ("acme", "beta", "gamma")
ALL = ArchiveFilter(since=0, until=NOON + DAY)


@pytest.fixture
def memory() -> Memory:
    return filled()


def filled(*, most: int = 4) -> Memory:
    """Runs of three tenants within two hours, in the inbox."""
    memory = Memory(ManualClock(from_ms(START)))
    changes = [
        change
        for place in range(24)
        for change in life(
            a_run(START + 10 * MINUTE + place * 5 * MINUTE, owner=f"{TENANTS[place % 3]}/report"),
            sequence=1 + 10 * place,
        )
    ]
    for name, batch in in_batches(changes, most):
        archive(batch, context_of(memory.connect(), name))
    return memory


def compact(memory: Memory, *, at: int, hook: Hook | None = None, budget: int = HOUR) -> int:
    return compact_archive(memory.connect(hook).archive, clock=lambda: at, budget=budget).removed


def orders(memory: Memory, hook: Hook | None = None) -> list[list[tuple[int, int, str]]]:
    store = memory.connect(hook).archive
    return [[line.order for line in read_archive(store, tenant, ALL)] for tenant in TENANTS]


def test_each_tenant_has_one_object_an_hour_and_the_present_hour_waits(memory: Memory) -> None:
    before, listed = orders(memory), len(memory.archived)
    assert compact(memory, at=START + HOUR + LATE - 1) == 0, "late ones may still come"
    assert 0 < compact(memory, at=START + HOUR + LATE) < listed
    own = [key for key in memory.archived if not key.startswith(INBOX)]
    assert sum(key.startswith(hour_prefix("acme", START)) for key in own) == 1
    assert len(own) <= 2 * len(TENANTS), "an object of the inbox may reach into the next hour"
    assert orders(memory) == before
    compact(memory, at=START + 2 * DAY)
    assert not any(key.startswith(INBOX) for key in memory.archived)
    assert len(memory.archived) < listed
    assert orders(memory) == before
    assert compact(memory, at=START + 2 * DAY) == 0


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 9), st.sampled_from(["before", "after"]))
def test_a_death_at_any_point_loses_nothing_and_doubles_nothing(point: int, most: int, when: str) -> None:
    class Dies(Hook):
        left = point

        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            self._step("before")
            return ()

        def after_call(self, operation: str, detail: Detail) -> None:
            self._step("after")

        def _step(self, now: str) -> None:
            self.left -= now == when
            if not self.left:
                raise Crash

    memory = filled(most=most)
    before = orders(memory)
    try:
        compact(memory, at=START + DAY, hook=Dies())
    except Crash:
        assert orders(memory) == before
    compact(memory, at=START + DAY)
    assert orders(memory) == before
    assert not any(key.startswith(INBOX) for key in memory.archived)


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_who_reads_meanwhile_reads_all_once(seed: int) -> None:
    memory, chance = filled(), random.Random(seed)
    before = orders(memory)

    class Compacting(Hook):
        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            if chance.random() < 0.1:
                compact(memory, at=START + chance.choice([HOUR + LATE, DAY]))
            return ()

    assert orders(memory, Compacting()) == before


def test_it_ends_when_its_time_is_over(memory: Memory) -> None:
    assert compact(memory, at=START + DAY, budget=0) == 0
    assert any(key.startswith(INBOX) for key in memory.archived)


def test_a_line_that_came_twice_is_stored_once(memory: Memory) -> None:
    archive(life(), context_of(memory.connect(), "a"))
    archive(life()[:2], context_of(memory.connect(), "a"))
    compact(memory, at=START + DAY)
    size = sum(len(content) for content in memory.archived.values())
    other = filled()
    archive(life(), context_of(other.connect(), "a"))
    compact(other, at=START + DAY)
    assert size == sum(len(content) for content in other.archived.values())


def test_who_may_not_read_the_inbox_reads_what_was_compacted(memory: Memory) -> None:
    class OfOneTenant(Hook):
        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            if operation == "ListObjectsV2" and not self.own:
                self.own = True
                raise Misconfigured("ListObjectsV2: AccessDenied")
            return ()

        own = False

    before = orders(memory)[0]
    compact(memory, at=START + HOUR + LATE)
    store = memory.connect(OfOneTenant()).archive
    found = [line.order for line in read_archive(store, "acme", ALL)]
    assert found
    assert found == before[: len(found)]


def test_what_does_not_answer_is_continued_by_the_next_call(memory: Memory) -> None:
    class Down(Hook):
        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            if operation == "DeleteObjects":
                raise Unavailable("DeleteObjects: SlowDown")
            return ()

    before = orders(memory)
    with pytest.raises(Unavailable):
        compact(memory, at=START + DAY, hook=Down())
    assert orders(memory) == before
    assert compact(memory, at=START + DAY) > 0
    assert orders(memory) == before


def first_of_inbox(memory: Memory) -> str:
    return min(key for key in memory.archived if key.startswith(INBOX))


def lines_of(memory: Memory) -> set[bytes]:
    return {line for content in memory.archived.values() for line in gzip.decompress(content).splitlines()}


def test_lines_of_a_later_release_are_moved_byte_for_byte(memory: Memory) -> None:
    """In a rolling deployment the auditor may be older than the historian."""
    key = first_of_inbox(memory)
    text = gzip.decompress(memory.archived[key]).replace(b'"kind":"', b'"shard":{"b":1, "a":[ ]},"kind":"new_', 1)
    memory.archived[key] = gzip.compress(text)
    before, read = lines_of(memory), orders(memory)
    compact(memory, at=START + DAY)
    assert not any(each.startswith(INBOX) for each in memory.archived)
    assert lines_of(memory) == before
    assert orders(memory) == read


DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "cut off": lambda content: content[: len(content) // 2],
    "changed": lambda content: content[:20] + b"\xff\xff\xff\xff" + content[24:],
    "not compressed": gzip.decompress,
    "no tenant": lambda content: gzip.compress(gzip.decompress(content).replace(b'"tenant"', b'"owner"', 1)),
    "a tenant that is none": lambda content: gzip.compress(
        gzip.decompress(content).replace(b'"tenant":"', b'"tenant":"../', 1)
    ),
    "no time": lambda content: gzip.compress(gzip.decompress(content).replace(b'"at":"', b'"at":"x', 1)),
    "no line": lambda content: gzip.compress(gzip.decompress(content) + b"{\n"),
    "no object": lambda content: gzip.compress(gzip.decompress(content) + b"[1]\n"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_placed_stays_as_it_is_and_stops_nothing_else(
    memory: Memory, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = first_of_inbox(memory)
    left = memory.archived[key] = DAMAGES[damage](memory.archived[key])
    before = orders(memory)
    with caplog.at_level(logging.ERROR, "quarterjack.historian.archive"):
        report = compact_archive(memory.connect().archive, clock=lambda: START + DAY, budget=HOUR)
    assert report.unreadable == 1
    assert report.removed > 0
    assert {each: memory.archived[each] for each in memory.archived if each.startswith(INBOX)} == {key: left}
    assert [(record.message, record.key) for record in caplog.records if "left" in record.message] == [  # type: ignore[attr-defined]
        ("archive.object_left", key)
    ]
    assert orders(memory) == before
