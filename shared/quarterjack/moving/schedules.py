"""A schedule as an item of a dump: the words of its declaration, as ``apply`` has them, and how it is; and back.

    {"item":"schedule","tenant":"acme","name":"nightly","state":"ACTIVE","job":"reports.nightly","expression":"30 2 * * *",…
     "revision":7,"active_from":"…","counts_from":"…","rule_state":{"seed":"…"},"managed_by":"acme.reports"}

A pipeline is a schedule with ``tasks``. ``counts_from`` and ``rule_state`` (the seed of jitter, the last of ``max_fires``, in UTC ms what
it took over) make its fires the same in another installation. Without them, as in a line by hand, its fires are those of a new schedule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from quarterjack.apply.fields import read_words, words_of
from quarterjack.apply.plan import same_json
from quarterjack.domain.history.transition_line import iso
from quarterjack.domain.names import check_name, check_tenant, schedule_owner, word
from quarterjack.domain.payload import has_content
from quarterjack.domain.schedule import Definition, Head, Revision, ScheduleState
from quarterjack.errors import InvalidInput
from quarterjack.moving.file import Fields
from quarterjack.timing import STORED, Rule
from quarterjack.values import value

_LABELS = ("description", "tags", "managed_by")  # words of the head


@value(kw_only=True)
class ScheduleItem:
    """A schedule of a dump."""

    tenant: str
    name: str
    state: ScheduleState
    definition: Definition  # with its payload as a text, however large
    is_pinned: bool  # the rule has what a revision stores beside it
    description: str = ""
    tags: Mapping[str, str]
    managed_by: str | None = None
    revision: int = 1
    active_from: int | None = None  # UTC ms, exclusive: when the revision began
    ended_at: int | None = None  # UTC ms, inclusive: the end of its fires, of a paused one
    counts_from: int | None = None  # UTC ms from which rates and ``max_fires`` count
    reason: str | None = None  # of its pause
    resume_at: int | None = None  # UTC ms at which the pause ends
    paused_at: int | None = None  # UTC ms
    paused_by: str | None = None
    created_at: int | None = None  # UTC ms

    @property
    def owner(self) -> str:
        return schedule_owner(self.tenant, self.name)

    def goes_on(self, start: int | None) -> bool:
        """Whether it starts at an instant (UTC ms) where it is loaded: it was active, or its fires end exactly then."""
        return start is not None and (self.state is ScheduleState.ACTIVE or self.ended_at == start)


def schedule_values(head: Head, revision: Revision, payload: Any) -> dict[str, Any]:
    """The item of a schedule. ``payload`` is its JSON value."""
    definition = revision.definition
    rule = definition.rule.as_dict()
    words = words_of(definition, payload, description=head.description, tags=head.tags)
    pause = {
        "reason": head.reason,
        "until": iso(head.resume_at),
        "at": iso(head.paused_at),
        "by": head.paused_by,
    }
    told = {name: value for name, value in pause.items() if value is not None}
    return (
        {"tenant": head.tenant, "name": head.name, "state": str(head.state)}
        | words
        | {
            "job": definition.job,
            "managed_by": head.managed_by,
            "revision": head.revision,
            "active_from": iso(revision.active_from),
            "ended_at": iso(revision.active_until),
            "counts_from": iso(revision.counts_from),
            "rule_state": {name: rule[name] for name in STORED if name in rule},
            "pause": told or None,
            "created_at": iso(head.created_at),
            "updated_at": iso(head.updated_at),
            "updated_by": head.actor,
        }
    )


def schedule_of(values: Mapping[str, Any]) -> ScheduleItem:
    """The schedule of an item. Raises InvalidInput."""
    fields = Fields(values)
    tenant, name = check_tenant(fields.text("tenant")), check_name(fields.text("name"))
    state = word(ScheduleState, "state", fields.take("state", str) or "ACTIVE")
    if state is ScheduleState.DELETED:
        raise InvalidInput("state", str(state), "is not loaded", "leave the line out")
    managed_by, revision = fields.take("managed_by", str), fields.take("revision", int)
    times: dict[str, Any] = {
        each: fields.instant(each) for each in ("active_from", "ended_at", "counts_from", "created_at")
    }
    fields.instant("updated_at")
    fields.take("updated_by", str)
    pause, rule_state = Fields(fields.take("pause", dict) or {}), fields.take("rule_state", dict)
    paused: dict[str, Any] = {
        "reason": pause.take("reason", str),
        "resume_at": pause.instant("until"),
        "paused_at": pause.instant("at"),
        "paused_by": pause.take("by", str),
    }
    pause.end()
    if revision is not None and not 0 < revision < 10**12:
        raise InvalidInput("revision", revision, "is not the number of a revision", "leave it out, or write 1")
    words = fields.rest()
    if "paused" in words:
        raise InvalidInput("paused", words["paused"], "is not known here", 'write "state":"PAUSED"')
    declared = read_words(name, words, f"schedule {name!r}")
    rule = declared.rule if rule_state is None else _with_state(declared.rule, rule_state)
    return ScheduleItem(
        tenant=tenant,
        name=name,
        state=state,
        definition=Definition(
            job=declared.job or "",
            rule=rule,
            payload=declared.payload,
            overrides=declared.overrides,
            options=declared.options,
        ),
        is_pinned=rule_state is not None and times["counts_from"] is not None,
        description=declared.description,
        tags=declared.tags,
        managed_by=None if managed_by is None else check_name(managed_by, "managed_by"),
        revision=revision or 1,
        **times,
        **paused,
    )


def _with_state(rule: Rule, state: Mapping[str, Any]) -> Rule:
    """The rule with what a revision stores beside it. Raises InvalidInput."""
    unknown = next((name for name in state if name not in STORED), None)
    if unknown is not None:
        raise InvalidInput(f"rule_state.{unknown}", state[unknown], "is not known", f"use some of {', '.join(STORED)}")
    try:
        return Rule.from_dict({**rule.as_dict(), **state})
    except InvalidInput as problem:
        raise problem.about(f"rule_state.{problem.field}") from None


def differences(item: ScheduleItem, head: Head, present: Definition) -> list[str]:
    """The words in which a stored schedule differs from an item."""
    stored, wanted = words_of(present, None), words_of(item.definition, None)
    found = [name for name in dict.fromkeys((*stored, *wanted)) if stored.get(name) != wanted.get(name)]
    if present.job != item.definition.job and "job" not in found:
        found.append("job")
    if not _same_payload(item.definition.payload or "null", present):
        found.append("payload")
    labels = {"tags": dict(head.tags) != dict(item.tags)} | {
        name: getattr(head, name) != getattr(item, name) for name in _LABELS if name != "tags"
    }
    return found + [name for name, differs in labels.items() if differs]


def _same_payload(text: str, present: Definition) -> bool:
    if present.payload_ref is not None:
        return has_content(present.payload_ref, text)
    return same_json(json.loads(text), json.loads(present.payload or "null"))
