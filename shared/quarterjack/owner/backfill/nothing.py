"""Why a backfill would run nothing: the schedule did not exist, its definition has no fire in the interval, or all fires have runs.

Each sentence is made from what is stored: revisions, rules, rows of the ledger. A pause is no reason, as its fires are backfilled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from quarterjack.domain.run import RunState
from quarterjack.domain.schedule import ClosedBy, Revision
from quarterjack.domain.times import DAY
from quarterjack.owner.backfill.advance import BackfillMover
from quarterjack.state.backfill import DefinitionSpan, StoredBackfill, one_definition, own_definitions, spread_of
from quarterjack.timing import fires, previous, timetable
from quarterjack.timing.absence import absences
from quarterjack.timing.timetables import moment

_MATCHES = 100  # times at which an expression matches that are explained, of each definition
_DEFINITIONS = 3  # that are explained, the newest
_COUNTED = 1_000  # fires
_AROUND = 400 * DAY  # ms, in which the fires before and after the interval are looked for


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
