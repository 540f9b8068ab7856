"""Application versions, as a worker sees them: its own, and which others have workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from quarterjack.domain.job import Job
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.ports.services import Services
from quarterjack.state.worker_record import WorkerRow

_FRESH = 20 * SECOND  # age up to which the worker records are believed that name a version
_ABSENT = (
    1 * SECOND
)  # the same, where they do not: a run is offered again after a minute then, and a worker may have just started
ALIVE = (
    10 * MINUTE
)  # since the last record of a worker that counts: an idle Lambda environment writes none for five minutes


@dataclass(frozen=True, kw_only=True)
class OwnVersion:
    """The application version of a worker, and which jobs start on it alone."""

    name: Callable[[], str] = lambda: ""
    pinned: bool = False  # whether jobs are that do not say
    some: bool = False  # whether any job is: then rows are read that tell the versions of runs
    share: float | None = (
        None  # of the runs that it gets if it is new; None: the jobs are not known, so nothing is registered
    )

    def binds(self, job: Job) -> bool:
        """Whether runs of a job start on workers of their version alone."""
        return self.pinned if job.pinned is None else job.pinned


@dataclass(kw_only=True)
class VersionsSeen:
    """When workers of each version were last seen, as one process knows it; thread-safe."""

    _at: int = 0  # UTC ms
    _seen: dict[str, int] = field(default_factory=dict)  # by version: UTC ms

    def is_served(self, version: str, services: Services, now: int) -> bool:
        """Whether workers of a version have been there within ten minutes. Raises Unavailable."""
        if not 0 <= now - self._at <= (_FRESH if self._is_alive(version, now) else _ABSENT):
            self._seen, self._at = seen_versions(services, now), now
        return self._is_alive(version, now)

    def _is_alive(self, version: str, now: int) -> bool:
        return now - self._seen.get(version, 0) <= ALIVE


def seen_versions(services: Services, now: int) -> dict[str, int]:
    """When a worker of each version was last seen (UTC ms), as their records have it. Raises Unavailable."""
    from quarterjack.owner.workers import read_workers  # noqa: PLC0415 (only who meets another version asks)

    return versions_of_workers(read_workers(services, now))


def versions_of_workers(rows: Iterable[WorkerRow]) -> dict[str, int]:
    """The same, from records that were read."""
    found = dict[str, int]()
    for row in rows:
        name = row.identity.app_version
        if name is not None and row.stopped_at is None:
            found[name] = max(found.get(name, 0), row.seen_at)
    return found
