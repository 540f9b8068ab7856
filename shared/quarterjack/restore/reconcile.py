"""Plan and run the reconciliation of restored tables. Until it is through, neither ticker nor worker takes the tables.

    record: point, beginning, epoch ──► backfills ──► runs ──► schedules ──► chains ──► layout: these tables, epoch
         │ with the audit entry of the call                                                  the ticker may tick

The record is beside the runs. A restore that died goes on under the same record, and what is done gives no step. The layout of the
agenda names the tables for which it holds: those of another name were restored, and the layout still has the name of their source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from quarterjack.domain.audit import AuditAct, AuditEntryRow
from quarterjack.domain.message import reading
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.domain.times import from_ms
from quarterjack.errors import Conflict, InvalidInput, Misconfigured
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.context import FireContext
from quarterjack.ports.services import Services
from quarterjack.restore.fates import next_epoch
from quarterjack.restore.runs import open_runs, run_steps
from quarterjack.restore.schedules import all_heads, backfill_steps, chain_steps, schedule_steps
from quarterjack.restore.steps import Restore, RestoreStep, known_runs
from quarterjack.stores.records import Record
from quarterjack.values import replace, value

OWNER, KEY = "~quarterjack/~restore", "~restore"  # no tenant's: `~` begins no name


@value(kw_only=True)
class _Stored:
    """The record of the last restore of these tables."""

    version: int  # of the record; 0: there is none
    restore: Restore | None = None
    done: bool = False


def plan(point: int, context: FireContext, *, same_names: bool = False) -> Iterator[RestoreStep]:
    """The steps that ``run`` would take, none of which is applied. Writes nothing.

    ``point``: UTC ms, the earliest time that a table was restored to. ``same_names``: the tables have the names of those that they
    were restored from, which nothing but the caller can tell. Raises InvalidInput, Misconfigured, Unavailable.
    """
    restore, stored = _begun(point, context, same_names=same_names)
    if not stored.done:
        yield from _steps(restore, context)


def run(
    point: int,
    context: FireContext,
    *,
    same_names: bool = False,
    on_step: Callable[[RestoreStep], object] = lambda step: None,
) -> Restore:
    """Take all steps, each reported before it is applied, and then let the ticker tick. ``point``, ``same_names``: as for ``plan``.

    It may die at any moment, and be called again. Raises as ``plan`` does, and Conflict if somebody else writes to the tables.
    """
    services = context.services
    restore, stored = _begun(point, context, same_names=same_names)
    if stored.done:
        return restore
    if stored.restore != restore:
        audit = audit_entry(AuditAct.RESTORE, INSTALLATION, context, point=restore.point, epoch=restore.epoch)
        stored = _write(stored, restore, services, done=False, audit=audit)
    for step in _steps(restore, context):
        on_step(step)
        step.apply()
    if not services.agenda.adopt(restore.epoch):
        raise Conflict("the layout of the agenda was changed while it was restored; run it again")
    _write(stored, restore, services, done=True)
    return restore


def _begun(point: int, context: FireContext, *, same_names: bool) -> tuple[Restore, _Stored]:
    """The restore that is under way or over, or a new one; and its record, which has another restore or none if it is new."""
    services, now = context.services, context.clock()
    if point >= now:
        raise InvalidInput(
            "point", from_ms(point), "is not in the past", "give the earliest time that a table was restored to"
        )
    layout, stored = services.agenda.restored_layout(), _read(services)
    present = stored.restore
    if present is not None and present.point == point:
        services.agenda.restore()
        return present, stored
    if not (same_names or layout is None or services.agenda.is_restored(layout)):
        raise Misconfigured(
            f"the tables {services.agenda.name}-… were not restored under another name, or are reconciled already; if you "
            "restored them under the names that they had, pass --same-names"
        )
    services.agenda.restore()
    epochs = [layout.epoch if layout else 0, present.epoch if present else 0]
    return Restore(point=point, until=now, epoch=next_epoch(max(epochs), now)), replace(stored, done=False)


def _steps(restore: Restore, context: FireContext) -> Iterator[RestoreStep]:
    services = context.services
    heads = {head.owner: head for head in all_heads(services)}
    owners = sorted({*heads, *services.upkeep.revised()})
    known = known_runs(restore, services)
    yield from backfill_steps(list(heads.values()), context)
    yield from run_steps(restore, known, context)
    yield from schedule_steps(heads, owners, known, restore, context)
    yield from chain_steps(restore, context)


def _read(services: Services) -> _Stored:
    """The record, if it is of these tables: one of their source, or of an earlier restore to other names, says nothing."""
    record = services.records.read(OWNER, KEY)
    if record is None:
        return _Stored(version=0)
    with reading("record of the restore", {}):
        body = record.body
        restore = Restore(point=int(body["point"]), until=int(body["until"]), epoch=int(body["epoch"]))
        is_own = body["tables"] == services.agenda.name
        return _Stored(version=record.version, restore=restore if is_own else None, done=is_own and bool(body["done"]))


def _write(
    stored: _Stored, restore: Restore, services: Services, *, done: bool, audit: AuditEntryRow | None = None
) -> _Stored:
    body = {**vars(restore), "done": done, "tables": services.agenda.name}
    record = Record(owner=OWNER, key=KEY, version=stored.version + 1, body=body)
    if not services.records.write(record, audit):
        raise Conflict("another process restores these tables; let it end, or run it again")
    return _Stored(version=record.version, restore=restore, done=done)


def undecided(services: Services) -> Iterator[RunRow]:
    """The runs that wait for their owners' decisions."""
    return (run for run in open_runs(services) if run.is_undecided)
