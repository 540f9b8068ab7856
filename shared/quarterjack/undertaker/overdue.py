"""The options ``alert_if_running_longer_than`` and ``must_end_by``: a timer for each run of a schedule that has one of them.

    entry id            is put                                          checks
    tenant/name#key     after its claim, or with a trigger              whether the run is over its time: then it is told, once
    … #since            in the transaction that writes the notice       whether the overdue run has ended: then that is told, once

No worker has a part in it: a run whose worker vanished, or that waits, is told as any other. The record of the notice, its entry and the
second entry are one transaction, on condition that there is no such record. So of several entries of a run one tells.
"""

from __future__ import annotations

import logging

from quarterjack.domain.notice import SCHEDULE_EVENTS, Notice, NoticeKind, notice_key
from quarterjack.domain.options import Options
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow
from quarterjack.domain.schedule import Revision
from quarterjack.domain.times import MINUTE
from quarterjack.fires.context import (
    GOES,
    STAYS,
    FireContext,
    Handled,
    ScheduleCounts,
    TickCounts,
    find_revision,
    postpone,
)
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE
from quarterjack.ports.services import Services
from quarterjack.state.incidents import ended_notice, limit_of, next_check, next_end_check, overdue_notice, target
from quarterjack.state.lease import SKEW
from quarterjack.stores.records import Record
from quarterjack.undertaker.incidents import notify_now
from quarterjack.values import replace

log = logging.getLogger(__name__)


def watch_end(entry: AgendaEntry, context: FireContext) -> Handled:
    """Both timers."""
    services, now = context.services, context.clock()
    if entry.due > now:
        return STAYS
    run, since = services.ledger.read(entry.run), entry.id.split("#")[2:]
    if run is None:  # a trigger puts the entry first
        is_orphan = now - entry.created_at > ORPHAN_PATIENCE
        return Handled(may_go=is_orphan or postpone(entry, now + MINUTE, services))
    if since:
        return _watch_overdue(entry, run, int(since[0]), context)
    revision = None if run.is_terminal else find_revision(run.ref.owner, run.defined_by or run.revision, services)
    if revision is None:
        return GOES
    limit = limit_of(run, revision)
    if limit is None or limit.at + SKEW > now:
        return Handled(may_go=postpone(entry, next_check(run, revision, now), services))
    log.warning("run.overdue", extra=_ids(run) | {"option": limit.option})
    follows = replace(entry, id=f"{entry.id}#{limit.at}", due=next_end_check(limit.at, now), created_at=now, failures=0)
    counts = _tell(overdue_notice(run, limit, now), revision, context, follows)
    return Handled(may_go=True, counts=counts + TickCounts(schedules=ScheduleCounts(incidents=1)))


def _watch_overdue(entry: AgendaEntry, run: RunRow, since: int, context: FireContext) -> Handled:
    services, now = context.services, context.clock()
    if not run.is_terminal:
        return Handled(may_go=postpone(entry, next_end_check(since, now), services))
    revision = find_revision(run.ref.owner, run.defined_by or run.revision, services)
    if revision is None:
        return GOES
    log.info("run.overdue_ended", extra=_ids(run) | {"state": str(run.state)})
    counts = _tell(ended_notice(run, since), revision, context)
    return Handled(may_go=True, counts=counts + TickCounts(schedules=ScheduleCounts(recovered=1)))


def _ids(run: RunRow) -> dict[str, str]:
    return {"tenant": run.ref.tenant, "run_id": str(run.ref), "job": run.job}


def _tell(notice: Notice, revision: Revision, context: FireContext, follows: AgendaEntry | None = None) -> TickCounts:
    """Write and deliver a notice, unless that was done. Nothing is written if nobody gets it, nor ``follows`` if nobody gets the end."""
    services, now, options = context.services, context.clock(), revision.definition.options
    if not _has_receiver(notice.kind, options, services):
        return TickCounts()
    to, entries = target(notice.kind, options), list[AgendaEntry]()
    if to is not None:
        ident = f"{notice.owner}#{notice.token}"
        entries.append(AgendaEntry(shard=revision.shard, due=now, kind=EntryKind.NOTICE, id=ident, created_at=now))
    if follows is not None and _has_receiver(NoticeKind.OVERDUE_ENDED, options, services):
        entries.append(follows)
    body, expires = {"to": to, "notice": notice.document()}, now + services.retention
    record = Record(owner=notice.owner, key=notice_key(notice.token), version=1, body=body, expires=expires)
    return notify_now(entries, context) if services.records.write(record, entries=entries) else TickCounts()


def _has_receiver(kind: NoticeKind, options: Options, services: Services) -> bool:
    return target(kind, options) is not None or SCHEDULE_EVENTS[kind] in services.schedule_events
