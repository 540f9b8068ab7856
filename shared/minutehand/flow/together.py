"""Together: the messages of a batch whose runs may start at the same time share their requests.

    admit each ─► lease all (─► wait) ─► each in its thread ─► settle what has ended, LINGER after the first ─► delete

A request carries a condition, a token and an answer for each run, so each is what it would be alone: a lease that is refused is looked
at for itself, as is one that others had before; one that was not answered lets its message come back. An outcome is durable before
its message goes; what a batch did not settle is settled by itself, with the patience that an effect which has happened deserves.

What starts to the millisecond is leased ahead, up to HEAD_START before its instant, and dated at that instant: to the ledger this is a
worker whose clock is so much fast. Its job begins when the instant has come, and not TOO_LATE after it: then the run is given back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from minutehand.domain.formats.message import Message
from minutehand.domain.names import RunRef
from minutehand.domain.policies import Delivery, Isolation
from minutehand.domain.run import RunRow, RunState
from minutehand.flow.assignment import Ended, Returned
from minutehand.flow.begin import context_of, log_end, log_start
from minutehand.flow.outcome import Outcome
from minutehand.flow.settle import lost, outcome_of, plain_success, settle
from minutehand.flow.side_by_side import Attempt, Ends
from minutehand.flow.task import Admitted, Task
from minutehand.flow.work import Worker
from minutehand.logs import AtOnce
from minutehand.ports.ledger import TransitionResult
from minutehand.state.start import goes_ahead
from minutehand.state.transitions.lease import lease
from minutehand.state.transitions.transition import Transition

log = logging.getLogger(__name__)

_OF_RUN = frozenset(each.name for each in fields(RunRow))
Report = Callable[
    [Sequence[tuple[Task, Outcome]]], None
]  # called with what is done, from any thread, once for each task


def groups(worker: Worker, tasks: Sequence[Task]) -> list[Sequence[Task]]:
    """The tasks that go together, by the instant at which they may start; what needs its own way goes by itself."""
    now = worker.desk.clock()
    by_instant: dict[tuple[int, bool], dict[RunRef, Task]] = {}
    alone: list[Sequence[Task]] = []
    for task in tasks:
        message = task.message
        ahead = message is not None and goes_ahead(message, now) and _can_spare_an_attempt(worker, message)
        of_instant = {} if message is None else by_instant.setdefault((max(message.not_before, now), ahead), {})
        if message is None or message.run in of_instant or not _rides(worker, task, message):
            alone.append([task])
        else:
            of_instant[message.run] = replace(task, ahead=True) if ahead else task
    return [list(by_instant[at].values()) for at in sorted(by_instant) if by_instant[at]] + alone


def _can_spare_an_attempt(worker: Worker, message: Message) -> bool:
    """Whether a worker that dies before the instant leaves the run an attempt: nobody can tell that its job had not begun."""
    job = worker.jobs.get(message.job)
    return job is not None and job.policies.overridden(message.overrides).max_attempts > 1


def _rides(worker: Worker, task: Task, message: Message) -> bool:
    """Whether nothing about it takes more than a lease, a job in a thread and a settlement."""
    job = worker.jobs.get(message.job)
    if job is None or task.delivery.receives > 1 or message.fence or message.backfill or message.payload_ref:
        return False
    if (
        job.policies.isolation is not Isolation.THREAD
        or _delivery(message, job.policies.delivery) is Delivery.AT_MOST_ONCE
    ):
        return False
    if task.revision is None:
        return message.revision == 0
    options = task.revision.definition.options
    return not (options.shadow or options.is_exclusive or task.revision.failing)


def first_run(message: Message, leased: Transition) -> RunRow:
    """The run of a fire as its first lease leaves it: what its row says is in its message and in the lease."""
    written: dict[str, Any] = {name: value for name, value in leased.changes.items() if name in _OF_RUN}
    return RunRow(
        ref=message.run,
        revision=message.revision,
        job=message.job,
        due=message.due,
        not_before=message.not_before,
        **written,
    )


def _delivery(message: Message, of_job: Delivery) -> Delivery:
    return message.overrides.delivery or of_job


def work_together(worker: Worker, tasks: Sequence[Task], report: Report) -> None:
    """Work off a group. All of it is done when each task was reported, which may be after this returns."""
    if len(tasks) == 1 and not tasks[0].ahead:
        report([(tasks[0], worker.process(tasks[0]))])
        return
    together = _Together(worker, tasks, report)
    try:
        together.run_all(together.lease_all(together.admit_all(tasks)))
    except Exception:
        log.exception("work.defect", extra={"runs": len(tasks)})
        together.give_up()


def start_together(worker: Worker, tasks: Sequence[Task], report: Report) -> bool:
    """Work off a group in a thread. False if none could be had: then its messages come back, which is reported before this returns."""
    try:
        worker.desk.threads.start(partial(work_together, worker, tasks, report), "batch")
    except Exception:
        log.exception("work.no_thread", extra={"runs": len(tasks)})
        report([(task, worker.defect(task)) for task in tasks])
        return False
    return True


class _Together:
    """One group on its way."""

    def __init__(self, worker: Worker, tasks: Sequence[Task], report: Report) -> None:
        self._worker = worker
        self._desk, self._ledger = worker.desk, worker.desk.services.ledger
        self._changed = tasks[0].ticket.changed  # that of all of them: they were taken in hand together
        self._open = {task.ticket: (task, report) for task in tasks}  # those that were not reported yet, and to whom

    def _report(self, done: Sequence[tuple[Task, Outcome]]) -> None:
        by_report: dict[Report, list[tuple[Task, Outcome]]] = {}
        for task, outcome in done:
            _, report = self._open.pop(task.ticket)
            by_report.setdefault(report, []).append((task, outcome))
        for report, of_report in by_report.items():
            report(of_report)

    def give_up(self) -> None:
        """Let the messages come back of which nothing is known."""
        self._report([(task, self._worker.defect(task)) for task, _ in list(self._open.values())])

    def admit_all(self, tasks: Sequence[Task]) -> list[Admitted]:
        admitted, refused = [], []
        for task in tasks:
            answer = self._worker.shielded(task, partial(self._worker.admit, task))
            if isinstance(answer, Outcome):
                refused.append((task, answer))
            else:
                admitted.append(answer)
        self._report(refused)
        return admitted

    # Leases.

    def lease_all(self, admitted: Sequence[Admitted]) -> list[Attempt]:
        """The attempts that begin. One whose lease is refused goes on by itself, and asks again as if it had been alone."""
        fresh = [each for each in admitted if not each.task.ticket.lost]
        leases = {each.message.run: self._lease(each) for each in fresh}
        answers = self._answers(leases)
        leased = []
        for each in admitted:
            moved = answers.get(each.message.run)
            if moved is None and not each.task.ticket.lost:
                self._worker.crew.aside(self._desk, partial(self._unanswered, each.task))
            elif moved is None or not moved.applied:
                self._worker.crew.aside(self._desk, partial(self._alone, each.task))
            else:
                run = moved.run or first_run(each.message, leases[each.message.run])
                each.task.ticket.held = each.task.ahead
                each.task.ticket.fence = run.fence
                leased.append((each, run))
        return self._begin_all(leased)

    def _begin_all(self, leased: Sequence[tuple[Admitted, RunRow]]) -> list[Attempt]:
        attempts = []
        with AtOnce():
            for each, run in leased:
                begun = self._worker.shielded(each.task, partial(self._begin, each, run))
                if isinstance(begun, Outcome):
                    self._report([(each.task, begun)])
                else:
                    attempts.append(begun)
        return attempts

    def _answers(self, leases: Mapping[RunRef, Transition]) -> Mapping[RunRef, TransitionResult]:
        try:
            return (
                self._ledger.lease_all(list(leases.items()), known={r for r in leases if r.is_fire}) if leases else {}
            )
        except Exception:
            log.exception("work.leases_failed", extra={"runs": len(leases)})
            return {}

    def _moment(self, message: Message) -> int:
        """The moment of a lease that is taken now: ahead of its instant, that instant."""
        return max(self._desk.clock(), message.not_before)

    def _unanswered(self, task: Task) -> None:
        self._report([(task, self._worker.unavailable(task, "the lease was not answered"))])

    def _lease(self, admitted: Admitted) -> Transition:
        desk = self._desk
        return lease(
            revision=admitted.message.revision,
            now=self._moment(admitted.message),
            token=desk.token(),
            worker=desk.name,
            max_attempts=admitted.policies.max_attempts,
            steal=False,
            first=True,
        )

    def _alone(self, task: Task) -> None:
        self._report([(task, self._worker.process(replace(task, ahead=False)))])

    def _begin(self, admitted: Admitted, run: RunRow) -> Attempt:
        assignment = replace(self._worker.assign(admitted, run), ahead=admitted.task.ahead)
        if not assignment.ahead:
            log_start(assignment)
        return Attempt(
            task=admitted.task,
            assignment=assignment,
            context=context_of(assignment, self._worker.remaining),
            payload=admitted.payload,
            around=partial(self._worker.around, admitted.message),
        )

    # Ends.

    def run_all(self, attempts: Sequence[Attempt]) -> None:
        if attempts and attempts[0].task.ahead:
            attempts = self._at_their_instant(attempts)
        for ends in self._worker.crew.run(attempts, self._changed):
            self._settle(ends)

    def _at_their_instant(self, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        """Wait for the instant that they were leased ahead of; these then, with those of other groups that wait for it.

        Empty if another group takes these.
        """
        instants, instant = self._worker.instants, attempts[0].assignment.message.not_before
        if not instants.join(instant, (self, attempts)):
            return []
        try:
            self._desk.wait_until(instant)
        finally:
            adopted = [each for group, of_group in instants.take(instant) for each in self._adopt(group, of_group)]
        return adopted

    def _adopt(self, group: _Together, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        """From here on they are this group's."""
        for each in attempts if group is not self else ():
            ticket = each.task.ticket
            ticket.changed = self._changed
            self._open[ticket] = group._open.pop(ticket)
        return attempts

    def _settle(self, ends: Ends) -> None:
        """Record plain successes in one batch; what that leaves, and every other end, by itself."""
        plain = [(attempt, plain_success(attempt.assignment, ended)) for attempt, ended in ends]
        answers = dict(self._settled([(attempt.assignment.run.ref, to) for attempt, to in plain if to is not None]))
        done = []
        with AtOnce():
            for attempt, ended in ends:
                answer = answers.get(attempt.assignment.run.ref)
                if answer is None:
                    self._worker.crew.aside(self._desk, partial(self._settle_alone, attempt, ended))
                else:
                    done.append((attempt.task, self._ended(attempt, ended, applied=answer)))
        self._desk.delete_all([task.ticket for task, outcome in done if outcome.gone])
        self._report(done)

    def _settled(self, moves: Sequence[tuple[RunRef, Transition]]) -> Mapping[RunRef, bool]:
        try:
            return self._ledger.move_all(moves) if moves else {}
        except Exception:
            log.exception("work.settlements_failed", extra={"runs": len(moves)})
            return {}

    def _ended(self, attempt: Attempt, ended: Ended, *, applied: bool) -> Outcome:
        assignment = attempt.assignment
        assignment.ticket.fence = None
        if not applied:
            return lost(assignment)
        note = ended.note if isinstance(ended, Returned) else None
        outcome = outcome_of(assignment, RunState.SUCCEEDED, note or "", gone=True)
        log_end(assignment, outcome, ended)
        return outcome

    def _settle_alone(self, attempt: Attempt, ended: Ended) -> None:
        assignment = attempt.assignment
        outcome = self._worker.shielded(attempt.task, lambda: settle(assignment, ended))
        log_end(assignment, outcome, ended)
        self._report([(attempt.task, outcome)])
