"""Audit: check the invariants on live data, repair what a bug, an operator or a lost item broke, and report it.

    chains   every ACTIVE head has its open revision's chain in the agenda
    runs     every fire of the recent past has its run, and none waits or runs long past its time

Heads are read before the agenda: a chain puts its next entry before it deletes the present one, so reading the agenda upwards after
the head cannot miss the chain. A chain that seems missing is looked for a second time before it is repaired.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from quarterjack.auditor.payloads import remove_payloads
from quarterjack.auditor.progress import read_progress, write_progress
from quarterjack.auditor.repairs import GRACE, is_behind, is_stuck, resend, tidy
from quarterjack.auditor.retention import retire_all
from quarterjack.domain.audit import role
from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.run import EntryKind, RunRow, RunState
from quarterjack.domain.schedule import Head, Revision, ScheduleState
from quarterjack.domain.times import DAY, HOUR
from quarterjack.errors import Unavailable
from quarterjack.fires.acts import completion_line
from quarterjack.fires.claim import FireClaim, materialise
from quarterjack.fires.context import FAR, FireContext, TickCounts, due_pages, find_revision
from quarterjack.fires.plan import chain_entry, end_of, gaps_before, record_missed, timetable_of
from quarterjack.owner.schedules.stop import resume_entry
from quarterjack.owner.ticker_health import is_needed
from quarterjack.ports.services import Clock, Services
from quarterjack.state.catch_up import covers, oldest_to_run
from quarterjack.timing import fires

log = logging.getLogger(__name__)

WINDOW = 2 * HOUR  # how far back fires are recomputed: twice the auditor's period
LONGEST = 7 * DAY  # the same after audits that did not come
HOURS = 24 * 7  # every run is read once a week, within the queue's 14 days
SEGMENTS = 8 * HOURS  # parts of the ledger, eight an hour, so that an audit which has little time gets further by one
_MOST = 2_000  # fires of one schedule that are recomputed


@dataclass(kw_only=True)
class AuditReport:
    """Counts of what an audit read, found and repaired."""

    schedules: int = 0  # ACTIVE heads
    rearmed: int = 0  # without a chain, or paused beyond the end of the pause: their agenda entry put again
    unclaimed: int = 0  # fires of the recent past without a run: claimed now, or skipped by their policy
    moved: int = 0  # runs at instants that are no fires any more, as the rules of a time zone changed: only reported
    resent: int = 0  # runs waiting or running long past their time: sent again
    quarantined: int = 0  # entries that were moved aside, are needed, and wait for an operator
    tidied: int = 0  # entries of closed revisions that lay beyond their end: removed
    resharded: int = 0  # chains that went to another shard, because the layout of the agenda has changed
    failed: int = 0  # schedules that could not be audited
    stopped: int = 0  # 1: its time was over before it was through; the next audit continues there
    removed: int = 0  # large payloads that nothing needs any more: removed
    retired: int = 0  # schedules deleted a retention ago: only their numbering is kept
    revisions: int = 0  # of these: removed
    overdue: int = 0  # runs of any age and kind, in this hour's part of the ledger, long past their time: sent again


def audit(
    services: Services,
    *,
    clock: Clock,
    slices: int = 1,
    window: int = WINDOW,
    segments: int = SEGMENTS,
    budget: int | None = None,
    removes: bool = False,
) -> AuditReport:
    """One audit. ``slices`` bounds memory: the heads of one hash range at a time are compared with the agenda.

    ``segments`` is the number of parts of the ledger, of which each audit reads so many that a week of hourly audits reads all; 0 reads
    none. An audit that has taken ``budget`` ms begins nothing further; the next one begins there. ``removes``: what is kept for the
    retention goes after it, deleted schedules and large payloads. Only where tables, bucket and retention are surely those of one
    installation, as in the stack's own function.
    """
    one = _Audit(services, clock, window, segments, budget)
    one.removes = removes
    one.go_round(slices)
    aside = (key for shard in range(one.shards) for key in services.agenda.quarantined(shard))
    one.report.quarantined = sum(is_needed(key, services) for key in aside)
    log.info("audit.done", extra=dict(vars(one.report)))
    return one.report


class _Audit:
    """One audit and its report."""

    def __init__(self, services: Services, clock: Clock, window: int, segments: int, budget: int | None) -> None:
        self._services, self._clock = services, clock
        self._window, self._segments = window, segments
        self._until = None if budget is None else clock() + budget
        self._progress, self._version = read_progress(services)
        self.context = FireContext(services=services, clock=clock, caller=role("auditor"))
        self.layout = services.agenda.layout(fresh=True)
        self.shards = self.layout.shards
        self.report = AuditReport()
        self.removes = False

    def go_round(self, slices: int) -> None:
        """Every step once, from the one on that the last audit did not end."""
        parts = min(self._segments, max(1, self._segments // HOURS))
        steps: list[Callable[[], bool]] = [partial(self._check_slice, part, slices) for part in range(slices)]
        steps += [partial(self._tidy, shard) for shard in range(self.shards)] + [self._check_segment] * parts
        first = self._progress.step % len(steps)
        left = next((n for n in (*range(first, len(steps)), *range(first)) if not self._take(n, first, steps[n])), None)
        self.report.stopped = int(left is not None)
        write_progress(replace(self._progress, step=left or 0), self._version, self._services)

    def _take(self, number: int, first: int, step: Callable[[], bool]) -> bool:
        """Whether there was time for a step; the first is always begun, so that every audit gets further."""
        if number != first and self._is_over():
            return False
        if number == 0 and not self._progress.after:
            self._progress = self._progress.next_round(self._clock())
        return step()

    def _is_over(self) -> bool:
        return self._until is not None and self._clock() >= self._until

    def _check_slice(self, part: int, slices: int) -> bool:
        """Chains of all schedules of a slice, then their runs; whether there was time for all of these."""
        found = (h for h in self._services.schedules.all_heads() if zlib.crc32(h.owner.encode()[::-1]) % slices == part)
        heads = sorted(found, key=lambda head: head.owner)
        active = [head for head in heads if head.state is ScheduleState.ACTIVE]
        self.report.schedules += len(active)
        self.check_chains(active)
        self.report.rearmed += self.check_pauses(heads)
        if self.removes:
            gone = retire_all(heads, self.context, self.guarded, self._is_over)
            self.report.retired += gone.schedules
            self.report.revisions += gone.revisions
        for head in (head for head in active if head.owner > self._progress.after):
            self.guarded({"schedule": head.owner}, partial(self.check_runs, head))
            self._progress = replace(self._progress, after=head.owner)
            if self._is_over():
                return False
        self._progress = replace(self._progress, after="")
        return True

    def _tidy(self, shard: int) -> bool:
        tidied, resharded = tidy(shard, self.layout, self.context)
        self.report.tidied += tidied
        self.report.resharded += resharded
        return True

    def _check_segment(self) -> bool:
        segment = self._progress.segment % self._segments
        if self.removes and (segment == 0 or self._progress.removing):  # once a week, or where an audit stopped
            self.guarded({}, self._remove_payloads)
        self.check_segment(segment, self._segments)
        self._progress = replace(self._progress, segment=(segment + 1) % self._segments)
        return True

    def guarded(self, ids: Mapping[str, str], check: Callable[[], None]) -> None:
        """Run a check. Its failure is counted and logged with ``ids``, and stops no other check."""
        try:
            check()
        except Exception as problem:  # noqa: BLE001 (any failure: the other schedules are audited all the same)
            self.report.failed += 1
            log.error("audit.failed", extra={**ids, "error": f"{type(problem).__name__}: {problem}"})

    def _remove_payloads(self) -> None:
        removed = remove_payloads(self._services, self._clock, after=self._progress.removing)
        for last, count in removed:
            self.report.removed += count
            self._progress = replace(self._progress, removing=last)
            if self._is_over():
                return
        self._progress = replace(self._progress, removing="")

    # Chains.

    def check_chains(self, heads: Sequence[Head]) -> None:
        """Put the entry of every chain that has none."""
        for head in self._without_chain(self._without_chain(heads)):
            self.guarded({"schedule": head.owner}, partial(self._rearm, head))

    def _without_chain(self, heads: Sequence[Head]) -> list[Head]:
        """The heads whose current revision has no entry, waiting or moved aside."""
        missing = {f"{head.owner}#{head.revision}": head for head in heads}
        for shard in range(self.shards):
            if not missing:
                break
            ids = {key.split("#", 2)[2] for key in self._services.agenda.quarantined(shard)}
            for page in due_pages(shard, self._services):
                ids |= {entry.id for entry in page.entries if entry.kind is EntryKind.CHAIN}
                ids |= {key.split("#", 2)[-1] for key in page.newer}
            missing = {entry_id: head for entry_id, head in missing.items() if entry_id not in ids}
        return list(missing.values())

    def _rearm(self, head: Head) -> None:
        """Put the chain's entry again, from the last fire that has a run on: no fire is skipped, none is claimed twice."""
        services = self._services
        now = services.schedules.head(head.tenant, head.name)
        revision = self._open_revision(head)
        if now is None or now.version != head.version or revision is None:
            return  # the schedule was changed meanwhile
        after = max(self._reached(revision), revision.active_from)
        due = timetable_of(revision).next(after)
        if due is None:
            to = end_of(revision.definition.options)
            line = completion_line(revision, self.context)
            self.report.rearmed += services.schedules.complete(line, revision=head.revision, to=to)
            return
        entry = chain_entry(revision, due, after)
        if entry.key not in services.agenda.put([entry]):
            raise Unavailable(f"the entry of {head.owner} was not accepted")
        log.error("audit.rearmed", extra={"tenant": head.tenant, "schedule": head.name, "entry": entry.key})
        self.report.rearmed += 1

    def _reached(self, revision: Revision) -> int:
        """The last instant (UTC ms) that the revision's chain planned, by its runs and its rows of skipped fires."""
        for run in self._services.ledger.latest(revision.owner, upto=FAR):
            planned = run.skipped_until is not None or (_of_chain(run) and run.state is not RunState.SKIPPED)
            if run.revision == revision.number and planned:
                return run.skipped_until or run.due
        return 0

    def _open_revision(self, head: Head) -> Revision | None:
        revision = find_revision(head.owner, head.revision, self._services)
        return revision if revision is not None and revision.active_until is None else None

    def check_pauses(self, heads: Sequence[Head]) -> int:
        """Put the entries again that should have ended pauses by now; how many. Putting an entry that is there changes nothing."""
        due = [head for head in heads if head.resume_at is not None and head.resume_at < self._clock() - GRACE]
        ends = [entry for head in due if (entry := resume_entry(head, self.layout.shard_of(head.owner))) is not None]
        for entry in ends:
            log.error("audit.rearmed", extra={"entry": entry.key})
        return len(self._services.agenda.put(ends)) if ends else 0

    # Runs.

    def check_runs(self, head: Head) -> None:
        """The recent past of one schedule. Runs of older revisions are checked too: they must end as well."""
        revision, report = self._open_revision(head), self.report
        if revision is None:
            return
        now = self._clock()
        window = self._window
        if self._progress.since:  # rounds that took longer than an hour: nothing may fall between two of them
            window = min(max(window, now - self._progress.since + HOUR), LONGEST)
        upto = now - GRACE
        ledger = self._services.ledger
        runs = {run.ref: run for run in ledger.window(head.owner, after=now - window, upto=upto)}
        after = max(revision.active_from, now - window)
        due = list(islice(fires(timetable_of(revision), after, upto), _MOST))
        report.unclaimed += self._claim_missing(revision, due, after, runs)
        report.moved += _moved(revision, due, runs.values())
        for run in runs.values():
            report.resent += is_stuck(run, now) and resend(run, self._services, self._clock)

    def _claim_missing(self, revision: Revision, due: Sequence[int], after: int, runs: Mapping[RunRef, RunRow]) -> int:
        """Claim the fires that have neither a run nor a row of skipped fires, or skip them if their policy says so."""
        services = self._services
        missing = [fire for fire in due if fire_ref(revision.owner, fire) not in runs]
        gaps = [run for run in runs.values() if run.skipped_until is not None]
        if missing:  # the last row that begins before the window may reach into it
            earlier = gaps_before(revision.owner, after, services)
            gaps += [gap for gap in earlier if gap.revision == revision.number][:1]
        missing = [fire for fire in missing if not any(covers(gap, fire) for gap in gaps)]
        if not missing or is_behind(revision, missing[0], services):
            return 0
        youngest = oldest_to_run(revision.definition.options, self._clock())
        passed = [fire for fire in missing if fire < youngest]
        recorded = record_missed(revision, passed, after, self.context).skipped if passed else 0
        counts = TickCounts()
        materialise([FireClaim(revision, fire) for fire in missing[len(passed) :]], self.context, counts)
        return recorded + counts.claimed

    def check_segment(self, segment: int, segments: int) -> None:
        """Runs of one part of the ledger whose message must be lost, such as one-offs and old runs: nothing else would find them."""
        for run in self._services.ledger.unfinished(segment=segment, segments=segments):
            if is_stuck(run, self._clock() - WINDOW):
                self.guarded({"run_id": str(run.ref)}, partial(self._resend_overdue, run.ref))

    def _resend_overdue(self, ref: RunRef) -> None:
        fresh = self._services.ledger.read(ref)
        if fresh is not None and is_stuck(fresh, self._clock() - WINDOW):
            self.report.overdue += resend(fresh, self._services, self._clock)


def _of_chain(run: RunRow) -> bool:
    """Whether a chain claimed the fire: the run of a trigger or a backfill says nothing about the fires before it."""
    return run.ref.is_fire and run.backfill is None


def _moved(revision: Revision, due: Sequence[int], runs: Iterable[RunRow]) -> int:
    """Runs at instants that are no fires any more: the rules of a time zone changed after they were claimed."""
    until = due[-1] if len(due) == _MOST else FAR
    known = set(due)
    chained = (run for run in runs if run.revision == revision.number and _of_chain(run))
    moved = [run for run in chained if run.due <= until and run.due not in known]
    for run in moved:
        log.warning("audit.moved", extra={"run_id": str(run.ref)})
    return len(moved)
