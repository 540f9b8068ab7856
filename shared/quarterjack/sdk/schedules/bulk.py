"""The SDK's bulk operations: one action on every schedule that a filter finds, eight at a time, sorted by name.

Each schedule is changed by a call of its own, so a crash leaves no schedule half changed. The cursor is that of the last name up to which
all actions have ended: continuing from it skips only schedules that were created later with a smaller name. After a crash up to seven
actions beyond it have been done too, and are repeated, which changes nothing: a pause of a paused schedule writes nothing, and a trigger
has an idempotency key, the caller's ``client_token`` or one that the cursor carries.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from quarterjack.arguments import (
    MAX_DESCRIPTION,
    MAX_TAGS,
    checked_rate,
    checked_tags,
    checked_text,
    end_time,
    payload_text,
)
from quarterjack.concurrency.rate_limits import StopSignal, TokenBucket
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_flag
from quarterjack.domain.schedule import Head, ScheduleState, ScheduleStateWord
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.owner.schedules.client_tokens import remember_act
from quarterjack.owner.schedules.stop import Tags, retag, retagged
from quarterjack.sdk.base import UNSET
from quarterjack.sdk.call_verbs import BULK_VERBS
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.requests import refuse_secrets, token_of
from quarterjack.sdk.runs import RunMethods
from quarterjack.sdk.schedules.changes import ScheduleMethods
from quarterjack.sdk.schedules.filters import CHUNK, Filter, TagFilter, checked_filter, walk
from quarterjack.sdk.session import over
from quarterjack.values import replace

if TYPE_CHECKING:
    from quarterjack.sdk.schedules.bulk_work import BulkProgress, ScheduleWork

Act = Callable[["BulkMethods", Head, str], object]  # with the idempotency key of a trigger
OnProgress = Callable[["BulkProgress"], object]

BulkAction = Literal["pause", "resume", "delete", "retag", "trigger"]
ACTIONS: Mapping[str, tuple[str, ...]] = {  # which arguments an action takes
    "pause": ("reason", "until", "drain"),
    "resume": (),
    "delete": ("drain",),
    "retag": ("tags",),
    "trigger": ("payload", "client_token"),
}
# The states in which an action changes a schedule. Its transaction then checks that the schedule is as it was listed.
CHANGES: Mapping[str, tuple[ScheduleState, ...]] = {
    "pause": (ScheduleState.ACTIVE, ScheduleState.COMPLETED),
    "resume": (ScheduleState.PAUSED,),
    "delete": (ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.COMPLETED),
}


@dataclass(frozen=True, kw_only=True)
class BulkResult:
    """Result of ``bulk``."""

    action: str  # as passed to ``bulk``
    done: Sequence[str] = ()  # names of the schedules that were changed, or would be (dry run), sorted
    failed: Mapping[str, str] = field(default_factory=dict)  # error by name of the schedule
    dry_run: bool = False  # True: nothing was written
    cursor: str | None = None  # pass it to continue, if it ended early (``stop``); None: every schedule was read

    @property
    def count(self) -> int:
        """Number of schedules that were changed."""
        return len(self.done)


class BulkMethods(ScheduleMethods, RunMethods):
    def bulk(
        self,
        action: BulkAction,
        *,
        prefix: str = "",
        contains: str = "",
        state: ScheduleStateWord | None = None,
        job: JobRef | None = None,
        tag: TagFilter | None = None,
        failing: bool | None = None,
        managed_by: str | None = None,
        names: Sequence[str] | None = None,
        reason: str | None = None,
        until: datetime | None = None,
        drain: bool = False,
        tags: Tags | None = None,
        payload: Any = UNSET,
        client_token: str | None = None,
        dry_run: bool = False,
        rate: float = 500.0,
        on_progress: OnProgress | None = None,
        cursor: str | None = None,
        stop: StopSignal | None = None,
    ) -> BulkResult:
        """Pause, resume, delete, retag or trigger every schedule that meets all conditions of ``list_schedules``; at least one is needed.

        ``names`` (1 to 1,000): only these schedules, as far as they exist. ``reason``, ``until`` and ``drain`` are as in
        pause_schedule and delete_schedule. A tag in ``tags`` is set, or removed if its value is None. ``payload`` replaces each
        schedule's own for triggered runs; with a ``client_token`` a second call triggers none twice; with other conditions it is refused.
        At most ``rate`` schedules a second, eight at a time. A failed schedule does not stop the others: ``failed`` has its error.
        ``on_progress`` is called before the first schedule and after each one has ended. After ``stop`` (a ``threading.Event``) is
        set no further schedule begins. To continue then, or after a crash, pass the ``cursor`` of the result or of the last
        progress with the same arguments: no schedule is left out, and none is triggered twice. A ``dry_run`` writes nothing; do not
        pass its cursor to the call itself, which would leave out what it only counted.
        Raises InvalidInput, KeyReused (the token), and Unavailable (the listing failed; the message has the cursor).
        """
        from quarterjack.sdk.schedules.bulk_work import (  # noqa: PLC0415 (`import quarterjack` need not take its time)
            AT_ONCE,
            ScheduleWork,
            WaitingStop,
        )

        wanted = self._checks.named_job(job)
        if not isinstance(action, str) or action not in ACTIONS:
            raise InvalidInput("action", action, "is not known", f"use one of {', '.join(ACTIONS)}")
        self._access.check(BULK_VERBS[action], wanted)
        place = {"prefix": prefix, "contains": contains, "job": wanted, "names": names}
        conditions = checked_filter(**place, state=state, tag=tag, failing=failing, managed_by=managed_by)
        if conditions == Filter():
            remedy = "say which schedules: names, prefix, contains, state, job, tag, failing or managed_by"
            raise InvalidInput("prefix", prefix, "is empty, and there is no other condition", remedy)
        words = {"reason": reason, "until": until, "drain": drain, "tags": tags, "payload": payload}
        _check_arguments(action, {**words, "client_token": client_token})
        end = end_time(until, self.session.clock())  # refused before the first is paused
        act = self._act_of(
            action, reason=reason, until=until, drain=check_flag("drain", drain), tags=tags, payload=payload
        )
        check_flag("dry_run", dry_run)
        digest = None if payload is UNSET else payload_text(payload)  # refused before the first is triggered
        token = token_of(client_token, self.tenant, "bulk", action, conditions, digest)
        listing = Listing("bulk", self.tenant, action, conditions, reason, end, drain, tags, digest, client_token)
        name, _, key = (listing.position(cursor) or "").partition("~")
        if action == "trigger":
            key = client_token or key or f"bulk-{uuid.uuid4().hex}"
        if token is not None:  # which nothing but a trigger takes
            remember_act(token, self.session.services, self.session.clock(), dry_run=dry_run)
        work = ScheduleWork(
            act=(lambda owner, head, key: None) if dry_run else act,
            key=key,
            listing=listing,
            on_progress=on_progress,
            reached=name,
        )
        pace = TokenBucket(
            checked_rate(rate, "schedules"),
            self.session.clock,
            WaitingStop(threading.Event() if stop is None else stop, work),
        )
        changing = () if dry_run else CHANGES.get(action, ())
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="bulk") as pool:
            try:
                ended = self._start_all(conditions, changing, work, pace, pool, dry_run=dry_run)
            except Unavailable as problem:
                work.settle(most=0)
                reached = f"{len(work.done)} schedules are done; go on with cursor={work.cursor!r}"
                raise Unavailable(f"{reached}: {problem}") from problem
            work.settle(most=0)
        return BulkResult(
            action=action,
            done=sorted(work.done),
            failed=dict(sorted(work.failed.items())),
            dry_run=dry_run,
            cursor=None if ended else work.cursor,
        )

    def _start_all(
        self,
        conditions: Filter,
        changing: Sequence[ScheduleState],
        work: ScheduleWork,
        pace: TokenBucket,
        pool: ThreadPoolExecutor,
        *,
        dry_run: bool,
    ) -> bool:
        """Start an action for each schedule. False if ``stop`` was set before the last one. Raises Unavailable."""
        from quarterjack.sdk.schedules.bulk_work import AT_ONCE, with_head_cache  # noqa: PLC0415 (as above)

        work.tell()
        acting = self._of_one_call()
        for part in walk(self.tenant, conditions, self.session.services, cursor=work.reached or None, chunk=CHUNK):
            to_change = [head for head in part.items if head.state in changing]
            services = with_head_cache(self.session.services, to_change)  # no action reads these heads again
            owner = over(acting, replace(acting.session, services=services))
            for head in part.items:
                work.settle(most=AT_ONCE - 1)
                if not pace.go_on(wait=not dry_run):
                    return False
                work.begin(head.name, owner, head, pool)
            if part.cursor is not None and pace.is_stopped():
                return False
        return True

    @staticmethod
    def _act_of(
        action: str, *, reason: str | None, until: datetime | None, drain: bool, tags: Tags | None, payload: Any
    ) -> Act:
        match action:
            case "pause":
                text = None if reason is None else checked_text("reason", reason, MAX_DESCRIPTION)
                return lambda owner, head, key: owner.pause_schedule(head.name, reason=text, until=until, drain=drain)
            case "resume":
                return lambda owner, head, key: owner.resume_schedule(head.name)
            case "delete":
                return lambda owner, head, key: owner.delete_schedule(head.name, drain=drain)
            case "retag":
                return BulkMethods._retagging(tags)
        return lambda owner, head, key: owner.trigger(head.name, payload=payload, idempotency_key=key)

    @staticmethod
    def _retagging(tags: Tags | None) -> Act:
        if not isinstance(tags, Mapping) or not tags:
            raise InvalidInput("tags", tags, "says no tag", 'use {"key": "value"}, or {"key": None} to remove one')
        checked_tags({key: "" if value is None else value for key, value in tags.items()})

        def act(owner: BulkMethods, head: Head, key: str) -> object:  # noqa: ARG001 (the key of a trigger)
            refuse_secrets("tags", lambda: dict(tags), owner.tenant)
            if len(retagged(head.tags, tags)) > MAX_TAGS:
                raise InvalidInput("tags", dict(tags), "are too many beside those it has", f"a schedule has {MAX_TAGS}")
            owner._take(RateWord.CHANGES)
            return retag(head, tags, owner._context, owner._access.head_check(BULK_VERBS["retag"], head.name))

        return act


def _check_arguments(action: BulkAction, given: Mapping[str, object]) -> None:
    """Raises InvalidInput for an argument that this action does not take."""
    for name, value in given.items():
        if name not in ACTIONS[action] and value is not None and value is not False and value is not UNSET:
            takers = " and ".join(repr(other) for other in ACTIONS if name in ACTIONS[other])
            raise InvalidInput(name, value, f"is not an argument of {action!r}", f"it is for {takers}")
