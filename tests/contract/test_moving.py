"""A tenant moves between two installations: no fire is claimed in both or in none, in memory and on DynamoDB's emulator."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from quarterjack import Registry, Rule, Scheduler, Tenants
from quarterjack.domain.names import schedule_owner
from quarterjack.domain.times import MINUTE, from_ms
from quarterjack.local.installation import provision
from quarterjack.ports.services import Services
from quarterjack.services import connect
from quarterjack.testing import ManualClock, Memory
from quarterjack.ticker.tick import tick
from quarterjack.timing import fires as fires_of
from quarterjack.timing import timetable

from tests.support.engines import Engine

NAMES = ("rate", "spread")


def test_a_tenant_moves(engine: Engine, tmp_path: Path) -> None:
    here = engine.services
    clock = ManualClock(from_ms(engine.clock() // MINUTE * MINUTE))
    there = another(engine, clock)
    jobs = Registry()
    jobs.job("note")(lambda ctx, payload: None)
    owner = Scheduler("acme", jobs=jobs, services=there, clock=clock)
    begin = clock()
    owner.create_schedule("rate", "note", "rate(1 minute)", payload={"text": "x" * 100_000})
    owner.create_schedule("spread", "note", Rule(expression="*/3 * * * *", window=170))
    border, file = begin + 10 * MINUTE, tmp_path / "acme.jsonl"
    tables = {name: timetable(owner_rule(there, name), anchor=begin, key=f"acme/{name}") for name in NAMES}
    source, target = (Tenants(services=each, clock=clock) for each in (there, here))
    for minute in range(30):
        if minute == 4:
            file.write_text("".join(f"{line}\n" for line in source.dump("acme")), encoding="utf-8")
        if minute == 6:
            assert source.end_schedules("acme", from_ms(border)).schedules == 2
        if minute == 8:
            done = target.load(file, start=from_ms(border))
            assert (done.refused, done.created["schedule"]) == ({}, 2)
            assert target.load(file, start=from_ms(border)).unchanged == {"schedule": 2}
        for holder, services in (("there", there), ("here", here)):
            tick(replace(services, wait=lambda seconds: None), clock=clock, holder=holder)
        clock.advance(timedelta(minutes=1))
    until = clock() - MINUTE
    for name, table in tables.items():
        expected = [*fires_of(table, begin, until)]
        assert claimed(there, name, until) == [fire for fire in expected if fire <= border]
        assert claimed(here, name, until) == [fire for fire in expected if fire > border]
    head = here.schedules.head("acme", "rate")
    assert head is not None
    revision = here.schedules.revisions([(head.owner, head.revision)]).found[head.owner, head.revision]
    assert "x" * 100_000 in (
        revision.definition.payload or here.payloads.get("acme", revision.definition.payload_ref or "")
    )


def another(engine: Engine, clock: ManualClock) -> Services:
    """A second installation on the same engine."""
    if engine.settings is None:
        return Memory(clock).connect()
    name = f"{engine.settings.prefix}-2"
    settings = replace(engine.settings, prefix=name, bucket=f"{name}-payloads")
    provision(settings)
    return connect(settings)


def owner_rule(services: Services, name: str) -> Rule:
    revision = next(iter(services.schedules.history(schedule_owner("acme", name))))
    return revision.definition.rule


def claimed(services: Services, name: str, until: int) -> list[int]:
    rows = services.ledger.window(schedule_owner("acme", name), after=0, upto=until)
    return sorted(run.due for run in rows if run.ref.is_fire and not run.is_terminal)
