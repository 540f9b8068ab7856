"""The life of a schedule as its revisions and its head tell it: when it was active, paused, changed and deleted, and by whom.

revisions   1 ───────────►   2 ──►| (a change during the pause)        3 ─────────►
closed_by                                      active_from
└──────────── paused ──────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minutehand.domain.schedule import ClosedBy, Revision, ScheduleState
from minutehand.why.answer import Cause, Sentence, Verdict
from minutehand.why.facts import Facts, not_known, of_head, of_revision
from minutehand.why.words import show

STOPPED = (ClosedBy.PAUSED, ClosedBy.DELETED)


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A time in which a schedule had no active revision."""

    revision: Revision  # the one whose end it begins with
    since: int  # UTC ms
    until: int | None  # UTC ms; None: it goes on
    verdict: Verdict  # PAUSED or DELETED
    sure: bool  # whether the evidence tells a pause from a deletion


def by(row: Any) -> str:
    """`` by NAME``, where the row has the actor of its last change."""
    actor = getattr(row, "actor", None)
    return f" by {actor}" if actor else ""


def stop_at(facts: Facts, place: int) -> Stop:
    """The stop in which ``facts.at`` lies, beyond the end of the revision at ``place``."""
    first = place
    while first + 1 < len(facts.revisions) and _continues(facts.revisions[first + 1], facts.revisions[first]):
        first += 1
    revision = facts.revisions[first]
    since = revision.active_until or revision.active_from
    until = next((one.active_from for one in reversed(facts.revisions[:place]) if not _is_empty(one)), None)
    verdict, sure = _kind(facts, revision, until)
    return Stop(revision=revision, since=since, until=until, verdict=verdict, sure=sure)


def _is_empty(revision: Revision) -> bool:
    """Whether it was made while its schedule was paused."""
    return revision.active_until is not None and revision.active_until <= revision.active_from


def _continues(earlier: Revision, later: Revision) -> bool:
    """Whether the pause that the ``later`` revision lies in began with the end of the ``earlier`` one."""
    paused = earlier.closed_by in (ClosedBy.PAUSED, ClosedBy.DRAINED)
    return _is_empty(later) and paused


def _kind(facts: Facts, revision: Revision, until: int | None) -> tuple[Verdict, bool]:
    """Whether it was a pause or a deletion. The end of a revision stays as it is when a paused schedule is deleted."""
    head = facts.head
    if revision.closed_by is ClosedBy.DELETED:
        return Verdict.DELETED, True
    if head is None:
        return Verdict.PAUSED, False
    if until is None and head.state is ScheduleState.DELETED:  # deleted with drain, or after it had been paused
        deleted = facts.at > head.updated_at or head.updated_at <= (revision.active_until or 0)
        return (Verdict.DELETED if deleted else Verdict.PAUSED), True
    since = revision.active_until or 0
    created_anew = head.created_at > since
    return Verdict.PAUSED, not created_anew


def stop_sentences(facts: Facts, stop: Stop) -> Iterator[Sentence]:
    """What is known of a stop."""
    revision, head, verb = stop.revision, facts.head, "deleted" if stop.verdict is Verdict.DELETED else "paused"
    cause = Cause.DELETION if stop.verdict is Verdict.DELETED else Cause.PAUSE
    drained = " with drain" if revision.closed_by is ClosedBy.DRAINED else ""
    until = "; it still is" if stop.until is None else f" until {show(stop.until)}"
    who = by(revision)
    text = f"The schedule was {verb}{drained}{who} at {show(stop.since)}{until}."
    if stop.verdict is Verdict.DELETED and head is not None and stop.revision.closed_by is not ClosedBy.DELETED:
        yield of_head(head, f"The schedule was deleted{by(head)} at {show(head.updated_at)}.", cause)
        return
    yield of_revision(revision, text, cause)
    if head is not None and stop.until is None and stop.verdict is Verdict.PAUSED:
        if head.note:
            yield of_head(head, f"The note of the pause says: {head.note}")
        if head.resume_at is not None:
            yield of_head(head, f"The pause ends by itself at {show(head.resume_at)}.")
    if not stop.sure:
        yield not_known(
            f"The schedule was created anew at {show(facts.head.created_at if facts.head else 0)}: between the pause and that "
            "it was deleted, and no revision says when."
        )
    if not who:
        yield not_known("Who did it is not in the evidence that was read.")


def active_at(facts: Facts, place: int) -> bool:
    """Whether the revision at ``place`` was active at ``facts.at``."""
    until = facts.revisions[place].active_until
    return until is None or facts.at <= until


def stopped_since(facts: Facts, place: int) -> Revision | None:
    """The first revision from ``place`` on whose end stopped the schedule fully: what had not started by then is taken back."""
    later = reversed(facts.revisions[: place + 1])
    return next((one for one in later if one.closed_by in STOPPED and (one.active_until or 0) >= facts.at), None)


def replaced_by(facts: Facts, revision: Revision) -> Revision | None:
    return facts.revision(revision.number + 1)
