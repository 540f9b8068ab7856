"""Work: what a worker does with the messages at hand. Read, resolve, admit, lease, perform, settle; each message for itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from minutehand.domain.formats.dead_letter import DeadLetter
from minutehand.domain.formats.message import Message, decode
from minutehand.domain.freeze import freeze_key
from minutehand.domain.job import Context, Job
from minutehand.domain.names import RunRef
from minutehand.domain.policies import Delivery as DeliveryPolicy
from minutehand.domain.policies import Policies
from minutehand.domain.run import RunRow
from minutehand.domain.times import SECOND
from minutehand.errors import MinutehandError, TooNew, Unavailable, Unreadable
from minutehand.flow.admit import expired, hold, taken_back, unknown_job
from minutehand.flow.assignment import Assignment, Ended
from minutehand.flow.begin import context_of, log_end, log_start
from minutehand.flow.desk import Desk
from minutehand.flow.freeze import frozen
from minutehand.flow.heartbeat import Ticket
from minutehand.flow.instants import Instants
from minutehand.flow.lease import take_lease
from minutehand.flow.outcome import Outcome
from minutehand.flow.overlap import give_way, take_turn
from minutehand.flow.perform import perform
from minutehand.flow.settle import settle
from minutehand.flow.shadow import shadowed
from minutehand.flow.side_by_side import Crew, InThreads
from minutehand.flow.task import Admitted, Task
from minutehand.flow.turns import Turns
from minutehand.owner.backfill.advance import move_on
from minutehand.ports.schedules import RevisionBatch
from minutehand.ports.work_queue import RawMessage
from minutehand.state.backfill import unhurried
from minutehand.state.lease_refusal import deaths
from minutehand.undertaker.success_watch import report_success

log = logging.getLogger(__name__)

_SOON = 10 * SECOND  # before a message comes back that met an unavailable service
_LATER = 60 * SECOND  # before a message comes back that this release cannot read, or that met a defect of ours


class Jobs(Protocol):
    """The jobs that this worker knows."""

    def get(self, name: str) -> Job | None:
        """The job of that name, or None."""


_T = TypeVar("_T")
Execute = Callable[[Assignment, Context, str | None], Ended]
Around = Callable[
    [Message], AbstractContextManager[object]
]  # what the shell wraps around a run: log keys, a trace segment


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A worker over one desk."""

    desk: Desk
    jobs: Jobs
    around: Around = lambda message: nullcontext()
    remaining: Callable[[], float | None] = lambda: None  # seconds until the process's time limit
    execute: Execute = perform  # runs one attempt to its end
    crew: Crew = field(default_factory=InThreads)  # runs several
    turns: Turns = field(default_factory=Turns)  # of runs whose worker vanished
    instants: Instants[Any] = field(default_factory=Instants)  # that groups wait for whose runs were leased ahead

    def take(self, deliveries: Sequence[RawMessage]) -> list[Task]:
        """Take a batch in hand: keep it hidden, decode it, read the revisions of all its runs at once."""
        decoded = [(delivery, *_decode(delivery)) for delivery in deliveries]
        messages = [m for _, m, _ in decoded if m is not None]
        tasks = []
        changed = threading.Condition()  # one for those that run side by side; who goes alone has one of its own
        tickets = [Ticket(d.receipt, m.run if m else RunRef("", ""), changed=changed) for d, m, _ in decoded]
        self.desk.heartbeat.take(tickets)
        revisions = self._revisions(messages)
        for ticket, (delivery, message, problem) in zip(tickets, decoded, strict=True):
            tasks.append(Task(delivery=delivery, ticket=ticket, message=message, problem=problem, revisions=revisions))
        return tasks

    def _revisions(self, messages: Sequence[Message]) -> RevisionBatch:
        """The revisions of runs of schedules, and the freezes of all tenants, in one batch."""
        keys = {(m.run.owner, m.revision) for m in messages if m.revision} | {
            freeze_key(m.run.tenant) for m in messages
        }
        try:
            read = self.desk.services.schedules.revisions(keys) if keys else RevisionBatch()
        except Exception:  # whatever it is, the messages must not stay hidden for it
            log.exception("work.revisions_unread")
            read = RevisionBatch(unanswered=frozenset(keys))
        return replace(read, read_at=self.desk.clock())

    def process(self, task: Task) -> Outcome:
        """One message from start to end. Whatever goes wrong stays its own: the message comes back."""
        return self.shielded(task, lambda: self._in_turn(task))

    def _in_turn(self, task: Task) -> Outcome:
        task.ticket.changed = threading.Condition()
        with self.turns.of(self._deaths(task)) as may_run:
            if not may_run:
                return self.desk.kept(task.ticket, "other_suspect_runs", task.message, after=_SOON)
            outcome = self._process(task)
            if task.message is not None:
                give_way(self.desk, task.message, task.revision, outcome)
        move_on(outcome, task.revision, self.desk.services, self.desk.clock)
        report_success(outcome, task.revision, self.desk.services, self.desk.clock)
        return outcome

    def _deaths(self, task: Task) -> int:
        """How many workers may have died of its run. A message that nobody had before needs no look."""
        if task.message is None or task.delivery.receives <= 1:
            return 0
        return deaths(self.desk.services.ledger.read(task.message.run), self.desk.clock())

    def shielded(self, task: Task, step: Callable[[], _T]) -> _T | Outcome:
        """What a step of a message gives. Where it fails, the message comes back."""
        try:
            return step()
        except Unavailable as problem:
            return self.unavailable(task, str(problem))
        except Exception:
            log.exception("work.defect", extra={"run_id": str(task.ticket.ref)})
            return self.defect(task)

    def defect(self, task: Task) -> Outcome:
        """What went wrong is ours: the message comes back later."""
        return self._keep(task, "defect", _LATER)

    def unavailable(self, task: Task, problem: str) -> Outcome:
        """A service did not answer: the message comes back soon."""
        log.warning("work.unavailable", extra={"run_id": str(task.ticket.ref), "error": problem})
        return self._keep(task, "unavailable", _SOON)

    def _keep(self, task: Task, why: str, after: int) -> Outcome:
        try:
            return self.desk.kept(task.ticket, why, task.message, after=after)
        except MinutehandError:  # then it comes back when its visibility ends
            self.desk.heartbeat.let_go(task.ticket)
            return Outcome(gone=False, action="kept", why=why, message=task.message)

    def admit(self, task: Task) -> Outcome | Admitted:
        """All that stands between a message and its lease."""
        message, desk = task.message, self.desk
        if message is None:
            return self._unreadable(task)
        refused = taken_back(desk, task.ticket, message, task.revisions)
        if refused is not None:
            return refused
        job = self.jobs.get(message.job)
        if job is None:
            return unknown_job(desk, task.ticket, message, task.delivery.body)
        policies = job.policies.overridden(message.overrides)
        if message.backfill is not None:
            policies = unhurried(policies)
        kept_back = self._not_now(task, message, policies)
        if kept_back is not None:
            return kept_back
        payload = desk.services.payloads.get(message.payload_ref) if message.payload_ref else message.payload
        return Admitted(task=task, message=message, job=job, policies=policies, payload=payload)

    def _not_now(self, task: Task, message: Message, policies: Policies) -> Outcome | None:
        """What keeps a run from its lease now: its time, its deadline, a freeze, others of its schedule. None: nothing."""
        desk, ticket = self.desk, task.ticket
        return (
            hold(desk, ticket, message, ahead=task.ahead)
            or expired(desk, ticket, message, policies)
            or frozen(desk, ticket, message, task.revisions)
            or shadowed(desk, ticket, message, task.delivery.body, task.revision, policies)
            or take_turn(desk, ticket, message, task.revision, policies)
        )

    def _process(self, task: Task) -> Outcome:
        admitted = self.admit(task)
        if isinstance(admitted, Outcome):
            return admitted
        message, policies = admitted.message, admitted.policies
        leased = take_lease(self.desk, task.ticket, message, task.delivery.body, policies)
        if isinstance(leased, Outcome):
            return leased
        assignment = self.assign(admitted, leased)
        if policies.delivery is DeliveryPolicy.AT_MOST_ONCE:
            self._delete_before(task.ticket)
        with self.around(message):
            log_start(assignment)
            ended = self.execute(assignment, context_of(assignment, self.remaining), admitted.payload)
            outcome = settle(assignment, ended)
            log_end(assignment, outcome, ended)
        return outcome

    def assign(self, admitted: Admitted, leased: RunRow) -> Assignment:
        """The run that this worker now holds the lease of."""
        return Assignment(
            desk=self.desk,
            ticket=admitted.task.ticket,
            message=admitted.message,
            body=admitted.task.delivery.body,
            job=admitted.job,
            policies=admitted.policies,
            run=leased,
        )

    def _delete_before(self, ticket: Ticket) -> None:
        """At most once: the message goes before the job's code. If it does not, its lease is refused all the same."""
        try:
            self.desk.services.work.delete(ticket.receipt)
        except Unavailable as problem:
            log.warning("work.delete_failed", extra={"run_id": str(ticket.ref), "error": str(problem)})

    def _unreadable(self, task: Task) -> Outcome:
        """Not one of our messages: to the dead-letter queue with the reason. One of a later release waits for its worker."""
        if isinstance(task.problem, TooNew):
            log.warning("message.too_new", extra={"error": str(task.problem)})
            return self.desk.kept(task.ticket, "too_new", None, after=_LATER)
        reason = f"unreadable: {task.problem}"
        log.error("message.unreadable", extra={"error": reason, "message_id": task.delivery.id})
        self.desk.services.dead.send(DeadLetter(body=task.delivery.body, reason=reason[:500]))
        self.desk.delete(task.ticket)
        return Outcome(gone=True, action="unreadable", why="unreadable")


def _decode(delivery: RawMessage) -> tuple[Message | None, Unreadable | None]:
    try:
        return decode(delivery.body), None
    except Unreadable as problem:
        return None, problem
