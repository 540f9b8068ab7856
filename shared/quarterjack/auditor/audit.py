"""Audit: check the invariants on live data, repair violations, and report them.

    audit ─► read the bookmark ─► each walk takes its share of the time ─► unfinished walks take the rest ─► count quarantined ─► report

    chains    every ACTIVE head has its open revision's chain in the agenda           chain_walk
    entries   none lies beyond the end of its revision or in another shard            repairs
    runs      every fire of the recent past has its run, and none waits too long      run_walks
    ledger    no run of any age waits or runs long past its time; a part an hour      run_walks
    payloads  none outlives the runs and revisions that name it; once a pass          run_walks

Each is a walk of bounded steps with a share of the audit's time, so that a large ledger delays no chain. The time that a walk does not
use goes to the others. A walk continues where the last audit stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from quarterjack.auditor.chain_walk import ChainWalk
from quarterjack.auditor.repairs import tidy
from quarterjack.auditor.run_walks import WINDOW, LedgerWalk, PayloadWalk, RunWalk
from quarterjack.auditor.walk import AuditReport, Bookmark, Round, Walk
from quarterjack.domain.tenants.caller import role
from quarterjack.fires.context import FireContext
from quarterjack.owner.ticker_health import is_needed
from quarterjack.ports.services import Clock, Services

log = logging.getLogger(__name__)

HOURS = 24 * 7  # every run is read once a week, within the queue's 14 days
SEGMENTS = 8 * HOURS  # parts of the ledger: eight an hour, read side by side
WORKERS = (
    8  # threads that check recent runs in a process or a function of its own: each waits for DynamoDB most of the time
)
BATCH = 100_000  # schedules whose chains are compared with the agenda at a time: 25 MB


def audit(
    services: Services,
    *,
    clock: Clock,
    window: int = WINDOW,
    segments: int = SEGMENTS,
    budget: int | None = None,
    removes: bool = False,
    batch: int = BATCH,
    workers: int = 1,
) -> AuditReport:
    """One audit.

    ``budget``: ms after which it begins no further step; every walk takes at least one. ``segments``: parts of the ledger, of which each
    audit reads so many that a week of hourly audits reads all; 0 reads none. ``batch`` bounds memory: so many schedules at a time are
    compared with the agenda. ``workers``: threads that check the recent runs of schedules. ``removes``: remove deleted schedules
    and large payloads after the retention; only where tables, bucket and retention belong to one installation for certain, as in the
    stack's own function. Raises the first error of a walk that could not go on, when the others have had their time.
    """
    bookmark, layout = Bookmark(services, clock), services.agenda.layout(fresh=True)
    context = FireContext(services=services, clock=clock, caller=role("auditor"))
    state = Round(context=context, layout=layout, report=AuditReport(), progress=bookmark.progress)
    walks: list[Walk] = [
        ChainWalk(state, batch=batch, removes=removes),
        _EntryWalk(state),
        RunWalk(state, window=window, workers=workers),
    ]
    walks += [PayloadWalk(state)] if removes and segments else []
    walks += [LedgerWalk(state, segments=segments, most=max(1, segments // HOURS))] if segments else []
    problem = _take_turns(walks, state, bookmark, budget)
    _count_quarantined(state)
    log.info("audit.done", extra=dict(vars(state.report)))
    if problem is not None:
        raise problem
    return state.report


def _take_turns(walks: Sequence[Walk], state: Round, bookmark: Bookmark, budget: int | None) -> Exception | None:
    """Give each walk its share of the time, then the remaining time to the walks that are not through. Returns the first error."""
    end = None if budget is None else state.clock() + budget
    problem, left, shares = None, list[Walk](), sum(walk.share for walk in walks)
    for walk in walks:
        done, failure = _advance(walk, state, bookmark, _until(end, state, walk.share / shares))
        problem = problem or failure
        left += [] if done else [walk]
        shares -= walk.share
    unfinished = 0
    for walk in left:
        if problem is not None or (end is not None and state.clock() >= end):
            unfinished += 1
            continue
        done, problem = _advance(walk, state, bookmark, end)
        unfinished += not done
    state.report.stopped = int(unfinished > 0)
    bookmark.save()
    return problem


def _until(end: int | None, state: Round, part: float) -> int | None:
    """When a part of the remaining time is over (UTC ms); None: never."""
    now = state.clock()
    return None if end is None else now + max(0, int((end - now) * part))


def _advance(walk: Walk, state: Round, bookmark: Bookmark, until: int | None) -> tuple[bool, Exception | None]:
    """Take steps of a walk up to ``until`` (UTC ms), one at least. Returns whether the walk is through, and its error."""
    state.until, done = until, False
    try:
        while not done:
            done = walk.step()
            bookmark.save_often()
            if state.is_over():
                break
    except Exception as problem:
        log.exception("audit.walk_failed", extra={"walk": type(walk).__name__})
        return done, problem
    return done, None


def _count_quarantined(state: Round) -> None:
    """Count the entries that were moved aside, are needed, and wait for an operator."""
    keys = (key for shard in range(state.layout.shards) for key in state.services.agenda.quarantined(shard))
    state.report.quarantined = sum(is_needed(key, state.services) for key in keys)


class _EntryWalk:
    """Tidies one shard of the agenda a step."""

    share = 10

    def __init__(self, state: Round) -> None:
        self._state = state

    def step(self) -> bool:
        progress, layout = self._state.progress, self._state.layout
        shard = progress.tidied % layout.shards
        tidied, resharded = tidy(shard, layout, self._state.context)
        self._state.report.tidied += tidied
        self._state.report.resharded += resharded
        progress.tidied = (shard + 1) % layout.shards
        return progress.tidied == 0
