"""Which rows are a tenant's, and what becomes of each: the one place that knows where a tenant's name may stand in the tables.

A scan is narrowed by a condition that every such row meets; ``found_in`` then decides by the row itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.names import schedule_owner
from quarterjack.domain.run import RunState
from quarterjack.domain.schedule import is_freeze
from quarterjack.domain.tenants.erasure import DataKind, ErasurePlace, Kept, SweepRules
from quarterjack.domain.times import STAMP_DIGITS
from quarterjack.state.lease import SKEW
from quarterjack.state.tenants.breaker import HINTS, tenant_of_hint
from quarterjack.state.tenants.caps import EVERYBODY, PERMITS
from quarterjack.state.transition import Compare, Condition, all_of, any_of
from quarterjack.stores.tables import AGENDA, AUDIT, HISTORY, REVISIONS, RUNS, SCHEDULES, TENANTS, Row, TableDefinition

TABLES: Mapping[ErasurePlace, TableDefinition] = {
    ErasurePlace.AGENDA: AGENDA,
    ErasurePlace.REVISIONS: REVISIONS,
    ErasurePlace.SCHEDULES: SCHEDULES,
    ErasurePlace.RUNS: RUNS,
    ErasurePlace.HISTORY: HISTORY,
    ErasurePlace.AUDIT: AUDIT,
    ErasurePlace.TENANTS: TENANTS,
}
_SHARED = "~"  # partitions of the whole installation begin so, and sort after those of all tenants
_QUARANTINED = "quarantined#"
_STAYS = ("#profile", "#erasure")  # items of a tenant that was erased


@dataclass(frozen=True)
class Remove:
    """The row goes."""

    kind: DataKind


@dataclass(frozen=True)
class Replace:
    """Another row takes its place."""

    kind: DataKind
    row: Row


@dataclass(frozen=True)
class Keep:
    """The row stays."""

    kind: Kept


Finding = Remove | Replace | Keep


def narrowed(place: ErasurePlace, tenant: str) -> Condition | None:
    """A condition that every row meets in which the tenant may be named; None: all rows."""
    begins, shared = partial(_begins, TABLES[place].hash_key), Compare(TABLES[place].hash_key, ">=", _SHARED)
    match place:
        case ErasurePlace.SCHEDULES | ErasurePlace.TENANTS:
            return Compare("tenant", "=", tenant)
        case ErasurePlace.REVISIONS:
            return begins(f"{tenant}/")
        case ErasurePlace.RUNS:
            return any_of(begins(f"{tenant}/"), begins(f"{tenant}#"), shared)
        case ErasurePlace.HISTORY:
            return any_of(begins(f"{tenant}#"), shared)
        case ErasurePlace.AUDIT:
            return any_of(begins(f"{tenant}#"), all_of(shared, Compare("key", "=", tenant)))
        case _:  # of an entry the tenant stands in the middle of its key
            return None


def _begins(attribute: str, prefix: str) -> Condition:
    beyond = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    return all_of(Compare(attribute, ">=", prefix), Compare(attribute, "<", beyond))


def found_in(place: ErasurePlace, row: Row, rules: SweepRules) -> Finding | None:
    """What becomes of a row; None: it is not the tenant's."""
    return _READERS[place](row, rules)


def _schedule(row: Row, rules: SweepRules) -> Finding | None:
    return Remove(DataKind.SCHEDULE) if row["tenant"] == rules.tenant else None


def _setting(row: Row, rules: SweepRules) -> Finding | None:
    return Remove(DataKind.SETTING) if row["tenant"] == rules.tenant and row["item"] not in _STAYS else None


def _revision(row: Row, rules: SweepRules) -> Finding | None:
    if not row["owner"].startswith(f"{rules.tenant}/"):
        return None
    return Remove(DataKind.FREEZE if is_freeze((row["owner"], row["number"])) else DataKind.REVISION)


def _entry(row: Row, rules: SweepRules) -> Finding | None:
    """Of an entry whose key nobody understands it is enough that it names the tenant."""
    key = row["entry"].removeprefix(_QUARANTINED)
    about = key.split("#", 2)[2] if key.count("#") >= 2 else f"{key}"
    is_own = about.startswith(f"{rules.tenant}/") or f"#{rules.tenant}/" in f"#{about}"
    return Remove(DataKind.ENTRY) if is_own else None


def _history(row: Row, rules: SweepRules) -> Finding | None:
    tenant, partition = rules.tenant, row["partition"]
    is_shared = (partition.startswith("~tenants#") and row["key"] == tenant) or (
        partition.startswith("~late#") and row["key"].partition("#")[2] == tenant
    )
    return Remove(DataKind.HISTORY) if is_shared or partition.startswith(f"{tenant}#") else None


# The ledger.


def _run(row: Row, rules: SweepRules) -> Finding | None:
    tenant, owner, key = rules.tenant, row["owner"], row["key"]
    if owner.startswith(_SHARED):
        return _shared_record(row, tenant)
    if owner.startswith(f"{tenant}#"):
        return Remove(DataKind.DEAD_ENTRY)
    if not owner.startswith(f"{tenant}/"):
        return None
    if key.startswith("~"):
        return Remove(DataKind.RECORD)
    if key.startswith("#"):
        return Remove(DataKind.BESIDE)
    return Keep(Kept.RUNNING) if rules.spares_running and _is_at_hand(row, rules.now) else Remove(DataKind.RUN)


def _is_at_hand(row: Row, now: int) -> bool:
    """Whether a worker may have the run."""
    return bool(row.get("state") == RunState.RUNNING and row.get("lease_until", 0) + SKEW >= now)


def _shared_record(row: Row, tenant: str) -> Finding | None:
    """A record of the whole installation. Each kind that may name a tenant says here how it forgets one."""
    key = row["key"]
    if row["owner"] == HINTS and tenant_of_hint(key) == tenant:
        return Remove(DataKind.SHARED_RECORD)
    if "body" not in row or not _names(row["body"], tenant):
        return None
    body = json.loads(row["body"])
    if key.startswith("~aside~"):
        return Remove(DataKind.SHARED_RECORD)
    if key.startswith("~worker~"):
        body["runs"] = [run for run in body["runs"] if not run["ref"].startswith(f"{tenant}/")]
        body["at_hand"] = min(body.get("at_hand", 0), len(body["runs"]))
    elif key == "~progress":  # of the auditor, which then begins its step anew
        body = {name: "" if _names(json.dumps(value), tenant) else value for name, value in body.items()}
    elif row["owner"] == schedule_owner(EVERYBODY, PERMITS):
        body["sent"] = {
            job: {run: until for run, until in runs.items() if not run.startswith(f"{tenant}/")}
            for job, runs in body["sent"].items()
        }
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    if _names(text, tenant):
        return Keep(Kept.UNKNOWN)
    return Replace(DataKind.SHARED_RECORD, row | {"body": text, "version": row["version"] + 1})


def _names(text: str, tenant: str) -> bool:
    """Whether JSON text has a run, a schedule or an object of the tenant."""
    return f'"{tenant}/' in text or f"/{tenant}/" in text


# The audit.


def _line(row: Row, rules: SweepRules) -> Finding | None:
    tenant, partition = rules.tenant, row["partition"]
    if partition.startswith(_SHARED):
        return Keep(Kept.DAY) if row["key"] == tenant and partition.startswith("~days#") else None
    if not partition.startswith(f"{tenant}#"):
        return None
    if partition.startswith(f"{tenant}#~"):
        return Keep(Kept.CLOSE)
    if "erased" in row:
        return Keep(Kept.DIGEST)
    if row.get("act") == AuditAct.ERASE_TENANT or (row.get("act") == AuditAct.DENY and _at(row) >= rules.began_at):
        return Keep(Kept.OWN_ENTRY)
    return Replace(DataKind.AUDIT_ENTRY, erased_entry(row, rules.now))


def erased_entry(row: Mapping[str, Any], now: int) -> Row:
    """What is left of a line: its place and its digest, on which the close of its day rests."""
    return {"partition": row["partition"], "key": row["key"], "digest": row.get("digest", ""), "erased": now}


def _at(row: Row) -> int:
    digits = row["key"][:STAMP_DIGITS]
    return int(digits) if digits.isdecimal() else 0


_READERS: Mapping[ErasurePlace, Callable[[Row, SweepRules], Finding | None]] = {
    ErasurePlace.AGENDA: _entry,
    ErasurePlace.REVISIONS: _revision,
    ErasurePlace.SCHEDULES: _schedule,
    ErasurePlace.RUNS: _run,
    ErasurePlace.HISTORY: _history,
    ErasurePlace.AUDIT: _line,
    ErasurePlace.TENANTS: _setting,
}
