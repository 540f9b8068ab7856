"""Plan a backfill: its interval, the definitions that count in it, and how many fires they have. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Head, Revision
from quarterjack.domain.times import from_ms
from quarterjack.errors import Conflict, InvalidInput
from quarterjack.fires.context import FireContext, revision_of
from quarterjack.owner.backfill.advance import BackfillMover
from quarterjack.owner.limits import check_backfill
from quarterjack.owner.schedules.client_tokens import ScheduleCall
from quarterjack.ports.services import Services
from quarterjack.state.backfill import (
    MARGIN,
    BackfillOrder,
    StoredBackfill,
    is_free,
    one_definition,
    own_definitions,
    survey,
)
from quarterjack.timing import fires

MOST_FIRES = 1_000_000  # of one backfill: counting takes the caller 10 µs each
_MAX_SPANS = 2_000  # definitions in one interval: its record holds them all, and each change of the window writes it


@dataclass(frozen=True, kw_only=True)
class BackfillSpec:
    """The arguments of a backfill."""

    start: int  # UTC ms, inclusive
    end: int  # UTC ms, exclusive
    order: BackfillOrder
    concurrency: int
    payload: str | None = None  # JSON text for every run, instead of its definition's
    current: bool = False  # the current definition for the whole interval
    allow_repeat: bool = False


def plan(
    call: ScheduleCall, spec: BackfillSpec, identity: str, context: FireContext
) -> tuple[StoredBackfill, BackfillMover]:
    """The backfill as it would be started, without its payload, and its definitions.

    Raises NotFound, InvalidInput, Conflict, Unavailable.
    """
    services, now = context.services, context.clock()
    head = call.read(services)
    oldest = now - services.retention + MARGIN
    if spec.start < oldest and not spec.allow_repeat:
        raise InvalidInput(
            "start",
            from_ms(spec.start).isoformat(),
            "is longer ago than the ledger remembers, so a fire that has run could run again",
            f"start at {from_ms(oldest).isoformat()} or later, or pass allow_repeat=True",
        )
    after, upto = spec.start - 1, spec.end - 1
    if spec.current:
        revisions = [revision_of(head, services)]
        spans = one_definition(revisions[0], after, upto)
    else:
        revisions = list(_history(head, after, services))[::-1]
        if not revisions:
            raise Conflict(f"name={head.name!r}: it was deleted meanwhile; nothing is backfilled")
        spans = own_definitions(revisions, after, upto)
    mover = BackfillMover(head.owner, None, context, revisions={r.number: r for r in revisions})
    found, total, first, last = survey(spans, mover.table, MOST_FIRES)
    if total > MOST_FIRES:
        raise InvalidInput(
            "end",
            from_ms(spec.end).isoformat(),
            f"gives the backfill more than {MOST_FIRES:,} fires",
            f"backfill it in parts: the {MOST_FIRES:,}th fire is at {from_ms(last or 0).isoformat()}",
        )
    check_backfill(head.tenant, total, context)
    if len(found) > _MAX_SPANS:
        raise InvalidInput(
            "start",
            from_ms(spec.start).isoformat(),
            f"lies {len(found):,} changes of the schedule ago",
            f"backfill it in parts of at most {_MAX_SPANS:,} changes, or pass current=True",
        )
    backfill = StoredBackfill(
        id=identity,
        tenant=head.tenant,
        name=head.name,
        born=head.created_at,
        start=spec.start,
        end=spec.end,
        order=spec.order,
        concurrency=spec.concurrency,
        spans=tuple(found),
        total=total,
        first=first,
        last=last,
        created_at=now,
        allow_repeat=spec.allow_repeat,
    )
    return backfill, mover


def _history(head: Head, after: int, services: Services) -> Iterator[Revision]:
    """The revisions of this schedule, and not of a deleted one of its name, that fires after an instant can be of; newest first."""
    for revision in services.schedules.history(head.owner):
        if revision.active_from < head.created_at or revision.closed_by is ClosedBy.DELETED:
            return
        yield revision
        if revision.active_from <= after:
            return


def count_existing(backfill: StoredBackfill, mover: BackfillMover) -> Counter[RunState]:
    """The fires of a planned backfill that have a run and would be skipped, by its state. Reads the ledger's rows of the interval."""
    rows = mover.context.services.ledger.window(backfill.owner, after=backfill.start - 1, upto=backfill.end - 1)
    taken, found = _next_taken(rows), Counter[RunState]()
    for fire in (f for span in backfill.spans for f in fires(mover.table(span), span.after, span.upto)):
        while taken is not None and taken.due < fire:
            taken = _next_taken(rows)
        if taken is None:
            break
        if taken.due == fire:
            found[taken.state] += 1
    return found


def _next_taken(rows: Iterator[RunRow]) -> RunRow | None:
    return next((run for run in rows if run.ref.is_fire and not is_free(run)), None)
