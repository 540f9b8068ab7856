"""Overlap: before its lease, a run of an exclusive schedule asks for its turn; when it has ended, the next one moves up.

    read the turns ─► which holders have ended? ─► decide ─► write the turns ─► lease

A run takes its lease only after it was written into the turns as a holder, and stays one until its row says that it has ended. Only
the settle under its fence says so: a holder whose worker vanished holds on until it is run again, and a duplicate or a worker that
died between turn and lease comes back and is the holder already. Nothing is counted, so nothing can be counted wrongly.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from quarterjack.domain.message import Message
from quarterjack.domain.options import Options, Overlap
from quarterjack.domain.run import RunState
from quarterjack.domain.times import SECOND
from quarterjack.errors import Conflict, NotFound, QuarterjackError, Unavailable
from quarterjack.owner.runs.change import ask_to_end, end_children
from quarterjack.state.before_start import pass_over, wait_for_turn
from quarterjack.state.ending import terminate
from quarterjack.state.overlap import (
    Decision,
    QueuedRun,
    RunHolder,
    TurnAnswer,
    Turns,
    decide,
    forced_to_wait,
    governed,
    in_its_place,
    ref_of,
)
from quarterjack.state.transition import Transition
from quarterjack.worker.admission.turns import (
    TRIES,
    TurnsSnapshot,
    ended,
    move_up,
    newcomers,
    pruned,
    put_turn_timer,
    read_turns,
    send_for,
    write_turns,
)
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import Action, Outcome, ReadyRun

log = logging.getLogger(__name__)

_EARLIER = 50  # runs among which a new policy looks for those that go already
_JITTER = 0.05  # seconds of a pause between tries, times their number, at the most
_CONTENDED = 2 * SECOND  # before a run asks again for a turn while others keep writing the turns


@dataclass(frozen=True, kw_only=True)
class _Asking:
    """A run that asks for its turn."""

    worker: WorkerContext
    message: Message
    options: Options
    me: QueuedRun

    @property
    def owner(self) -> str:
        return self.message.run.owner

    @property
    def reason(self) -> str:
        """Why others end for it."""
        return f"overlap: {in_its_place(self.me.holder)}"


def acquire_turn(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """Ask for the turn of a run, whose runs must not overlap."""
    message, revision, deadline = ready.message, ready.received.definition.revision, ready.policies.deadline
    assert revision is not None
    until = None if deadline is None else ready.spec.due + int(deadline * SECOND)
    me = QueuedRun(message.backfill is not None, _holder(message), until)
    asking = _Asking(worker=worker, message=message, options=revision.definition.options, me=me)
    for again in range(TRIES):
        if again:
            _pause(worker, again)
        answer = _ask(asking)
        if answer:
            return answer if isinstance(answer, Outcome) else None
    log.warning("overlap.contended", extra={"run_id": str(message.run)})
    until = worker.clock() + _CONTENDED
    return Outcome.postponed("contended", order=message, at=until, otherwise=until)


def _holder(message: Message) -> RunHolder:
    return RunHolder(message.run.key, message.revision)


def _pause(worker: WorkerContext, again: int) -> None:
    """Before try number ``again``: others who write these turns get a chance."""
    worker.wait(worker.random.random() * _JITTER * again)


_Step = Outcome | bool  # the outcome of its message; True: it may take its lease; False: ask again


def _ask(asking: _Asking) -> _Step:
    """One try."""
    held = read_turns(asking.owner, asking.worker.services)
    decision = decide(_prepared(asking, held.turns), asking.me, asking.options)
    match decision.answer:
        case TurnAnswer.GO:
            return _write(asking, held, decision)
        case TurnAnswer.WAIT:
            return _wait(asking, held, decision)
        case TurnAnswer.SKIP:
            return _skip(asking, held, decision)
        case TurnAnswer.CANCEL | TurnAnswer.TERMINATE if not _is_open(asking):
            return True  # nobody ends for a message alone: the refused lease says what it is
        case TurnAnswer.CANCEL:
            return _all_asked(asking, decision) and _wait(asking, held, decision)
        case TurnAnswer.TERMINATE:
            _terminate(asking, decision.others)
            return False


def _is_open(asking: _Asking) -> bool:
    """Whether there is such a run, of this revision, and it has not ended."""
    return not asking.me.holder.is_over(asking.worker.services.ledger.read(asking.message.run))


def _prepared(asking: _Asking, turns: Turns) -> Turns:
    """The turns under this run's policy, without what has ended, as far as the decision rests on it."""
    services, owner, me = asking.worker.services, asking.owner, asking.me
    if me.holder in turns.holders:
        return turns
    if turns.revision < asking.message.revision:
        earlier = services.ledger.latest(owner, upto=asking.worker.clock())
        turns = governed(turns, asking.message.revision, asking.options, islice(earlier, _EARLIER))
    turns = pruned(owner, turns, services)
    most = 1 if asking.options.overlap is Overlap.BUFFER_ONE else asking.options.buffer
    if not turns.room and len(turns.waiting) >= most:  # the queue is full, unless some of its runs have ended
        turns = turns.without(ended(owner, [waiter.holder for waiter in turns.waiting], services))
    return turns


def _write(asking: _Asking, held: TurnsSnapshot, decision: Decision) -> bool:
    """Write what was decided, and send for the others who moved up by it. False: somebody else was faster."""
    services = asking.worker.services
    if not write_turns(held, decision.turns, services):
        return False
    others = [pair for pair in newcomers(held.turns, decision.turns) if pair != asking.me.holder]
    try:
        send_for(asking.owner, others, services, asking.worker.clock)
    except Unavailable as problem:  # then the ticker does
        log.warning("overlap.not_sent", extra={"owner": asking.owner, "error": str(problem)})
    return True


def _wait(asking: _Asking, held: TurnsSnapshot, decision: Decision) -> _Step:
    """Enqueue the run; the message goes, because the process that moves the run up sends a new one."""
    worker, message = asking.worker, asking.message
    if not _write(asking, held, decision):
        return False
    transition = wait_for_turn(revision=message.revision, reason=decision.reason, now=worker.clock())
    enqueued = worker.services.ledger.move(message.run, transition)
    if enqueued.run is None:
        return True  # there is no such run, as its refused lease says
    put_turn_timer(asking.owner, asking.me.holder, worker.services, worker.clock())
    return Outcome(action=Action.POSTPONED, why="overlap")


def _skip(asking: _Asking, held: TurnsSnapshot, decision: Decision) -> _Step:
    worker, message = asking.worker, asking.message
    transition = _passed_over(worker, asking.me.holder, RunState.SKIPPED, decision.reason)
    moved = worker.services.ledger.move(message.run, transition)
    if not moved.applied:
        if asking.me.holder.is_over(moved.run):
            return True  # ended or taken over: the refused lease says which
        return _wait(asking, held, forced_to_wait(decision.turns, asking.me))
    _write(asking, held, decision)
    log.info("run.skipped", extra={"run_id": str(message.run), "reason": decision.reason})
    return Outcome.refused("overlap", RunState.SKIPPED)


def _passed_over(worker: WorkerContext, pair: RunHolder, to: RunState, reason: str) -> Transition:
    now = worker.clock()
    return pass_over(to=to, revision=pair.revision, now=now, expires=worker.expires(now), reason=reason)


def _all_asked(asking: _Asking, decision: Decision) -> bool:
    """Ask the holders to end and take the place of the queued runs; False if the turns change by that."""
    worker, owner = asking.worker, asking.owner
    for pair in decision.replaced:
        moved = worker.services.ledger.move(
            ref_of(owner, pair), _passed_over(worker, pair, RunState.CANCELLED, asking.reason)
        )
        if not (moved.applied or pair.is_over(moved.run)):
            return False  # it has moved up meanwhile
    over = [pair for pair in decision.others if _ended_by_asking(asking, pair)]  # all of them are asked
    return not over


def _ended_by_asking(asking: _Asking, pair: RunHolder) -> bool:
    """Ask a holder to end; whether it has ended by that, because no worker had it."""
    worker = asking.worker
    try:
        run = ask_to_end(ref_of(asking.owner, pair), worker.services, worker.clock)
        end_children(run, worker.role)
        return run.is_terminal
    except (NotFound, Conflict):
        return True


def _terminate(asking: _Asking, others: Sequence[RunHolder]) -> None:
    """The holders have ended from now on: their workers' heartbeats and settles are refused."""
    worker = asking.worker
    for pair in others:
        now = worker.clock()
        ending = terminate(revision=pair.revision, now=now, expires=worker.expires(now), reason=asking.reason)
        moved = worker.services.ledger.move(ref_of(asking.owner, pair), ending)
        if moved.applied and moved.run is not None:
            end_children(moved.run, worker.role)
            log.warning("run.terminated", extra={"run_id": str(ref_of(asking.owner, pair)), "reason": asking.reason})


def release_turn(worker: WorkerContext, message: Message, outcome: Outcome) -> None:
    """A run that must not overlap has ended at this worker: those that wait for it move up. If this fails, the ticker sees to it."""
    if not outcome.is_over or outcome.state is RunState.SKIPPED:
        return  # it goes on, or it never was in anybody's way
    try:
        pause = partial(_pause, worker)
        move_up(message.run.owner, worker.services, worker.clock, gone=[_holder(message)], pause=pause)
    except QuarterjackError as problem:
        log.warning("overlap.not_moved_up", extra={"run_id": str(message.run), "error": str(problem)})
