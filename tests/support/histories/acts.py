"""Which act of an owner a write was, told by the row before and after it alone."""

from __future__ import annotations

import json
from typing import Any

from quarterjack.domain.schedule import ScheduleState
from quarterjack.stores.tables import RUNS, SCHEDULES, Row

# Changes of a head that are no acts: a failure is counted, or an incident is over.
QUIET = {"failing", "failed_at", "failed_run", "incident", "version", "updated_at"}


def kind(act: str) -> str:
    """Acts between which the rows do not tell."""
    return {"replay": "redrive", "update": "change", "retag": "change"}.get(act, act)


def told(table: Any, key: Row, old: Row | None, new: Row | None) -> tuple[str, str] | None:
    """The act that a write of a row was, by the row before and after it."""
    old, new = old or {}, new or {}
    if table is SCHEDULES:
        return head_act(old, new, f"{key['tenant']}/{key['name']}")
    if table.suffix == "revisions" and key["number"] == 0 and old != new:
        return ("freeze" if new["until"] > new["created_at"] else "thaw"), key["owner"].partition("/")[0]
    if table is RUNS and "#dead#" in key["owner"]:
        return ("purge", key["owner"].partition("#")[0]) if old and not new else None
    if table is RUNS and key["key"].startswith("~backfill~"):
        return backfill_act(old, new, f"{key['owner']}#backfill/{key['key'].removeprefix('~backfill~')}")
    if table is RUNS and key["key"].startswith("#"):
        return signal_act(old, new, key)
    is_run = table is RUNS and "state" in new
    return run_act(old, new, f"{key['owner']}#{key['key']}") if is_run else None


def signal_act(old: Row, new: Row, key: Row) -> tuple[str, str] | None:
    """A signal, or a link for one, that was put beside a run, or a link's end; a wait that nobody answered in time is no act."""
    run, _, word = key["key"].removeprefix("#").partition("#")
    if word.startswith("link#") and "revoked_at" in new and "revoked_at" not in old:
        return "revoke-link", f"{key['owner']}#{run}"
    act = {"signal": "signal", "link": "signal-link"}.get(word.partition("#")[0])
    if act is None or old or not new or (act == "signal" and "payload" not in new):
        return None
    return act, f"{key['owner']}#{run}"


def head_act(old: Row, new: Row, name: str) -> tuple[str, str] | None:
    if {n: v for n, v in old.items() if n not in QUIET} == {n: v for n, v in new.items() if n not in QUIET}:
        return None
    state = old.get("state"), new["state"]
    if not old or (state[0] == ScheduleState.DELETED and state[1] != ScheduleState.DELETED):
        return "create", name
    if new.get("actor", "").startswith("system:") and state[1] in (ScheduleState.COMPLETED, ScheduleState.DELETED):
        return "complete", name
    if state[1] == ScheduleState.DELETED:
        return "delete", name
    if state[1] == ScheduleState.PAUSED and (state[0] != state[1] or old.get("resume_at") != new.get("resume_at")):
        return "pause", name
    return ("resume" if state == (ScheduleState.PAUSED, ScheduleState.ACTIVE) else "change"), name


def backfill_act(old: Row, new: Row, name: str) -> tuple[str, str] | None:
    states = [json.loads(row["body"])["state"] if row else None for row in (old, new)]
    if states[0] == states[1] or states == ["RUNNING", "DONE"]:
        return None
    acts = {"PAUSED": "pause-backfill", "CANCELLED": "cancel-backfill", "RUNNING": "resume-backfill"}
    return ("backfill" if states[0] is None else acts[str(states[1])]), name


def run_act(old: Row, new: Row, run: str) -> tuple[str, str] | None:
    if not old and "~trigger-" in run:
        return "trigger", run
    if not old and "replay_of" in new:
        return "redrive", new["replay_of"]
    reason = new.get("reason")
    if reason in ("skip_next", "skipped by its owner") and old.get("reason") != reason:
        return "skip", run if reason == "skip_next" else new["parent"]  # the pipeline's run of a task
    if new.get("cancel_requested") and not old.get("cancel_requested"):
        return "cancel", run
    between = ("RETRYING", "CONTINUED")
    if old.get("state") in between and new["state"] in between and new["not_before"] < old["not_before"]:
        return "retry", run
    moved = run.endswith("#once") and old and new["rev"] != old["rev"]
    return ("requeue" if old["due"] == new["due"] else "reschedule", run) if moved else None
