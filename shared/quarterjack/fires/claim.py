"""Claim fires: put their runs under deterministic keys. Send their messages to the work queues, delayed until near their time."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quarterjack import tracing
from quarterjack.domain.message import Message, Wait
from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.policies import Overrides, Priority, Start
from quarterjack.domain.queue import lane_for
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.schedule import Revision
from quarterjack.domain.tenants.app_versions import AppVersions
from quarterjack.errors import QuarterjackError, Unavailable
from quarterjack.fires.context import FireContext, FireCounts, TickCounts, find_revision, sends
from quarterjack.ports.queues import OutgoingMessage, WorkQueue
from quarterjack.ports.services import Clock, Services
from quarterjack.state.before_start import take_over
from quarterjack.state.refusal import OnExisting, on_existing
from quarterjack.state.run_spec import own_overrides
from quarterjack.state.start import delay_for
from quarterjack.state.transition import Transition
from quarterjack.stores.ledger import Ledger
from quarterjack.stores.schedule_rows import RevisionBatch
from quarterjack.stores.siblings import new_run
from quarterjack.values import replace, value

log = logging.getLogger(__name__)

_TRIES = 3  # claims of runs that the ledger has not answered
_ROUNDS = 3  # decisions on one claim before it is left to the next tick: each lost round means that its row changed
TRACED = 20  # one run in so many carries the trace of its tick: what X-Ray's own default rule samples
_BATCH = 400  # messages whose delays are computed at one reading of the clock: five rounds of eight requests


def send(messages: Sequence[Message], work: WorkQueue, clock: Clock) -> list[bool]:
    """Send messages; for each, whether the queue accepted it. The clock is read as late as possible."""
    accepted: list[bool] = []
    for start in range(0, len(messages), _BATCH):
        now = clock()
        part = messages[start : start + _BATCH]
        accepted += work.send([outgoing(m, m.not_before, now, work) for m in part])
    return accepted


def outgoing(message: Message, at: int, now: int, work: WorkQueue) -> OutgoingMessage:
    """A message that is sent now, to be delivered near ``at`` (UTC ms), in the lane that its run takes by now."""
    delay, lane = delay_for(at, message.start, now), lane_of(message, now, work)
    return OutgoingMessage(message if lane is message.priority else replace(message, priority=lane), delay)


def lane_of(message: Message, now: int, work: WorkQueue) -> Priority:
    """The lane that the run of a message takes at an instant (UTC ms)."""
    since = message.not_before if message.since is None else message.since
    return lane_for(message.priority, since, now, work.low_age)


def due_of(message: Message, now: int, work: WorkQueue) -> int:
    """When a message that is sent now should have been sent (UTC ms); now if its run has aged, which is late on purpose."""
    return message.not_before if lane_of(message, now, work) is message.priority else now


def sampled(ref: RunRef, trace: str | None) -> str | None:
    """The trace of one run in twenty, always of the same: workers record, and AWS bills, what comes with a trace."""
    if (trace or tracing.is_on()) and zlib.crc32(str(ref).encode()) % TRACED == 0:
        return trace or tracing.header()  # of whoever submits or triggers, if that is traced
    return None


def fire_message(run: RunRow, revision: Revision, trace: str | None = None) -> Message:
    """The message of a schedule's run; ``revision`` defines it."""
    definition = revision.definition
    return _message(run, own_overrides(definition.overrides, run.overrides), definition.options.queue, trace)


def one_off_message(run: RunRow, trace: str | None = None) -> Message:
    """The message of a one-off, from its row."""
    return _message(run, Overrides.parse(run.overrides), run.queue, trace)


def _message(run: RunRow, overrides: Overrides, queue: str | None, trace: str | None) -> Message:
    return Message(
        run=run.ref,
        revision=run.revision,
        not_before=run.not_before,
        start=overrides.start or Start.PROMPT,
        priority=overrides.priority or Priority.NORMAL,
        since=run.waits_since,
        fence=run.fence,
        trace=sampled(run.ref, trace),
        backfill=run.backfill,
        queue=queue,
    )


def message_of(run: RunRow, services: Services, trace: str | None = None) -> Message | None:
    """The message of a run in the ledger; None if its revision is gone. Raises Unavailable."""
    if run.ref.is_one_off:
        return one_off_message(run, trace)
    revision = find_revision(run.ref.owner, run.defined_by or run.revision, services)
    return None if revision is None else fire_message(run, revision, trace)


def messages_of(runs: Sequence[RunRow], services: Services) -> dict[RunRef, Message | None]:
    """The messages of many runs, as ``message_of``, with one batch of reads. A run is left out whose revision could not be read."""
    keys = {run.ref: (run.ref.owner, run.defined_by or run.revision) for run in runs if not run.ref.is_one_off}
    read = services.schedules.revisions(set(keys.values())) if keys else RevisionBatch()
    found: dict[RunRef, Message | None] = {}
    for run in runs:
        key = keys.get(run.ref)
        if key is None:
            found[run.ref] = one_off_message(run)
        elif key in read.found:
            found[run.ref] = fire_message(run, read.found[key])
        elif key not in read.unanswered and key not in read.broken:
            found[run.ref] = None
    return found


@value()
class FireClaim:
    """One fire to claim for a revision."""

    revision: Revision
    fire: int  # UTC ms
    ref: RunRef = field(init=False)  # of its run

    def __post_init__(self) -> None:
        object.__setattr__(self, "ref", fire_ref(self.revision.owner, self.fire))

    @property
    def held_by(self) -> tuple[str, str, int]:
        """By what a circuit breaker may have held it back: tenant, job, and UTC ms."""
        return self.revision.tenant, self.revision.definition.job, self.fire

    def run(self, now: int, versions: AppVersions) -> RunRow:
        """The row that claims it."""
        return RunRow(
            ref=self.ref,
            state=RunState.QUEUED,
            revision=self.revision.number,
            job=self.revision.definition.job,
            due=self.fire,
            not_before=self.fire,
            created_at=now,
            app_version=versions.assigned(str(self.ref)),
        )


@dataclass(kw_only=True)
class MaterialiseResult:
    """The result of a batch of claims."""

    done: set[RunRef] = field(default_factory=set)  # decided, and sent where a message was due
    fresh: set[RunRef] = field(default_factory=set)  # claimed or taken over now
    missed: set[RunRef] = field(default_factory=set)  # of these, more than a minute after their time
    counts: TickCounts = field(default_factory=TickCounts)


def materialise(claims: Sequence[FireClaim], context: FireContext) -> MaterialiseResult:
    """Put the run of every claim and send its message. A claim that is not in ``done`` was throttled or lost a race: repeat it."""
    if not claims:
        return MaterialiseResult()
    services, clock = context.services, context.clock
    context.write_budget.take(len(claims), (claim.fire for claim in claims), clock())
    result, now = MaterialiseResult(), clock()
    by_ref, versions = {claim.ref: claim for claim in claims}, services.tenants.app_versions.current(now)
    runs = {ref: claim.run(now, versions) for ref, claim in by_ref.items()}
    to_send: list[RunRef] = []
    counts = FireCounts()
    pending = list(by_ref)
    for _ in range(_ROUNDS):
        if not pending:
            break
        with tracing.span("claim", context.trace, {"quarterjack.runs": len(pending)}):
            claimed = services.ledger.claim([runs[ref] for ref in pending])
        made = [ref for ref in pending if ref in claimed.created]  # in order of time
        for ref in claimed.unreadable:  # of a later release, or broken: this ticker does not send its message
            result.done.add(ref)
            log.error("run.unreadable", extra={"run_id": str(ref)})
        waiting, moves, others = _decide(claimed.existing, by_ref, now)
        runs |= waiting
        result.done |= others
        answers = services.ledger.move_all(moves) if moves else {}
        taken = [ref for ref, _ in moves if answers.get(ref) is True]
        counts += FireCounts(claimed=len(made), taken_over=len(taken), resent=len(waiting))
        result.fresh |= {*made, *taken}
        to_send += [*made, *waiting, *taken]
        pending = [ref for ref, _ in moves if answers.get(ref) is False]  # their rows changed meanwhile
    result.missed = {ref for ref in result.fresh if runs[ref].missed}
    late = [ref for ref in to_send if by_ref[ref].fire < now]
    held = {ref for ref in late if any(gate.has_held(*by_ref[ref].held_by) for gate in context.gates)}
    with tracing.span("send", context.trace, {"quarterjack.runs": len(to_send)}):
        trace = tracing.header() or context.trace
        messages = {ref: fire_message(runs[ref], by_ref[ref].revision, trace) for ref in to_send}
        messages |= {ref: messages[ref].having_waited(Wait.BREAKER) for ref in held}
        answered = send([messages[ref] for ref in to_send], services.work, clock)
    finished = clock()
    due = [  # what was held is late on purpose
        finished if ref in held else due_of(messages[ref], finished, services.work) for ref in to_send
    ]
    result.counts = TickCounts(fires=counts, messages=sends(due, answered, finished))
    result.done |= {ref for ref, accepted in zip(to_send, answered, strict=True) if accepted}
    return result


def _decide(
    existing: Mapping[RunRef, RunRow], by_ref: Mapping[RunRef, FireClaim], now: int
) -> tuple[dict[RunRef, RunRow], list[tuple[RunRef, Transition]], set[RunRef]]:
    """Decide on every claim whose run exists: runs that wait for a message, runs to take over from older revisions, all others."""
    waiting, moves, others = {}, [], set()
    for ref, run in existing.items():
        claim = by_ref[ref]
        number = claim.revision.number
        match on_existing(run, number):
            case OnExisting.SEND:
                waiting[ref] = run
            case OnExisting.TAKE_OVER:
                of_backfill = run.backfill if run.revision == number else None
                job, at = claim.revision.definition.job, claim.fire
                move = take_over(revision=number, job=job, not_before=at, now=now, seen=run.state, backfill=of_backfill)
                moves.append((ref, move))
            case OnExisting.LEAVE:
                others.add(ref)
    return waiting, moves, others


def put_runs(runs: Sequence[RunRow], ledger: Ledger) -> Mapping[RunRef, RunRow | QuarterjackError | None]:
    """Put each run unless its key exists: None for those that were put, the run that exists, or the error. Absent: not answered."""
    small = {run.ref: run for run in runs if len(new_run(run)) == 1}
    answers: dict[RunRef, RunRow | QuarterjackError | None] = {}
    for _ in range(_TRIES):
        claimed = ledger.claim([run for ref, run in small.items() if ref not in answers])
        answers |= dict.fromkeys(claimed.created)
        answers |= claimed.existing
        answers |= {
            ref: Unavailable(f"run {ref} exists, and cannot be read by this release") for ref in claimed.unreadable
        }
        if len(answers) == len(small):
            break
    for run in runs:
        if run.ref not in small:
            try:
                answers[run.ref] = ledger.submit(run)
            except QuarterjackError as problem:
                answers[run.ref] = problem
    return answers
