"""Walks over runs: recent fires have their run, no run of any age waits or runs long past its time, no large payload outlives its run.

    RunWalk       fires of the last two hours, recomputed; a page of schedules a step
    LedgerWalk    one group of parts of the ledger, side by side, a page of each a step: it finds lost messages of one-offs, too
    PayloadWalk   all large payloads, once in each pass through the ledger

A group of parts that is too large for one audit continues in the next, behind the key that was read last.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice

from quarterjack.auditor.chain_walk import is_of_chain
from quarterjack.auditor.repairs import GRACE, is_behind, is_stuck, resend
from quarterjack.auditor.walk import Round, log_failure
from quarterjack.concurrency.pools import RequestPool
from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.payload import owner_of_object
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import Head, Revision, ScheduleState
from quarterjack.domain.times import DAY, HOUR
from quarterjack.fires.claim import FireClaim, materialise
from quarterjack.fires.context import FAR, FireContext, find_revision
from quarterjack.fires.plan import gaps_before, record_missed, timetable_of
from quarterjack.ports.services import Clock, Services
from quarterjack.state.catch_up import covers, oldest_to_run
from quarterjack.stores.upkeep import MOST_KEYS
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
        """Ms before now whose fires are checked. After a round of more than an hour the window reaches back to its begin."""
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
    made = materialise([FireClaim(revision, fire) for fire in missing[len(passed) :]], context)
    return recorded + made.counts.fires.claimed


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


class LedgerWalk:
    """Through this hour's group of parts; nothing else would find their lost messages."""

    share = 20

    def __init__(self, state: Round, *, segments: int, most: int) -> None:
        self._state, self._segments, self._most = state, segments, most

    def step(self) -> bool:
        progress = self._state.progress
        first = progress.segment % self._segments
        group = range(first, min(first + self._most, self._segments))
        begun = {number: progress.parts[str(number)] for number in group if str(number) in progress.parts}
        rows, rest = self._state.services.upkeep.unfinished(begun or dict.fromkeys(group, ""), segments=self._segments)
        for run in rows:
            if is_stuck(run, self._state.clock() - WINDOW):
                self._state.guarded({"run_id": str(run.ref)}, partial(self._resend, run.ref))
        progress.parts = {str(number): cursor for number, cursor in rest.items()}
        if not rest:
            progress.segment = group.stop % self._segments
        return not rest

    def _resend(self, ref: RunRef) -> None:
        services, clock = self._state.services, self._state.clock
        fresh = services.ledger.read(ref)
        if fresh is not None and is_stuck(fresh, clock() - WINDOW):
            self._state.report.overdue += resend(fresh, services, clock)


class PayloadWalk:
    """Through all large payloads, once in each pass through the ledger, before its first part."""

    share = 10

    def __init__(self, state: Round) -> None:
        self._state = state
        self._batches: Iterator[tuple[str, int]] | None = None

    def step(self) -> bool:
        progress = self._state.progress
        if self._batches is None:
            if not progress.removing and (progress.segment or progress.parts):
                return True
            self._batches = remove_payloads(self._state.services, self._state.clock, after=progress.removing)
        done, removed = next(self._batches, ("", 0))
        progress.removing = done
        self._state.report.removed += removed
        return not done


def remove_payloads(services: Services, clock: Clock, *, after: str = "") -> Iterator[tuple[str, int]]:
    """Check payloads beyond this key, in batches; of each batch the last key, and how many were removed. Raises Unavailable.

    A younger payload than the retention is of a run or schedule that is in the tables, or about to be.
    """
    keys = services.payloads.stored(after=after, before=clock() - services.retention - DAY)
    while batch := list(islice(keys, MOST_KEYS)):
        gone = [*_of_runs(batch, services), *_of_schedules(batch, services)]
        if gone:
            services.payloads.remove(gone)
            log.info("audit.payloads_removed", extra={"payloads": len(gone)})
        yield batch[-1], len(gone)


def _of_runs(keys: Sequence[str], services: Services) -> Iterator[str]:
    """The payloads of runs that are not in the ledger."""
    runs = {key: run for key in keys if isinstance(run := owner_of_object(key), RunRef)}
    read = services.ledger.look(list(runs.values()))
    return (key for key, run in runs.items() if run not in read.found and run not in read.unanswered)


def _of_schedules(keys: Sequence[str], services: Services) -> Iterator[str]:
    """The payloads of schedules that no row names. Keys are in order, so the payloads of a schedule are together."""
    for owner, group in groupby(keys, owner_of_object):
        if isinstance(owner, str):
            found = list(group)
            yield from sorted(set(found) - services.upkeep.named(owner, found))
