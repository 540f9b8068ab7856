"""A one-off is moved with its agenda entry and the line of the audit, or not at all."""

from __future__ import annotations

from dataclasses import replace

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.run import AgendaEntry, EntryKind, RunState
from quarterjack.domain.times import HOUR
from quarterjack.ports.services import Services
from quarterjack.state.before_start import reschedule
from quarterjack.state.lease import lease

from tests.support.builders import NOON, a_one_off, an_audit_entry


def entry(run: str, due: int) -> AgendaEntry:
    return AgendaEntry(shard=0, due=due, kind=EntryKind.RUN, id=run, created_at=NOON)


def test_row_entries_and_line_change_together(services: Services) -> None:
    run = a_one_off("moved", payload='"' + "x" * 1_000 + '"')
    assert services.ledger.submit(run) is None
    old, new = entry(str(run.ref), NOON), entry(f"{run.ref}#1", NOON + HOUR)
    assert services.agenda.put([old])
    move = reschedule(revision=run.revision, due=NOON + HOUR)

    def moved() -> bool:
        line = an_audit_entry(str(run.ref), act=AuditAct.RESCHEDULE)
        answer = services.ledger.reschedule(run.ref, move, put=new, remove=old, audit=line)
        assert answer.run is not None
        assert (answer.run.due, answer.run.revision) == (NOON + HOUR, 1)
        return answer.applied

    def there() -> list[AgendaEntry]:
        return list(services.agenda.due(0, upto=NOON + HOUR, after=None, limit=9).entries)

    assert moved()
    assert there() == [new]
    row = services.ledger.read(run.ref)
    assert row is not None
    assert (row.due, row.not_before, row.payload) == (NOON + HOUR, NOON + HOUR, run.payload)
    assert services.agenda.remove([new])
    assert moved(), "the row shows that this very move took effect"
    assert there() == [], "and nothing is written again"


def test_what_began_meanwhile_stays_as_it_is(services: Services) -> None:
    run = a_one_off("begun")
    assert services.ledger.submit(run) is None
    old = entry(str(run.ref), NOON)
    assert services.agenda.put([old])
    services.ledger.move(
        run.ref,
        lease(revision=run.revision, now=run.not_before, token="t", worker="w", max_attempts=3, steal=False),
    )
    line = an_audit_entry(str(run.ref), act=AuditAct.RESCHEDULE)
    move = reschedule(revision=run.revision, due=NOON + HOUR)
    answer = services.ledger.reschedule(
        run.ref,
        move,
        put=entry(f"{run.ref}#1", NOON + HOUR),
        remove=old,
        audit=replace(line, id="000001" + line.id[6:]),
    )
    assert answer.run is not None
    assert (answer.applied, answer.run.state) == (False, RunState.RUNNING)
    assert [one.id for one in services.agenda.due(0, upto=NOON + HOUR, after=None, limit=9).entries] == [old.id]
