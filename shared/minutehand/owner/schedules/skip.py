"""Skip the next fire of a schedule that has not started. Nothing else about the schedule changes.

One conditional write decides the race with ticker and worker: a fire that is not claimed gets a SKIPPED run, so that the ticker finds it
ended; a QUEUED run becomes SKIPPED, so that the worker's lease is refused. If the race is lost, the fire after it is skipped.

The record of a client token is written first, with the instant of the call; the skipped row has the call's token ``act``. So a repeated
call finds that row, wherever the first call died.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from minutehand.domain.names import schedule_owner
from minutehand.domain.run import RunRow, RunState
from minutehand.domain.schedule import Head, Revision
from minutehand.errors import Conflict, Unavailable
from minutehand.fires.claim import FireClaim
from minutehand.fires.context import FAR, check_seen, must_exist, revision_of
from minutehand.fires.plan import timetable_of
from minutehand.owner.schedules.client_tokens import ClientToken, remember_word, remembered_word
from minutehand.ports.services import Clock, Services
from minutehand.state.before_start import skip
from minutehand.timing import fires

REASON = "skip_next"
_MOST = 1_000  # fires ahead that may be skipped already


def skip_next(
    tenant: str,
    name: str,
    services: Services,
    clock: Clock,
    *,
    act: str,
    expected: int | None = None,
    token: ClientToken | None = None,
) -> RunRow:
    """The run of the next fire that has not started, SKIPPED. Called again it skips the one after.

    ``act`` identifies the call, so that a write whose response was lost is recognised. ``expected``: the revision that the caller
    saw. Raises NotFound, Conflict (it is not active, has no further fire, or another revision), AlreadyExists, Unavailable.
    """
    first = None if token is None else _first(token, schedule_owner(tenant, name), act, services, clock())
    if first is not None:
        return first
    head = must_exist(tenant, name, services.schedules.head(tenant, name))
    check_seen(head, expected)
    revision = _current(head, services)
    if token is not None:
        remember_word(token, str(clock()), services, clock())
    for fire in islice(_upcoming(revision, clock()), _MOST):
        run = _skip_fire(_skipped(revision, fire, clock(), act), services)
        if run is not None:
            return run
    raise Conflict(f"name={name!r}: there is no further fire to skip")


def _first(token: ClientToken, owner: str, act: str, services: Services, now: int) -> RunRow | None:
    """The run that an earlier call with the token skipped."""
    since = remembered_word(token, services, now)
    if since is None:
        return None
    rows = services.ledger.window(owner, after=int(since), upto=FAR)
    return next((run for run in rows if run.state is RunState.SKIPPED and run.act == act), None)


def _current(head: Head, services: Services) -> Revision:
    revision = revision_of(head, services)
    if revision.active_until is not None:
        raise Conflict(f"name={head.name!r}: it is {head.state}, so nothing is about to start; resume it first")
    return revision


def _upcoming(revision: Revision, now: int) -> Iterator[int]:
    return fires(timetable_of(revision), max(now, revision.active_from), FAR)


def _skip_fire(wanted: RunRow, services: Services) -> RunRow | None:
    """Skip one fire; None if it has started, ended or been skipped before."""
    claimed = services.ledger.claim([wanted])
    if wanted.ref in claimed.created:
        return wanted
    there = claimed.existing.get(wanted.ref)
    if there is not None:
        return _move(there, wanted, services)
    if wanted.ref not in claimed.unreadable:
        raise Unavailable(f"run {wanted.ref}: the ledger did not answer; look at the run, then call again")
    return None


def _move(there: RunRow, wanted: RunRow, services: Services) -> RunRow | None:
    if there.state is RunState.SKIPPED and there.act == wanted.act:  # by this call, whose response was lost
        return there
    queued = there.state is RunState.QUEUED
    if not queued and not there.unstarted:
        return None
    now = wanted.created_at
    expires = max(now, wanted.due) + services.retention
    write = skip(queued=queued, revision=wanted.revision, now=now, expires=expires, reason=REASON, act=wanted.act or "")
    moved = services.ledger.move(wanted.ref, write)
    return moved.run if moved.applied else None


def _skipped(revision: Revision, fire: int, now: int, act: str) -> RunRow:
    return replace(FireClaim(revision, fire).run(now), state=RunState.SKIPPED, ended_at=now, reason=REASON, act=act)
