"""Checked arguments of create, upsert and update, and the definition that they result in. A payload is stored when it is needed."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar

from quarterjack import masking
from quarterjack.arguments import payload_text, rule_of
from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.names import RunRef, check_name
from quarterjack.domain.options import Options, OptionWords
from quarterjack.domain.payload import PayloadOwner, TypedPayload, has_content, size
from quarterjack.domain.policies import DeliveryWord, Overrides, PriorityWord, Retry, StartWord
from quarterjack.domain.policies.flow import Flow
from quarterjack.domain.schedule import Definition
from quarterjack.domain.times import to_ms
from quarterjack.errors import InvalidInput
from quarterjack.owner.schedules.arm import ScheduleSpec
from quarterjack.owner.schedules.client_tokens import ClientToken
from quarterjack.timing import Rule
from quarterjack.values import replace

_T = TypeVar("_T")
_LONGEST_PATIENCE = 3_600  # seconds
StoredPayload = tuple[str | None, str | None]  # JSON text, or key in the bucket


class ScheduleWords(OptionWords, total=False):
    """Keywords of create, update and upsert: policies that override the job's own, and the options."""

    delivery: DeliveryWord | None
    start: StartWord | None
    priority: PriorityWord | None
    retry: Retry | None
    timeout: float | None  # seconds of one attempt
    deadline: float | None  # seconds after the due time; after them no attempt starts
    flow: Flow | None  # limits by key


class PendingPayload:
    """A payload that is not stored yet. It is stored at most once, and not at all if the present definition has it."""

    def __init__(self, payload: Any, put: Callable[[PayloadOwner, str], str], kind: TypedPayload | None = None) -> None:
        self.text = payload_text(payload, kind)
        self._put = put  # stores a large one
        self._stored: StoredPayload | None = None

    def of_run(self, run: RunRef) -> StoredPayload:
        """Stored as the payload of this run alone."""
        return self.store(INLINE_PAYLOAD, run)

    def of_schedule(self, owner: str, present: Definition | None) -> StoredPayload:
        """The present definition's payload if it is equal, else the newly stored one, of the schedule with this ``owner``."""
        if present is not None:
            text, ref = present.payload, present.payload_ref
            if text is None:
                is_equal = ref is not None and has_content(ref, self.text)
            else:
                is_equal = text == self.text or payload_text(json.loads(text)) == self.text
            if is_equal:
                return text, ref
        if self._stored is None:
            self._stored = self.store(INLINE_PAYLOAD, owner)
        return self._stored

    def store(self, most: int, whose: PayloadOwner) -> StoredPayload:
        """The text itself if it has at most so many bytes; else its key in the bucket, after it was put there."""
        if size(self.text) <= most:
            return self.text, None
        return None, self._put(whose, self.text)


class ComparedPayload(PendingPayload):
    """A payload that is compared and never stored."""

    def store(self, most: int, whose: PayloadOwner) -> StoredPayload:  # noqa: ARG002 (the base's)
        return self.text, None


def checked_patience(seconds: object) -> float:
    """Seconds for which a call may wait for its tenant's rate. Raises InvalidInput."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= _LONGEST_PATIENCE:
        remedy = f"use 0 (no wait) to {_LONGEST_PATIENCE:,}"
        raise InvalidInput("patience", seconds, "is not a number of seconds", remedy)
    return float(seconds)


def refuse_secrets(field: str, data: Callable[[], object], tenant: str | None) -> None:
    """A job that passes a secret on would store it. Threads that a job has started belong to no run: there the tenant's count.

    ``data`` returns data of JSON, and is called only where there are secrets. Raises InvalidInput.
    """
    run = masking.of_run()
    values, label = (masking.of_process, tenant) if run is None else (run, None)
    if values and values.held_in(data(), label) is not None:
        remedy = "leave it out"
        if field == "payload":
            remedy = "pass its name, and let the other job look it up: ctx.secret(payload['secret'])"
        problem = "holds a secret that this run has looked up, and it is stored"
        raise InvalidInput(field, "…", problem, remedy)


@dataclass(frozen=True, kw_only=True)
class ScheduleRequest:
    owner: str  # of the schedule: "tenant/name"
    job: str
    rule: Rule
    payload: PendingPayload | None  # None: it keeps the stored one
    overrides: Overrides
    options: Options
    description: str
    tags: Mapping[str, str]
    managed_by: str | None = None

    def define(self, present: Definition | None) -> Definition:
        if self.payload is not None:
            text, ref = self.payload.of_schedule(self.owner, present)
        else:
            text, ref = (None, None) if present is None else (present.payload, present.payload_ref)
        return Definition(
            job=self.job, rule=self.rule, payload=text, payload_ref=ref, overrides=self.overrides, options=self.options
        )

    def spec(self, *, paused: bool = False) -> ScheduleSpec:
        return ScheduleSpec(
            definition=self.define,
            description=self.description,
            tags=self.tags,
            managed_by=self.managed_by,
            paused=paused,
            seed=uuid.uuid4().hex,
        )


def changed_rule(present: Rule, expression: str | Sequence[str] | Rule | None, timezone: str | None) -> Rule:
    """The present rule with another expression or zone. Its count of fires (``last``) starts again."""
    if isinstance(expression, Rule):
        return rule_of(expression, timezone)
    if expression is None and timezone is None:
        return present
    given, zone = present if expression is None else Rule.of(expression), either(timezone, present.timezone)
    return replace(present, expression=given.expression, also=given.also, timezone=zone, last=None)


def either(given: _T | None, present: _T) -> _T:
    return present if given is None else given


def token_of(client_token: str | None, tenant: str, act: str, name: str, *arguments: object) -> ClientToken | None:
    """A client token with a digest of the call and its arguments; None if the caller gave none."""
    if client_token is None:
        return None
    check_name(client_token, "client_token")
    digest = hashlib.sha256(json.dumps([act, name, arguments], sort_keys=True, default=_plain).encode()).hexdigest()
    return ClientToken(tenant=tenant, text=client_token, act=f"{act}({name!r})", digest=digest)


def _plain(value: object) -> object:
    """Default of the JSON encoder: equal arguments give equal text."""
    if isinstance(value, (Rule, Overrides, Options, Retry, Flow)):
        return value.as_dict()
    if isinstance(value, datetime):
        return to_ms(value, "client_token")
    if isinstance(value, PendingPayload):
        return value.text
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    return repr(value)
