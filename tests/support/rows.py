"""Rows of the ledger in every situation that a run can be in, and every transition there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quarterjack.domain.run import RunState
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.state import before_start, ending
from quarterjack.state import lease as leasing
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.state.transition import Transition
from quarterjack.state.waits import park as waiting

from tests.support.builders import BOOM, NOON, OWNER, a_run

Row = dict[str, Any]
NOW = NOON + 10 * MINUTE
EXPIRES = NOW + 36_500 * DAY  # beyond today: the local cloud deletes what has expired, while a test looks at it
TTL = EXPIRES // 1000 - 1

A_CLAIM = a_run(revision=3, not_before=NOW, backfill="b", defined_by=1, payload='{"n":1}')  # a backfill's

AN_ORDER = a_run(due=NOON, not_before=NOON, payload='{"n":2}')

A_WAIT = waiting.WaitSpec(
    awaits="sleep", reason="sleeps", wake_at=NOW + MINUTE, not_before=NOW + MINUTE, asked='["sleep 1"]'
)

_BASE: Row = {
    "owner": OWNER,
    "key": "k",
    "rev": 2,
    "job": "report",
    "due": NOON,
    "not_before": NOON,
    "created_at": NOON,
}
_WAITS = _BASE | {"fence": 0, "attempt": 0}
_HELD = _BASE | {"fence": 3, "attempt": 2, "max_attempts": 3, "started_at": NOON, "worker": "w", "slices": 0}
_AHEAD = _BASE | {"fence": 3, "attempt": 1, "max_attempts": 3, "worker": "w", "slices": 0}  # leased before its instant
_OVER = _HELD | {"ended_at": NOW - 5, "ttl": EXPIRES // 1000, "reason": "why"}
_LEASE = {"state": "RUNNING", "lease_token": "t1"}

_PARKED = _HELD | {"state": "PARKED", "slices": 1, "wait_no": 2, "awaits": "signal:a", "parked_at": NOON}

SITUATIONS: dict[str, Row] = {
    "queued": _WAITS | {"state": "QUEUED"} | {"app_version": "1.0"},
    "retrying": _HELD | {"state": "RETRYING", "reason": "failed"},
    "continued": _HELD | {"state": "CONTINUED", "slices": 1},
    "parked": _PARKED | {"not_before": NOON, "wake_at": NOON},  # its time has come
    "parked, not due": _PARKED | {"not_before": NOW + LEASE, "wake_at": NOW + LEASE},
    "parked, unbegun": _WAITS | {"state": "PARKED", "wait_no": 2, "awaits": "run:acme/~a#once", "parked_at": NOON},
    "running": _HELD | _LEASE | {"lease_until": NOW + LEASE},
    "just ended": _HELD | _LEASE | {"lease_until": NOW - SKEW},  # its lease, but not the margin
    "abandoned": _HELD | _LEASE | {"lease_until": NOW - SKEW - 1},
    "given back unbegun": _AHEAD | {"state": "RETRYING", "reason": "released", "attempt": 0},
    "vanished ahead": _AHEAD | _LEASE | {"lease_until": NOW - SKEW - 1, "started_at": NOON, "leased_at": NOON},
    "succeeded": _OVER | {"state": "SUCCEEDED"},
    "dead": _OVER | {"state": "DEAD"},
    "buried": _OVER | {"state": "DEAD", "buried_at": NOW - 1},
    "lost": _OVER | {"state": "LOST"},
    "expired": _OVER | {"state": "EXPIRED"},
    "cancelled": _OVER | {"state": "CANCELLED", "cancel_requested": True},
    "paused": _WAITS | {"state": "CANCELLED", "unstarted": True, "reason": "paused", "ended_at": NOW, "ttl": TTL},
    "superseded": _WAITS
    | {"state": "SUPERSEDED", "unstarted": True, "reason": "replaced", "ended_at": NOW, "ttl": TTL},
    "skipped": _WAITS | {"state": "SKIPPED", "reason": "skip_next", "ended_at": NOW, "ttl": TTL},
    "gap": _WAITS
    | {
        "state": "SKIPPED",
        "reason": "missed",
        "ended_at": NOW,
        "ttl": TTL,
        "skipped": 7,
        "skipped_until": NOON + MINUTE,
    },
    "shadowed": _WAITS | {"state": "SHADOWED", "reason": "shadow", "started_at": NOON, "ended_at": NOON, "ttl": TTL},
    "queued, cancel asked": _WAITS | {"state": "QUEUED", "cancel_requested": True},
    "running, cancel asked": _HELD | _LEASE | {"lease_until": NOW + LEASE, "cancel_requested": True},
    "abandoned, cancel asked": _HELD | _LEASE | {"lease_until": NOW - SKEW - 1, "cancel_requested": True},
}

AHEAD = {"given back unbegun", "vanished ahead"}
UNBEGUN = {"parked, unbegun"}
PARKED = {"parked", "parked, not due"} | UNBEGUN
WAITING = {"queued", "retrying", "continued", "queued, cancel asked", "given back unbegun"} | PARKED
NOT_DUE = {"parked, not due"}
ABANDONED = {"abandoned", "abandoned, cancel asked", "vanished ahead"}
HELD = {"running", "just ended", "running, cancel asked"} | ABANDONED
ASKED = {"queued, cancel asked", "running, cancel asked", "abandoned, cancel asked"}


def made(**changes: Any) -> dict[str, tuple[Transition, set[str]]]:
    """Every transition as it fits the rows above, and the situations in which it applies. ``changes`` spoil the fit."""

    def build(constructor: Callable[..., Transition], **given: Any) -> Transition:
        return constructor(**(given | {name: value for name, value in changes.items() if name in given}))

    end = {"now": NOW, "expires": EXPIRES}
    fence = {"fence": 3}
    lease = {"revision": 2, "now": NOW, "token": "t2", "worker": "w2", "max_attempts": 3}
    over = {"revision": 3, "job": "other", "not_before": NOON, "now": NOW}
    return {
        "take over queued": (
            build(before_start.take_over, seen=RunState.QUEUED, **over),
            {"queued", "queued, cancel asked"},
        ),
        "take over refused": (build(before_start.take_over, seen=RunState.CANCELLED, **over), {"paused", "superseded"}),
        "revive": (build(before_start.revive, claim=A_CLAIM), {"paused", "superseded"}),
        "refuse": (
            build(before_start.refuse, to=RunState.CANCELLED, revision=2, reason="paused", **end),
            {"queued", "queued, cancel asked"},
        ),
        "take back": (build(before_start.take_back, revision=2, instant=NOON, reason="deleted", **end), AHEAD),
        "skip queued": (
            build(before_start.skip, queued=True, revision=2, reason="skip_next", act="a", **end),
            {"queued", "queued, cancel asked"},
        ),
        "skip refused": (
            build(before_start.skip, queued=False, revision=2, reason="skip_next", act="a", **end),
            {"paused", "superseded"},
        ),
        "recount": (
            build(before_start.recount, skipped=9, until=NOW, seen_skipped=7, seen_until=NOON + MINUTE),
            {"gap"},
        ),
        "shadow": (build(before_start.shadow, revision=2, **end), {"queued"}),
        "reschedule": (build(before_start.reschedule, revision=2, due=NOW), {"queued", "queued, cancel asked"}),
        "requeue": (
            build(before_start.requeue, revision=2, queue="bulk", overrides=None),
            {"queued", "queued, cancel asked"},
        ),
        "reassign": (build(before_start.reassign, version="1.0"), WAITING - ASKED),
        "wait for version": (build(before_start.wait_for_version, version="1.0", served_by="1.0"), {"queued"}),
        "resubmit": (
            build(before_start.resubmit, revision=2, parked=False, order=AN_ORDER),
            {"queued", "queued, cancel asked"},
        ),
        "resubmit parked": (build(before_start.resubmit, revision=2, parked=True, order=AN_ORDER), UNBEGUN),
        "line up": (
            build(before_start.wait_for_turn, revision=2, reason="waits", now=NOW),
            {"queued", "queued, cancel asked"},
        ),
        "pass over": (
            build(before_start.pass_over, to=RunState.SKIPPED, revision=2, reason="overlap", **end),
            {"queued", "queued, cancel asked"},
        ),
        "terminate": (build(ending.terminate, revision=2, reason="overlap", **end), WAITING | HELD),
        "give up": (build(before_start.give_up, revision=2, reason="unknown job", failure=BOOM, **end), WAITING),
        "lease": (build(leasing.lease, steal=True, **lease), (WAITING | ABANDONED) - ASKED - NOT_DUE),
        "lease, no steal": (build(leasing.lease, steal=False, **lease), WAITING - ASKED - NOT_DUE),
        "lease, first": (build(leasing.lease, steal=False, first=True, **lease), {"queued"}),
        "renew": (build(leasing.renew, now=NOW, progress=0.25, stage="x", **fence), HELD),
        "succeed": (build(leasing.succeed, result="1", **end, **fence), HELD),
        "continue": (build(leasing.continue_, now=NOW, **fence), HELD),
        "park": (build(waiting.park, now=NOW, number=3, wait=A_WAIT, **fence), HELD - ASKED),
        "wake": (build(waiting.wake, number=2, now=NOW), PARKED),
        "prolong": (
            build(waiting.prolong, number=2, now=NOW, wake_at=NOW + 2 * LEASE, not_before=NOW + 2 * LEASE),
            NOT_DUE,
        ),
        "unpark": (build(waiting.unpark, number=2, revision=2, now=NOW, payload="{}"), UNBEGUN),
        "cancelled": (build(leasing.cancelled, reason="requested", failure=None, **end, **fence), HELD),
        "retry": (build(leasing.retry, not_before=NOW + MINUTE, failure=BOOM, **fence), HELD),
        "release": (build(leasing.release, now=NOW, **fence), HELD),
        "die": (build(leasing.die, reason="failed", failure=BOOM, **end, **fence), HELD),
        "cancel": (build(ending.cancel, **end), WAITING),
        "request cancel": (ending.request_cancel(), HELD),
        "hasten": (build(ending.hasten, now=NOW), {"retrying", "continued", "given back unbegun"}),
        "expire": (build(ending.expire, revision=2, **end, reason="deadline passed"), WAITING | ABANDONED),
        "exhaust": (
            build(ending.exhaust, max_attempts=2, reason="vanished", failure=None, **end, **fence),
            {"retrying", "continued"} | PARKED - UNBEGUN | ABANDONED - AHEAD,
        ),
        "lose": (build(ending.lose, token="t1", **end), ABANDONED),
        "cancel waiting": (
            build(ending.cancel_waiting, reason="requested", **end),
            {"queued, cancel asked", "abandoned, cancel asked"},
        ),
        "inter": (build(ending.inter, state=RunState.LOST, now=NOW, **fence), {"lost"}),
        "bury": (
            build(ending.bury, reason="failed", failure=BOOM, **end, **fence),
            HELD | PARKED - UNBEGUN | {"retrying", "continued", "given back unbegun", "dead"},
        ),
    }
