"""The life of a schedule as its revisions and its head tell it: when it was active, paused, changed and deleted, and by whom.

revisions   1 ───────────►   2 ──►| (a change during the pause)        3 ─────────►
closed_by                                      active_from
└──────────── paused ──────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quarterjack.domain.audit import AuditAct, AuditEntryRow
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import ClosedBy, Freeze, Head, Revision, ScheduleState
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.why.answer import Cause, Sentence, Verdict, show
from quarterjack.why.facts import Facts, not_known, of_act, of_head, of_revision

STOPPED = (ClosedBy.PAUSED, ClosedBy.DELETED)
ACTS = 3 * DAY  # after the beginning of a stop, in which audit entries are read
AROUND = 2 * MINUTE  # before and after an act, in which its entry is looked for: clocks differ
_STOPPING = {AuditAct.PAUSE: Verdict.PAUSED, AuditAct.DELETE: Verdict.DELETED}


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A time in which a schedule had no active revision."""

    revision: Revision  # the one whose end it begins with
    since: int  # UTC ms
    until: int | None  # UTC ms; None: it goes on
    verdict: Verdict  # PAUSED or DELETED
    doubt: str | None = None  # why the evidence does not tell a pause from a deletion


def by(row: Revision | Head | Freeze | RunRow | AuditEntryRow) -> str:
    """`` by NAME`` of who made a revision or freeze, or did the last act on a head or run; nothing where that is not stored."""
    return f" by {row.actor}" if row.actor else ""


def closing_entry(facts: Facts, closed: Revision, *, drained: bool = False) -> AuditEntryRow | None:
    """The pause or deletion that ended a revision; ``drained``: that drained it, whatever has ended it anew since."""
    ended = closed.active_until or 0
    entries = [one for one in facts.entries if one.act in _STOPPING and one.before == closed.number]
    if drained or closed.closed_by in (ClosedBy.DRAINED, ClosedBy.PAUSED):  # a deletion came later, if there was one
        entries = [one for one in entries if one.act is AuditAct.PAUSE] or entries
    return min(entries, key=lambda entry: abs(entry.at - ended), default=None)


def who_closed(facts: Facts, closed: Revision) -> str:
    """`` by NAME`` of who ended a revision, where no audit entry tells; whoever made the next one, if that came in its place."""
    head = facts.head
    if closed.closed_by is ClosedBy.REPLACED:
        following = facts.revision(closed.number + 1)
        return "" if following is None else by(following)
    if closing_entry(facts, closed) is not None:  # told by ``on_closing``
        return ""
    last = head is not None and head.revision == closed.number and head.updated_at == closed.active_until
    return by(head) if head is not None and last else ""


def on_closing(facts: Facts, closed: Revision) -> Iterator[Sentence]:
    """Who ended a revision by a pause or a deletion, by which way and why; or that this is not known."""
    entry = closing_entry(facts, closed)
    if entry is not None:
        yield of_act(entry)
    elif not who_closed(facts, closed):
        yield not_known("Who did it is not in the evidence that was read.")


def stop_at(facts: Facts, place: int) -> Stop:
    """The stop in which ``facts.at`` lies, beyond the end of the revision at ``place``."""
    first = place
    while first + 1 < len(facts.revisions) and _continues(facts.revisions[first + 1], facts.revisions[first]):
        first += 1
    revision = facts.revisions[first]
    since = revision.active_until or revision.active_from
    until = next((one.active_from for one in reversed(facts.revisions[:place]) if not _is_empty(one)), None)
    verdict, doubt = _by_audit(facts, revision, facts.revisions[place].number) or _kind(facts, revision, until)
    return Stop(revision=revision, since=since, until=until, verdict=verdict, doubt=doubt)


def _is_empty(revision: Revision) -> bool:
    """Whether it was made while its schedule was paused."""
    return revision.active_until is not None and revision.active_until <= revision.active_from


def _continues(earlier: Revision, later: Revision) -> bool:
    """Whether the pause that the ``later`` revision lies in began with the end of the ``earlier`` one."""
    paused = earlier.closed_by in (ClosedBy.PAUSED, ClosedBy.DRAINED)
    return _is_empty(later) and paused


def _by_audit(facts: Facts, first: Revision, last: int) -> tuple[Verdict, None] | None:
    """Whether it was a pause or a deletion, by the audit entries; None if they do not say."""
    since = first.active_until or 0
    entries = [one for one in facts.entries if one.act in _STOPPING and first.number <= (one.before or 0) <= last]
    if facts.at > since + ACTS or not any(abs(entry.at - since) < AROUND for entry in entries):
        return None
    done = [entry for entry in entries if entry.at < facts.at] or [min(entries, key=_version)]
    return _STOPPING[max(done, key=_version).act], None


def _version(entry: AuditEntryRow) -> int:
    """The version of the head after an act: the order of acts, whatever clocks say."""
    return entry.version or 0


def _kind(facts: Facts, revision: Revision, until: int | None) -> tuple[Verdict, str | None]:
    """Whether it was a pause or a deletion, and what is doubtful about that.

    The end of a revision stays as it is when a paused schedule is deleted, and a full stop overwrites how it was drained.
    """
    head, since = facts.head, revision.active_until or 0
    assert head is not None
    if until is None and head.state is ScheduleState.DELETED:
        at_once = head.updated_at <= since
        if at_once or facts.at > head.updated_at:
            return Verdict.DELETED, None
        if revision.closed_by is ClosedBy.PAUSED:
            return Verdict.PAUSED, None
        then = show(head.updated_at)
        return (
            Verdict.PAUSED,
            f"Whether it was paused with drain then and deleted at {then}, or deleted twice, is not recorded.",
        )
    if revision.closed_by is ClosedBy.DELETED:
        return Verdict.DELETED, None
    if head.created_at > since:
        anew = f"The schedule was created anew at {show(head.created_at)}"
        return Verdict.PAUSED, f"{anew}: between the pause and that it was deleted, and no revision says when."
    return Verdict.PAUSED, None


def stop_sentences(facts: Facts, stop: Stop) -> Iterator[Sentence]:
    """What is known of a stop."""
    revision, head, verb = stop.revision, facts.head, "deleted" if stop.verdict is Verdict.DELETED else "paused"
    cause = Cause.DELETION if stop.verdict is Verdict.DELETED else Cause.PAUSE
    drained = " with drain" if revision.closed_by is ClosedBy.DRAINED else ""
    until = "; it still is" if stop.until is None else f" until {show(stop.until)}"
    if (
        stop.until is None
        and stop.verdict is Verdict.PAUSED
        and head is not None
        and head.state is ScheduleState.DELETED
    ):
        until = f", and deleted{by(head)} at {show(head.updated_at)}"
    text = f"The schedule was {verb}{drained}{who_closed(facts, revision)} at {show(stop.since)}{until}."
    if (
        stop.verdict is Verdict.DELETED
        and head is not None
        and stop.until is None
        and stop.since < head.updated_at < facts.at
    ):
        yield of_head(head, f"The schedule was deleted{by(head)} at {show(head.updated_at)}.", cause)
        return
    yield of_revision(revision, text, cause)
    if head is not None and stop.until is None and stop.verdict is Verdict.PAUSED:
        if head.reason:
            yield of_head(head, f"The reason of the pause: {head.reason}")
        if head.resume_at is not None:
            yield of_head(head, f"The pause ends by itself at {show(head.resume_at)}.")
    if stop.doubt is not None:
        yield not_known(stop.doubt)
    yield from on_closing(facts, revision)


def active_at(facts: Facts, place: int) -> bool:
    """Whether the revision at ``place`` was active at ``facts.at``."""
    until = facts.revisions[place].active_until
    return until is None or facts.at <= until


def stopped_since(facts: Facts, place: int) -> Revision | None:
    """The first revision from ``place`` on whose end stopped the schedule fully: what had not started by then is taken back."""
    later = reversed(facts.revisions[: place + 1])
    return next((one for one in later if one.closed_by in STOPPED and (one.active_until or 0) >= facts.at), None)
