"""Skip the next fire of a schedule that has not started. Nothing else about the schedule changes.

One conditional write decides the race with ticker and worker: a fire that is not claimed gets a SKIPPED run, so that the ticker finds it
ended; a QUEUED run becomes SKIPPED, so that the worker's lease is refused. If the race is lost, the fire after it is skipped.

The record of a client token is written first, with the instant of the call; the skipped row has the call's token ``act``. So a repeated
call finds that row, wherever the first call died.
"""

from __future__ import annotations

from itertools import islice

from quarterjack.domain.audit import AuditAct, AuditEntryRow
from quarterjack.domain.names import schedule_owner
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.tenants.app_versions import AppVersions
from quarterjack.errors import Conflict, Unreadable
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.claim import FireClaim
from quarterjack.fires.context import FAR, FireContext, revision_of
from quarterjack.fires.plan import timetable_of
from quarterjack.owner.schedules.client_tokens import ScheduleCall, remember_word, remembered_word
from quarterjack.ports.services import Services
from quarterjack.state.before_start import skip
from quarterjack.state.transition import signed
from quarterjack.timing import fires
from quarterjack.values import replace

REASON = "skip_next"
_MOST = 1_000  # fires ahead that may be skipped already


def skip_next(call: ScheduleCall, context: FireContext, *, act: str) -> RunRow:
    """The run of the next fire that has not started, SKIPPED. Called again it skips the one after.

    ``act`` identifies the call, so that a write whose response was lost is recognised.
    Raises NotFound, Conflict (it is not active, has no further fire, or another revision), AlreadyExists, Unavailable.
    """
    services, clock = context.services, context.clock
    since = None if call.token is None else remembered_word(call.token, services, clock())
    if since is not None:  # the run that an earlier call with the token skipped
        rows = services.ledger.window(schedule_owner(call.tenant, call.name), after=int(since), upto=FAR)
        for run in rows:
            if run.state is RunState.SKIPPED and run.act == act:
                return run
    head = call.read(services)
    revision = revision_of(head, services)
    if revision.active_until is not None:
        raise Conflict(f"name={head.name!r}: it is {head.state}, so nothing is about to start; resume it first")
    if call.token is not None:
        remember_word(call.token, str(clock()), services, clock())
    upcoming = fires(timetable_of(revision), max(clock(), revision.active_from), FAR)
    for fire in islice(upcoming, _MOST):
        now = clock()
        wanted = FireClaim(revision, fire).run(now, AppVersions())
        audit = audit_entry(AuditAct.SKIP, str(wanted.ref), context)
        wanted = replace(wanted, state=RunState.SKIPPED, ended_at=now, reason=REASON, act=act, actor=audit.actor)
        skipped = _skip_fire(wanted, audit, services)
        if skipped is not None:
            return skipped
    raise Conflict(f"name={call.name!r}: there is no further fire to skip")


def _skip_fire(wanted: RunRow, audit: AuditEntryRow, services: Services) -> RunRow | None:
    """Skip one fire; None if it has started, ended or been skipped before."""
    try:
        there = services.ledger.put(wanted, audit)
    except Unreadable:
        return None
    if there is None:
        return wanted
    if there.state is RunState.SKIPPED and there.act == wanted.act:  # by this call, whose response was lost
        return there
    queued = there.state is RunState.QUEUED
    if not queued and not there.unstarted:
        return None
    now = wanted.created_at
    expires = max(now, wanted.due) + services.retention
    write = skip(queued=queued, revision=wanted.revision, now=now, expires=expires, reason=REASON, act=wanted.act or "")
    moved = services.ledger.move(wanted.ref, signed(write, audit.actor), audit)
    return moved.run if moved.applied else None
