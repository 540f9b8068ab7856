"""A fire without a row in the ledger: either the rule has no such fire, or its fate follows from other evidence."""

from __future__ import annotations

from collections.abc import Iterator

from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import ClosedBy, Revision, ScheduleState
from quarterjack.domain.times import DAY, MINUTE, from_ms
from quarterjack.errors import ExpressionError
from quarterjack.fires.context import LOOKAHEAD, REACH
from quarterjack.state.backpressure import GRACE
from quarterjack.timing import previous, rows, timetable
from quarterjack.timing.absence import Absence, Layer, absence
from quarterjack.why.answer import Cause, Sentence, Verdict, count, exact, show, span
from quarterjack.why.facts import Facts, by_rule, not_known, of_agenda, of_head, of_revision, of_run
from quarterjack.why.holds import broken_between, broken_now, freeze_ahead, held_now
from quarterjack.why.timeline import active_at, by, on_closing, stop_at, stop_sentences, stopped_since, who_closed

Judgement = tuple[Verdict, list[Sentence]]

BEHIND = 2 * MINUTE  # an entry that has been due so long means that the ticker is behind: ticks may be 119 s apart
_CAUSES = {
    Layer.EXPRESSION: Cause.EXPRESSION,
    Layer.CLOCKS: Cause.CLOCK_CHANGE,
    Layer.EXCLUSION: Cause.EXCLUSION,
    Layer.HOLIDAY: Cause.HOLIDAY,
    Layer.START: Cause.BOUNDS,
    Layer.END: Cause.BOUNDS,
    Layer.MAX_FIRES: Cause.BOUNDS,
    Layer.SPREAD: Cause.SPREAD,
}
_STOPS = {
    ClosedBy.PAUSED: ("paused", Verdict.PAUSED, Cause.PAUSE),
    ClosedBy.DELETED: ("deleted", Verdict.DELETED, Cause.DELETION),
}
_EARLIER = 5  # revisions before the current one that are asked whether they had the fire
_SEARCHED = 400 * DAY  # before an instant, in which the fire before it is looked for


def without_run(facts: Facts) -> Judgement:
    """The judgement about an instant that has no run."""
    if facts.gaps:
        return passed_over(facts)
    if facts.governing is None:
        return _before_all(facts)
    revision = facts.revisions[facts.governing]
    missing = absence_of(revision, facts.at)
    if active_at(facts, facts.governing):
        return _no_fire(facts, revision, missing) if missing else _unclaimed(facts, revision)
    stop = stop_at(facts, facts.governing)
    said = list(stop_sentences(facts, stop))
    if missing is None:
        return stop.verdict, said
    return Verdict.NO_FIRE, [*_why_absent(facts, revision, missing), *said]


def absence_of(revision: Revision, at: int) -> Absence | None:
    """Why an instant is no fire of a revision's rule, whatever its interval; None: it is one."""
    return absence(revision.definition.rule, at, anchor=revision.counts_from, key=revision.owner)


def _before_all(facts: Facts) -> Judgement:
    head = facts.head
    if head is not None and head.retired_at is not None:
        deleted, retired = show(head.updated_at), show(head.retired_at)
        text = f"The schedule was deleted at {deleted}; a retention later, at {retired}, its definition was removed."
        gone = [of_head(head, text, Cause.DELETION)]
        if facts.at > head.updated_at:
            return Verdict.DELETED, gone
        return Verdict.UNKNOWN, [*gone, not_known("What it had been is not known any more.")]
    if not facts.revisions or not facts.all_revisions:
        known = count(len(facts.revisions), "revision")
        text = f"Only the newest {known} of the schedule were read, and all of them began later."
        return Verdict.UNKNOWN, [not_known(text)]
    first = facts.revisions[-1]
    text = f"The schedule did not exist yet: it was created{by(first)} at {show(first.active_from)}."
    return Verdict.NOT_CREATED, [of_revision(first, text, Cause.NOT_CREATED)]


# Missed fires.


def passed_over(facts: Facts) -> Judgement:
    """The fire lies among missed fires for which one row stands."""
    gap = facts.gaps[0]
    policy = (gap.reason or "").removeprefix("missed: ")
    text = f"The fire was missed, and the catch-up policy passed it over ({policy})."
    if gap.skipped != 1:
        first, last = exact(gap.due), exact(gap.skipped_until or gap.due)
        text = f"{text} It is one of the {gap.skipped:,} between {first} and {last} for which this row stands."
    return Verdict.MISSED, [of_run(gap, text, Cause.CATCH_UP), *why_missed(facts, gap)]


def why_missed(facts: Facts, row: RunRow) -> Iterator[Sentence]:
    """Why the fire for which a SKIPPED row stands was handled late. With ``automatic_backfill`` the fires of a pause are missed ones."""
    recorded = row.created_at if row.skipped_until is not None else row.ended_at or row.created_at
    late = f"The ticker recorded so at {show(recorded)}, {span(max(recorded - facts.at, 0))} after this fire."
    revision = None if facts.governing is None else facts.revisions[facts.governing]
    if revision is not None and resumed_from_pause(facts, revision) is not None:
        text = "It was due while the schedule was paused: with automatic_backfill such fires count as missed."
        yield of_revision(revision, text, Cause.PAUSE)
        yield of_run(row, late)
        return
    broken = list(broken_between(facts, facts.at, recorded, grace=GRACE))
    yield of_run(row, late, None if broken else Cause.TICKER)
    if broken:
        yield from broken
        return
    yield not_known("Why the ticker was late is not recorded: it was down, throttled, or behind.")


def resumed_from_pause(facts: Facts, revision: Revision) -> Revision | None:
    """The revision whose end began the pause that this one counts as missed; None: it does not begin with a pause."""
    before = facts.revision(revision.number - 1)
    if before is None or not revision.definition.options.automatic_backfill:
        return None
    paused = before.closed_by in (ClosedBy.PAUSED, ClosedBy.DRAINED)
    return before if paused and (before.active_until or 0) >= revision.active_from else None


# No such fire.


def _no_fire(facts: Facts, revision: Revision, missing: Absence) -> Judgement:
    said = list(_why_absent(facts, revision, missing))
    earlier = _had_it_before(facts, revision)
    if earlier is not None:
        text = (
            f"Revision {earlier.number} would have had a fire at {exact(facts.at)}. It was replaced{by(revision)} "
            f"at {show(earlier.active_until or 0)}, and revision {revision.number} has none then."
        )
        return Verdict.CHANGED, [of_revision(revision, text, Cause.CHANGE), *said]
    later = facts.revisions[0]
    if later is not revision and later.closed_by is None and absence_of(later, facts.at) is None:
        text = (
            f"The present rule of the schedule has a fire then, but only since revision {later.number} "
            f"began{by(later)} at {show(later.active_from)}."
        )
        return Verdict.CHANGED, [of_revision(later, text, Cause.CHANGE), *said]
    return Verdict.NO_FIRE, said


def _had_it_before(facts: Facts, revision: Revision) -> Revision | None:
    """An earlier revision that a change replaced and whose rule has the fire."""
    for number in range(revision.number - 1, revision.number - 1 - _EARLIER, -1):
        earlier = facts.revision(number)
        if earlier is None or earlier.closed_by is not ClosedBy.REPLACED:
            return None
        if absence_of(earlier, facts.at) is None:
            return earlier
    return None


def _why_absent(facts: Facts, revision: Revision, missing: Absence) -> Iterator[Sentence]:
    text = f"The schedule has no fire at {exact(facts.at)}, because {missing.words}."
    yield by_rule(revision, text, _CAUSES[missing.layer])
    if missing.moved_to is not None:
        yield by_rule(revision, f"The fire of {exact(missing.moved_to)} stands for it.")
    yield by_rule(revision, _nearest(revision, facts.at))
    head = facts.head
    if head is not None and head.state is ScheduleState.COMPLETED and facts.at >= head.updated_at:
        yield of_head(head, f"The schedule was complete at {show(head.updated_at)}: its rule has no further fire.")


def _nearest(revision: Revision, at: int) -> str:
    """The fires before and after an instant."""
    table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
    try:
        before = previous(table, at, max(revision.active_from + 1, at - _SEARCHED))
        after = table.next(max(at, revision.active_from))
    except ExpressionError:  # every fire to come is excluded
        before = after = None
    if after is not None and revision.active_until is not None and after > revision.active_until:
        after = None
    earlier = "there is none before it" if before is None else f"the one before it is {exact(before)}"
    later = "there is none after it" if after is None else f"the next one is {exact(after)}"
    return f"Of the fires of revision {revision.number}, {earlier}, and {later}."


# A fire without a row.


def _unclaimed(facts: Facts, revision: Revision) -> Judgement:
    assert facts.governing is not None
    if facts.at > facts.now:
        return Verdict.UPCOMING, list(_to_come(facts, revision))
    if facts.at <= facts.now - facts.retention or (_may_be_gone(facts) and _is_passed(facts)):
        return Verdict.GONE, [_too_old(facts, revision)]
    stop = stopped_since(facts, facts.governing)
    if stop is not None:
        verb, verdict, cause = _STOPS[stop.closed_by or ClosedBy.PAUSED]
        text = (
            f"The schedule was {verb}{who_closed(facts, stop)} at {show(stop.active_until or 0)}, before the fire of "
            f"{exact(facts.at)} was claimed: a fire that had not started by then does not start."
        )
        return verdict, [of_revision(stop, text, cause), *on_closing(facts, stop)]
    return _not_handled(facts, revision)


def _may_be_gone(facts: Facts) -> bool:
    """Whether a row may have left: a run is claimed up to a quarter of an hour before its time, and may end then."""
    return facts.at <= facts.now - facts.retention + REACH + LOOKAHEAD


def _is_passed(facts: Facts) -> bool:
    return facts.chain is not None and facts.chain.passed


def _too_old(facts: Facts, revision: Revision) -> Sentence:
    text = (
        f"{exact(facts.at)} was a fire of revision {revision.number}, {span(facts.now - facts.at)} ago. Rows leave the "
        f"ledger {span(facts.retention)} after their end, so nothing there tells what became of it."
    )
    return Sentence(text=text, source="retention of the ledger", cause=Cause.RETENTION)


def _to_come(facts: Facts, revision: Revision) -> Iterator[Sentence]:
    left = span(facts.at - facts.now)
    yield by_rule(revision, f"The fire is still to come, in {left}, at {exact(facts.at)}.")
    yield from clock_change(revision, facts.at)
    yield from chain_trouble(facts)
    yield from freeze_ahead(facts)


def clock_change(revision: Revision, at: int) -> Iterator[Sentence]:
    """If a change of the clocks has to do with a fire."""
    rule = revision.definition.rule
    try:
        found = [row for row in rows(rule, after=from_ms(at - 1), count=1, key=revision.owner) if row.kind == "fire"]
    except ExpressionError:
        return
    if found and found[0].at == from_ms(at) and found[0].note:
        wall = f"{found[0].at:%H:%M:%S} in {rule.timezone}"
        yield by_rule(revision, f"The fire of {exact(at)} ({wall}): {found[0].note}.", Cause.CLOCK_CHANGE)


def chain_trouble(facts: Facts) -> Iterator[Sentence]:
    """What is wrong with the chain that will claim, or should have claimed, the fire."""
    chain = facts.chain
    if chain is not None and chain.quarantined:
        text = (
            "The schedule's entry was moved aside, because handling it failed ten times: see the ticker's log, then "
            "update the schedule, or pause and resume it."
        )
        yield of_agenda(text, Cause.QUARANTINE)
    if chain is not None and chain.missing:
        text = (
            "The schedule has no entry in the agenda: `quarterjack audit` puts it back, as the auditor does every hour."
        )
        yield of_agenda(text, Cause.CHAIN_MISSING)
    oldest = None if chain is None else chain.oldest
    is_held = any(broken_now(facts))
    if oldest is not None and facts.now - oldest.due > BEHIND and not is_held:
        late = span(facts.now - oldest.due)
        text = f"The first entry of the schedule's shard has been due since {show(oldest.due)}, for {late}: the ticker is behind."
        yield of_agenda(text, Cause.TICKER)


def _not_handled(facts: Facts, revision: Revision) -> Judgement:
    """The fire is due, its revision was active, and there is no row."""
    late, chain = span(facts.now - facts.at), facts.chain
    if chain is None:
        return Verdict.UNKNOWN, [
            not_known("The fire has no run yet, and the agenda, which could tell why, was not read.")
        ]
    if chain.passed:
        text = (
            f"{exact(facts.at)} was a fire of revision {revision.number}, which was active, and its chain is past it."
        )
        lost = (
            "The ledger has no row of the fire: it was removed, or the auditor, which puts it back every hour, has not come "
            "to it yet (`quarterjack audit` does so at once)."
        )
        return Verdict.UNKNOWN, [of_agenda(text), not_known(lost)]
    text = f"The fire has been due for {late}, since {exact(facts.at)}, and the ticker has not claimed it yet."
    held = [*held_now(facts), *broken_now(facts)]
    cause = None if held or chain.quarantined else Cause.TICKER
    entry = "" if chain.entry is None else f" Its entry is in the agenda, due {exact(chain.entry)}."
    said = [of_agenda(f"{text}{entry}", cause), *held, *chain_trouble(facts)]
    if chain.unknown:
        said.append(of_agenda("So many entries are due before its own that they were not all read."))
    return Verdict.NOT_CLAIMED, said
