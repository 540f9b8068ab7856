"""A bulk call on its way: the actions that are under way, their results, and the heads that no action reads again."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from quarterjack.concurrency.rate_limits import StopSignal
from quarterjack.domain.schedule import Head, Revision
from quarterjack.errors import QuarterjackError
from quarterjack.ports.services import Services
from quarterjack.sdk.cursors import Listing
from quarterjack.stores.schedule_rows import RevisionBatch, RevisionKey
from quarterjack.stores.schedules import ScheduleStore
from quarterjack.values import replace

AT_ONCE = 8  # concurrent actions: each spends most of its time waiting for DynamoDB
_LATE = 0.05  # seconds: most by which a progress is late while the next start is waited for


@dataclass(frozen=True, kw_only=True)
class BulkProgress:
    """Progress of ``bulk`` or ``bulk_runs``."""

    done: int  # schedules or runs
    failed: int  # likewise
    cursor: str  # behind those up to which all have ended; pass it to continue, also after a crash


@dataclass(kw_only=True)
class BulkWork(ABC):
    """Actions in progress, and the results of those that ended."""

    act: Callable[[Any, Any, str], object]  # the Scheduler that acts, what it acts on, the idempotency key
    key: str  # idempotency key of what an action submits
    listing: Listing
    on_progress: Callable[[BulkProgress], object] | None
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    going: dict[Future[object], str] = field(default_factory=dict)

    @property
    @abstractmethod
    def cursor(self) -> str:
        """Where another call goes on."""

    def begin(self, name: str, owner: object, target: object, pool: ThreadPoolExecutor) -> None:
        """Begin the action on ``target``, which ``name`` names."""
        self.going[pool.submit(self.act, owner, target, self.key)] = name

    def settle(self, *, most: int = AT_ONCE) -> None:
        """Record and report the actions that have ended, and wait until at most so many are in progress."""
        while True:
            for future in [future for future in self.going if future.done()]:
                self._record(future)
            if len(self.going) <= most:
                return
            wait(self.going, return_when=FIRST_COMPLETED)

    def _record(self, future: Future[object]) -> None:
        name = self.going.pop(future)
        try:
            future.result()
            self.done.append(name)
        except QuarterjackError as problem:  # of this one alone
            self.has_failed(name, problem)
        self.has_ended(name)
        self.tell()

    def has_failed(self, name: str, problem: QuarterjackError) -> None:
        self.failed[name] = str(problem)

    @abstractmethod
    def has_ended(self, name: str) -> None:
        """One action has ended."""

    def tell(self) -> None:
        if self.on_progress is not None:
            self.on_progress(BulkProgress(done=len(self.done), failed=len(self.failed), cursor=self.cursor))


@dataclass(kw_only=True)
class ScheduleWork(BulkWork):
    """Actions on schedules, which begin in order of name."""

    reached: str  # the last name up to which every action has ended; "" before the first
    begun: deque[str] = field(default_factory=deque)  # names after ``reached``, in order
    ended: set[str] = field(default_factory=set)  # of these

    @property
    def cursor(self) -> str:
        """See ``BulkWork``."""
        return self.listing.cursor(f"{self.reached}~{self.key}" if self.key else self.reached)

    def begin(self, name: str, owner: object, target: object, pool: ThreadPoolExecutor) -> None:
        """See ``BulkWork``."""
        self.begun.append(name)
        super().begin(name, owner, target, pool)

    def has_ended(self, name: str) -> None:
        """See ``BulkWork``."""
        self.ended.add(name)
        while self.begun and self.begun[0] in self.ended:
            self.reached = self.begun.popleft()
            self.ended.remove(self.reached)


class WaitingStop:
    """The caller's ``stop``. Actions that end while the next start is waited for are reported meanwhile."""

    def __init__(self, stop: StopSignal, work: BulkWork) -> None:
        self._stop, self._work = stop, work

    def wait(self, timeout: float) -> bool:
        """See ``StopSignal``."""
        end = time.monotonic() + timeout
        while True:
            self._work.settle()
            left = end - time.monotonic()
            if self._stop.wait(max(min(left, _LATE), 0.0)):
                return True
            if left <= _LATE:
                return False


class HeadCache:
    """A ``ScheduleStore`` that knows some heads and their revisions. Thread-safe."""

    def __init__(self, schedules: ScheduleStore, heads: Iterable[Head]) -> None:
        self._schedules = schedules
        self._heads = {(head.tenant, head.name): head for head in heads}
        keys = [(head.owner, head.revision) for head in self._heads.values()]
        self._revisions: dict[RevisionKey, Revision] = dict(schedules.revisions(keys).found) if keys else {}

    def head(self, tenant: str, name: str) -> Head | None:
        known = self._heads.pop((tenant, name), None)
        return self._schedules.head(tenant, name) if known is None else known

    def revisions(self, keys: Iterable[RevisionKey], now: int = 0) -> RevisionBatch:
        wanted = set(keys)
        known = {key: found for key in wanted if (found := self._revisions.pop(key, None)) is not None}
        if len(known) == len(wanted):
            return RevisionBatch(found=known)
        answer = self._schedules.revisions(wanted - known.keys(), now)
        return replace(answer, found={**known, **answer.found})

    def __getattr__(self, name: str) -> Any:
        """All other calls go to the store."""
        return getattr(self._schedules, name)


def with_head_cache(services: Services, heads: Sequence[Head]) -> Services:
    """Services that answer the first read of these heads, and of their current revisions, without a request. Raises Unavailable."""
    schedules: Any = HeadCache(services.schedules, heads)
    return replace(services, schedules=schedules)
