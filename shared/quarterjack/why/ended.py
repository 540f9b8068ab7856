"""A run that has ended: how, and by whose will."""

from __future__ import annotations

from collections.abc import Iterator

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.options import Overlap
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import ClosedBy, Revision
from quarterjack.domain.tenants.access import NOT_GRANTED
from quarterjack.state.catch_up import WORD as GAP
from quarterjack.why.answer import Cause, Sentence, Verdict, exact, show, span
from quarterjack.why.delay import LATE, claim_delay, start_delay
from quarterjack.why.facts import Facts, not_known, of_act, of_revision, of_run
from quarterjack.why.no_run import Judgement, why_missed
from quarterjack.why.tasks import skipped_task
from quarterjack.why.timeline import STOPPED, by, on_closing, who_closed
from quarterjack.why.under_way import CLOSED, attempts, how_closed, marked, start

_ASKED = "requested"  # the reason of a run that its owner cancelled
_SKIPPED = "skip_next"  # the reason of a run that its owner skipped
_FLOW = "flow: "  # begins the reason of a run that found no permit of its flow, and does not wait
_OVERLAP = "overlap: "  # begins the reason of a run that the overlap policy passed over, or ended
_MISSED = "missed: "  # begins the reason of a run that the catch-up policy passed over
_UNKNOWN_JOB = "unknown job"
_DEAD = {
    NOT_GRANTED: ("its tenant might not run job {job!r}", Cause.NOT_GRANTED),
    _UNKNOWN_JOB: ("no worker knew job {job!r} for 15 minutes", Cause.UNKNOWN_JOB),
    "revision missing": ("the revision that defines it is missing", None),
    "payload missing": ("its payload is not there, or is another tenant's", None),
    "no attempt is left": ("its job allows fewer attempts than had begun", Cause.FAILURE),
    "worker vanished in the last attempt": ("its worker vanished in the last attempt", Cause.VANISHED),
}


def succeeded(facts: Facts, run: RunRow) -> Judgement:
    text = (
        f"It succeeded at {show(run.ended_at or 0)}, in attempt {run.attempt} of {run.max_attempts}, on {run.worker}."
    )
    late = (run.lateness or 0) > LATE and run.backfill is None
    note = [of_run(run, f"Its row notes: {run.reason}.")] if run.reason else []
    said = [of_run(run, text), *start(facts, run), *marked(facts, run), *attempts(facts, run), *note]
    return Verdict.RAN_LATE if late else Verdict.RAN, said


def dead(facts: Facts, run: RunRow) -> Judgement:
    reason, failure = run.reason or "no reason is recorded", run.failure
    words, cause = _DEAD.get(reason, (reason, Cause.FAILURE if run.attempt else None))
    text = f"It is DEAD since {show(run.ended_at or 0)}: {words.format(job=run.job) if reason in _DEAD else words}."
    if failure is not None and reason != _UNKNOWN_JOB:
        error = f"{failure.kind}: {failure.message}".removesuffix(": ").removesuffix(".")
        text = f"{text} Its last error was {error}."
    said = [of_run(run, text, cause), *_until_end(facts, run), *attempts(facts, run)]
    return Verdict.DEAD, [*said, *_redriven(facts, run), *_buried(run)]


def lost(facts: Facts, run: RunRow) -> Judgement:
    text = (
        f"It is delivered at most once, and its worker {run.worker} vanished: it is LOST since {show(run.ended_at or 0)} and never "
        "runs again. How far its job came is not known."
    )
    said = [of_run(run, text, Cause.VANISHED), *start(facts, run), *attempts(facts, run)]
    return Verdict.LOST, [*said, *_redriven(facts, run), *_buried(run)]


def expired(facts: Facts, run: RunRow) -> Judgement:
    ended = run.ended_at or facts.now
    late = span(max(ended - run.due, 0))
    when = "while it was parked" if was_parked(run) else "before an attempt could start"
    text = f"Its deadline passed {when}: it is EXPIRED since {show(ended)}, {late} after its time."
    said = [of_run(run, text, Cause.DEADLINE), *_until_end(facts, run), *attempts(facts, run)]
    return Verdict.EXPIRED, [*said, *_redriven(facts, run), *_buried(run)]


def was_parked(run: RunRow) -> bool:
    """Whether an ended run was parked at its end: it has no later lease."""
    return run.parked_at is not None and (run.leased_at or 0) <= run.parked_at


def _until_end(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """When it started; or that it never did, and what kept it."""
    if run.started_at is not None:
        if was_parked(run):
            yield of_run(run, f"It was parked since {show(run.parked_at or 0)}.")
        yield from start(facts, run)
        return
    yield of_run(run, f"It was due at {exact(run.due)} and never started.")
    yield from claim_delay(facts, run)
    if run.ended_at is not None and run.reason != _UNKNOWN_JOB:
        yield from start_delay(facts, run, run.ended_at)


def _buried(run: RunRow) -> Iterator[Sentence]:
    if run.buried_at is None:
        yield of_run(run, "The undertaker has not recorded it yet: its letter is on its way.")


def _redriven(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    again = facts.redriven
    if again is not None:
        text = f"It was redriven{by(again)} at {show(again.created_at)} as {again.ref}, which is {again.state}."
        yield Sentence(text=text, source=f"run {again.ref}")
    elif "redriven" not in facts.unread:
        text = "Not repeated yet (a replay by id would not show here)."
        yield Sentence(text=text, source=f"ledger of {run.ref.tenant}")


# By somebody's will.


def cancelled(facts: Facts, run: RunRow) -> Judgement:
    reason, ended = run.reason or "no reason is recorded", show(run.ended_at or 0)
    for closed in ClosedBy:
        if reason == closed:
            return _taken_back(facts, run, closed)
    if reason == _ASKED or (run.cancel_requested and not reason.startswith(_OVERLAP)):
        said = list(_on_request(facts, run))
        said += [] if reason == _ASKED else [of_run(run, f"Its row says: {reason}.")]
    elif reason.startswith(_OVERLAP):
        text = f"The overlap policy ended it at {ended}: {reason.removeprefix(_OVERLAP)}."
        said = [of_run(run, text, Cause.OVERLAP)]
    else:
        of_backfill = run.backfill is not None or "backfill" in reason
        said = [of_run(run, f"It was cancelled at {ended}: {reason}.", Cause.BACKFILL if of_backfill else None)]
    return Verdict.CANCELLED, [*said, *_until_end(facts, run), *attempts(facts, run)]


def _on_request(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """An owner asks so for one run; a later run under overlap=cancel_other, and the stop of a backfill, write the same."""
    began = "before it had started" if run.started_at is None else "after it had started"
    text = f"Its cancellation was requested {began}, and it ended at {show(run.ended_at or 0)}."
    entry = next((one for one in facts.entries if one.act is AuditAct.CANCEL and one.target == str(run.ref)), None)
    others = list(_other_requests(facts, run)) if entry is None else []
    if others:
        yield of_run(run, text)
        yield not_known(f"Whether cancel_run was called for it, or {' or '.join(others)}, is not recorded.")
        return
    yield of_run(run, f"{text} cancel_run was called for it.", Cause.OWNER)
    yield not_known("Who called it is not in the evidence that was read.") if entry is None else of_act(entry)


def _other_requests(facts: Facts, run: RunRow) -> Iterator[str]:
    """What else may have requested the end of a run."""
    if run.parent is not None:
        yield f"its parent, run {run.parent}, was cancelled"
    since = [one for one in facts.revisions if one.number >= run.revision]
    if any(one.definition.options.overlap is Overlap.CANCEL_OTHER for one in since):
        yield "a later run took its place (overlap=cancel_other)"
    if run.backfill is not None:
        yield f"its backfill {run.backfill} was stopped"


def _taken_back(facts: Facts, run: RunRow, closed: ClosedBy) -> Judgement:
    """A stop of its schedule refused it before it had started."""
    revision = _closing(facts, run, closed)
    drained = closed is ClosedBy.DRAINED
    verb, verdict, cause = CLOSED[closed] if revision is None else how_closed(facts, revision, drained=drained)
    text = f"It was taken back at {show(run.ended_at or 0)}, before it had started, because its schedule was {verb}."
    said = [of_run(run, text, cause)]
    if revision is not None and revision.active_until is not None:
        text = f"The schedule was {verb}{who_closed(facts, revision)} at {show(revision.active_until)}."
        said += [
            of_revision(revision, text),
            *on_closing(facts, revision),
            *_before_stop(facts, run, revision.active_until),
        ]
    return verdict, said


def _closing(facts: Facts, run: RunRow, closed: ClosedBy) -> Revision | None:
    """The first revision from the run's own on that ended so."""
    later = [one for one in reversed(facts.revisions) if one.number >= run.revision]
    found = next((one for one in later if one.closed_by is closed), None)
    if found is None and closed is ClosedBy.DRAINED:  # a full stop has overwritten how it ended
        found = next((one for one in later if one.closed_by in STOPPED), None)
    return found


def _before_stop(facts: Facts, run: RunRow, stopped: int) -> Iterator[Sentence]:
    """Why a run that was due before the stop had not started by then."""
    if stopped - run.due > LATE:
        yield of_run(run, f"It had been due since {exact(run.due)}, {span(stopped - run.due)} before that.")
        yield from claim_delay(facts, run)
        yield from start_delay(facts, run, stopped)


def superseded(facts: Facts, run: RunRow) -> Judgement:
    text = f"It was taken back at {show(run.ended_at or 0)}, before it had started, because its schedule was changed."
    said = [of_run(run, text, Cause.CHANGE)]
    old = _closing(facts, run, ClosedBy.REPLACED)
    new = None if old is None else facts.revision(old.number + 1)
    if old is not None and new is not None:
        text = f"Revision {new.number} replaced revision {old.number}{by(new)} at {show(new.active_from)}, which had claimed the fire."
        said.append(of_revision(new, text))
    return Verdict.CHANGED, said


def skipped(facts: Facts, run: RunRow) -> Judgement:
    reason, ended = run.reason or "no reason is recorded", show(run.ended_at or 0)
    if (of_task := skipped_task(facts, run)) is not None:
        return of_task
    if reason == _SKIPPED:
        text = f"Its owner skipped it{by(run)} at {ended}: it was the next fire when skip_next was called."
        entries = [of_act(one) for one in facts.entries if one.act is AuditAct.SKIP and one.target == str(run.ref)]
        return Verdict.SKIPPED, [of_run(run, text, Cause.OWNER), *entries]
    if reason.startswith(_OVERLAP):
        text = f"The overlap policy passed it over at {ended}: {reason.removeprefix(_OVERLAP)}."
        return Verdict.OVERLAPPED, [of_run(run, text, Cause.OVERLAP), *claim_delay(facts, run)]
    if reason.startswith(_FLOW):
        text = f"Its flow passed it over at {ended}: {reason.removeprefix(_FLOW)}."
        return Verdict.SKIPPED, [of_run(run, text, Cause.CONCURRENCY), *claim_delay(facts, run)]
    if reason.startswith(_MISSED) or run.act == GAP:
        text = f"The fire was missed, and the catch-up policy passed it over ({reason.removeprefix(_MISSED)})."
        return Verdict.MISSED, [of_run(run, text, Cause.CATCH_UP), *why_missed(facts, run)]
    return Verdict.SKIPPED, [of_run(run, f"It was skipped at {ended}: {reason}.")]


def shadowed(facts: Facts, run: RunRow) -> Judgement:
    reached = run.started_at or run.due
    text = f"Its schedule runs in shadow mode: a worker had it at {show(reached)}, and its job was not started."
    said = [of_run(run, text, Cause.SHADOW), *claim_delay(facts, run), *start_delay(facts, run, reached)]
    return Verdict.SHADOWED, said
