"""Declared schedules, in code or in a file: compare them with the stored ones, apply the differences, export the stored ones.

The comparison reads every schedule once and writes nothing. Each difference is one transaction, bound to the revision that was
compared: if that schedule changed in between, its change fails and is reported by name. After a crash the same call continues.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from quarterjack.apply.fields import words_of
from quarterjack.apply.plan import ApplyAction, ApplyPlan, CurrentState, PlannedChange, plan_change
from quarterjack.declare import job_of
from quarterjack.domain.names import check_flag, check_name
from quarterjack.domain.schedule import Declaration, Definition, Head, ScheduleState, settled
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.caller import Via
from quarterjack.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    InvalidInput,
    JobError,
    NotFound,
    QuarterjackError,
    Unavailable,
    Unreadable,
)
from quarterjack.fires.context import revision_of
from quarterjack.owner.schedules import arm as creating
from quarterjack.owner.schedules.client_tokens import ScheduleCall
from quarterjack.sdk.base import UNSET
from quarterjack.sdk.requests import ComparedPayload, ScheduleRequest
from quarterjack.sdk.schedules.changes import ScheduleMethods
from quarterjack.sdk.schedules.filters import Filter, walk
from quarterjack.sdk.session import over
from quarterjack.stores.rows import refuse_unread
from quarterjack.values import replace

_BATCH = 100  # revisions that are read at once
_PAGE = 1_000  # heads of one query
_LOST_RACES = (AlreadyExists, Conflict, NotFound)  # somebody else changed the schedule first
_VERBS = {ApplyAction.CREATE: Verb.CREATE, ApplyAction.UPDATE: Verb.UPDATE, ApplyAction.PRUNE: Verb.DELETE}


@dataclass(frozen=True, kw_only=True)
class ApplyResult:
    """Result of carrying out a plan."""

    done: int = 0  # schedules created, updated or deleted
    failed: Mapping[str, str] = field(default_factory=dict)  # error by name of the schedule


@dataclass(frozen=True, kw_only=True)
class _Existing:
    head: Head
    definition: Definition


class DeclarationMethods(ScheduleMethods):
    def compare_declared(
        self, declarations: Iterable[Declaration], *, managed_by: str | None = None, adopt: bool = False
    ) -> ApplyPlan:
        """The changes of applying these declarations with the owner ``managed_by``. Reads all schedules, writes nothing.

        Schedules of other owners are not changed, and schedules without an owner only with ``adopt``. An invalid declaration (its
        queue does not exist, or ``strict`` and its job is not known) is REFUSED and does not stop the others; a job that no worker knows
        is among the ``warnings`` of its change.
        Raises InvalidInput, Unavailable.
        """
        self._access.check_some(Verb.READ_SCHEDULES)
        self._access.check_some(Verb.READ_PAYLOADS)
        owner = None if managed_by is None else check_name(managed_by, "managed_by")
        check_flag("adopt", adopt)
        unread = dict[str, Unreadable]()
        there = {one.head.name: one for one in self._all(unread)}
        changes: dict[str, PlannedChange] = {}
        given = list(declarations)
        comparing = over(self, replace(self.session, coming={declared.name for declared in given}))
        for declared in given:
            change = DeclarationMethods._compare(comparing, declared, there, owner, adopt=adopt)
            why = str(unread.get(change.name, ""))
            if change.name in changes:
                other = changes[change.name].declaration
                place = "it" if other is None else other.place
                why = f"{declared.place} declares it, and {place} too; give each a name of its own"
            if why:
                change = PlannedChange(name=change.name, act=ApplyAction.REFUSED, why=why, declaration=declared)
            changes[change.name] = change
        for name, one in there.items():
            if owner is not None and one.head.managed_by == owner and name not in changes:
                changes[name] = PlannedChange(
                    name=name, act=ApplyAction.PRUNE, job=one.definition.job, revision=one.head.revision
                )
        ordered = [changes[name] for name in sorted(changes)]
        return ApplyPlan(managed_by=owner, changes=ordered, warnings=self._crowded(ordered, there))

    def _crowded(self, changes: Sequence[PlannedChange], there: Mapping[str, _Existing]) -> Sequence[str]:
        """The crowded instants after these changes; none if nothing is created or updated."""
        if not any(change.act in (ApplyAction.CREATE, ApplyAction.UPDATE) for change in changes):
            return ()
        from quarterjack.sdk.schedules.crowded import after_apply, crowded  # noqa: PLC0415 (calls without changes need none of it)

        active = {
            name: (name, one.definition, one.head.counts_from or one.head.created_at)
            for name, one in there.items()
            if one.head.state is ScheduleState.ACTIVE
        }
        declared = {queue.name: queue for queue in self._jobs.queues()}
        schedules = [*after_apply(changes, active, self.session.clock())]
        return tuple(crowded(schedules, self.tenant, self.session, declared))

    def compare_schedule(self, declared: Declaration, *, keep_payload: bool = False) -> PlannedChange:
        """What ``upsert_schedule`` with the arguments of this declaration would change. Reads one schedule, writes nothing.

        Its owner is not compared. With ``keep_payload`` the payload is not compared either, and need not be readable.
        An invalid declaration is REFUSED; a job that no worker knows is among the ``warnings``.
        Raises InvalidInput, Forbidden, Unavailable.
        """
        if not isinstance(declared, Declaration):
            raise InvalidInput(
                "declared", declared, "is no Declaration", "make one with declare(), or read a file of them"
            )
        name = check_name(declared.name, "name")
        try:
            head = self._access.head(name, Verb.READ_SCHEDULES)
        except NotFound:
            return self._compare(declared, {}, None, adopt=False)
        definition = revision_of(head, self.session.services).definition
        if not check_flag("keep_payload", keep_payload):
            self._access.check(Verb.READ_PAYLOADS, definition.job)
        there = {name: _Existing(head=head, definition=definition)}
        return self._compare(declared, there, head.managed_by, adopt=False, keeps=keep_payload)

    def carry_out(
        self, plan: ApplyPlan, *, prune: bool = False, on_change: Callable[[PlannedChange], None] = lambda change: None
    ) -> ApplyResult:
        """Create and update schedules by a plan. With ``prune``, delete owned schedules that are not declared any more.

        ``on_change`` is called before each change. A failed change does not stop the others; the same call again continues. A schedule
        that somebody else made just so meanwhile, as by the same plan, has not failed.
        """
        check_flag("prune", prune)
        changes = list(plan.of(ApplyAction.CREATE, ApplyAction.UPDATE, *([ApplyAction.PRUNE] if prune else [])))
        for change in changes:  # all of them before the first is written
            self._access.check(_VERBS[change.act], change.job, what=f"schedule {change.name!r}")
        done, failed = 0, dict[str, str]()
        acting = self._of_one_call(Via.APPLY)
        acting = over(acting, replace(acting.session, coming={change.name for change in changes}))
        for change in changes:
            on_change(change)
            try:
                DeclarationMethods._carry_out(acting, change, plan.managed_by)
                done += 1
            except QuarterjackError as problem:
                if not (isinstance(problem, _LOST_RACES) and self._is_done(change, plan.managed_by)):
                    failed[change.name] = str(problem)
        return ApplyResult(done=done, failed=failed)

    def export_declared(self, *, prefix: str = "") -> Mapping[str | None, Mapping[str, Mapping[str, Any]]]:
        """Stored schedules as words of declarations, by owner (or None) and name, for ``quarterjack.apply.document``.

        Reads all schedules whose names begin with ``prefix``. Raises InvalidInput, Unavailable; TooNew or Unreadable if a schedule
        cannot be read: none is left out.
        """
        self._access.check_some(Verb.READ_SCHEDULES)
        self._access.check_some(Verb.READ_PAYLOADS)
        if not isinstance(prefix, str) or prefix:
            check_name(prefix, "prefix")
        found: dict[str | None, dict[str, Mapping[str, Any]]] = {}
        unread = dict[str, Unreadable]()
        for one in self._all(unread, prefix):
            words = self._words(one, self._payload(one.definition))
            if "queue" not in words and self._checks.job_queue(one.definition.job) is not None:
                words["queue"] = "default"  # without it, apply would take the job's queue
            found.setdefault(one.head.managed_by, {})[one.head.name] = words
        refuse_unread(unread.values(), "schedules")
        return dict(sorted(found.items(), key=lambda pair: pair[0] or ""))

    def _compare(
        self,
        declared: Declaration,
        there: Mapping[str, _Existing],
        owner: str | None,
        *,
        adopt: bool,
        keeps: bool = False,  # the stored payload
    ) -> PlannedChange:
        name, odd = declared.name or declared.place, list[str]()
        try:
            job = job_of(declared, self._jobs)
            name = declared.name or job
            one, current = there.get(name), None
            stored, keeps = (None, False) if one is None else (one.definition, keeps)
            value = None if keeps else json.loads(declared.payload)
            quiet = over(self, replace(self.session, on_unknown=odd.append))
            definition = DeclarationMethods._defined(quiet, name, job, declared, owner, stored, keeps=keeps)
        except (InvalidInput, JobError, Forbidden) as problem:
            return PlannedChange(name=name, act=ApplyAction.REFUSED, why=str(problem), declaration=declared)
        words = words_of(
            definition, value, description=declared.description, tags=declared.tags, paused=declared.paused
        )
        if one is not None:
            same = (one.definition.payload, one.definition.payload_ref) == (definition.payload, definition.payload_ref)
            payload = (
                value if same or keeps else self._payload(one.definition)
            )  # an equal one is not fetched from the bucket
            current = CurrentState(
                words=self._words(one, payload), managed_by=one.head.managed_by, revision=one.head.revision
            )
        change = plan_change(declared, words, current, job=job, managed_by=owner, adopt=adopt)
        return replace(change, warnings=tuple(odd), definition=definition)

    def _defined(
        self, name: str, job: str, declared: Declaration, owner: str | None, stored: Definition | None, *, keeps: bool
    ) -> Definition:
        """The definition that a declaration makes of the stored one. Raises InvalidInput, Forbidden."""
        request = self._request_of(name, job, declared, owner, keeps=keeps)
        compared = None if keeps else ComparedPayload(json.loads(declared.payload), self.session.services.payloads.put)
        definition = settled(replace(request, payload=compared).define(stored), stored)
        if keeps:
            self._checks.check_stored(job, definition.payload, definition.payload_ref)
        return definition

    def _words(self, one: _Existing, payload: Any) -> dict[str, Any]:
        head, paused = one.head, True if one.head.state is ScheduleState.PAUSED else None
        return words_of(one.definition, payload, description=head.description, tags=head.tags, paused=paused)

    def _payload(self, definition: Definition) -> Any:
        return json.loads(self._payload_of(definition) or "null")

    def _request_of(
        self, name: str, job: str, declared: Declaration, owner: str | None, *, keeps: bool = False
    ) -> ScheduleRequest:
        words: Any = vars(declared.overrides) | declared.options.as_dict()  # the keys of ScheduleWords
        payload, about = UNSET if keeps else json.loads(declared.payload), (declared.description, declared.tags)
        return self._request(name, job, declared.rule, None, payload, *about, words, owner)

    def _all(self, unread: dict[str, Unreadable], prefix: str = "") -> Iterator[_Existing]:
        """Schedules that exist and that the caller may read with their payloads, by name. ``unread`` gets why others cannot be read."""

        def heads() -> Iterator[Head]:
            for page in walk(self.tenant, Filter(prefix=prefix), self.session.services, cursor=None, chunk=_PAGE):
                unread.update(page.unread)
                yield from self._access.visible(page.items, Verb.READ_SCHEDULES, _job_of)

        seen = iter(self._access.visible(heads(), Verb.READ_PAYLOADS, _job_of))
        while batch := list(islice(seen, _BATCH)):
            answer = self.session.services.schedules.revisions([(head.owner, head.revision) for head in batch])
            unread |= {owner.partition("/")[2]: problem for (owner, _), problem in answer.broken.items()}
            batch = [head for head in batch if head.name not in unread]
            missing = [head.name for head in batch if (head.owner, head.revision) not in answer.found]
            if missing:
                raise Unavailable(
                    f"the revisions of {', '.join(missing[:5])} could not be read; try again, or run the auditor"
                )
            for head in batch:
                yield _Existing(head=head, definition=answer.found[head.owner, head.revision].definition)

    def _is_done(self, change: PlannedChange, owner: str | None) -> bool:
        """Whether a schedule is as its change would have made it; False if it cannot be read."""
        try:
            head = self.session.services.schedules.head(self.tenant, change.name)
            if head is None or head.state is ScheduleState.DELETED:
                return change.act is ApplyAction.PRUNE
            there = {change.name: _Existing(head=head, definition=revision_of(head, self.session.services).definition)}
            declared = change.declaration
            if declared is None:
                return False
            return self._compare(declared, there, owner, adopt=False).act is ApplyAction.UNCHANGED
        except QuarterjackError:
            return False

    def _carry_out(self, change: PlannedChange, owner: str | None) -> None:
        if change.declaration is None:
            self.delete_schedule(change.name, expected_revision=change.revision)
            return
        declared = change.declaration
        spec = self._request_of(change.name, change.job, declared, owner).spec(paused=declared.paused is True)
        if change.revision is None:
            self._access.check(Verb.CREATE, change.job, what=f"schedule {change.name!r}")
            creating.create(ScheduleCall(tenant=self.tenant, name=change.name), spec, self._context)
            return
        paused = change.fields.get("paused")
        if paused == (None, True):  # before the update, so that no fire of the new revision starts
            self.pause_schedule(change.name, reason=f"paused by {owner or 'apply'}", expected_revision=change.revision)
        permit = self._access.upsert_check(change.name, change.job)
        call = ScheduleCall(tenant=self.tenant, name=change.name, expected=change.revision, permit=permit)
        done = creating.upsert(call, spec, self._context)
        if paused == (True, False):
            self.resume_schedule(change.name, expected_revision=done.head.revision)


def _job_of(head: Head) -> str:
    return head.job
