"""An act on many runs on its way: the page of runs that is under way, the counts before it, and the record by which it goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quarterjack.domain.names import word
from quarterjack.domain.queue import check_queue
from quarterjack.domain.run import FAILED, TERMINAL, RunState
from quarterjack.errors import Conflict, InvalidInput, QuarterjackError, Throttled, Unavailable
from quarterjack.owner.schedules.client_tokens import ClientToken, read_progress
from quarterjack.ports.services import Clock, Services
from quarterjack.sdk.schedules.bulk_work import BulkProgress, BulkWork
from quarterjack.sdk.views import Run

PAGE = 50  # runs whose ids a cursor has: 3 KB
_EXAMPLES, _REASONS = 10, 100  # ids and errors in a result
READY = frozenset({RunState.QUEUED, RunState.RETRYING, RunState.CONTINUED})

RUN_ACTIONS: Mapping[str, frozenset[RunState]] = {  # the states in which an action concerns a run
    "cancel": frozenset(RunState) - TERMINAL,
    "redrive": FAILED,
    "replay": TERMINAL,
    "hasten": READY,
    "requeue": frozenset({RunState.QUEUED}),
    "reassign": READY,
}
TAKES: Mapping[str, tuple[str, ...]] = {  # which arguments an action takes
    "redrive": ("allow_repeat", "as_it_was"),
    "replay": ("as_it_was",),
    "requeue": ("to_queue", "to_priority"),
    "reassign": ("version",),
}


@dataclass(frozen=True, kw_only=True)
class BulkRunsResult:
    """Result of ``bulk_runs``. The counts are those of the whole act, also of the calls before this one."""

    action: str  # as passed to ``bulk_runs``
    count: int  # runs that are as the action wants them, or that match (dry run)
    failed_count: int = 0  # runs of which it could not be done
    examples: Sequence[str] = ()  # ids of some of the runs of this call, at most 10
    failed: Mapping[str, str] = field(default_factory=dict)  # of this call: error by id of the run, at most 100
    states: Mapping[str, int] = field(default_factory=dict)  # dry run: runs of this call by state
    jobs: Mapping[str, int] = field(default_factory=dict)  # dry run: likewise by job
    dry_run: bool = False  # True: nothing was written
    cursor: str | None = None  # pass it to continue, if it ended early; None: every run was read


@dataclass(kw_only=True)
class RunWork(BulkWork):
    """Actions on the runs of one page at a time."""

    began: int  # UTC ms at which the act began: runs that ended later are not concerned
    page: Sequence[str] = ()  # ids of the page that is under way
    after: str | None = None  # cursor of the listing behind that page
    is_last: bool = False  # no page is behind it
    done_before: int = 0  # runs of the pages before it
    failed_before: int = 0
    halted: QuarterjackError | None = None  # the tenant's limit, or an outage: nothing further begins
    examples: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)

    @property
    def position(self) -> str:
        """What a cursor says."""
        counts = [self.began, self.key, self.done_before, self.failed_before]
        return json.dumps([*counts, self.after, self.is_last, self.page], separators=(",", ":"))

    @property
    def cursor(self) -> str:
        """See ``BulkWork``."""
        return self.listing.cursor(self.position)

    def go_to(self, position: str) -> None:
        """Go on where another call was."""
        self.began, self.key, self.done_before, self.failed_before, self.after, self.is_last, self.page = json.loads(
            position
        )

    def count_page(self) -> None:
        """A dry run has seen the page."""
        self.done += self.page
        self.examples += self.page[: _EXAMPLES - len(self.examples)]
        self.tell()

    def close_page(self) -> None:
        """Every action on the page has ended."""
        self.done_before, self.failed_before = self.count, self.failed_count
        self.page = ()
        self.done.clear()
        self.failed.clear()

    @property
    def count(self) -> int:
        return self.done_before + len(self.done)

    @property
    def failed_count(self) -> int:
        return self.failed_before + len(self.failed)

    def has_failed(self, name: str, problem: QuarterjackError) -> None:
        """See ``BulkWork``. What may succeed later is no failure of the run."""
        if isinstance(problem, (Throttled, Unavailable)):
            self.halted = problem
            return
        super().has_failed(name, problem)
        if len(self.told) < _REASONS:
            self.told[name] = str(problem)

    def has_ended(self, name: str) -> None:
        """See ``BulkWork``."""
        if name not in self.failed and self.halted is None and len(self.examples) < _EXAMPLES:
            self.examples.append(name)

    def tell(self) -> None:
        """See ``BulkWork``."""
        if self.on_progress is not None:
            self.on_progress(BulkProgress(done=self.count, failed=self.failed_count, cursor=self.cursor))

    def result(self, action: str, *, is_over: bool, **more: Any) -> BulkRunsResult:
        return BulkRunsResult(
            action=action,
            count=self.count,
            failed_count=self.failed_count,
            examples=self.examples,
            failed=self.told,
            cursor=None if is_over else self.cursor,
            **more,
        )


@dataclass(kw_only=True)
class Notes:
    """The record of a client token, in which a call notes its position before it begins a page. Without a token nothing is noted."""

    token: ClientToken | None
    services: Services
    clock: Clock
    version: int = 0  # of the record

    def read(self) -> str | None:
        """The position that a call with this token has noted. Raises KeyReused."""
        if self.token is None:
            return None
        self.version, body = read_progress(self.token, self.services, self.clock())
        return None if not body else str(body["at"])

    def write(self, work: RunWork) -> None:
        """Raises Conflict, Unavailable."""
        if self.token is None:
            return
        if not self.services.records.write(self.token.record(self.version, self.clock(), {"at": work.position})):
            raise Conflict(
                f"client_token={self.token.text!r}: another call with it goes on; wait until that has ended, and call again"
            )
        self.version += 1


@dataclass(kw_only=True)
class Seen:
    """What a dry run has found."""

    states: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)

    def add(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self.states[str(run.state)] += 1
            self.jobs[run.job] += 1


def checked_states(action: str, state: Any) -> frozenset[RunState]:
    """The states of the runs that an action concerns, or those of them that are given. Raises InvalidInput."""
    able = RUN_ACTIONS[action]
    if state is None:
        return able
    several = state if isinstance(state, (list, tuple, set, frozenset)) else (state,)
    found = frozenset(word(RunState, "state", one) for one in several)
    if not found or not found <= able:
        remedy = f"use some of {', '.join(sorted(able))}, or leave it out for all of them"
        raise InvalidInput("state", state, f"has runs that {action!r} does not concern", remedy)
    return found


def checked_queue(action: str, queue: object) -> str | None:
    """The name of a queue whose waiting runs are meant. Raises InvalidInput."""
    if queue is None:
        return None
    if RUN_ACTIONS[action] <= TERMINAL:
        raise InvalidInput(
            "queue", queue, f"was given with {action!r}", "a run that has ended is in no queue: leave it out"
        )
    return check_queue(queue)
