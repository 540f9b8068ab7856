"""Whoever was under way when the erasure began, and goes on while it removes, brings nothing back that stays.

Each role stands still before each of its requests, for fifteen minutes, in which the erasure comes as far as it can; then it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

import pytest
from quarterjack.auditor.audit import audit
from quarterjack.auditor.log_closing import close_days
from quarterjack.domain.times import HOUR, MINUTE
from quarterjack.errors import QuarterjackError
from quarterjack.historian.archive import compact_archive
from quarterjack.historian.follow import StreamFollower
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.ports.services import Services
from quarterjack.testing import Detail, Hook
from quarterjack.testing.process import bury_all
from quarterjack.ticker.tick import tick

from tests.support.parts import in_parts
from tests.support.scenes.erasing import ERASED, ErasingScene

PARTS = 5

Role = Callable[[ErasingScene, Services], object]


def _owner(scene: ErasingScene, services: Services) -> None:
    scheduler = scene.scheduler(ERASED, services)
    dead = scheduler.list_dead().items[0].id
    scheduler.create_schedule("late", "note", "*/5 * * * *", payload="x" * 70_000, client_token="late")
    scheduler.submit("note", "x" * 70_000)
    scheduler.trigger("late", payload="x" * 70_000)
    scheduler.pause_schedule("late")
    scheduler.acting_as("alice").redrive(dead, allow_repeat=True)


ROLES: dict[str, Role] = {
    "ticker": lambda scene, services: tick(services, clock=scene.clock, holder="late"),
    "worker": lambda scene, services: scene.work(services),
    "undertaker": lambda scene, services: bury_all(services, scene.clock),
    "historian": lambda scene, services: StreamFollower(services, scene.clock).poll(),
    "auditor": lambda scene, services: audit(services, clock=scene.clock),
    "compaction": lambda scene, services: compact_archive(services.archive, clock=scene.clock, budget=MINUTE),
    "fold": lambda scene, services: compact_pages(services, clock=scene.clock, budget=MINUTE),
    "closing": lambda scene, services: close_days(services, clock=scene.clock),
    "owner": _owner,
}


class _Stall(Hook):
    """Counts the requests of a process; before one of them something else happens."""

    def __init__(self, at: int = -1, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.calls, self._at, self._meanwhile = 0, at, meanwhile

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        self.calls += 1
        if self.calls - 1 == self._at:
            self._meanwhile()
        return ()


@pytest.fixture(scope="module")
def furnished() -> tuple[ErasingScene, Callable[[], None]]:
    scene = ErasingScene()
    scene.furnish()
    return scene, scene.snapshot()


@pytest.fixture
def scene(furnished: tuple[ErasingScene, Callable[[], None]]) -> Iterator[ErasingScene]:
    yield furnished[0]
    furnished[1]()


@in_parts(PARTS)
@pytest.mark.parametrize("role", ROLES)
def test_who_is_late_brings_nothing_back(
    furnished: tuple[ErasingScene, Callable[[], None]], role: str, part: int
) -> None:
    scene, restore = furnished
    counted = _Stall()
    ROLES[role](scene, scene.memory.connect(counted))
    restore()
    assert counted.calls
    for at in range(part, counted.calls, PARTS):
        services = scene.memory.connect(_Stall(at, scene.first_pass))
        with suppress(QuarterjackError, IndexError):  # it is told that something is gone, or that the tenant is
            ROLES[role](scene, services)
        scene.erase()
        assert scene.left() == [], f"{role}, request {at}"
        restore()


def test_all_roles_work_on_while_it_goes_and_afterwards(scene: ErasingScene) -> None:
    names = [name for name in ROLES if name != "owner"]

    def everybody() -> None:
        for name in names:
            ROLES[name](scene, scene.memory.connect())

    scene.first_pass()
    everybody()
    scene.erase()
    assert scene.left() == []
    for _ in range(3):
        scene.clock.reach(scene.clock() + 20 * MINUTE)
        everybody()
    assert scene.left() == []
    assert [message for message in scene.memory.messages() if message.run.tenant == ERASED] == []


def test_a_historian_that_is_hours_behind_brings_nothing_back(scene: ErasingScene) -> None:
    scene.erase()
    scene.clock.reach(scene.clock() + 20 * HOUR)
    late = StreamFollower(scene.memory.connect(), scene.clock)
    read = 0
    while (report := late.poll()).changes or report.has_more:
        read += report.changes
    assert read > 20, "the removal of the rows passes the stream too"
    assert scene.left() == []
    assert scene.archived_lines(ERASED) == []
