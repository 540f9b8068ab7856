"""Untracked: runs of which only a failure is recorded start without a lease, and a success leaves nothing but the claim.

    read the revision, open ──► run ──► returned: delete the message
                                    └─► failed: QUEUED ──► lease ──► settle as ever (retry, dead) ──► delete

Such a run has started when its worker has read that its revision is open, which is believed for FRESH. A second delivery, and whatever
else is not the plain case, takes the way of every other run (``levels.starts_untracked``). A worker that dies leaves its message; one
whose failure cannot be recorded keeps it: both lead to a second delivery.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.formats.message import Message
from minutehand.domain.run import RunRow, RunState
from minutehand.errors import Unavailable
from minutehand.flow.assignment import Abandoned, Assignment, Ended, Returned
from minutehand.flow.desk import Desk
from minutehand.flow.freeze import FRESH
from minutehand.flow.lean import claim, read_again
from minutehand.flow.outcome import Outcome
from minutehand.flow.settle import lost, outcome_of, settle
from minutehand.flow.task import Admitted, Task
from minutehand.state.ledger_levels import first_lease
from minutehand.state.transitions import Transition, lease

log = logging.getLogger(__name__)


def fresh(desk: Desk, task: Task, message: Message) -> Task:
    """The task with revisions read at most FRESH ago. Raises Unavailable."""
    if desk.clock() - task.revisions.read_at <= FRESH:
        return task
    return read_again(desk, task, message)


def started(desk: Desk, admitted: Admitted) -> RunRow | None:
    """The run as if it had been leased: what the job is told of it. Nothing is written.

    None: what was read has become old since, while a payload was fetched or others of its batch were leased.
    """
    if desk.clock() - admitted.task.revisions.read_at > FRESH:
        return None
    most = admitted.policies.max_attempts
    return first_lease(admitted.message, now=desk.clock(), token="", worker=desk.name, max_attempts=most)


def end(assignment: Assignment, ended: Ended) -> Outcome:
    """Make the outcome of an attempt durable, as far as its ledger level has it. Raises Unavailable."""
    if not assignment.message.untracked:
        return settle(assignment, ended)
    if assignment.ticket.lost or isinstance(ended, Abandoned):
        return lost(assignment)
    if isinstance(ended, Returned):
        assignment.desk.delete(assignment.ticket)
        return outcome_of(assignment, RunState.SUCCEEDED, ended.note or "", gone=True)
    leased = _lease_afterwards(assignment)
    if leased is None:
        assignment.desk.delete(assignment.ticket)
        log.info("run.recorded_by_another", extra={"run_id": str(assignment.run.ref)})
        return Outcome(gone=True, action="refused", why="recorded by another", message=assignment.message)
    assignment.ticket.fence = leased.fence
    outcome = settle(replace(assignment, run=leased), ended)
    assignment.ticket.lose()  # a job that was left behind by its timeout sees it
    return outcome


def _lease_afterwards(assignment: Assignment) -> RunRow | None:
    """The lease that a run which has failed should have had; None if another delivery has it, or had."""
    desk, message = assignment.desk, assignment.message
    claim(message, desk.services, desk.clock)
    moved = desk.services.ledger.move(message.run, _lease(assignment))
    if moved.run is None:
        raise Unavailable(f"run {message.run}: it has no row to record its failure in")
    return moved.run if moved.applied else None


def _lease(assignment: Assignment) -> Transition:
    desk, run = assignment.desk, assignment.run
    taken = lease(
        revision=run.revision,
        now=max(desk.clock(), run.not_before),
        token=desk.token(),
        worker=desk.name,
        max_attempts=run.max_attempts,
        steal=False,
        first=True,
    )
    return replace(taken, changes={**taken.changes, "started_at": run.started_at, "leased_at": run.leased_at})
