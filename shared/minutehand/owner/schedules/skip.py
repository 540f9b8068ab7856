"""Skip: pass over the next fire of a schedule that has not started. Nothing else about the schedule changes.

One conditional write decides against everybody else: the fire's run is put as SKIPPED, where it is not claimed yet, so that the
ticker finds it ended; or it is moved there from QUEUED, so that the worker's lease is refused. Lost the race: the fire after it.

A client token's record is written first, with the instant of the call; the call's own word is in the row that it skips. So a call that
is repeated finds that row, wherever the first one died.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from minutehand.domain.names import fire_ref, schedule_owner
from minutehand.domain.run import RunRow, RunState
from minutehand.domain.schedule import Head, Revision
from minutehand.domain.times import DAY
from minutehand.errors import Conflict, Unavailable
from minutehand.fires.current import check_seen, must_exist, revision_of
from minutehand.fires.plan import timetable_of
from minutehand.owner.schedules.client_tokens import ClientToken, note, noted
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.transitions.before_start import skip
from minutehand.timing import fires

REASON = "skip_next"
_MOST = 1_000  # fires ahead that may be skipped already; then something is odd
_FAR = 200 * 365 * DAY  # ms ahead: beyond every fire


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

    ``act`` is the call's own word: by it a write is recognised whose answer got lost. ``expected``: the revision that the caller
    saw. Raises NotFound, Conflict (it is not active, has no further fire, or another revision), AlreadyExists, Unavailable.
    """
    first = None if token is None else _first(token, schedule_owner(tenant, name), act, services, clock())
    if first is not None:
        return first
    head = must_exist(tenant, name, services.schedules.head(tenant, name))
    check_seen(head, expected)
    revision = _current(head, services)
    if token is not None:
        note(token, str(clock()), services, clock())
    for fire in islice(_upcoming(revision, clock()), _MOST):
        run = _skip(_skipped(revision, fire, clock(), act), services)
        if run is not None:
            return run
    raise Conflict(f"name={name!r}: there is no further fire to skip")


def _first(token: ClientToken, owner: str, act: str, services: Services, now: int) -> RunRow | None:
    """What an earlier call with the token skipped."""
    since = noted(token, services, now)
    if since is None:
        return None
    rows = services.ledger.window(owner, after=int(since), upto=int(since) + _FAR)
    return next((run for run in rows if run.state is RunState.SKIPPED and run.act == act), None)


def _current(head: Head, services: Services) -> Revision:
    revision = revision_of(head, services)
    if revision.active_until is not None:
        raise Conflict(f"name={head.name!r}: it is {head.state}, so nothing is about to start; resume it first")
    return revision


def _upcoming(revision: Revision, now: int) -> Iterator[int]:
    return fires(timetable_of(revision), max(now, revision.active_from), now + _FAR)


def _skip(wanted: RunRow, services: Services) -> RunRow | None:
    """Pass over one fire; None if it has started, ended or been skipped before."""
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
    if there.state is RunState.SKIPPED and there.act == wanted.act:  # by this very call, whose answer got lost
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
    return RunRow(
        ref=fire_ref(revision.owner, fire),
        state=RunState.SKIPPED,
        revision=revision.number,
        job=revision.definition.job,
        due=fire,
        not_before=fire,
        created_at=now,
        ended_at=now,
        reason=REASON,
        act=act,
    )
