"""Return values of the SDK about schedules, with aware datetimes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from quarterjack.apply.fields import words_of
from quarterjack.apply.plan import payload_changes
from quarterjack.arguments import checked_revision
from quarterjack.domain.names import PIPELINE
from quarterjack.domain.redaction import MASK, Redact
from quarterjack.domain.schedule import Definition, Head, Revision, ScheduleState
from quarterjack.domain.times import from_ms
from quarterjack.sdk.views import Run, stored_value, view_of
from quarterjack.timing import STORED, Rule, zone


# Flat, because tables of the command line, JSON of the API and CSV files name its fields.
@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule as its owner sees it. Listings leave ``payload``, ``last_fired_at`` and, unless asked, ``next_fires`` out."""

    tenant: str  # its owner
    name: str  # unique within the tenant
    state: ScheduleState  # ACTIVE, PAUSED, COMPLETED (no further fire) or DELETED
    job: str  # name of its job
    expression: str  # when it is due
    timezone: str  # the zone that the expression is read in
    payload: Any = None  # of the job
    description: str = ""  # free text
    tags: Mapping[str, str]  # free key-value pairs
    reason: str | None = None  # why it was paused
    resume_at: datetime | None = None  # UTC: when its pause ends by itself
    paused_at: datetime | None = None  # UTC: when its pause began; None unless PAUSED
    paused_by: str | None = None  # who began it: as ``actor``
    managed_by: str | None = None  # the package or file that it is declared in
    failing: int = 0  # consecutive runs that failed for good; 0 after a success
    failed_at: datetime | None = None  # UTC: the last failure
    failed_run: str | None = None  # id of the run that failed last
    incident: str | None = None  # id of the open incident, if there is one
    revision: int  # number of the current revision
    version: int  # incremented by every change
    actor: str | None = (
        None  # who changed it last: "app:alice@acme", "iam:…", "system:<role>"; None: an earlier release
    )
    created_at: datetime  # UTC
    updated_at: datetime  # UTC
    last_fired_at: datetime | None = None  # of the last run that started, in the schedule's zone
    next_fires: Sequence[datetime] = ()  # the next five, in the schedule's zone; empty unless ACTIVE
    definition: Mapping[str, Any] = field(
        default_factory=dict
    )  # get_schedule only: the words of its declaration in a file, without payload
    masked: bool = False  # its payload, and those of its tasks, are left out: the caller may not read-payloads


def seen_of(expected: object) -> tuple[int | None, int | None]:
    """Revision and version that a caller saw, who gives the number of a revision or a Schedule. Raises InvalidInput."""
    if isinstance(expected, Schedule):
        return expected.revision, expected.version
    return checked_revision(expected), None


@dataclass(frozen=True, kw_only=True)
class Upserted:
    """Result of ``upsert_schedule``."""

    schedule: Schedule  # as it is now
    change: str  # "created", "updated" or "unchanged"


@dataclass(frozen=True, kw_only=True)
class DefinitionView:
    """Content of the current revision."""

    job: str  # name of its job
    rule: Rule  # expression, time zone and all rule options
    payload: Any  # of the job
    policies: Mapping[str, Any]  # that override the job's own, by keyword of create_schedule
    options: Mapping[str, Any]  # the options that are not the default
    counts_from: datetime  # UTC: from which its rates and ``max_fires`` count


@dataclass(frozen=True, kw_only=True)
class RevisionView:
    """One revision of a schedule's history."""

    number: int  # 1, 2, 3 …
    active_from: datetime  # UTC, exclusive: its fires are later than this
    active_until: datetime | None  # UTC, inclusive; None: it is the current revision
    closed_by: str | None  # "replaced", "paused", "deleted" or "drained" (paused or deleted with ``drain``)
    actor: str | None = None  # who made it, as in ``Schedule.actor``
    changed: Sequence[str]  # fields that differ from the previous revision, e.g. "expression", "payload", "retry"
    differences: Mapping[str, tuple[Any, Any]] = field(
        default_factory=dict
    )  # earlier and new value by field, of a payload by path: "payload.to"; "[redacted]" for what is masked or in the bucket


@dataclass(frozen=True, kw_only=True)
class ChainView:
    """Health of a schedule's chain: whether its next fire is in the agenda."""

    state: str  # "ok", "missing", "quarantined", "unknown" or "not needed"
    due: datetime | None = None  # UTC: due time of its agenda entry
    remedy: str | None = None  # None if the state is ok or not needed


@dataclass(frozen=True, kw_only=True)
class ScheduleDescription:
    """Everything that is stored about a schedule."""

    schedule: Schedule  # as get_schedule shows it
    definition: DefinitionView  # of its current revision
    revisions: Sequence[RevisionView]  # newest first, at most twenty
    next_fires: Sequence[datetime]  # the next ten, in the schedule's zone; empty unless ACTIVE
    last_runs: Sequence[Run]  # the last ten that were due, newest first
    chain: ChainView  # health of its chain


def schedule_view(
    head: Head,
    revision: Revision | None = None,
    *,
    payload: str | None = None,
    last_fired: int | None = None,
    upcoming: Sequence[int] = (),
    masked: bool = False,
) -> Schedule:
    """The public form of a head. With its ``revision`` the other arguments are known, too."""
    local = zone(head.timezone)
    return view_of(
        Schedule,
        head,
        payload=stored_value(payload) if revision is not None else None,
        definition={} if revision is None else without_values(_words(head, revision), masked=masked),
        tags=dict(head.tags),
        masked=masked,
        last_fired_at=None if last_fired is None else from_ms(last_fired, local),
        next_fires=[from_ms(fire, local) for fire in upcoming],
    )


def _words(head: Head, revision: Revision) -> Mapping[str, Any]:
    return words_of(revision.definition, None, description=head.description, tags=head.tags)


def revision_view(one: Revision, before: Revision | None, *, may_see: Callable[[str], bool]) -> RevisionView:
    """A revision, with what differs from its predecessor, by the names of create_schedule and Rule.

    Payloads are compared for who may see those of both jobs; values under the usual names of secrets are masked.
    """
    old, new = _flat((before or one).definition), _flat(one.definition)
    changed = [name for name in dict.fromkeys((*new, *old)) if old.get(name) != new.get(name)]
    found = {name: (old.get(name), new.get(name)) for name in changed if name not in ("payload", "tasks")}
    if before is not None:
        for name in (name for name in ("payload", "tasks") if name in changed):
            found |= _differences(name, before.definition, one.definition, may_see)
    closed_by = None if one.closed_by is None else str(one.closed_by)
    return view_of(RevisionView, one, closed_by=closed_by, changed=changed, differences=found)


def _differences(
    name: str, before: Definition, after: Definition, may_see: Callable[[str], bool]
) -> Mapping[str, tuple[Any, Any]]:
    """Of the payloads or the tasks, by path."""
    is_open = all(map(may_see, {*jobs_of(before), *jobs_of(after)}))
    if not is_open or (name == "payload" and None in (before.payload, after.payload)):
        return {name: (MASK, MASK)}
    texts = (before.payload, after.payload) if name == "payload" else (before.options.tasks, after.options.tasks)
    old, new = map(stored_value, texts)
    changes = payload_changes(old, new, Redact(), name)
    return {one.path: (one.before, one.after) for one in changes}


def jobs_of(definition: Definition) -> list[str]:
    """The job of a definition, and those of its tasks: who may read the payloads of all of them sees its values."""
    tasks = {} if definition.options.tasks is None else json.loads(definition.options.tasks)
    return [definition.job, *(words.get("job") or f"{PIPELINE}{words['pipeline']}" for words in tasks.values())]


def without_values(words: Mapping[str, Any], *, masked: bool) -> Mapping[str, Any]:
    """The words of a definition; ``masked``: without payloads, conditions and items of tasks."""
    if not masked or words.get("tasks") is None:
        return words
    return {**words, "tasks": {name: _without_values(task) for name, task in words["tasks"].items()}}


def _without_values(task: Mapping[str, Any]) -> Mapping[str, Any]:
    found = {word: value for word, value in task.items() if word not in ("payload", "when")}
    return found if "map" not in found else {**found, "map": {"at_a_time": found["map"]["at_a_time"]}}


def _flat(definition: Definition) -> dict[str, Any]:
    return {
        "job": definition.job,
        **{name: value for name, value in definition.rule.as_dict().items() if name not in STORED},
        "payload": definition.payload_ref or definition.payload,
        **definition.overrides.as_dict(),
        **definition.options.as_dict(),
    }
