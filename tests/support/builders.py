"""Builders of domain objects for tests: say what matters, the rest is ordinary."""

from __future__ import annotations

import secrets
from typing import Any

from quarterjack.domain.audit import AuditAct, AuditEntryRow
from quarterjack.domain.message import Message
from quarterjack.domain.names import RunRef, fire_ref, one_off_ref
from quarterjack.domain.notice import Notice, NoticeKind
from quarterjack.domain.run import AgendaEntry, EntryKind, FailedAttemptRow, Failure, RunRow, RunState
from quarterjack.domain.schedule import Definition, Head, Revision, ScheduleState
from quarterjack.domain.tenants.caller import Via
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.timing import Rule

# A whole minute in 2036, UTC ms: what expires by it must not expire under a test.
NOON = 2_094_496_020_000 // MINUTE * MINUTE
OWNER = "acme/report"
BOOM = Failure(kind="ValueError", message="boom", traceback="Traceback …")


def a_run(fire: int = NOON, *, owner: str = OWNER, revision: int = 1, **changes: Any) -> RunRow:
    """A queued run of a schedule."""
    given: dict[str, Any] = {
        "ref": fire_ref(owner, fire),
        "state": RunState.QUEUED,
        "revision": revision,
        "job": "report",
        "due": fire,
        "not_before": fire,
        "created_at": fire - 90 * SECOND,
    }
    return RunRow(**(given | changes))


def a_one_off(key: str = "k1", *, tenant: str = "acme", due: int = NOON, **changes: Any) -> RunRow:
    """A queued one-off."""
    given: dict[str, Any] = {"ref": one_off_ref(tenant, key), "revision": 0, "payload": '{"n":1}'}
    return a_run(due, **(given | changes))


def an_entry(due: int = NOON, *, shard: int = 0, owner: str = OWNER, number: int = 1, **changes: Any) -> AgendaEntry:
    """A chain's entry."""
    given: dict[str, Any] = {"kind": EntryKind.CHAIN, "id": f"{owner}#{number}", "after": due - MINUTE}
    return AgendaEntry(shard=shard, due=due, **(given | changes))


def a_run_entry(ref: RunRef, due: int = NOON, *, shard: int = 0, created_at: int = 0) -> AgendaEntry:
    return AgendaEntry(shard=shard, due=due, kind=EntryKind.RUN, id=str(ref), created_at=created_at)


def a_definition(expression: str = "* * * * *", **changes: Any) -> Definition:
    timezone = changes.pop("timezone", "UTC")
    given: dict[str, Any] = {"job": "report", "rule": Rule(expression=expression, timezone=timezone), "payload": "null"}
    return Definition(**(given | changes))


def a_revision(number: int = 1, *, tenant: str = "acme", name: str = "report", **changes: Any) -> Revision:
    """An open revision that fires every minute."""
    given: dict[str, Any] = {"shard": 0, "definition": a_definition(), "active_from": NOON}
    return Revision(tenant=tenant, name=name, number=number, **(given | changes))


def a_head(version: int = 1, *, tenant: str = "acme", name: str = "report", **changes: Any) -> Head:
    given: dict[str, Any] = {
        "state": ScheduleState.ACTIVE,
        "revision": 1,
        "job": "report",
        "expression": "* * * * *",
        "timezone": "UTC",
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Head(tenant=tenant, name=name, version=version, **(given | changes))


def a_notice(**changes: Any) -> Notice:
    """The first notice of an incident."""
    given: dict[str, Any] = {
        "kind": NoticeKind.FAILURE,
        "tenant": "acme",
        "schedule": "report",
        "job": "report",
        "incident": f"failure-{NOON}",
        "began": "2036-05-15T08:27:00.000Z",
        "at": "2036-05-15T08:27:00.000Z",
        "count": 1,
        "text": "acme/report fails",
    }
    return Notice(**(given | changes))


def a_message(run: RunRow | None = None, **changes: Any) -> Message:
    """The order for a run."""
    of = run or a_run()
    given: dict[str, Any] = {
        "run": of.ref,
        "revision": of.revision,
        "not_before": of.not_before,
    }
    return Message(**(given | changes))


def an_attempt(run: RunRow | None = None, *, number: int = 1, **changes: Any) -> FailedAttemptRow:
    of = run or a_run()
    given: dict[str, Any] = {
        "run": of.ref,
        "number": number,
        "fence": number,
        "worker": "w1",
        "started_at": of.due,
        "ended_at": of.due + 7,
        "failure": BOOM,
        "next_attempt_at": of.due + MINUTE,
    }
    return FailedAttemptRow(**(given | changes))


def an_audit_entry(
    target: str = OWNER, *, at: int = NOON, act: AuditAct = AuditAct.PAUSE, **changes: Any
) -> AuditEntryRow:
    """A line of the audit; each has its own id."""
    given = {"id": secrets.token_hex(8), "call": "c1", "actor": "app:alice", "via": Via.SDK, "salt": "00" * 16}
    return AuditEntryRow(tenant=target.partition("/")[0], at=at, act=act, target=target, **given | changes)
