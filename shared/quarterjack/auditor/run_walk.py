"""Recent runs: every fire of the last two hours has its run, and none waits or runs long past its time. A page of schedules a step."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from quarterjack.auditor.chain_walk import is_of_chain
from quarterjack.auditor.repairs import GRACE, is_behind, is_stuck, resend
from quarterjack.auditor.walk import Round, log_failure
from quarterjack.concurrency.pools import RequestPool
from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import Head, Revision, ScheduleState
from quarterjack.domain.times import DAY, HOUR
from quarterjack.fires.claim import FireClaim, materialise
from quarterjack.fires.context import FAR, FireContext, TickCounts, find_revision
from quarterjack.fires.plan import gaps_before, record_missed, timetable_of
from quarterjack.ports.services import Services
from quarterjack.state.catch_up import covers, oldest_to_run
from quarterjack.timing import fires

log = logging.getLogger(__name__)

WINDOW = 2 * HOUR  # how far back fires are recomputed: twice the auditor's period
LONGEST = 7 * DAY  # the same after audits that did not come
_MOST = 2_000  # fires of one schedule that are recomputed
_PAGE = 100  # schedules of a step: a second or two with eight workers


@dataclass(frozen=True, kw_only=True)
class RunFindings:
    """Of one schedule; as in AuditReport."""

    unclaimed: int = 0
    moved: int = 0
    resent: int = 0
    failed: int = 0


class RunWalk:
    """Through the ACTIVE schedules, several at a time."""

    share = 25

    def __init__(self, state: Round, *, window: int, workers: int) -> None:
        self._state, self._window = state, window
        self._pool = RequestPool(workers)

    def step(self) -> bool:
        progress, report = self._state.progress, self._state.report
        if not progress.runs:
            progress.began, progress.since = self._state.clock(), progress.began
        heads, progress_after = self._state.services.schedules.scan_heads(progress.runs, limit=_PAGE)
        active = [head for head in heads if head.state is ScheduleState.ACTIVE]
        window = self._window_now()
        found = self._pool.map(lambda head: (_guarded(head, window, self._state.context), 0), active) if active else []
        for each in found:
            report.unclaimed += each.unclaimed
            report.moved += each.moved
            report.resent += each.resent
            report.failed += each.failed
        progress.runs = progress_after
        return not progress.runs

    def _window_now(self) -> int:
        """Ms to look back. After rounds that took longer than an hour nothing may fall between two of them."""
        since = self._state.progress.since
        if not since:
            return self._window
        return min(max(self._window, self._state.clock() - since + HOUR), LONGEST)


def _guarded(head: Head, window: int, context: FireContext) -> RunFindings:
    try:
        return check_runs(head, window, context)
    except Exception as problem:  # noqa: BLE001 (any failure: the other schedules are audited all the same)
        log_failure({"schedule": head.owner}, problem)
        return RunFindings(failed=1)


def check_runs(head: Head, window: int, context: FireContext) -> RunFindings:
    """The last ``window`` ms of one schedule. Runs of older revisions are checked too: they must end as well. Raises Unavailable."""
    services, now = context.services, context.clock()
    revision = find_revision(head.owner, head.revision, services)
    if revision is None or revision.active_until is not None:
        return RunFindings()  # the schedule was changed meanwhile
    upto = now - GRACE
    runs = {run.ref: run for run in services.ledger.window(head.owner, after=now - window, upto=upto)}
    after = max(revision.active_from, now - window)
    due = list(islice(fires(timetable_of(revision), after, upto), _MOST))
    return RunFindings(
        unclaimed=_claim_missing(revision, due, after, runs, context),
        moved=_moved(revision, due, runs.values()),
        resent=sum(is_stuck(run, now) and resend(run, services, context.clock) for run in runs.values()),
    )


def _claim_missing(
    revision: Revision, due: Sequence[int], after: int, runs: Mapping[RunRef, RunRow], context: FireContext
) -> int:
    """Claim the fires that have neither a run nor a row of skipped fires, or skip them if their policy says so."""
    missing = _without_run(revision, due, after, runs, context.services)
    if not missing or is_behind(revision, missing[0], context.services):
        return 0
    youngest = oldest_to_run(revision.definition.options, context.clock())
    passed = [fire for fire in missing if fire < youngest]
    recorded = record_missed(revision, passed, after, context).skipped if passed else 0
    counts = TickCounts()
    materialise([FireClaim(revision, fire) for fire in missing[len(passed) :]], context, counts)
    return recorded + counts.claimed


def _without_run(
    revision: Revision, due: Sequence[int], after: int, runs: Mapping[RunRef, RunRow], services: Services
) -> list[int]:
    missing = [fire for fire in due if fire_ref(revision.owner, fire) not in runs]
    gaps = [run for run in runs.values() if run.skipped_until is not None]
    if missing:  # the last row that begins before the window may reach into it
        earlier = gaps_before(revision.owner, after, services)
        gaps += [gap for gap in earlier if gap.revision == revision.number][:1]
    return [fire for fire in missing if not any(covers(gap, fire) for gap in gaps)]


def _moved(revision: Revision, due: Sequence[int], runs: Iterable[RunRow]) -> int:
    """Runs at instants that are no fires any more: the rules of a time zone changed after they were claimed."""
    until = due[-1] if len(due) == _MOST else FAR
    known = set(due)
    chained = (run for run in runs if run.revision == revision.number and is_of_chain(run))
    moved = [run for run in chained if run.due <= until and run.due not in known]
    for run in moved:
        log.warning("audit.moved", extra={"run_id": str(run.ref)})
    return len(moved)
