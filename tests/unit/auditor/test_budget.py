"""An audit with a time limit: it gets further each time, nothing is left out, and what lies between two rounds is looked at."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from quarterjack.auditor import run_walks
from quarterjack.auditor.audit import audit
from quarterjack.auditor.walk import KEY, AuditReport, Progress
from quarterjack.auditor.walk import OWNER as AUDITS
from quarterjack.domain.schedule import Head
from quarterjack.domain.times import HOUR, MINUTE, SECOND
from quarterjack.errors import Unavailable
from quarterjack.fires.context import FireContext
from quarterjack.stores.records import Record
from quarterjack.stores.tables import RUNS

from tests.support.scenes.world import OWNER, Faults, World, fails


def six() -> World:
    """Six schedules, with nothing due."""
    world = World(shards=2)
    for number in range(6):
        world.scheduler.create_schedule(f"s{number}", "note", "0 18 * * *")
    return world


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the runs of a schedule were checked, one schedule a step. A check takes ten seconds: see ``hurried``."""
    seen: Counter[str] = Counter()
    check = run_walks.check_runs

    def counted(head: Head, window: int, context: FireContext) -> run_walks.RunFindings:
        seen[head.name] += 1
        return check(head, window, context)

    monkeypatch.setattr(run_walks, "check_runs", counted)
    monkeypatch.setattr(run_walks, "_PAGE", 1)
    return seen


def hurried(world: World, budget: int, checked: Counter[str]) -> AuditReport:
    """An audit on whose clock each check of a schedule takes ten seconds."""
    before = checked.total()

    def clock() -> int:
        return world.clock() + (checked.total() - before) * 10 * SECOND

    return audit(world.services, clock=clock, budget=budget, segments=3)


def progress_of(world: World) -> dict[str, Any]:
    record = world.services.records.read(AUDITS, KEY)
    assert record is not None
    return dict(record.body)


def test_what_one_did_not_reach_the_next_begins_with(checked: Counter[str]) -> None:
    world = six()
    reports = [hurried(world, 20 * SECOND, checked) for _ in range(3)]
    assert [report.stopped for report in reports] == [1, 1, 1]
    assert checked == {f"s{number}": 1 for number in range(6)}
    assert hurried(world, HOUR, checked).stopped == 0


def test_even_without_any_time_every_walk_gets_further(checked: Counter[str]) -> None:
    world, stopped = six(), 0
    world.services.agenda.remove(world.memory.entries())
    for _ in range(7):
        stopped += hurried(world, 0, checked).stopped
    assert stopped == 7
    assert set(checked) == {f"s{number}" for number in range(6)}
    assert progress_of(world)["segment"] == 7 % 3, "the ledger was read, too"
    assert len(world.memory.entries()) == 6, "all chains were looked for, a shard an audit"


def test_a_part_of_the_ledger_larger_than_an_audit_is_read_in_several_and_delays_no_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quarterjack.stores.upkeep._SCANNED", 5)
    world = World()
    for number in range(40):
        world.scheduler.submit("note", number)
    while found := world.services.work.receive(most=10, wait=0, visibility=30):
        world.services.work.erase([delivery.receipt for delivery in found])
    world.wait(4 * 3_600)
    overdue, chains = list[int](), list[int]()
    while sum(overdue) < 40:
        assert len(overdue) < 10, "it begins anew each time"
        world.scheduler.create_schedule(f"s{len(overdue)}", "note", "0 18 * * *")
        world.services.agenda.remove(world.memory.entries())
        services = world.process(Faults().at("unfinished", after=partial(world.wait, 60), times=None))
        report = world.audit(services, segments=1, budget=2 * MINUTE)
        overdue.append(report.overdue)
        chains.append(report.rearmed)
    assert len(overdue) > 2
    assert len({message.run for message in world.memory.messages()}) == 40, "each audit reads on"
    assert chains == list(range(1, len(chains) + 1)), "each audit looks for all chains"


def test_two_slow_walks_share_the_time(monkeypatch: pytest.MonkeyPatch, checked: Counter[str]) -> None:
    monkeypatch.setattr("quarterjack.stores.upkeep._SCANNED", 1)
    world, pages = six(), list[None]()
    for number in range(20):
        world.scheduler.submit("note", number)

    def clock() -> int:
        return world.clock() + (checked.total() + len(pages)) * 10 * SECOND

    services = world.process(Faults().at("unfinished", after=lambda: pages.append(None), times=None))
    audit(services, clock=clock, budget=80 * SECOND, segments=1)
    assert checked.total() >= 3
    assert len(pages) >= 3


def test_a_killed_audit_loses_half_a_minute(monkeypatch: pytest.MonkeyPatch, checked: Counter[str]) -> None:
    world = six()

    class Killed(BaseException):
        pass

    def clock() -> int:
        if checked.total() == 5:
            raise Killed
        return world.clock() + checked.total() * 10 * SECOND

    with pytest.raises(Killed):
        audit(world.services, clock=clock, budget=HOUR, segments=3)
    hurried(world, HOUR, checked)
    assert all(checked[f"s{number}"] == 1 for number in range(3)), checked


def test_the_walks_after_one_that_fails_have_their_time_and_its_error_is_raised() -> None:
    world = World()
    world.scheduler.submit("note")
    while found := world.services.work.receive(most=10, wait=0, visibility=30):
        world.services.work.erase([delivery.receipt for delivery in found])
    world.wait(4 * 3_600)
    deaf = world.process(Faults().at("scan_heads", before=fails, times=None))
    with pytest.raises(Unavailable):
        world.audit(deaf, segments=1)
    assert len(world.memory.messages()) == 1, "the lost message was sent again"


def test_many_workers_find_what_one_finds() -> None:
    world = World()
    for number in range(20):
        world.scheduler.create_schedule(f"s{number:02d}", "note", "* * * * *", catch_up="all")
    world.live(600)
    for number in range(20):
        owner = f"acme/s{number:02d}"
        world.memory._tables[RUNS].delete(*world.memory.runs(owner)[number % 4].ref)
    world.memory.put_revision("acme/s07", 1, ValueError("x"))
    report = world.audit(workers=8)
    assert (report.unclaimed, report.failed) == (19, 1)


def test_all_of_the_ledger_is_read_a_part_after_the_other_whatever_the_hour() -> None:
    world = World()
    run = world.scheduler.submit("note")
    while found := world.services.work.receive(most=10, wait=0, visibility=30):
        world.services.work.erase([delivery.receipt for delivery in found])
    world.wait(4 * 3_600)
    found_by = [world.audit(segments=5).overdue for _ in range(5)]
    assert sum(found_by) == 1, run.id


@pytest.mark.parametrize("pause", [3 * HOUR, 30 * HOUR])
def test_fires_between_two_rounds_far_apart_are_found(pause: int) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 * * * *", catch_up="all", catch_up_window=7 * 86_400)
    world.audit()
    for _ in range(pause // HOUR):
        world.live(3_600)
    gone = world.memory.runs(OWNER)[:2]
    for run in gone:
        world.memory._tables[RUNS].delete(*run.ref)
    assert world.audit().unclaimed == len(gone) == 2


@pytest.mark.parametrize("verb", ["record", "write_record"])
def test_a_record_that_does_not_answer_costs_an_audit_its_place_and_no_more(verb: str) -> None:
    world = six()
    world.services.agenda.remove(world.memory.entries()[::2])
    assert world.audit(world.process(Faults().at(verb, before=fails, times=None))).rearmed == 3


@pytest.mark.parametrize("body", [{}, {"step": "x", "after": 7, "what": 1}, {"step": 10**9, "segment": 10**9}])
def test_a_record_of_another_release_is_no_hindrance(body: dict[str, object]) -> None:
    world = six()
    assert world.services.records.write(Record(owner=AUDITS, key=KEY, version=1, body=body))
    world.services.agenda.remove(world.memory.entries()[::2])
    report = world.audit()
    assert (report.rearmed, report.failed, report.stopped) == (3, 0, 0)
    record = world.services.records.read(AUDITS, KEY)
    assert record is not None
    assert (record.version, record.body.keys()) == (2, vars(Progress()).keys())
