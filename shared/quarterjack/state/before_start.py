"""Transitions of runs that have not started: taken over, revived, refused, rescheduled, queued for their turn or skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from quarterjack.domain.run import RunRow, RunState
from quarterjack.state.lease import abandoned
from quarterjack.state.transition import (
    NEVER_LEASED,
    NOT_CANCELLED,
    READY,
    REFUSED_UNSTARTED,
    Absent,
    Change,
    Compare,
    Condition,
    EndWords,
    Transition,
    all_of,
    any_of,
    due,
    ending,
    in_state,
    of_backfill,
    same_revision,
    up_to_revision,
)

UNSERVED = "waits for a worker of version "  # and its name: the reason of a run whose application version has no worker
OF_BACKFILL = (
    "backfill",
    "defined_by",
    "payload",
    "payload_ref",
    "tags",
)  # attributes that only a backfill's claim sets
OF_ORDER = (
    "due",
    "not_before",
    "payload",
    "payload_ref",
    "overrides",
    "queue",
    "actor",
    "tags",
)  # what a submission says of its run
_NOT_ENDED: Mapping[str, Change] = dict.fromkeys(("reason", "ended_at", "ttl", "unstarted", "turn_waited_since"))


def take_over(
    *, revision: int, job: str, not_before: int, now: int, seen: RunState, backfill: str | None = None
) -> Transition:
    """A revision claims a fire that an older revision, or under this revision a ``backfill``, claimed and never started.

    ``seen`` is the state that was read: QUEUED, or the state of a run that a change of its schedule or a stop of the backfill refused.
    A run that its owner cancelled stays cancelled.
    """
    waiting = NEVER_LEASED if seen is RunState.QUEUED else REFUSED_UNSTARTED
    older = Compare("rev", "<", revision)
    of_other = older if backfill is None else all_of(same_revision(revision), Compare("backfill", "=", backfill))
    return Transition(
        name="take_over",
        to=RunState.QUEUED,
        guard=all_of(of_other, waiting),
        changes={
            "state": RunState.QUEUED,
            "rev": revision,
            "job": job,
            "not_before": not_before,
            "created_at": now,
            **_NOT_ENDED,
            **dict.fromkeys(OF_BACKFILL),
        },
        already=all_of(same_revision(revision), NEVER_LEASED, Absent("backfill")),
    )


def reassign(*, version: str) -> Transition:
    """A run that waits is assigned to another application version."""
    waiting = all_of(READY, NOT_CANCELLED)
    return Transition(
        name="reassign",
        to=None,
        guard=waiting,
        changes={"app_version": version},
        already=all_of(waiting, Compare("app_version", "=", version)),
    )


def wait_for_version(*, version: str, served_by: str) -> Transition:
    """The row of a run that waits says that no worker of the version is there by which its own is served, mostly itself."""
    waiting = all_of(READY, Compare("app_version", "=", version))
    changes: Mapping[str, Change] = {"reason": f"{UNSERVED}{served_by}"}
    return Transition(name="wait_for_version", to=None, guard=waiting, changes=changes, already=waiting)


def revive(*, claim: RunRow) -> Transition:
    """A backfill claims, under the schedule's current revision, a fire whose run was refused before it started."""
    return Transition(
        name="revive",
        to=RunState.QUEUED,
        guard=all_of(up_to_revision(claim.revision), REFUSED_UNSTARTED),
        changes={
            "state": RunState.QUEUED,
            "rev": claim.revision,
            "job": claim.job,
            "not_before": claim.not_before,
            "created_at": claim.created_at,
            **{name: getattr(claim, name) for name in OF_BACKFILL},
            **_NOT_ENDED,
        },
        already=all_of(same_revision(claim.revision), NEVER_LEASED, Compare("backfill", "=", claim.backfill or "")),
    )


def refuse(*, to: RunState, revision: int, **end: Unpack[EndWords]) -> Transition:
    """A change of the schedule makes a never leased run of a revision up to ``revision`` SUPERSEDED or CANCELLED."""
    return ending("refuse", to, all_of(NEVER_LEASED, up_to_revision(revision)), more={"unstarted": True}, **end)


def take_back(*, revision: int, instant: int, **end: Unpack[EndWords]) -> Transition:
    """A stop before its ``instant`` makes a fire that was leased early CANCELLED: its job has not begun.

    Either its worker released it before the job began, or its worker crashed in the first attempt.
    """
    unbegun = all_of(in_state(RunState.RETRYING), Absent("started_at"))
    crashed = all_of(abandoned(end["now"]), Compare("leased_at", "=", instant), Compare("attempt", "=", 1))
    guard = all_of(up_to_revision(revision), any_of(unbegun, crashed))
    return ending("take_back", RunState.CANCELLED, guard, more={"started_at": None}, **end)


def reschedule(*, revision: int, due: int) -> Transition:
    """A one-off that was never leased moves to another time (UTC ms): ``revision`` is the one that was read.

    Its revision grows, so that whatever refers to the old time is refused: leases, expiries, messages.
    """
    return Transition(
        name="reschedule",
        to=None,
        guard=all_of(NEVER_LEASED, same_revision(revision)),
        changes={"due": due, "not_before": due, "rev": revision + 1},
        already=all_of(same_revision(revision + 1), Compare("due", "=", due)),
    )


def requeue(*, revision: int, queue: str | None, overrides: str | None) -> Transition:
    """A one-off that was never leased waits in another ``queue``, or with other policies: another priority.

    ``revision`` is the one that was read. It grows as by ``reschedule``, so that the message in the old queue or lane is refused.
    """
    changes: dict[str, Change] = {"queue": queue, "overrides": overrides}
    so = [Absent(name) if given is None else Compare(name, "=", str(given)) for name, given in changes.items()]
    return Transition(
        name="requeue",
        to=None,
        guard=all_of(NEVER_LEASED, same_revision(revision)),
        changes={**changes, "rev": revision + 1},
        already=all_of(NEVER_LEASED, same_revision(revision + 1), *so),
    )


def resubmit(*, order: RunRow, revision: int, parked: bool) -> Transition:
    """A run with a unique key that has not begun gets the payload, time and policies of a later ``order``.

    ``parked``: it waits for the end of another run. Its revision grows as by ``reschedule``.
    """
    changes: dict[str, Change] = {name: getattr(order, name) for name in OF_ORDER}
    changes["payload_beside"] = order.payload_beside or None
    waits = in_state(RunState.PARKED if parked else RunState.QUEUED)
    return Transition(
        name="resubmit",
        to=None,
        guard=all_of(waits, Absent("started_at"), same_revision(revision)),
        changes={**changes, "rev": revision + 1},
        already=all_of(waits, same_revision(revision + 1), Compare("due", "=", order.due)),
    )


def wait_for_turn(*, revision: int, reason: str, now: int) -> Transition:
    """A run that finds no free turn of its schedule waits for its turn from ``now`` on (UTC ms); ``reason`` names the holders."""
    return Transition(
        name="wait_for_turn",
        to=None,
        guard=all_of(NEVER_LEASED, same_revision(revision)),
        changes={"reason": reason, "turn_waited_since": now},
        already=all_of(NEVER_LEASED, Compare("reason", "=", reason)),
    )


def pass_over(*, to: RunState, revision: int, **end: Unpack[EndWords]) -> Transition:
    """The schedule's overlap policy makes a run that never started SKIPPED, or CANCELLED in favour of a later run."""
    return ending("pass_over", to, all_of(NEVER_LEASED, same_revision(revision)), **end)


def give_up(*, revision: int, backfill: str | None = None, **end: Unpack[EndWords]) -> Transition:
    """A waiting run is DEAD without a further attempt: no worker knows its job, or what defines it is gone."""
    return ending("give_up", RunState.DEAD, all_of(READY, same_revision(revision), of_backfill(backfill)), **end)


def skip(*, queued: bool, revision: int, act: str, **end: Unpack[EndWords]) -> Transition:
    """The owner, or the catch-up policy, skips a fire of a revision up to ``revision`` that never started.

    ``queued``: the run is QUEUED; otherwise a change of its schedule refused it. ``act`` identifies the call.
    """
    guard = all_of(up_to_revision(revision), NEVER_LEASED if queued else REFUSED_UNSTARTED)
    already = all_of(in_state(RunState.SKIPPED), Compare("act", "=", act))
    return ending("skip", RunState.SKIPPED, guard, more={"unstarted": None, "act": act}, already=already, **end)


def recount(*, skipped: int, until: int, seen_skipped: int, seen_until: int) -> Transition:
    """The row of skipped missed fires gets another number of fires than ``seen``: a fire was claimed, or more were missed."""
    return Transition(
        name="recount",
        to=None,
        guard=_counts(seen_skipped, seen_until),
        changes={"skipped": skipped, "skipped_until": until},
        already=_counts(skipped, until),
    )


def _counts(skipped: int, until: int) -> Condition:
    return all_of(in_state(RunState.SKIPPED), Compare("skipped", "=", skipped), Compare("skipped_until", "=", until))


def shadow(*, revision: int, now: int, expires: int, backfill: str | None = None) -> Transition:
    """A worker could lease the run now, but its schedule is in shadow mode: no job starts, only the lateness is recorded."""
    return ending(
        "shadow",
        RunState.SHADOWED,
        all_of(same_revision(revision), of_backfill(backfill), due(now), NOT_CANCELLED, NEVER_LEASED),
        now=now,
        expires=expires,
        reason="shadow",
        more={"started_at": now},
        already=all_of(in_state(RunState.SHADOWED), Compare("started_at", "=", now)),
    )
