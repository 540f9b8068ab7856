"""Plan a backfill: its interval, the definitions that count in it, how many fires they have, and why it would run nothing. Reads only.

Each reason is a sentence made from what is stored: revisions, rules, rows of the ledger. A pause is no reason, as its fires are backfilled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Head, Revision
from quarterjack.domain.times import DAY, from_ms
from quarterjack.errors import Conflict, InvalidInput
from quarterjack.fires.context import FireContext, revision_of
from quarterjack.owner.backfill.advance import BackfillMover
from quarterjack.owner.backfill.spans import one_definition, own_definitions, spread_of, survey
from quarterjack.owner.limits import check_backfill
from quarterjack.owner.schedules.client_tokens import ScheduleCall
from quarterjack.ports.services import Services
from quarterjack.state.backfill import MARGIN, BackfillOrder, DefinitionSpan, StoredBackfill, is_free
from quarterjack.timing import fires, previous, timetable
from quarterjack.timing.absence import absences
from quarterjack.timing.timetables import moment
from quarterjack.values import value

MOST_FIRES = 1_000_000  # of one backfill: counting takes the caller 10 µs each
_MAX_SPANS = 2_000  # definitions in one interval: its record holds them all, and each change of the window writes it
_MATCHES = 100  # times at which an expression matches that are explained, of each definition
_DEFINITIONS = 3  # that are explained, the newest
_COUNTED = 1_000  # fires
_AROUND = 400 * DAY  # ms, in which the fires before and after the interval are looked for


@value(kw_only=True)
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


def why_nothing(
    planned: StoredBackfill, mover: BackfillMover, existing: Counter[RunState], *, current: bool
) -> Sequence[str]:
    """The reasons, as sentences; none if there is something to run. ``existing`` counts the runs of its fires by state."""
    if existing.total() < planned.total:
        return ()
    if planned.total:
        states = ", ".join(f"{number:,} {state}" for state, number in existing.most_common())
        there = "Its fire has a run" if planned.total == 1 else f"All {planned.total:,} fires have runs"
        return (f"{there} ({states}): redrive() repeats a run that failed, replay_run() any run that has ended.",)
    return (*(_of_current(planned, mover) if current else _of_their_time(planned, mover)),)


def _of_current(planned: StoredBackfill, mover: BackfillMover) -> Iterator[str]:
    newest = _newest(mover)
    for span in one_definition(newest, planned.start - 1, planned.end - 1):
        yield from _no_fire(span, newest)


def _of_their_time(planned: StoredBackfill, mover: BackfillMover) -> Iterator[str]:
    after, upto, newest = planned.start - 1, planned.end - 1, _newest(mover)
    if after < planned.born:
        yield from _not_created(planned, mover, newest)
    history = [mover.revisions[number] for number in sorted(mover.revisions)]
    for span in own_definitions(history, after, upto)[-_DEFINITIONS:]:
        yield from _no_fire(span, mover.revisions[span.revision])


def _newest(mover: BackfillMover) -> Revision:
    return mover.revisions[max(mover.revisions)]


def _not_created(planned: StoredBackfill, mover: BackfillMover, newest: Revision) -> Iterator[str]:
    """About the part of the interval before the schedule was created."""
    zone = newest.definition.rule.timezone
    yield f"The schedule did not exist before {_show(planned.born, zone)}, when it was created."
    for revision in mover.context.services.schedules.history(planned.owner):
        if revision.active_from < planned.born and revision.closed_by is ClosedBy.DELETED:
            deleted = _show(revision.active_until or revision.active_from, zone)
            yield f"An earlier schedule of this name was deleted at {deleted}."
            break
    before = one_definition(newest, planned.start - 1, min(planned.end - 1, planned.born))
    tables = (
        (timetable(spread_of(newest.definition.rule, one), anchor=one.anchor, key=newest.owner), one) for one in before
    )
    found = sum(1 for _ in islice((f for table, one in tables for f in fires(table, one.after, one.upto)), _COUNTED))
    if found:
        number = f"{found} fire{'s' if found > 1 else ''}" if found < _COUNTED else f"{_COUNTED:,} fires or more"
        yield f"Its present definition has {number} there: pass current=True to run {'them' if found > 1 else 'it'}."
    else:
        yield "Its present definition has no fire there either."


def _no_fire(span: DefinitionSpan, revision: Revision) -> Iterator[str]:
    """Why a definition has no fire in its span."""
    rule, key = spread_of(revision.definition.rule, span), revision.owner
    texts = " and ".join(repr(text) for text in (rule.expression, *rule.also))
    between = f"between {_show(span.after + 1, rule.timezone)} and {_show(span.upto + 1, rule.timezone)}"
    found = absences(rule, span.after, span.upto, anchor=span.anchor, key=key, most=_MATCHES)
    if not found:
        table = timetable(rule, anchor=span.anchor, key=key)
        before = previous(table, span.after + 1, max(span.after - _AROUND, 0))
        coming = next(fires(table, span.upto, span.upto + _AROUND), None)
        near = (
            None if before is None else f"the fire before is due {_show(before, rule.timezone)}",
            None if coming is None else f"the one after {_show(coming, rule.timezone)}",
        )
        said = ", ".join(filter(None, near))
        yield f"No fire of {texts} in {rule.timezone} is due {between}{f': {said}' if said else ''}."
        return
    layers = Counter(absence.layer for absence in found)
    times = (
        f"{len(found)} time{'s' if len(found) > 1 else ''}" if len(found) < _MATCHES else f"{_MATCHES} times or more"
    )
    reasons = list[str]()
    for layer, number in layers.most_common():
        first = next(one for one in found if one.layer is layer)
        moved = "" if first.moved_to is None else f" (its fire is moved to {_show(first.moved_to, rule.timezone)})"
        reasons.append(f"{first.words}{moved}{f' (and {number - 1} more like it)' if number > 1 else ''}")
    yield f"{texts} in {rule.timezone} matches {times} {between}, and none is a fire: {'; '.join(reasons)}."


def _show(ms: int, zone: str) -> str:
    """An instant (UTC ms) in the schedule's zone."""
    text = moment(ms, zone).isoformat(sep=" ", timespec="seconds")
    return text.replace("+00:00", "Z") if zone == "UTC" else text
