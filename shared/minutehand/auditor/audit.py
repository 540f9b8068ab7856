"""Audit: prove the invariants on live data, repair what a bug, an operator or a lost item broke, and report it.

    chains   every ACTIVE head has its open revision's chain in the agenda
    runs     every fire of the recent past has its run, and none waits or runs long past its time

Heads are read before the agenda: a chain puts its next entry before it deletes the present one, so reading the agenda upwards
after the head cannot miss it. What seems missing is looked at a second time before anything is repaired.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from minutehand.auditor.resend import not_come_to, resend
from minutehand.auditor.tidy import FAR, tidy
from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.names import RunRef, fire_ref, shard_of
from minutehand.domain.options import CatchUp
from minutehand.domain.run import WAITING, RunRow, RunState
from minutehand.domain.schedule import Head, Revision, ScheduleState
from minutehand.domain.times import HOUR, MINUTE, SECOND
from minutehand.errors import MinutehandError, Unavailable
from minutehand.fires.claim import FireClaim, materialise
from minutehand.fires.context import FireContext
from minutehand.fires.current import find_revision
from minutehand.fires.missed import gaps_before, record_missed
from minutehand.fires.plan import chain_entry, end_of, timetable_of
from minutehand.owner.schedules.pauses import resume_entry
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.catch_up import covers
from minutehand.timing import fires

log = logging.getLogger(__name__)

GRACE = 5 * MINUTE  # how long past its time a run may wait before it is sent again
WINDOW = 2 * HOUR  # how far back fires are recomputed: twice the auditor's period
SEGMENTS = 24 * 7  # parts of the ledger, one an hour: every run is looked at once a week, within the queue's 14 days
_MOST = 2_000  # fires of one schedule that are recomputed
_PAGE = 500


@dataclass(kw_only=True)
class AuditReport:
    """What was looked at, found and repaired."""

    schedules: int = 0  # ACTIVE heads looked at
    rearmed: int = 0  # without a chain, or paused beyond the end of the pause: their agenda entry put again
    unclaimed: int = 0  # fires of the recent past without a run: claimed now, or passed over as their policy has it
    moved: int = (
        0  # runs at instants that are no fires any more, since the rules of their time zone changed: only reported
    )
    resent: int = 0  # runs waiting or running long past their time: sent again
    quarantined: int = 0  # entries that were moved aside and wait for a human
    tidied: int = 0  # entries of closed revisions that lay beyond their end: removed
    failed: int = 0  # schedules that could not be audited
    overdue: int = (
        0  # runs of any age and kind, found in this hour's part of the ledger long past their time: sent again
    )


def audit(
    services: Services, *, clock: Clock, slices: int = 1, window: int = WINDOW, segments: int = SEGMENTS
) -> AuditReport:
    """One audit. ``slices`` bounds memory: the schedules of one hash range at a time are held against the agenda.

    ``segments`` is into how many parts the ledger is cut, of which each audit reads one; 0 reads none.
    """
    report = AuditReport()
    shards = services.agenda.shards(fresh=True)
    for part in range(slices):
        heads = [head for head in services.schedules.all_heads() if _slice(head.owner, slices) == part]
        active = [head for head in heads if head.state is ScheduleState.ACTIVE]
        report.schedules += len(active)
        _chains(active, services, clock, shards, report)
        report.rearmed += _pauses(heads, services, clock, shards)
        for head in active:
            _runs_of(head, services, clock, window, report)
    report.tidied = sum(tidy(shard, services, clock) for shard in range(shards))
    if segments:
        _overdue(clock() // HOUR % segments, segments, services, clock, report)
    report.quarantined = sum(len(services.agenda.quarantined(shard)) for shard in range(shards))
    log.info("audit.done", extra=dict(vars(report)))
    return report


def _slice(owner: str, slices: int) -> int:
    return zlib.crc32(owner.encode()[::-1]) % slices


# Chains.


def _chains(heads: Sequence[Head], services: Services, clock: Clock, shards: int, report: AuditReport) -> None:
    suspects = _without_chain(heads, services, shards)
    for head in _without_chain(suspects, services, shards):
        try:
            report.rearmed += _rearm(head, services, clock)
        except Exception as problem:  # noqa: BLE001 (reported by name; the other schedules are audited all the same)
            report.failed += 1
            log.error("audit.failed", extra={"schedule": head.owner, "error": f"{type(problem).__name__}: {problem}"})


def _without_chain(heads: Sequence[Head], services: Services, shards: int) -> list[Head]:
    """The heads whose current revision has no entry, waiting or moved aside."""
    missing = {f"{head.owner}#{head.revision}": head for head in heads}
    for shard in range(shards):
        if not missing:
            break
        for entry_id in _chain_ids(shard, services):
            missing.pop(entry_id, None)
    return list(missing.values())


def _chain_ids(shard: int, services: Services) -> set[str]:
    ids = {key.split("#", 2)[2] for key in services.agenda.quarantined(shard)}
    after = None
    while True:
        page = services.agenda.due(shard, upto=FAR, after=after, limit=_PAGE)
        ids |= {entry.id for entry in page.entries if entry.kind is EntryKind.CHAIN}
        ids |= {key.split("#", 2)[-1] for key in page.newer}
        after = page.last
        if after is None:
            return ids


def _rearm(head: Head, services: Services, clock: Clock) -> bool:
    """Put the chain's entry again, from the last fire that has a run on; no fire is skipped, claimed ones are not repeated."""
    now = services.schedules.head(head.tenant, head.name)
    revision = _open_revision(head, services)
    if now is None or now.version != head.version or revision is None:
        return False  # it moved on while we looked
    entry = _entry_after(revision, max(_reached(revision, services), revision.active_from))
    if entry is None:
        to = end_of(revision.definition.options)
        return services.schedules.complete(head.tenant, head.name, revision=head.revision, now=clock(), to=to)
    if entry.key not in services.agenda.put([entry]):
        raise Unavailable(f"the entry of {head.owner} was not accepted")
    log.error("audit.rearmed", extra={"tenant": head.tenant, "schedule": head.name, "entry": entry.key})
    return True


def _of_chain(run: RunRow) -> bool:
    """Whether a chain came to its fire: not a trigger's, a gap's or a backfill's, which say nothing about the fires before it."""
    return run.ref.is_fire and run.backfill is None


def _pauses(heads: Sequence[Head], services: Services, clock: Clock, shards: int) -> int:
    """Put the entries again that should have ended pauses by now; how many. One that is there is put as it is."""
    due = [head for head in heads if head.resume_at is not None and head.resume_at < clock() - GRACE]
    ends = [entry for head in due if (entry := resume_entry(head, shard_of(head.owner, shards))) is not None]
    for entry in ends:
        log.error("audit.rearmed", extra={"entry": entry.key})
    return len(services.agenda.put(ends)) if ends else 0


def _reached(revision: Revision, services: Services) -> int:
    """How far its chain has been, going by what it left: runs of its own fires, and rows of gaps (UTC ms)."""
    for run in services.ledger.latest(revision.owner, upto=FAR):
        left_by_it = run.skipped_until is not None or (_of_chain(run) and run.state is not RunState.SKIPPED)
        if run.revision == revision.number and left_by_it:
            return run.skipped_until or run.due
    return 0


def _open_revision(head: Head, services: Services) -> Revision | None:
    revision = find_revision(head.owner, head.revision, services)
    return revision if revision is not None and revision.active_until is None else None


def _entry_after(revision: Revision, after: int) -> AgendaEntry | None:
    due = timetable_of(revision).next(after)
    if due is None:
        return None
    return chain_entry(revision, due, after)


# Runs.


def _runs_of(head: Head, services: Services, clock: Clock, window: int, report: AuditReport) -> None:
    """One schedule's recent past: its failure is its own."""
    try:
        revision = _open_revision(head, services)
        if revision is None:
            return
        now = clock()
        upto = now - GRACE
        runs = {run.ref: run for run in services.ledger.window(head.owner, after=now - window, upto=upto)}
        after = max(
            revision.active_from, now - window
        )  # from then on its fires; the runs of older revisions must end as well
        due = _recomputed(revision, after, upto)
        report.unclaimed += _claim_missing(revision, due, after, runs, services, clock)
        report.moved += _moved(revision, due, runs.values())
        for run in runs.values():
            report.resent += is_stuck(run, now) and resend(run, services, clock)
    except Exception as problem:  # noqa: BLE001 (reported by name; the other schedules are audited all the same)
        report.failed += 1
        log.error("audit.failed", extra={"schedule": head.owner, "error": f"{type(problem).__name__}: {problem}"})


def _recomputed(revision: Revision, after: int, upto: int) -> list[int]:
    """The fires in ``(after, upto]``, as the time engine has them today."""
    return list(islice(fires(timetable_of(revision), after, upto), _MOST))


def _moved(revision: Revision, due: Sequence[int], runs: Iterable[RunRow]) -> int:
    """Runs at instants that are no fires any more: the rules of a time zone changed after they were claimed."""
    until = due[-1] if len(due) == _MOST else None
    known = set(due)
    chained = (run for run in runs if run.revision == revision.number and _of_chain(run))
    of_it = (run for run in chained if until is None or run.due <= until)
    moved = [run for run in of_it if run.due not in known]
    for run in moved:
        log.warning("audit.moved", extra={"run_id": str(run.ref)})
    return len(moved)


def _claim_missing(
    revision: Revision, due: Sequence[int], after: int, runs: Mapping[RunRef, RunRow], services: Services, clock: Clock
) -> int:
    """Deal with fires that neither have a run nor lie in a gap: as late as they are, their policy decides."""
    missing = [fire for fire in due if fire_ref(revision.owner, fire) not in runs]
    gaps = [run for run in runs.values() if run.skipped_until is not None]
    gaps += _gap_before(revision, after, services) if missing else []
    missing = [fire for fire in missing if not any(covers(gap, fire) for gap in gaps)]
    if not missing:
        return 0
    if not_come_to(revision, missing[0], services) is not None:
        return 0  # the ticker is behind, and will come to them
    options, now = revision.definition.options, clock()
    youngest = now - options.catch_up_window * SECOND if options.catch_up is CatchUp.ALL else now
    passed = [fire for fire in missing if fire < youngest]
    recorded = record_missed(revision, passed, after, services, clock).skipped if passed else 0
    late = [FireClaim(revision, fire) for fire in missing[len(passed) :]]
    return recorded + (materialise(late, FireContext(services=services, clock=clock)).claimed if late else 0)


def _gap_before(revision: Revision, upto: int, services: Services) -> list[RunRow]:
    """The last gap that begins at or before an instant (UTC ms); it may reach beyond."""
    gaps = gaps_before(revision.owner, upto, services)
    return [gap for gap in gaps if gap.revision == revision.number][:1]


def _overdue(segment: int, segments: int, services: Services, clock: Clock, report: AuditReport) -> None:
    """Runs whose message must be gone, a one-off's or an old one's: nothing else would ever come back to them."""
    for run in services.ledger.unfinished(segment=segment, segments=segments):
        now = clock()
        if not is_stuck(run, now - WINDOW):
            continue
        try:
            fresh = services.ledger.read(run.ref)
            if fresh is not None and is_stuck(fresh, now - WINDOW):
                report.overdue += resend(fresh, services, clock)
        except MinutehandError as problem:
            report.failed += 1
            log.error("audit.failed", extra={"run_id": str(run.ref), "error": str(problem)})


def is_stuck(run: RunRow, now: int) -> bool:
    """Whether a run is waiting or running long past its time, so that its message must have been lost."""
    if run.state in WAITING:
        return run.not_before < now - GRACE
    return run.state is RunState.RUNNING and (run.lease_until or 0) < now - GRACE
