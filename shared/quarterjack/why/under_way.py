"""A run that has not ended: it is to come, it waits, or a worker has it."""

from __future__ import annotations

from collections.abc import Iterator

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.run import FailedAttemptRow, RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Revision, ScheduleState
from quarterjack.state.lease import has_live_lease, last_renewal, takeable_at
from quarterjack.state.overlap import waits_in_turn
from quarterjack.state.refusal import refused_by
from quarterjack.state.waits.park import WOKEN
from quarterjack.why.answer import Cause, Sentence, Verdict, count, exact, show, span
from quarterjack.why.delay import LATE, claim_delay, start_delay
from quarterjack.why.facts import Facts, not_known, of_revision, of_run
from quarterjack.why.holds import freeze_ahead
from quarterjack.why.no_run import Judgement, absence_of, clock_change
from quarterjack.why.timeline import active_at, closing_entry, who_closed
from quarterjack.why.workers import of_job, of_queue, of_version, of_worker

VANISHED = "WorkerVanished"  # kind of the failure of an attempt whose worker was not heard of
CLOSED = {
    ClosedBy.PAUSED: ("paused", Verdict.PAUSED, Cause.PAUSE),
    ClosedBy.DELETED: ("deleted", Verdict.DELETED, Cause.DELETION),
    ClosedBy.DRAINED: ("paused or deleted with drain", Verdict.PAUSED, Cause.PAUSE),
    ClosedBy.REPLACED: ("changed", Verdict.CHANGED, Cause.CHANGE),
}


def queued(facts: Facts, run: RunRow) -> Judgement:
    ending = _about_to_end(facts, run)
    if ending is not None:
        return ending
    claimed = f"It was claimed at {show(run.created_at)}"
    claimed += "" if (moved := rescheduled(run)) is None else f". {moved}"
    if run.not_before > facts.now:
        text = f"It is to come, in {span(run.not_before - facts.now)}, at {exact(run.not_before)}. {claimed}."
        return Verdict.UPCOMING, [of_run(run, text), *marked(facts, run), *freeze_ahead(facts), *of_job(facts, run)]
    waits = span(facts.now - run.due)
    said = [of_run(run, f"It has been due for {waits}, since {exact(run.due)}, and has not started. {claimed}.")]
    said += claim_delay(facts, run)
    said += [*of_version(facts, run), *of_job(facts, run)]
    frozen = [] if waits_in_turn(run) else list(freeze_ahead(facts))
    return Verdict.WAITING, [*said, *(frozen or start_delay(facts, run, facts.now))]


def _about_to_end(facts: Facts, run: RunRow) -> Judgement | None:
    """Whether a change of its schedule does not let the run start: the call that made it, or a worker, is about to write so."""
    if not run.ref.is_fire or _is_taken_over(facts, run):
        return None
    for one in reversed(facts.revisions):
        refusal = refused_by(one, run.due) if one.number >= run.revision else None
        if refusal is not None:
            verb, verdict, cause = how_closed(facts, one)
            text = (
                f"The schedule was {verb}{who_closed(facts, one)} at {show(one.active_until or 0)}, before the run had "
                "started: it is about to be taken back."
            )
            return verdict, [of_revision(one, text, cause)]
    return None


def how_closed(facts: Facts, closed: Revision, *, drained: bool = False) -> tuple[str, Verdict, Cause]:
    """What ended a revision. ``drained``: it was drained then, whatever has ended it anew since."""
    if closed.closed_by is not ClosedBy.DRAINED and not drained:
        return CLOSED[closed.closed_by or ClosedBy.REPLACED]
    entry, head = closing_entry(facts, closed, drained=True), facts.head
    if entry is not None:
        deleted = entry.act is AuditAct.DELETE
    elif head is not None and head.revision == closed.number and closed.closed_by is ClosedBy.DRAINED:
        deleted = head.state is ScheduleState.DELETED
    else:
        return CLOSED[ClosedBy.DRAINED]
    if deleted:
        return "deleted with drain", Verdict.DELETED, Cause.DELETION
    return "paused with drain", Verdict.PAUSED, Cause.PAUSE


def _is_taken_over(facts: Facts, run: RunRow) -> bool:
    """Whether a newer revision has the fire of the run, so that the ticker is about to take it over."""
    if facts.governing is None:
        return False
    revision = facts.revisions[facts.governing]
    newer = revision.number > run.revision and active_at(facts, facts.governing)
    return newer and absence_of(revision, facts.at) is None


def marked(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """If a change of the clocks has to do with the fire of the run."""
    revision = facts.defining
    if revision is not None and run.ref.is_fire:
        yield from clock_change(revision, run.due)


def running(facts: Facts, run: RunRow) -> Judgement:
    heard, attempt = last_renewal(run.lease_until or 0), f"Attempt {run.attempt} of {run.max_attempts}"
    began = f"began on {run.worker} at {show(run.leased_at or 0)}"
    if has_live_lease(run, facts.now):
        done = "" if run.progress is None else f" It is {run.progress:.0%} done."
        stage = f" Its stage: {run.stage}." if run.stage else ""
        text = f"{attempt} {began} and goes on; its last heartbeat was at {show(heard)}.{done}{stage}"
        verdict, said = Verdict.RUNNING, [of_run(run, text)]
    else:
        silent, free = span(facts.now - heard), show(takeable_at(run.lease_until or 0))
        text = (
            f"{attempt} {began}. The worker was last heard of at {show(heard)}, {silent} ago: it died, stalled or was cut off. "
            f"Another worker may take the run since {free}; one that is delivered at most once is LOST instead."
        )
        verdict, said = Verdict.VANISHED, [of_run(run, text, Cause.VANISHED), *of_worker(facts, run)]
    if run.cancel_requested:
        said.append(of_run(run, "Its cancellation is requested: no further attempt starts."))
    return verdict, [*said, *start(facts, run), *attempts(facts, run)]


def between(facts: Facts, run: RunRow) -> Judgement:
    """RETRYING or CONTINUED."""
    if run.state is RunState.CONTINUED and run.reason == WOKEN:
        said = [of_run(run, f"Its wait of {show(run.parked_at or 0)} is over, and its next slice has not begun.")]
    elif run.state is RunState.CONTINUED:
        said = [of_run(run, f"Slice {run.slices} ended at its checkpoint, and the next one has not begun.")]
    elif run.reason == "released":
        text = "A worker gave it back without an attempt: it stopped, or was too late for the instant. Another one may take it."
        said = [of_run(run, text, Cause.RELEASE)]
    else:
        text = (
            f"Attempt {run.attempt} of {run.max_attempts} failed, and the next one is set for {show(run.not_before)}."
        )
        said = [of_run(run, text, Cause.RETRY)]
    return Verdict.WAITING, [*said, *not_leased(facts, run), *start(facts, run), *attempts(facts, run)]


def not_leased(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """That a run is ready for its next lease, if it is, and what may keep workers from it."""
    waits, frozen = facts.now - run.not_before, list(freeze_ahead(facts))
    if waits >= 0:
        text = f"It has been ready for {span(waits)}, since {show(run.not_before)}, and no worker has leased it."
        yield of_run(run, text, Cause.QUEUE if waits > LATE and not frozen else None)
        if not frozen:
            yield from of_version(facts, run)
            yield from of_queue(facts, run)
    yield from of_job(facts, run)
    yield from frozen


# What any run has that started.


def rescheduled(run: RunRow) -> str | None:
    """That its owner moved a one-off, without the full stop; None: nobody did. Its row does not say from when or where."""
    if not run.ref.is_one_off or not run.revision:
        return None
    return f"Its owner rescheduled or requeued it {count(run.revision, 'time')}"


def start(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """When it started, and what had kept it until then."""
    began = run.started_at
    if began is None:
        return
    late = began - run.due
    how = (
        f"{span(late)} late"
        if late > LATE
        else "in time"
        if late >= 0
        else f"{span(-late)} early by its worker's clock"
    )
    yield of_run(run, f"It was due at {exact(run.due)} and started {how}, at {show(began)}.")
    moved = rescheduled(run)
    if moved is not None:
        yield of_run(run, f"{moved}.")
    yield from claim_delay(facts, run)
    yield from start_delay(facts, run, began)


def attempts(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """Each failed attempt, and what the ledger does not have of them."""
    yield from map(_attempt, facts.attempts)
    told = {one.number for one in facts.attempts}
    others = run.state in (RunState.RUNNING, RunState.SUCCEEDED, RunState.CANCELLED, RunState.LOST)
    untold = (
        run.attempt - len(told) - others
    )  # of a run in these states the last attempt did not fail, or the row tells of it
    if untold > 0:
        yield not_known(
            f"What became of {count(untold, 'attempt')} of {run.attempt} is not recorded: no row tells of it."
        )
    given_back = run.leases - run.attempt - run.slices
    if given_back > 0:
        text = (
            f"{given_back} of its {count(run.leases, 'lease')} ended without an attempt: the worker gave the run back."
        )
        yield of_run(run, text, Cause.RELEASE)


def _attempt(attempt: FailedAttemptRow) -> Sentence:
    source = f"attempt {attempt.number} of run {attempt.run}"
    began = f"Attempt {attempt.number} began on {attempt.worker} at {show(attempt.started_at)}"
    after = "It was the last."
    if attempt.next_attempt_at is not None:
        after = f"The next one was set for {show(attempt.next_attempt_at)}."
    if attempt.failure.kind == VANISHED:
        text = f"{began}, and the worker vanished, last heard of at {show(attempt.ended_at)}. {after}"
        return Sentence(text=text, source=source, cause=Cause.VANISHED)
    what = f"{attempt.failure.kind}: {attempt.failure.message}".removesuffix(": ")
    lasted = span(max(attempt.ended_at - attempt.started_at, 0))
    return Sentence(text=f"{began} and failed after {lasted} with {what}. {after}", source=source, cause=Cause.FAILURE)
