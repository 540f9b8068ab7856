"""Lanes: what brings a backfill forward, a fire at a time. Workers call it when a run of theirs has ended; the ticker where none did.

    the lane's place, conditionally ──► claim of its fire ──► message

The place is written first, under the lane's version: of two processes that move a lane one goes on. Dying before the claim or the
message leaves a place whose run is missing or waits, and whoever looks at the lane next claims or sends it. The claim has the key
of a live fire, so a fire that a chain, another backfill or an earlier try has claimed is not claimed again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from minutehand.domain.run import TERMINAL, RunRow, RunState
from minutehand.domain.schedule import Revision
from minutehand.domain.times import MINUTE
from minutehand.errors import Unavailable
from minutehand.fires.current import read_revision
from minutehand.fires.send import fire_message, send
from minutehand.flow.backfill_records import (
    Kept,
    lanes_of,
    moved_to,
    read_backfill,
    read_lane,
    write_lane,
)
from minutehand.flow.outcome import Outcome
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.backfill import (
    AtFire,
    Backfill,
    BackfillOrder,
    BackfillState,
    Lane,
    Standing,
    Stretch,
    at_fire,
    claim_of,
    fire_of,
    is_free,
    parse_tag,
    standing,
    tag_of,
)
from minutehand.state.definition_spans import stretch_of, walk
from minutehand.state.transitions import revive
from minutehand.timing import Timetable, timetable

log = logging.getLogger(__name__)

ROUNDS = 4  # places that a worker moves a lane past, at the most; further ones are left to the ticker
_ROWS = 1_000  # runs that are read at once where fires have theirs already: about one query
_STEPS = 5_000  # fires that are stepped over at once
_GARBAGE = (ValueError, KeyError, TypeError)  # a row that this release cannot read as a run


@dataclass
class Going:
    """A backfill under way, and what its lanes need again and again."""

    backfill: Backfill
    current: int  # number of its schedule's current revision, under which runs are claimed
    services: Services
    clock: Clock
    trace: str | None = None
    revisions: dict[int, Revision] = field(default_factory=dict)  # by number, as far as they were asked for

    @property
    def floor(self) -> int | None:
        return self.backfill.floor(self.clock(), self.services.retention)

    def revision(self, number: int) -> Revision:
        """A revision of the schedule. Raises Unavailable, NotFound, and what makes it unreadable."""
        if number not in self.revisions:
            self.revisions[number] = read_revision(self.backfill.owner, number, self.services)
        return self.revisions[number]

    def table(self, stretch: Stretch) -> Timetable:
        """The fires of a stretch's definition. Raises as ``revision``."""
        rule = self.revision(stretch.revision).definition.rule
        return timetable(rule, anchor=stretch.anchor, key=self.backfill.owner)

    def is_too_old(self, fire: int) -> bool:
        return self.floor is not None and fire < self.floor


def going(backfill: Backfill, services: Services, clock: Clock, trace: str | None = None) -> Going | None:
    """The backfill, if runs of it may start now."""
    head = services.schedules.head(backfill.tenant, backfill.name)
    if head is None or standing(backfill, head) is not Standing.GOES:
        return None
    return Going(backfill, head.revision, services, clock, trace)


def move_on(outcome: Outcome, revision: Revision | None, services: Services, clock: Clock) -> None:
    """After a worker has dealt with a message: move the lane whose run has ended. If that fails, the ticker does it.

    ``revision``: that of the message, as it was before its run. If it was open, it was the current one; if it has been closed since,
    the workers refuse what is claimed under it.
    """
    message = outcome.message
    if outcome.state not in TERMINAL or message is None or message.backfill is None:
        return
    try:
        backfill, number = parse_tag(message.backfill)
        kept = read_backfill(message.run.owner, backfill, services)
        if kept is None or kept.backfill.state is not BackfillState.RUNNING:
            return
        if revision is not None and revision.active_until is None:
            under_way: Going | None = Going(kept.backfill, revision.number, services, clock, message.trace)
        else:
            under_way = going(kept.backfill, services, clock, message.trace)
        if under_way is None:
            return
        lane = advance(under_way, read_lane(kept.backfill, number, services), rounds=ROUNDS)
        if lane.over:
            finish(kept, services, clock)
    except Exception as problem:  # noqa: BLE001 (the run is settled; nothing here may undo that)
        extra = {"run_id": str(message.run), "error": f"{type(problem).__name__}: {problem}"}
        log.warning("backfill.left_to_tick", extra=extra)


def finish(kept: Kept, services: Services, clock: Clock) -> bool:
    """The backfill is DONE once all its lanes are over; whether it is."""
    if not all(lane.over for lane in lanes_of(kept.backfill, services)):
        return False
    done = moved_to(kept, BackfillState.DONE, services, now=clock(), reason=None)
    if done is not None:
        log.info("backfill.done", extra={"schedule": kept.backfill.owner, "backfill": kept.backfill.id})
    return done is not None


def advance(under_way: Going, lane: Lane, *, rounds: int, looked: int | None = None) -> Lane:
    """Move a lane to its next run, past at most ``rounds`` places; the lane as it is then.

    A run that is under way keeps it where it is. ``looked`` is when the ticker looked before (UTC ms): one that has been waiting for
    long is sent again, because its message may be lost.
    """
    for _ in range(0 if lane.over else rounds):
        passed = False
        if lane.is_open:
            what, run = _deal_with(under_way, lane)
            if what is AtFire.AWAIT:
                _send_again(under_way, run, looked)
                return lane
            passed = what is AtFire.LEAVE
            lane = lane.counted(None if passed else run)
        moved = _next(under_way, lane, leap=passed)
        if not write_lane(under_way.backfill, moved, under_way.services):
            return lane  # somebody else moved it
        lane = moved
        if lane.over:
            return lane
        if lane.is_open and _claimed(under_way, lane):
            return lane
    return lane


def _deal_with(under_way: Going, lane: Lane) -> tuple[AtFire, RunRow | None]:
    """The fire that a lane has been at: its run, brought on its way if it is missing."""
    tag, too_old = tag_of(under_way.backfill.id, lane.number), under_way.is_too_old(lane.fire)
    try:
        run = under_way.services.ledger.read(fire_of(under_way.backfill, lane))
    except _GARBAGE:
        return AtFire.LEAVE, None
    what = at_fire(run, tag=tag, too_old=too_old)
    if what in (AtFire.CLAIM, AtFire.REVIVE):
        return (AtFire.AWAIT, None) if _claimed(under_way, lane) else (AtFire.LEAVE, None)
    return what, run


def _claimed(under_way: Going, lane: Lane) -> bool:
    """Claim the fire that a lane is at, and send it; False if it has a run that is not ours to start."""
    backfill, services = under_way.backfill, under_way.services
    defined_by = stretch_of(backfill, lane.fire).revision
    revision = under_way.revision(defined_by)
    run = claim_of(
        backfill,
        lane,
        revision=under_way.current,
        defined_by=defined_by,
        job=revision.definition.job,
        now=under_way.clock(),
    )
    answer = services.ledger.claim([run])
    there = answer.existing.get(run.ref)
    if run.ref not in answer.created and there is None and run.ref not in answer.unreadable:
        raise Unavailable(f"the claim of {run.ref} was not answered")
    if there is not None and is_free(there):
        there = services.ledger.move(run.ref, revive(claim=run)).run
    if run.ref not in answer.created and not _is_waiting(there, run):
        return there is not None and there.backfill == run.backfill and not there.is_terminal
    _send(run, revision, under_way)
    return True


def _is_waiting(there: RunRow | None, run: RunRow) -> bool:
    """Whether the run that is there is the one that we claim, and has not started."""
    return there is not None and there.backfill == run.backfill and there.state is RunState.QUEUED


def _send(run: RunRow, revision: Revision, under_way: Going) -> None:
    if not send([fire_message(run, revision, under_way.trace)], under_way.services.work, under_way.clock)[0]:
        log.warning(
            "backfill.left_to_tick", extra={"run_id": str(run.ref), "error": "the queue did not take its message"}
        )


def _send_again(under_way: Going, run: RunRow | None, looked: int | None) -> None:
    """Send a run that has been waiting for 1, 2, 4, 8 … minutes: behind a busy queue that makes few duplicates.

    What counts is that one of these has passed since the last look: ticks may be missed.
    """
    if looked is None or run is None or run.state is not RunState.QUEUED:
        return
    before, now = (max(at - run.created_at, 0) // MINUTE for at in (looked, under_way.clock()))
    if before.bit_length() < now.bit_length():
        _send(run, under_way.revision(run.defined_by or run.revision), under_way)


# The next place.


def _next(under_way: Going, lane: Lane, *, leap: bool) -> Lane:
    """The lane at its next fire. ``leap``: it has just met a run, so the ledger is asked for all that follow, and they are passed."""
    backfill, now = under_way.backfill, under_way.clock()
    taken = _taken_after(under_way, lane.fire) if leap else frozenset()
    index, fire, passed = lane.index, lane.fire, 0
    places = walk(backfill, under_way.table, index=index, fire=fire)
    for steps, (at, due) in enumerate(places, 1):
        index, fire = at, due
        if at % backfill.concurrency == lane.number:
            if due not in taken and not under_way.is_too_old(due):
                return lane.at(at, due, passed=passed, now=now)
            passed += 1
        if steps == _STEPS:
            return lane.beyond(index, fire, passed=passed, now=now)
    return lane.ended(passed=passed, now=now)


def _taken_after(under_way: Going, fire: int) -> frozenset[int]:
    """The next fires beyond one, in the backfill's order, that have a run in the way."""
    backfill = under_way.backfill
    newest = backfill.order is BackfillOrder.NEWEST
    page = under_way.services.ledger.page(
        backfill.owner,
        after=backfill.start - 1 if newest else fire,
        upto=fire - 1 if newest else backfill.end - 1,
        limit=_ROWS,
        cursor=None,
        newest_first=newest,
    )
    return frozenset(run.due for run in page.items if run.ref.is_fire and not is_free(run))
