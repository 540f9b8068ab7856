"""The transitions of a run: each a named constructor with the state it expects, what it changes, and why.

docs/explanation/runs.md draws them. A transition is applied by one conditional write; being refused is a normal answer.

    lease        t                 renewed every HEARTBEAT          lease_until         + SKEW
    ─────────────┼──────────────────────┼───────────────────────────────┼──────────────────┼──────────►
                 │ live: nobody else may lease                          │ margin: still    │ abandoned:
                 │                                                      │ refused          │ may be leased
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

from minutehand.domain.quick import quick
from minutehand.domain.run import Failure, RunRow, RunState
from minutehand.domain.times import SECOND
from minutehand.state.conditions import Absent, Compare, Condition, OneOf, Value, all_of, any_of

LEASE = 60 * SECOND  # how long a worker may be silent before its run is given to another
HEARTBEAT = 20 * SECOND  # LEASE - HEARTBEAT > SKEW + the pause of a process that we tolerate
SKEW = 10 * SECOND  # how far clocks may differ before a lease is stolen too early

# What the row of a fire has only if a backfill claimed it.
OF_BACKFILL = ("backfill", "defined_by", "payload", "payload_ref")
UNBEGUN = ("QUEUED", "RETRYING", "CONTINUED")  # the states that a lease starts from, beside an abandoned one
ERROR_TEXT = (
    240  # characters of an error kept in the run's own row, which must stay under 1 KB; the attempt's row has more
)


@dataclass(frozen=True)
class Plus:
    """A change that adds to a number."""

    amount: int


@dataclass(frozen=True)
class Once:
    """A change that sets an attribute only if it is not set yet."""

    value: Value


Change = Value | Plus | Once | None  # None removes the attribute


@quick
@dataclass(frozen=True, kw_only=True)
class Transition:
    """One guarded write on a run's row."""

    name: str  # for logs and errors
    to: RunState | None  # the new state; None leaves it (renew)
    guard: Condition  # what the row must be now
    changes: Mapping[str, Change] = field(default_factory=dict)  # what else is written
    already: Condition  # what the row looks like if this very write took effect before its answer got lost


def lease_end(now: int) -> int:
    """Until when a lease holds that is taken or renewed now (UTC ms)."""
    return now + LEASE


def last_sign_of_life(lease_until: int) -> int:
    """When the holder of a lease took or renewed it (UTC ms)."""
    return lease_until - LEASE


# Clauses, named once.


@lru_cache(maxsize=256)
def same_revision(revision: int) -> Condition:
    return Compare("rev", "=", revision)


def older_revision(revision: int) -> Condition:
    return Compare("rev", "<", revision)


def due(now: int) -> Condition:
    return Compare("not_before", "<=", now)


@cache
def not_cancelled() -> Condition:
    return Absent("cancel_requested")


def ready() -> Condition:
    return OneOf("state", UNBEGUN)


@cache
def never_leased() -> Condition:
    return Compare("state", "=", RunState.QUEUED)


def abandoned(now: int) -> Condition:
    return all_of(Compare("state", "=", RunState.RUNNING), Compare("lease_until", "<", now - SKEW))


def attempts_left(max_attempts: int) -> Condition:
    return Compare("attempt", "<", max_attempts)


@lru_cache(maxsize=256)
def _under(state: RunState, fence: int) -> Condition:
    return all_of(Compare("state", "=", state), Compare("fence", "=", fence))


def held(fence: int) -> Condition:
    return _under(RunState.RUNNING, fence)


def _ended(state: RunState, now: int, expires: int, reason: str | None) -> dict[str, Change]:
    """What every terminal transition writes; only these set the row's expiry, so a row that still waits never expires."""
    return {
        "state": state,
        "ended_at": now,
        "ttl": expires // SECOND,
        "reason": reason,
        "lease_until": None,
        "lease_token": None,
    }


def _failed(failure: Failure | None) -> dict[str, Change]:
    if failure is None:
        return {}
    changes: dict[str, Change] = {"error_type": failure.kind[:ERROR_TEXT], "error": failure.message[:ERROR_TEXT]}
    return changes | ({"error_code": failure.code[:ERROR_TEXT]} if failure.code else {})


# Before the start.


def take_over(*, revision: int, job: str, not_before: int, now: int, seen: RunState) -> Transition:
    """A fire that an older revision claimed and never started goes to a newer one.

    ``seen`` tells as what it was seen: still QUEUED, or else refused by a change of its schedule. A run that its owner cancelled
    as a run is neither, and stays cancelled.
    """
    waiting = never_leased() if seen is RunState.QUEUED else Compare("unstarted", "=", True)
    return Transition(
        name="take_over",
        to=RunState.QUEUED,
        guard=all_of(older_revision(revision), waiting),
        changes={
            "state": RunState.QUEUED,
            "rev": revision,
            "job": job,
            "not_before": not_before,
            "created_at": now,
            "reason": None,
            "ended_at": None,
            "ttl": None,
            "unstarted": None,
            **dict.fromkeys(OF_BACKFILL),
        },
        already=all_of(same_revision(revision), never_leased()),
    )


def revive(*, claim: RunRow) -> Transition:
    """A fire whose run was refused before it ever started is claimed by a backfill, under the schedule's current revision."""
    return Transition(
        name="revive",
        to=RunState.QUEUED,
        guard=all_of(Compare("rev", "<=", claim.revision), Compare("unstarted", "=", True)),
        changes={
            "state": RunState.QUEUED,
            "rev": claim.revision,
            "job": claim.job,
            "not_before": claim.not_before,
            "created_at": claim.created_at,
            **{name: getattr(claim, name) for name in OF_BACKFILL},
            **dict.fromkeys(("reason", "ended_at", "ttl", "unstarted")),
        },
        already=all_of(same_revision(claim.revision), never_leased(), Compare("backfill", "=", claim.backfill or "")),
    )


def refuse(*, to: RunState, revision: int, now: int, expires: int, reason: str) -> Transition:
    """A run of a revision up to ``revision`` that was never leased is SUPERSEDED or CANCELLED by a change of its schedule."""
    return Transition(
        name="refuse",
        to=to,
        guard=all_of(never_leased(), Compare("rev", "<=", revision)),
        changes=_ended(to, now, expires, reason) | {"unstarted": True},
        already=all_of(Compare("state", "=", to), Compare("reason", "=", reason)),
    )


def take_back(*, revision: int, instant: int, now: int, expires: int, reason: str) -> Transition:
    """A fire that was leased ahead is CANCELLED by a stop that came before its ``instant``: its job has not begun.

    It was given back unbegun, or its worker vanished, of which nobody can tell more than that.
    """
    unbegun = all_of(Compare("state", "=", RunState.RETRYING), Absent("started_at"))
    vanished = all_of(abandoned(now), Compare("leased_at", "=", instant), Compare("attempt", "=", 1))
    return Transition(
        name="take_back",
        to=RunState.CANCELLED,
        guard=all_of(Compare("rev", "<=", revision), any_of(unbegun, vanished)),
        changes=_ended(RunState.CANCELLED, now, expires, reason) | {"started_at": None},
        already=all_of(Compare("state", "=", RunState.CANCELLED), Compare("reason", "=", reason)),
    )


def line_up(*, revision: int, reason: str) -> Transition:
    """A run for which its schedule has no room now waits in turn; ``reason`` says for whom."""
    return Transition(
        name="line_up",
        to=None,
        guard=all_of(never_leased(), same_revision(revision)),
        changes={"reason": reason},
        already=all_of(never_leased(), Compare("reason", "=", reason)),
    )


def pass_over(*, to: RunState, revision: int, now: int, expires: int, reason: str) -> Transition:
    """A run that never started is SKIPPED, or CANCELLED in favour of a later one, by its schedule's overlap policy."""
    return Transition(
        name="pass_over",
        to=to,
        guard=all_of(never_leased(), same_revision(revision)),
        changes=_ended(to, now, expires, reason),
        already=all_of(Compare("state", "=", to), Compare("reason", "=", reason)),
    )


def give_up(*, revision: int, now: int, expires: int, reason: str, failure: Failure) -> Transition:
    """A waiting run is DEAD without a further attempt: no worker knows its job."""
    return Transition(
        name="give_up",
        to=RunState.DEAD,
        guard=all_of(ready(), same_revision(revision)),
        changes=_ended(RunState.DEAD, now, expires, reason) | _failed(failure),
        already=all_of(Compare("state", "=", RunState.DEAD), Compare("reason", "=", reason)),
    )


def skip(*, queued: bool, revision: int, now: int, expires: int, reason: str, act: str) -> Transition:
    """A fire of a revision up to ``revision`` that never started is passed over by its owner; ``act`` is the call's own token.

    ``queued`` as in ``take_over``: still QUEUED, or refused by a change of its schedule, so that a newer revision might take it.
    """
    return Transition(
        name="skip",
        to=RunState.SKIPPED,
        guard=all_of(Compare("rev", "<=", revision), never_leased() if queued else Compare("unstarted", "=", True)),
        changes=_ended(RunState.SKIPPED, now, expires, reason) | {"unstarted": None, "act": act},
        already=all_of(Compare("state", "=", RunState.SKIPPED), Compare("act", "=", act)),
    )


def recount(*, skipped: int, until: int, seen_skipped: int, seen_until: int) -> Transition:
    """The row of a gap stands for more fires than another ticker saw, or for fewer: one of them was claimed after all."""
    gap = Compare("state", "=", RunState.SKIPPED)
    return Transition(
        name="recount",
        to=None,
        guard=all_of(gap, Compare("skipped", "=", seen_skipped), Compare("skipped_until", "=", seen_until)),
        changes={"skipped": skipped, "skipped_until": until},
        already=all_of(gap, Compare("skipped", "=", skipped), Compare("skipped_until", "=", until)),
    )


def shadow(*, revision: int, now: int, expires: int) -> Transition:
    """A worker would take the lease now, but its schedule only tries its clock: no job starts, and its lateness is known."""
    return Transition(
        name="shadow",
        to=RunState.SHADOWED,
        guard=all_of(same_revision(revision), due(now), not_cancelled(), never_leased()),
        changes=_ended(RunState.SHADOWED, now, expires, "shadow") | {"started_at": now},
        already=all_of(Compare("state", "=", RunState.SHADOWED), Compare("started_at", "=", now)),
    )


# The lease.

_COUNTED: Mapping[str, Change] = {"fence": Plus(1), "attempt": Plus(1), "slices": Once(0)}
_FIRST: Mapping[str, Change] = {"fence": 1, "attempt": 1, "slices": 0}
_UNTOUCHED = Compare("fence", "=", 0)
_RUNNING = Compare("state", "=", RunState.RUNNING)


def lease(
    *, revision: int, now: int, token: str, worker: str, max_attempts: int, steal: bool, first: bool = False
) -> Transition:
    """A worker takes the run for LEASE. ``steal``: an abandoned run may be taken too (never with at-most-once).

    ``first``: only a run that nobody has had. Then the guard needs no alternatives and all changes are known beforehand, so that
    many can be taken in one batch.
    """
    startable = never_leased() if first else any_of(ready(), abandoned(now)) if steal else ready()
    untouched = _UNTOUCHED if first else attempts_left(max_attempts)
    counted = _FIRST if first else _COUNTED
    return Transition(
        name="lease",
        to=RunState.RUNNING,
        guard=all_of(same_revision(revision), due(now), not_cancelled(), untouched, startable),
        changes={
            "state": RunState.RUNNING,
            "max_attempts": max_attempts,
            "lease_until": lease_end(now),
            "lease_token": token,
            "leased_at": now,
            "worker": worker,
            "reason": None,
            "started_at": now if first else Once(now),
            **counted,
        },
        already=all_of(_RUNNING, Compare("lease_token", "=", token)),
    )


def renew(*, fence: int, now: int, progress: float | None = None, stage: str | None = None) -> Transition:
    """A heartbeat: the holder keeps the run for another LEASE, and says how far it is (0 to 1; thousandths in the row)."""
    changes: dict[str, Change] = {"lease_until": lease_end(now)}
    if progress is not None:
        changes["progress"] = round(progress * 1_000)
    if stage is not None:
        changes["stage"] = stage
    return Transition(name="renew", to=None, guard=held(fence), changes=changes, already=held(fence))


# Settling, under the fence.


def _settled(name: str, to: RunState, fence: int, changes: Mapping[str, Change]) -> Transition:
    return Transition(name=name, to=to, guard=held(fence), changes=changes, already=_under(to, fence))


def succeed(
    *,
    fence: int,
    now: int,
    expires: int,
    result: str | None = None,
    result_ref: str | None = None,
    reason: str | None = None,
) -> Transition:
    """The job returned; ``result`` is its JSON text, or ``result_ref`` says where that lies."""
    changes = _ended(RunState.SUCCEEDED, now, expires, reason)
    given = {"result": result, "result_ref": result_ref}
    kept: dict[str, Change] = {name: text for name, text in given.items() if text is not None}
    return _settled("succeed", RunState.SUCCEEDED, fence, changes | kept)


def continue_(*, fence: int, now: int) -> Transition:
    """A slice ended at its checkpoint; the next one goes on at once and spends no attempt."""
    changes: dict[str, Change] = {
        "state": RunState.CONTINUED,
        "not_before": now,
        "attempt": Plus(-1),
        "slices": Plus(1),
    }
    changes |= {"lease_until": None, "lease_token": None, "reason": "slice ended"}
    return _settled("continue", RunState.CONTINUED, fence, changes)


def cancelled(*, fence: int, now: int, expires: int, reason: str, failure: Failure | None) -> Transition:
    """A running job ended, or was given up, after its cancellation was asked for."""
    changes = _ended(RunState.CANCELLED, now, expires, reason) | _failed(failure)
    return _settled("cancelled", RunState.CANCELLED, fence, changes)


def retry(*, fence: int, not_before: int, failure: Failure) -> Transition:
    """The attempt failed and another follows at ``not_before`` (UTC ms)."""
    changes: dict[str, Change] = {"state": RunState.RETRYING, "not_before": not_before}
    changes |= {"lease_until": None, "lease_token": None}
    return _settled("retry", RunState.RETRYING, fence, changes | {"reason": "failed"} | _failed(failure))


def release(*, fence: int, now: int, begun: bool = True) -> Transition:
    """The worker stops before the job is done, or has not ``begun`` it, and gives the run back; the attempt is not counted."""
    changes: dict[str, Change] = {"state": RunState.RETRYING, "not_before": now, "attempt": Plus(-1)}
    changes |= {"lease_until": None, "lease_token": None, "reason": "released"}
    changes |= {} if begun else {"started_at": None}
    return _settled("release", RunState.RETRYING, fence, changes)


def die(*, fence: int, now: int, expires: int, reason: str, failure: Failure | None) -> Transition:
    """The run failed for good; its copy is in the dead-letter queue already."""
    return _settled("die", RunState.DEAD, fence, _ended(RunState.DEAD, now, expires, reason) | _failed(failure))


# What its owner asks for.


def cancel(*, now: int, expires: int) -> Transition:
    """A run that waits is CANCELLED: no attempt of it starts any more."""
    return Transition(
        name="cancel",
        to=RunState.CANCELLED,
        guard=ready(),
        changes=_ended(RunState.CANCELLED, now, expires, "requested") | {"cancel_requested": True},
        already=all_of(Compare("state", "=", RunState.CANCELLED), Compare("cancel_requested", "=", True)),
    )


def request_cancel() -> Transition:
    """A run that is RUNNING: its worker sees it at the next heartbeat, and no further attempt starts."""
    return Transition(
        name="request_cancel",
        to=None,
        guard=Compare("state", "=", RunState.RUNNING),
        changes={"cancel_requested": True},
        already=all_of(Compare("state", "=", RunState.RUNNING), Compare("cancel_requested", "=", True)),
    )


def terminate(*, revision: int, now: int, expires: int, reason: str) -> Transition:
    """A run that has not ended is CANCELLED by its schedule's overlap policy, whoever holds it: that worker's writes are refused."""
    return Transition(
        name="terminate",
        to=RunState.CANCELLED,
        guard=all_of(same_revision(revision), OneOf("state", (*UNBEGUN, "RUNNING"))),
        changes=_ended(RunState.CANCELLED, now, expires, reason),
        already=all_of(Compare("state", "=", RunState.CANCELLED), Compare("reason", "=", reason)),
    )


def hasten(*, now: int) -> Transition:
    """A run that waits for its next attempt may have it now."""
    return Transition(
        name="hasten",
        to=None,
        guard=OneOf("state", ("RETRYING", "CONTINUED")),
        changes={"not_before": now},
        already=all_of(OneOf("state", ("RETRYING", "CONTINUED")), Compare("not_before", "=", now)),
    )


# What others find.


def expire(*, revision: int, now: int, expires: int) -> Transition:
    """Its deadline passed before an attempt could start, the first or one after its worker vanished."""
    return Transition(
        name="expire",
        to=RunState.EXPIRED,
        guard=all_of(same_revision(revision), any_of(ready(), abandoned(now))),
        changes=_ended(RunState.EXPIRED, now, expires, "deadline passed"),
        already=Compare("state", "=", RunState.EXPIRED),
    )


def exhaust(
    *, now: int, expires: int, max_attempts: int, fence: int, reason: str, failure: Failure | None
) -> Transition:
    """An abandoned run has no attempt left: a job that kills its process ends here."""
    spent = Compare("attempt", ">=", max_attempts)
    return Transition(
        name="exhaust",
        to=RunState.DEAD,
        guard=all_of(any_of(abandoned(now), ready()), spent, Compare("fence", "=", fence)),
        changes=_ended(RunState.DEAD, now, expires, reason) | _failed(failure),
        already=all_of(Compare("state", "=", RunState.DEAD), Compare("fence", "=", fence)),
    )


def lose(*, now: int, expires: int, token: str) -> Transition:
    """The worker of an at-most-once run vanished: LOST, and never run again."""
    return Transition(
        name="lose",
        to=RunState.LOST,
        guard=all_of(abandoned(now), Compare("lease_token", "=", token)),
        changes=_ended(RunState.LOST, now, expires, "worker vanished"),
        already=all_of(Compare("state", "=", RunState.LOST)),
    )


def cancel_waiting(*, now: int, expires: int, reason: str) -> Transition:
    """A run whose cancellation was asked for before an attempt could start; an abandoned one has no further attempt."""
    return Transition(
        name="cancel_waiting",
        to=RunState.CANCELLED,
        guard=all_of(any_of(ready(), abandoned(now)), Compare("cancel_requested", "=", True)),
        changes=_ended(RunState.CANCELLED, now, expires, reason),
        already=Compare("state", "=", RunState.CANCELLED),
    )


def bury(*, fence: int, now: int, expires: int, reason: str, failure: Failure | None) -> Transition:
    """The undertaker records a verdict, once: the worker may have settled it already, or died before it could."""
    mine = Compare("fence", "=", fence)
    dead, open_ = Compare("state", "=", RunState.DEAD), OneOf("state", (*UNBEGUN, "RUNNING"))
    noted: dict[str, Change] = {"ended_at": Once(now), "buried_at": now}  # a run that died earlier did so then
    return Transition(
        name="bury",
        to=RunState.DEAD,
        guard=all_of(mine, any_of(dead, open_), Absent("buried_at")),
        changes=_ended(RunState.DEAD, now, expires, reason) | _failed(failure) | noted,
        already=all_of(mine, Compare("buried_at", "=", now)),
    )


def inter(*, state: RunState, fence: int, now: int) -> Transition:
    """The undertaker records, once, a run that somebody found LOST or EXPIRED."""
    mine = all_of(Compare("state", "=", state), Compare("fence", "=", fence))
    return Transition(
        name="inter",
        to=None,
        guard=all_of(mine, Absent("buried_at")),
        changes={"buried_at": now},
        already=all_of(mine, Compare("buried_at", "=", now)),
    )
