"""What moves a backfill on: a worker when a run of it has ended, its owner when it starts, and the ticker as the safety net.

    look at the window's runs ──► one write: ended fires leave, next fires enter, the cursor moves ──► claims ──► messages

The write comes first, under the record's version: of several processes that move a backfill, one succeeds with each version, so the
window never exceeds its bound. A process that dies after the write leaves fires in the window without a run or without a message;
the ticker looks at the whole window every minute and claims or sends these. The claim has the key of a live fire, so a fire that a
chain, another backfill or an earlier try has claimed is not claimed again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from quarterjack.domain.message import Message
from quarterjack.domain.run import TERMINAL, RunRow, RunState
from quarterjack.domain.schedule import Revision
from quarterjack.domain.times import MINUTE
from quarterjack.errors import Unavailable
from quarterjack.fires.claim import fire_message, send
from quarterjack.fires.context import FireContext, read_revision
from quarterjack.owner.backfill.records import read_backfill, read_runs, write_backfill
from quarterjack.owner.backfill.spans import span_of, spread_of, walk
from quarterjack.ports.services import Clock, Services
from quarterjack.state.backfill import (
    BackfillOrder,
    BackfillState,
    DefinitionSpan,
    FireAction,
    Readiness,
    StoredBackfill,
    claim_of,
    fire_action,
    is_free,
    readiness,
)
from quarterjack.state.before_start import revive
from quarterjack.timing import Timetable, timetable

log = logging.getLogger(__name__)

ROUNDS = 6  # writes of a worker or an owner, lost races included, before the rest is left to the ticker
_STARTED = (RunState.SUCCEEDED, RunState.DEAD)  # ends of a run that no stop can have refused
_ROWS = 1_000  # runs that are read at once where fires have theirs already: about one query
_STEPS = 5_000  # fires that one write moves the cursor past, at the most


@dataclass
class BackfillMover:
    """One process's way to move one backfill; reads each revision once."""

    owner: str
    current: int | None  # the schedule's current revision, under which runs are claimed; None: none may be claimed now
    context: FireContext
    revisions: dict[int, Revision] = field(default_factory=dict)  # by number, as far as they were read
    ended: dict[int, RunState] = field(
        default_factory=dict
    )  # by fire: runs that this process has ended, and need not read

    def revision(self, number: int) -> Revision:
        """A revision of the schedule. Raises Unavailable, NotFound, and why it is unreadable."""
        if number not in self.revisions:
            self.revisions[number] = read_revision(self.owner, number, self.context.services)
        return self.revisions[number]

    def table(self, span: DefinitionSpan) -> Timetable:
        """The fires of a span's definition. Raises as ``revision``."""
        rule = spread_of(self.revision(span.revision).definition.rule, span)
        return timetable(rule, anchor=span.anchor, key=self.owner)

    def floor(self, backfill: StoredBackfill) -> int:
        """As ``StoredBackfill.floor``, now; 0 without a bound."""
        return backfill.floor(self.context.clock(), self.context.services.retention) or 0


def mover_of(backfill: StoredBackfill, context: FireContext) -> BackfillMover:
    """A mover that claims if the backfill and its schedule let it."""
    head = context.services.schedules.head(backfill.tenant, backfill.name)
    ready = head is not None and readiness(backfill, head) is Readiness.READY
    return BackfillMover(backfill.owner, head.revision if head and ready else None, context)


def advance(
    mover: BackfillMover,
    backfill: StoredBackfill,
    fires: Collection[int],
    *,
    rounds: int,
    until: int | None = None,
    looked: int | None = None,
) -> StoredBackfill:
    """Look at the runs of ``fires``, count those that have ended, and let the next fires in; the backfill as it is then.

    At most ``rounds`` writes, none begun from ``until`` (UTC ms) on. After a lost race a round looks at the whole window: many
    movers then need one write, not one each. ``looked``: when the ticker looked before (UTC ms); a run whose message may be lost is
    sent again.
    """
    mine = frozenset(fires)
    for _ in range(rounds):
        if until is not None and mover.context.clock() >= until:
            break
        after, left = _round(mover, backfill, fires, mine, looked)
        if after is None:
            again = read_backfill(backfill.owner, backfill.id, mover.context.services)
            if again is None or mine.isdisjoint(again.window):
                return again or backfill  # another mover has counted them
            backfill, fires = again, again.window
            continue
        backfill, fires, mine = after, left, frozenset(left)
        if not left and (mover.current is None or not backfill.room):
            break
    return backfill


def _round(
    mover: BackfillMover, before: StoredBackfill, fires: Collection[int], mine: Collection[int], looked: int | None
) -> tuple[StoredBackfill | None, list[int]]:
    """One look, one write and the claims that follow; None if another mover wrote first. With it the fires to look at again."""
    after, missing, met_runs = _counted(mover, before, fires, mine, looked)
    after = _refilled(mover, after, met_runs=met_runs).done_if_over(mover.context.clock())
    if after != before:
        written = write_backfill(after, mover.context.services)
        if written is None:
            return None, []
        if written.state is not before.state:
            log.info("backfill.done", extra={"schedule": after.owner, "backfill": after.id})
        after = written
    entered = [fire for fire in after.window if fire not in before.window]
    return after, _claimed(mover, after, [*missing, *entered])


def _counted(
    mover: BackfillMover, backfill: StoredBackfill, fires: Collection[int], mine: Collection[int], looked: int | None
) -> tuple[StoredBackfill, list[int], bool]:
    """The backfill without the fires that are over, the fires to claim, and whether one of them has a run of somebody else."""
    for fire, state in mover.ended.items():
        backfill = backfill.counted(fire, state) if fire in backfill.window else backfill
    missing, met_runs, may_claim = [], False, mover.current is not None and backfill.state is BackfillState.RUNNING
    wanted = [fire for fire in backfill.window if fire in fires]
    runs, floor = read_runs(backfill, wanted, mover.context.services), mover.floor(backfill)
    for fire in wanted:
        run, action = runs.get(fire), FireAction.SKIP  # not in ``runs``: it is there, and unreadable
        if fire in runs:
            action = fire_action(run, backfill=backfill.id, too_old=fire < floor)
        if action is FireAction.COUNT and run is not None:
            backfill = backfill.counted(fire, run.state)
        elif action is FireAction.SKIP:
            backfill, met_runs = backfill.counted(fire, None), True
        elif action is FireAction.WAIT:
            _send_again(mover, run, looked)
        elif may_claim and fire in mine:  # the mover that let another one in is about to claim it
            missing.append(fire)
        elif backfill.state is BackfillState.CANCELLED:
            backfill = backfill.without(fire)
    return backfill, missing, met_runs


# The next fires.


def _refilled(mover: BackfillMover, backfill: StoredBackfill, *, met_runs: bool) -> StoredBackfill:
    """The backfill with the next fires in its window. ``met_runs``: a fire had a run, so the ledger is asked which others have."""
    if mover.current is None or not backfill.room:
        return backfill
    taken, floor = _taken(mover, backfill) if met_runs else frozenset(), mover.floor(backfill)
    new: list[int] = []
    skipped, cursor = 0, backfill.cursor
    for steps, fire in enumerate(walk(backfill, mover.table), 1):
        cursor = fire
        if fire in taken or fire < floor:
            skipped += 1
        else:
            new.append(fire)
        if len(new) == backfill.room or steps == _STEPS:
            return backfill.entered(new, cursor=cursor, skipped=skipped, exhausted=False)
    return backfill.entered(new, cursor=cursor, skipped=skipped, exhausted=True)


def _taken(mover: BackfillMover, backfill: StoredBackfill) -> frozenset[int]:
    """The next fires beyond the cursor, in the backfill's order, that cannot be claimed."""
    newest, cursor = backfill.order is BackfillOrder.NEWEST, backfill.cursor
    page = mover.context.services.ledger.page(
        backfill.owner,
        after=backfill.start - 1 if newest or cursor is None else cursor,
        upto=backfill.end - 1 if not newest or cursor is None else cursor - 1,
        limit=_ROWS,
        cursor=None,
        newest_first=newest,
    )
    return frozenset(run.due for run in page.items if run.ref.is_fire and not is_free(run))


# Claims and messages.


def _claimed(mover: BackfillMover, backfill: StoredBackfill, fires: Sequence[int]) -> list[int]:
    """Claim fires of the window and send them; the fires to look at again, because they have a run that is not waiting for us."""
    if not fires:
        return []
    claims = {fire: _claim_of(mover, backfill, fire) for fire in fires}
    ledger = mover.context.services.ledger
    answer = ledger.claim(list(claims.values()))
    free = {ref for ref, there in answer.existing.items() if is_free(there)}
    revived = ledger.move_all([(run.ref, revive(claim=run)) for run in claims.values() if run.ref in free])
    waiting, again, unanswered = [], [], []
    for fire, run in claims.items():
        there = answer.existing.get(run.ref)
        if run.ref in answer.created or revived.get(run.ref):
            waiting.append(run)
        elif there is not None and there.backfill == backfill.id and there.state is RunState.QUEUED:
            waiting.append(there)  # claimed by a request whose answer was lost, or by another mover
        elif there is None and run.ref not in answer.unreadable:
            unanswered.append(run)
        else:
            again.append(fire)
    _send(mover, waiting)
    if unanswered:
        raise Unavailable(f"the claim of {unanswered[0].ref} was not answered")
    return again


def _claim_of(mover: BackfillMover, backfill: StoredBackfill, fire: int) -> RunRow:
    assert mover.current is not None
    defined_by = span_of(backfill, fire).revision
    job = mover.revision(defined_by).definition.job
    now = mover.context.clock()
    versions = mover.context.services.tenants.app_versions.current(now)
    return claim_of(backfill, fire, revision=mover.current, defined_by=defined_by, job=job, versions=versions, now=now)


def _send(mover: BackfillMover, runs: Sequence[RunRow]) -> None:
    messages = [fire_message(run, mover.revision(run.defined_by or run.revision), mover.context.trace) for run in runs]
    accepted = send(messages, mover.context.services.work, mover.context.clock)
    for run, sent in zip(runs, accepted, strict=True):
        if not sent:
            extra = {"run_id": str(run.ref), "error": "the queue did not accept its message"}
            log.warning("backfill.left_to_tick", extra=extra)


def _send_again(mover: BackfillMover, run: RunRow | None, looked: int | None) -> None:
    """Send a run that has been waiting for 1, 2, 4, 8 … minutes: behind a busy queue that makes few duplicates.

    One of these marks must have passed since the last look, not now: ticks may be missed.
    """
    if looked is None or run is None or run.state is not RunState.QUEUED:
        return
    before, now = (max(at - run.created_at, 0) // MINUTE for at in (looked, mover.context.clock()))
    if before.bit_length() < now.bit_length():
        _send(mover, [run])


# The worker's part.


def move_on(
    message: Message | None, state: RunState | None, revision: Revision | None, services: Services, clock: Clock
) -> None:
    """After a worker has ended a run of a backfill: count it and claim the next fire. If that fails, the ticker does it.

    ``revision``: that of the message, as it was before the run. If it was open, it was the current one; if it has been closed since,
    the workers refuse what is claimed under it.
    """
    if state not in TERMINAL or message is None or message.backfill is None:
        return
    context = FireContext(services=services, clock=clock, trace=message.trace)
    try:
        backfill = read_backfill(message.run.owner, message.backfill, services)
        fire = message.run.instant
        if backfill is None or fire is None or fire not in backfill.window:
            return
        if revision is not None and revision.active_until is None:
            mover = BackfillMover(backfill.owner, revision.number, context, {revision.number: revision})
        else:
            mover = mover_of(backfill, context)
        if state in _STARTED:
            mover.ended[fire] = state
        advance(mover, backfill, [fire], rounds=ROUNDS)
    except Exception as problem:  # noqa: BLE001 (the run is settled; nothing here may undo that)
        extra = {"run_id": str(message.run), "error": f"{type(problem).__name__}: {problem}"}
        log.warning("backfill.left_to_tick", extra=extra)
