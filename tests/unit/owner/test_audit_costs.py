"""What each act costs, with its line: write units (rows below 1 KB, a transaction's twice) and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from minutehand import Scheduler
from minutehand.testing.memory.tables import MemoryTables

from tests.support.scenes.world import Faults, World, at

UNITS = {"transact": 2, "write_all": 1, "store": 1}
FAR = "0 0 1 1 *"  # nothing is due within the look-ahead


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Write units of the tables by name of the table."""
    units: dict[str, int] = {}

    def note(writes: Any, price: int) -> None:
        for write in writes:
            units[write.table.suffix] = units.get(write.table.suffix, 0) + price

    with pytest.MonkeyPatch.context() as patch:
        for name, price in UNITS.items():
            real = getattr(MemoryTables, name)

            def many(
                self: Any, verb: str, writes: Any, *more: Any, _real: Any = real, _price: int = price, **how: Any
            ) -> Any:
                note(writes, _price)
                return _real(self, verb, writes, *more, **how)

            patch.setattr(MemoryTables, name, many)
        write = MemoryTables.write

        def one(self: Any, verb: str, what: Any, **how: Any) -> Any:
            note([what], 1)
            return write(self, verb, what, **how)

        patch.setattr(MemoryTables, "write", one)
        yield units


@pytest.mark.parametrize(
    ("act", "units"),
    [
        (lambda owner: owner.create_schedule("new", "note", FAR), 6),
        (lambda owner: owner.update_schedule("s", expression="0 1 1 1 *"), 8),
        (lambda owner: owner.update_schedule("s", description="d"), 2),
        (lambda owner: owner.pause_schedule("s"), 4),
        (lambda owner: owner.resume_schedule("paused"), 6),
        (lambda owner: owner.delete_schedule("s"), 4),
        (lambda owner: owner.bulk("retag", prefix="s", tags={"a": "b"}), 2),
    ],
    ids=["create", "update", "describe", "pause", "resume", "delete", "retag"],
)
def test_an_acts_line_costs_four_units_and_no_request(act: Callable[[Scheduler], object], units: int) -> None:
    world, faults = a_world(), Faults()
    owner = world.owner(faults)
    owner.update_schedule("s", tags={"x": "y"})  # the first line of a process names its tenant
    faults.calls.clear()
    lines = len(world.memory.audit_lines())
    with counted() as found:
        act(owner)
    assert found.pop("audit") == 4
    assert sum(found.values()) == units
    assert len(world.memory.audit_lines()) == lines + 1
    assert "audit" not in {detail.place for _, detail in faults.calls}


@pytest.mark.parametrize(
    "act",
    [
        lambda owner: owner.update_schedule("s", description=""),
        lambda owner: owner.upsert_schedule("s", "note", FAR),
        lambda owner: owner.pause_schedule("paused"),
        lambda owner: owner.resume_schedule("s"),
        lambda owner: owner.thaw(),
        lambda owner: owner.bulk("retag", prefix="s", tags={"a": None}),
    ],
    ids=["update", "upsert", "pause", "resume", "thaw", "retag"],
)
def test_what_changes_nothing_writes_nothing(act: Callable[[Scheduler], object]) -> None:
    world = a_world()
    lines = world.memory.audit_lines()
    with counted() as found:
        act(world.owner())
    assert (found, world.memory.audit_lines()) == ({}, lines)


def a_world() -> World:
    world = World()
    world.scheduler.create_schedule("s", "note", FAR)
    world.scheduler.create_schedule("paused", "note", FAR)
    world.scheduler.pause_schedule("paused")
    return world


def test_a_submission_costs_what_it_did() -> None:
    world = a_world()
    with counted() as found:
        world.owner().submit("note", {"a": 1}, run_at=at(3_600))
    assert found == {"runs": 1, "agenda": 1}
