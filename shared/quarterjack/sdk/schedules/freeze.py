"""SDK methods about what keeps all runs of a tenant from starting: its freeze, its suspension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from quarterjack.domain.names import check_name, check_whole
from quarterjack.domain.policies.flow import MOST_PER_MINUTE, Flow, flow_digest
from quarterjack.domain.queue import check_queue
from quarterjack.domain.schedule import FrozenKind, FrozenPart
from quarterjack.domain.tenants.access import Verb, not_served
from quarterjack.domain.times import DAY, from_ms, to_ms
from quarterjack.errors import InvalidInput
from quarterjack.owner import freeze as freezing
from quarterjack.owner.freeze import read_freeze
from quarterjack.sdk.base import SchedulerBase

LONGEST_FREEZE = 400  # days; to stop schedules for longer, pause or delete them


@dataclass(frozen=True, kw_only=True)
class FreezeView:
    """A freeze of the tenant that is not over."""

    until: datetime  # UTC
    since: datetime | None  # UTC: when it was made; None: unknown
    reason: str | None  # why
    actor: str | None  # who made it


@dataclass(frozen=True, kw_only=True)
class FrozenPartView:
    """A job, a queue or a key of a flow whose runs are frozen, or start at a rate since the freeze has ended."""

    part: str  # "job reports.daily", "queue bulk", "key 'ada' of orders.sync"
    until: datetime  # UTC
    since: datetime  # UTC: when that was said
    waiting: int  # runs that wait, up to 100,000
    per_minute: int  # starts of those that wait, when the freeze has ended
    reason: str | None  # why
    actor: str | None  # who said so


@dataclass(frozen=True, kw_only=True)
class Holds:
    """What keeps runs of the tenant from starting."""

    freeze: FreezeView | None  # of all its runs; None: it is not frozen
    suspended: str | None  # why nothing of the tenant is accepted and started, and what ends it; None: it is served
    parts: Sequence[FrozenPartView] = ()  # of some of its runs

    def __bool__(self) -> bool:
        return self.freeze is not None or self.suspended is not None or bool(self.parts)


class FreezeMethods(SchedulerBase):
    def freeze(
        self,
        until: datetime,
        *,
        reason: str | None = None,
        job: str | None = None,
        queue: str | None = None,
        flow: str | None = None,
        key: str | None = None,
    ) -> None:
        """Start no run of this tenant before ``until`` (aware, at most 400 days ahead), neither of schedules nor one-offs.

        With ``job`` or ``queue`` only those of that job, or in that queue ("default": without a name), wait; with ``key``, and ``job`` or
        ``flow`` (the name of a flow), only those with that key of the flow. When their freeze has ended they start in the order in which
        they were due, 100 a second; ``thaw`` gives another rate.

        Running attempts continue; retries wait, too. A run that starts more than 5 s after this call has returned means that its
        worker process stalled. Runs that become due during the freeze start afterwards, late, unless their deadline has passed; to
        skip the fires of a schedule, pause it instead. ``reason`` is shown wherever runs wait for the freeze, and in the audit; left
        out, that of ``acting_as`` counts. A second freeze replaces the first. Raises InvalidInput, Unavailable (call
        again: nothing is guaranteed until the call returns).
        """
        self._access.check(Verb.FREEZE)
        now, end = self.session.clock(), to_ms(until, "until")
        if not now < end <= now + LONGEST_FREEZE * DAY:
            raise InvalidInput(
                "until", until, "is not ahead, or too far", f"give a moment within the next {LONGEST_FREEZE} days"
            )
        reason = None if reason is None else self._text("reason", reason)
        named = _part(job=job, queue=queue, flow=flow, key=key)
        if named is None:
            freezing.freeze(self.tenant, end, reason, self._context)
        else:
            freezing.freeze_part(
                self.tenant, freezing.part_of(*named, until=end, reason=reason, now=now), self._context
            )

    def thaw(
        self,
        *,
        job: str | None = None,
        queue: str | None = None,
        flow: str | None = None,
        key: str | None = None,
        per_minute: int = 6_000,
    ) -> int:
        """End the freeze of the tenant now, if there is one: runs that it delayed start within five minutes.

        With ``job``, ``queue``, or ``key`` as in ``freeze``, end that freeze: the runs that wait start in the order in which they were due,
        ``per_minute`` (1 to 6,000). Returns how many wait. Raises InvalidInput, NotFound (that is not frozen), Conflict, Unavailable.
        """
        self._access.check(Verb.FREEZE)
        check_whole("per_minute", per_minute, 1, MOST_PER_MINUTE)
        named = _part(job=job, queue=queue, flow=flow, key=key)
        if named is None:
            freezing.thaw(self.tenant, self._context)
            return 0
        return freezing.thaw_part(self.tenant, named[:2], per_minute, self._context, said=key or job or queue or "")

    def frozen(self) -> datetime | None:
        """The end of the freeze (UTC), or None if there is no freeze. Raises Unavailable."""
        self._access.check_some(Verb.READ_SCHEDULES)
        freeze = read_freeze(self.tenant, self.session.services, self.session.clock)
        return None if freeze is None else from_ms(freeze.until)

    def holds(self) -> Holds:
        """What keeps runs of the tenant from starting, and why: a freeze of all or some, a suspension. Raises Unavailable."""
        self._access.check_some(Verb.READ_SCHEDULES)
        freeze, now = freezing.read_stored(self.tenant, self.session.services), self.session.clock()
        view, parts = None, () if freeze is None else freeze.parts_at(now)
        if freeze is not None and freeze.until > now:
            since = from_ms(freeze.created_at) if freeze.created_at else None
            view = FreezeView(until=from_ms(freeze.until), since=since, reason=freeze.reason, actor=freeze.actor)
        governance = self.session.services.tenants.governance(self.tenant, self.session.clock())
        views = [self._view_of(part) for part in parts]
        return Holds(freeze=view, suspended=not_served(governance), parts=[one for one in views if one is not None])

    def _view_of(self, part: FrozenPart) -> FrozenPartView | None:
        """None: it is over, and nobody waits."""
        waiting = freezing.count_waiting(self.tenant, part, self.session.services)
        if part.until <= self.session.clock() and not waiting:
            return None
        return FrozenPartView(
            part=part.label,
            until=from_ms(part.until),
            since=from_ms(part.since),
            waiting=waiting,
            per_minute=part.per_minute,
            reason=part.reason,
            actor=part.actor,
        )


def _part(
    *, job: str | None, queue: str | None, flow: str | None, key: str | None
) -> tuple[FrozenKind, str, str] | None:
    """Kind, value and label of what is named; None: all runs. Raises InvalidInput."""
    given = {name: value for name, value in (("job", job), ("queue", queue), ("flow", flow)) if value is not None}
    if key is not None:
        if set(given) not in ({"job"}, {"flow"}):
            raise InvalidInput("key", key, "is of no flow", "name its job, or the flow's name, beside it")
        ((kind, name),) = given.items()
        check_name(name, kind)
        digest = flow_digest(Flow(name=flow, at_a_time=1), job or "", key)
        return FrozenKind.KEY, digest, f"key {key!r} of {name}"
    if flow is not None:
        raise InvalidInput("flow", flow, "has no key", "give the key whose runs are meant")
    if job is not None and queue is not None:
        raise InvalidInput("queue", queue, "was given beside job", "freeze one of the two, then the other")
    if job is not None:
        return FrozenKind.JOB, check_name(job, "job"), f"job {job}"
    if queue is not None:
        return FrozenKind.QUEUE, check_queue(queue), f"queue {queue}"
    return None
