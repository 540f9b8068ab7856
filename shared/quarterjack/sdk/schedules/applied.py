"""Declarations that workers apply when they start: a package's set once, by whoever comes first.

A record for each owner (the package) says which set is the current one, by its digest, and which sets were current before. A worker whose
set is the current one reads the record and does nothing. One whose set was replaced does nothing either: so a worker of the old release
that starts again beside the new one takes nothing back. Any other set is newer: its worker claims the record for a while, carries the
differences out one by one, and notes that it is done. If it dies, the next to look claims the record again and continues.

    read ──► claim (conditional) ──► compare ──► one transaction for each difference ──► done (conditional)
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quarterjack.apply.plan import ApplyAction, ApplyPlan, PlannedChange
from quarterjack.declare import job_of
from quarterjack.domain.message import reading
from quarterjack.domain.schedule import Declaration
from quarterjack.domain.times import SECOND
from quarterjack.errors import Conflict, JobError, QuarterjackError, Unavailable
from quarterjack.jobs import Registry
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.state.lease import SKEW
from quarterjack.stores.records import Record
from quarterjack.values import replace

log = logging.getLogger(__name__)

CLAIM = 120 * SECOND  # how long a worker may take until it renews its claim
_KEPT = 50  # former sets that are known as such
_RACES = 5  # writes of the record that others may win
_ROUNDS = 3  # comparisons, where others change schedules meanwhile


class ApplyTurn(StrEnum):
    """What a worker found when it looked."""

    APPLIED = "applied"  # it carried the set out
    CURRENT = "current"  # the set had been carried out
    REPLACED = "replaced"  # another set has replaced it
    ELSEWHERE = "elsewhere"  # another worker is at it, or at another set


@dataclass(frozen=True, kw_only=True)
class ApplyReport:
    """The result of one look."""

    turn: ApplyTurn
    changed: Sequence[str] = ()  # names of schedules that were created or updated
    left: Mapping[str, str] = field(default_factory=dict)  # names of schedules that were not, and why
    until: int | None = None  # ELSEWHERE: UTC ms after which to look again


@dataclass(frozen=True, kw_only=True)
class _Stand:
    """The body of a record."""

    current: str  # digest of the current set
    done: bool  # whether it has been carried out
    until: int  # UTC ms of the end of the claim
    by: str  # the worker
    earlier: tuple[str, ...] = ()  # digests of sets that were current before, oldest first

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> _Stand:
        return cls(**{**body, "earlier": tuple(body["earlier"])})

    def claimed(self, digest: str, by: str, until: int) -> _Stand:
        earlier = [one for one in (*self.earlier, self.current) if one != digest]
        return _Stand(current=digest, done=False, until=until, by=by, earlier=tuple(earlier[-_KEPT:]))


class _ClaimLostError(Exception):
    """Another worker has the record, or may have it."""


def note_applied(scheduler: Scheduler, package: str, jobs: Registry) -> bool:
    """Say that somebody has applied a package's declarations by hand, in case workers apply them as well. Raises Unavailable.

    Returns whether that was news. Then a worker may have been at another set until now, and who applies compares once more.
    """
    return StartApplication(scheduler, package, jobs, by="apply").note()


def declared_in(package: str, jobs: Registry) -> list[Declaration]:
    """The declarations of a package's modules: those on functions, and pipelines."""
    modules = ((one, _module_of(one)) for one in jobs.declared())
    return [one for one, module in modules if module == package or module.startswith(f"{package}.")]


def _module_of(declared: Declaration) -> str:
    if declared.function is None:  # a pipeline: its place is MODULE:LINE
        return declared.place.rpartition(":")[0]
    return str(getattr(declared.function, "__module__", ""))


def digest_of(declarations: Iterable[Declaration], jobs: Registry) -> str:
    """The same for two sets that make the same schedules, in whatever order they are declared."""
    lines = sorted(_line(declared, jobs) for declared in declarations)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _line(declared: Declaration, jobs: Registry) -> str:
    try:
        name = job_of(declared, jobs)
    except JobError:  # which the comparison refuses by name
        name = f"?{declared.place}"
    job = jobs.get(name)
    queue = declared.options.queue or (None if job is None else job.queue)
    found = jobs.find_queue(queue)
    of_job = [queue, None if found is None else found.spread, None if job is None else str(job.policies.start)]
    said = [declared.name or name, name, declared.rule.as_dict(), declared.payload, declared.description]
    more = [dict(declared.tags), declared.overrides.encode(), declared.options.encode(), declared.paused]
    return json.dumps([*said, *more, *of_job], sort_keys=True)


class StartApplication:
    """The set of one package, as a worker with the name ``by`` applies it. Writes for the tenant of the ``scheduler``."""

    def __init__(self, scheduler: Scheduler, package: str, jobs: Registry, *, by: str) -> None:
        self._services, self._clock = scheduler.session.services, scheduler.session.clock
        self.package, self._by = package, by
        self._scheduler = scheduler.acting_as(reason=f"declared in {package}; applied by a worker that started")
        self._declared = declared_in(package, jobs)
        self._digest = digest_of(self._declared, jobs)
        self._place = (f"{scheduler.tenant}/~declared", f"~declared~{package}")
        self._record = Record(owner=self._place[0], key=self._place[1], version=0, body={})

    def look(self) -> ApplyReport:
        """Apply the set if it is this worker's turn. Raises Conflict, Unavailable, and whatever the comparison raises.

        After an error the same call continues.
        """
        for _ in range(_RACES):
            stand, now = self._read(), self._clock()
            if stand is not None and stand.current == self._digest and stand.done:
                return ApplyReport(turn=ApplyTurn.CURRENT)
            if stand is not None and self._digest in stand.earlier:
                return ApplyReport(turn=ApplyTurn.REPLACED)
            if stand is not None and not stand.done and stand.by != self._by and now <= stand.until + SKEW:
                return ApplyReport(turn=ApplyTurn.ELSEWHERE, until=stand.until + SKEW + SECOND)
            before = stand or _Stand(current="", done=True, until=0, by="")
            if self._write(before.claimed(self._digest, self._by, now + CLAIM)):
                return self._apply()
        raise Conflict(f"the declarations of {self.package!r}: others wrote their record {_RACES} times; try again")

    def note(self) -> bool:
        """Somebody has applied the set by hand: it is the current one from now on, if workers apply this package's sets at all.

        Whether the record did not say so.
        """
        for _ in range(_RACES):
            stand = self._read()
            if stand is None or (stand.current == self._digest and stand.done):
                return False
            done = replace(stand.claimed(self._digest, self._by, 0), done=True)
            if self._write(done):
                return True
        raise Conflict(
            f"the declarations of {self.package!r}: others wrote their record {_RACES} times; apply them again"
        )

    def _read(self) -> _Stand | None:
        there = self._services.records.read(*self._place)
        self._record = there or replace(self._record, version=0)
        if there is None:
            return None
        with reading(f"record {self._place[1]}", there.body):
            stand = _Stand.of(there.body)
        return replace(stand, earlier=tuple(one for one in stand.earlier if one))

    def _write(self, stand: _Stand) -> bool:
        """The record over the version that was read or written last."""
        wanted = replace(
            self._record, version=self._record.version + 1, body=vars(stand) | {"earlier": [*stand.earlier]}
        )
        written = self._services.records.write(wanted)
        if written:
            self._record = wanted
        return written

    def _apply(self) -> ApplyReport:
        changed, failed = list[str](), dict[str, str]()
        try:
            for _ in range(_ROUNDS):
                plan = self._scheduler.compare_declared(self._declared, managed_by=self.package)
                result = self._scheduler.carry_out(plan, on_change=self._keep_claim)
                failed = dict(result.failed)
                made = plan.of(ApplyAction.CREATE, ApplyAction.UPDATE)
                changed += [change.name for change in made if change.name not in failed]
                if not failed:
                    break
            if failed:
                raise Unavailable(f"{len(failed)} schedules were not changed, among them {next(iter(failed.items()))}")
            self._end(done=True)
        except _ClaimLostError:
            return ApplyReport(turn=ApplyTurn.ELSEWHERE, changed=changed, until=self._clock() + CLAIM)
        except QuarterjackError:
            self._give_back()
            raise
        return ApplyReport(turn=ApplyTurn.APPLIED, changed=changed, left=_left(plan))

    def _keep_claim(self, change: PlannedChange) -> None:
        """Before each change: look whether the claim was taken, which who applies by hand does at any time; renew it in its second half."""
        del change
        now, there = self._clock(), self._services.records.read(*self._place)
        if there is None or there.version != self._record.version:
            raise _ClaimLostError
        if now > int(self._record.body["until"]) - CLAIM // 2:
            self._rewrite(until=now + CLAIM)

    def _end(self, *, done: bool) -> None:
        self._rewrite(done=done, until=self._clock())

    def _rewrite(self, **changes: Any) -> None:
        if not self._write(replace(_Stand.of(self._record.body), **changes)):
            raise _ClaimLostError

    def _give_back(self) -> None:
        """Let others try at once. If this fails, they wait until the claim ends."""
        try:
            self._rewrite(until=0)
        except (_ClaimLostError, QuarterjackError) as problem:
            log.warning("declarations.claim_kept", extra={"package": self.package, "error": str(problem)})


def _left(plan: ApplyPlan) -> dict[str, str]:
    return {change.name: change.why for change in plan.of(ApplyAction.REFUSED, ApplyAction.FOREIGN)}
