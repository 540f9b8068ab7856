"""Audit: check the invariants on live data, repair what a bug, an operator or a lost item broke, and report it.

    chains    every ACTIVE head has its open revision's chain in the agenda           chain_walk
    entries   none lies beyond the end of its revision or in another shard            repairs
    runs      every fire of the recent past has its run, and none waits too long      run_walk
    ledger    no run of any age waits or runs long past its time; a part an hour      ledger_walk
    payloads  none outlives the runs and revisions that name it; once a pass          ledger_walk

Each is a walk of bounded steps with a share of the audit's time, so that a large ledger delays no chain. What one walk leaves of its
time goes to the others. A walk continues where the last audit stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from quarterjack.auditor.chain_walk import ChainWalk
from quarterjack.auditor.repairs import tidy
from quarterjack.auditor.run_walks import WINDOW, LedgerWalk, PayloadWalk, RunWalk
from quarterjack.auditor.walk import AuditReport, Bookmark, Round, Walk
from quarterjack.domain.audit import role
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
    compared with the agenda. ``workers``: threads that check the recent runs of schedules. ``removes``: what is kept for the retention
    goes after it, deleted schedules and large payloads; only where tables, bucket and retention are surely those of one installation, as
    in the stack's own function. Raises the first error of a walk that could not go on, when the others have had their time.
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
    problem = _Course(state, bookmark, budget).take(walks)
    aside = (key for shard in range(layout.shards) for key in services.agenda.quarantined(shard))
    state.report.quarantined = sum(is_needed(key, services) for key in aside)
    log.info("audit.done", extra=dict(vars(state.report)))
    if problem is not None:
        raise problem
    return state.report


class _Course:
    """The walks of one audit, in turns."""

    def __init__(self, state: Round, bookmark: Bookmark, budget: int | None) -> None:
        self._state, self._bookmark = state, bookmark
        self._end = None if budget is None else state.clock() + budget
        self._problem: Exception | None = None

    def take(self, walks: Sequence[Walk]) -> Exception | None:
        """Give each walk its share of the time, then what is left to those that are not through; the first error."""
        left, shares = list[Walk](), sum(walk.share for walk in walks)
        for walk in walks:
            if not self._go(walk, walk.share / shares):
                left.append(walk)
            shares -= walk.share
        for walk in left:
            if not self._is_over() and self._go(walk, 1):
                left = [other for other in left if other is not walk]
        self._state.report.stopped = int(bool(left))
        self._bookmark.save()
        return self._problem

    def _go(self, walk: Walk, part: float) -> bool:
        """Walk for this part of the time that is left, at least one step; whether the walk is through."""
        now = self._state.clock()
        self._state.until = None if self._end is None else now + max(0, int((self._end - now) * part))
        done = False
        try:
            while not done:
                done = walk.step()
                self._bookmark.save_often()
                if self._state.is_over():
                    break
        except Exception as problem:
            log.exception("audit.walk_failed", extra={"walk": type(walk).__name__})
            self._problem = self._problem or problem
        return done

    def _is_over(self) -> bool:
        return self._problem is not None or (self._end is not None and self._state.clock() >= self._end)


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
