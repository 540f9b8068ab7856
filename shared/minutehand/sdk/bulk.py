"""The SDK's bulk operations: one action on every schedule that a filter finds, eight at a time, sorted by name.

Each schedule is changed by a call of its own, so a crash leaves no schedule half changed. The cursor is the last name up to which all
actions have ended: continuing from it repeats no action, and skips only schedules that were created later with a smaller name.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from minutehand.arguments import MAX_DESCRIPTION, MAX_TAGS, checked_rate, checked_tags, checked_text, payload_text
from minutehand.concurrency.rate_limits import StopSignal, TokenBucket
from minutehand.domain.names import check_name
from minutehand.domain.schedule import Head, ScheduleState
from minutehand.errors import InvalidInput, MinutehandError, Unavailable
from minutehand.owner.schedules.client_tokens import with_head_cache
from minutehand.owner.schedules.stop import Tags, retag, retagged
from minutehand.sdk.backfills import BackfillMethods
from minutehand.sdk.base import UNSET
from minutehand.sdk.reading import CHUNK, Filter, TagFilter, checked_cursor, checked_filter, walk
from minutehand.sdk.schedules import ScheduleMethods

AT_ONCE = 8  # concurrent actions: each spends most of its time waiting for DynamoDB
_WINDOW = 4 * AT_ONCE  # actions started before the oldest one is awaited
Act = Callable[["BulkMethods", Head], object]
OnProgress = Callable[["BulkProgress"], object]

# Which arguments an action takes.
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "pause": ("note", "drain"),
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
    cursor: str | None = None  # continue here if it ended early (``stop``); None: every schedule was read

    @property
    def count(self) -> int:
        """Number of schedules that were changed."""
        return len(self.done)


@dataclass(frozen=True, kw_only=True)
class BulkProgress:
    """Progress of ``bulk``."""

    done: int  # schedules
    failed: int  # schedules
    cursor: str  # all schedules up to this name are done; pass it to continue


class BulkMethods(ScheduleMethods, BackfillMethods):
    def bulk(
        self,
        action: str,
        *,
        prefix: str = "",
        state: str | None = None,
        job: str | None = None,
        tag: TagFilter | None = None,
        failing: bool | None = None,
        managed_by: str | None = None,
        note: str | None = None,
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

        ``note`` and ``drain`` are as in pause_schedule and delete_schedule. A tag in ``tags`` is set, or removed if its value is None.
        ``payload`` replaces each schedule's own for triggered runs; with a ``client_token`` a second call triggers none twice.
        At most ``rate`` schedules a second, eight at a time. A failed schedule does not stop the others: ``failed`` has its error.
        ``on_progress`` is called after each schedule, sorted by name. ``stop`` (a ``threading.Event``) ends the call early; to
        continue, pass ``cursor`` of the result or, after a crash, of the last progress. A ``dry_run`` writes nothing.
        Raises InvalidInput, and Unavailable (the listing failed; the message has the cursor).
        """
        conditions = checked_filter(
            prefix=prefix, state=state, job=job, tag=tag, failing=failing, managed_by=managed_by
        )
        if conditions == Filter():
            remedy = "say which schedules: prefix, state, job, tag, failing or managed_by"
            raise InvalidInput("prefix", prefix, "is empty, and there is no other condition", remedy)
        if action not in ACTIONS:
            raise InvalidInput("action", action, "is not known", f"use one of {', '.join(ACTIONS)}")
        words = {"note": note, "drain": drain, "tags": tags, "payload": payload, "client_token": client_token}
        for name, value in words.items():
            if name not in ACTIONS[action] and value is not None and value is not False and value is not UNSET:
                takers = " and ".join(repr(other) for other in ACTIONS if name in ACTIONS[other])
                raise InvalidInput(name, value, f"is not an argument of {action!r}", f"it is for {takers}")
        act = self._act_of(action, note=note, drain=drain, tags=tags, payload=payload, client_token=client_token)
        work = _BulkState(
            action=action, act=(lambda owner, head: None) if dry_run else act, dry_run=dry_run, on_progress=on_progress
        )
        pace = TokenBucket(checked_rate(rate, "schedules"), self._clock, threading.Event() if stop is None else stop)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="bulk") as pool:
            ended_at = self._run_all(conditions, checked_cursor(cursor, conditions), work, pace, pool)
        return BulkResult(action=action, done=work.done, failed=work.failed, dry_run=dry_run, cursor=ended_at)

    def _run_all(
        self, conditions: Filter, position: str | None, work: _BulkState, pace: TokenBucket, pool: ThreadPoolExecutor
    ) -> str | None:
        """Start an action for each schedule until all are done or ``stop`` is set, at least one. Returns the cursor, None at the end."""
        changing, begun = () if work.dry_run else CHANGES.get(work.action, ()), False
        try:
            for part in walk(self.tenant, conditions, self._services, cursor=position, chunk=CHUNK):
                owner = copy(self)  # it has the heads that were read, so that no action reads them again
                to_change = [head for head in part.items if head.state in changing]
                vars(owner)["_services"] = with_head_cache(self._services, to_change)
                for head in part.items:
                    if begun and not pace.go_on(wait=not work.dry_run):
                        return work.settle_all()
                    begun = True
                    work.begin(owner, head, pool)
                if part.cursor is not None and pace.is_stopped():
                    work.settle_all()
                    return part.cursor
        except Unavailable as problem:
            reached = work.settle_all() or position
            raise Unavailable(
                f"{len(work.done)} schedules are done; go on with cursor={reached!r}: {problem}"
            ) from problem
        work.settle_all()
        return None

    @staticmethod
    def _act_of(
        action: str, *, note: str | None, drain: bool, tags: Tags | None, payload: Any, client_token: str | None
    ) -> Act:
        match action:
            case "pause":
                text = None if note is None else checked_text("note", note, MAX_DESCRIPTION)
                return lambda owner, head: owner.pause_schedule(head.name, note=text, drain=drain)
            case "resume":
                return lambda owner, head: owner.resume_schedule(head.name)
            case "delete":
                return lambda owner, head: owner.delete_schedule(head.name, drain=drain)
            case "retag":
                return BulkMethods._retagging(tags)
        key = None if client_token is None else check_name(client_token, "client_token")
        if payload is not UNSET:
            payload_text(payload)  # refused before the first is triggered
        return lambda owner, head: owner.trigger(head.name, payload=payload, idempotency_key=key)

    @staticmethod
    def _retagging(tags: Tags | None) -> Act:
        if not isinstance(tags, Mapping) or not tags:
            raise InvalidInput("tags", tags, "says no tag", 'use {"key": "value"}, or {"key": None} to remove one')
        checked_tags({key: "" if value is None else value for key, value in tags.items()})

        def act(owner: BulkMethods, head: Head) -> object:
            if len(retagged(head.tags, tags)) > MAX_TAGS:
                raise InvalidInput("tags", dict(tags), "are too many beside those it has", f"a schedule has {MAX_TAGS}")
            return retag(head, tags, owner._context)

        return act


@dataclass(kw_only=True)
class _BulkState:
    """Actions in progress, and the results of those that ended."""

    action: str
    act: Act
    dry_run: bool
    on_progress: OnProgress | None
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    reached: str | None = None  # the last name up to which every act has ended
    pending: deque[tuple[str, Future[object]]] = field(default_factory=deque)

    def begin(self, owner: BulkMethods, head: Head, pool: ThreadPoolExecutor) -> None:
        self.pending.append((head.name, pool.submit(self.act, owner, head)))
        if len(self.pending) >= _WINDOW:
            self._settle()

    def settle_all(self) -> str | None:
        """Wait for all actions in progress. Returns the name of the last schedule that was started."""
        while self.pending:
            self._settle()
        return self.reached

    def _settle(self) -> None:
        name, future = self.pending.popleft()
        try:
            future.result()
            self.done.append(name)
        except MinutehandError as problem:  # of this schedule alone
            self.failed[name] = str(problem)
        self.reached = name
        if self.on_progress is not None:
            self.on_progress(BulkProgress(done=len(self.done), failed=len(self.failed), cursor=name))
