"""Sentences about what held a tenant's runs: a freeze, a suspension, an open circuit breaker, a full concurrency cap.

A hold that has ended is found in the audit, which has an entry for its begin and its end:

audit     freeze (until 12:00) ────────► thaw
run            due ├── held ───────────────┤ started
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quarterjack.domain.audit import AuditAct, AuditEntryRow
from quarterjack.domain.policies.flow import FlowOrder
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import Freeze
from quarterjack.domain.tenants.profile import Governance
from quarterjack.domain.times import MINUTE
from quarterjack.state.tenants.breaker import ALL, breaker_of
from quarterjack.state.tenants.caps import EVERYBODY, ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits
from quarterjack.why.answer import Cause, Sentence, count, show, span
from quarterjack.why.facts import Facts
from quarterjack.why.timeline import by

_ACTS = (AuditAct.SUSPEND_TENANT, AuditAct.RESUME_TENANT)
_THAW = 5 * MINUTE  # runs that a freeze held start within that after its end


@dataclass(frozen=True, kw_only=True)
class _Period:
    """A time in which the tenant was frozen."""

    since: int  # UTC ms
    until: int  # UTC ms
    by: AuditEntryRow | None  # the freeze; None: its entry was not read
    ended_by: AuditEntryRow | None  # the thaw, or the freeze that took its place; None: it ended by itself

    @property
    def source(self) -> str:
        entry = self.by or self.ended_by
        return "audit" if entry is None else f"audit entry {entry.id}"


def waited(run: RunRow, now: int) -> tuple[int, int]:
    """From when until when (UTC ms) a run could have started and had not."""
    return max(run.due, run.created_at), now if run.started_at is None else run.started_at


def covers(freeze: Freeze, ready: int) -> bool:
    """Whether the stored freeze held a run that was ready then."""
    return freeze.created_at <= ready < freeze.until


def may_have_held(freeze: Freeze | None, ready: int) -> bool:
    """Whether a freeze that the stored one ended or replaced may have held a run that was ready then."""
    return freeze is not None and max(freeze.created_at, freeze.until) >= ready and not covers(freeze, ready)


def _by_entries(entries: Sequence[AuditEntryRow], ready: int, until: int) -> Iterator[Sentence]:
    """The freezes between the two instants."""
    for period in _periods(sorted(entries, key=lambda entry: entry.at)):
        if period.since < until and period.until > ready:
            yield Sentence(text=_text(period), source=period.source, cause=Cause.FREEZE)


def _periods(entries: Sequence[AuditEntryRow]) -> Iterator[_Period]:
    freezes = [entry for entry in entries if entry.act in (AuditAct.FREEZE, AuditAct.THAW)]
    for before, entry, after in zip([None, *freezes], freezes, [*freezes[1:], None], strict=False):
        if entry.act is AuditAct.FREEZE:
            end = int(entry.detail["until"])
            ended_by = after if after is not None and after.at < end else None
            yield _Period(since=entry.at, until=end if ended_by is None else ended_by.at, by=entry, ended_by=ended_by)
        if before is None and entry.detail.get("since") is not None:
            yield _Period(since=int(entry.detail["since"]), until=entry.at, by=None, ended_by=entry)


def _text(period: _Period) -> str:
    by = "" if period.by is None else f" by {period.by.actor}"
    note = "" if period.by is None or not period.by.reason else f" ({period.by.reason})"
    end, ended = period.ended_by, ""
    if end is not None:
        ended = f", when {end.actor} {'thawed it' if end.act is AuditAct.THAW else 'froze it anew'}"
    return (
        f"The tenant was frozen{by} from {show(period.since)} until {show(period.until)}{ended}{note}: no run started."
    )


def suspended_now(facts: Facts) -> Iterator[Sentence]:
    """That nothing of the tenant starts."""
    profile = None if facts.holds.governance is None else facts.holds.governance.profile
    if profile is None or profile.accepts:
        return
    source, note = (
        f"profile of tenant {facts.tenant}",
        f" ({profile.suspension_reason})" if profile.suspension_reason else "",
    )
    if profile.is_erased:
        text = f"The tenant is {profile.state}: nothing of it starts any more."
    else:
        text = f"The tenant is suspended{note}: nothing of it starts until it is resumed."
    yield Sentence(text=text, source=source, cause=Cause.SUSPENSION)


def broken_now(facts: Facts) -> Iterator[Sentence]:
    """That a circuit breaker holds the job."""
    job, breakers = facts.job, facts.holds.breakers
    if job is None or breakers is None:
        return
    for name in breakers.over(job):
        one = breakers.jobs[name]
        text = (
            f"{_title(name)} is open since {show(one.opened_at or 0)}, because its attempts failed: one run a minute is let "
            f"through until one succeeds, {one.rate} in this minute."
        )
        yield _of_breakers(facts, text)


def broken_between(facts: Facts, since: int, until: int, *, grace: int = 0) -> Iterator[Sentence]:
    """The circuit breakers that held the job between two instants (UTC ms), or were open up to ``grace`` ms before them."""
    job, breakers = facts.job, facts.holds.breakers
    if job is None or breakers is None:
        return
    for period in breakers.between(job, since, until, grace=grace):
        end = "on" if period.until is None else f"until {show(period.until)}"
        by = "" if period.actor is None else f", when {period.actor} closed it"
        open_from = f"{_title(period.job)} was open from {show(period.since)} {end}{by}"
        text = f"{open_from}, because its attempts failed: runs waited, but for probes."
        yield _of_breakers(facts, text)


def _title(name: str) -> str:
    of = breaker_of(name)
    return of[0].upper() + of[1:]


def _of_breakers(facts: Facts, text: str) -> Sentence:
    return Sentence(text=text, source=f"circuit breakers of tenant {facts.tenant}", cause=Cause.BREAKER)


def in_wait_queue(facts: Facts) -> Iterator[Sentence]:
    """That the run waits for a permit of a concurrency cap."""
    if facts.holds.cap is None:
        return
    cap, permits = facts.holds.cap
    if cap.flow is not None:
        yield _in_queue_of_flow(cap, permits.current(facts.now), facts.now)
        return
    of = "all jobs" if cap.job == ALL else f"job {cap.job}"
    whose = "all tenants together" if cap.tenant == EVERYBODY else "the tenant"
    used = permits.current(facts.now).used()
    text = (
        f"It is in the wait queue of a concurrency cap: of {of}, {whose} may have {count(cap.most or 0, 'run')} at a time, and "
        f"{count(used, 'permit')} {'is' if used == 1 else 'are'} in use. Waiting runs start in the order in which they were due."
    )
    yield Sentence(text=text, source=f"permits of {cap.id}", cause=Cause.CONCURRENCY)


def _in_queue_of_flow(cap: ConcurrencyCap, permits: CapPermits, now: int) -> Sentence:
    if cap.since:
        return _frozen_part(cap, now)
    flow, limits = permits.flow or cap.flow, list[str]()
    assert flow is not None
    if flow.at_a_time is not None:
        limits.append(f"{count(flow.at_a_time, 'run')} at a time, and {count(len(permits.sent), 'permit')} in use")
    if flow.per_minute is not None:
        after = f", the next at {show(permits.slot)}" if permits.slot > now else ""
        limits.append(f"{count(flow.per_minute, 'start')} a minute{after}")
    order = "by priority" if flow.order is FlowOrder.PRIORITY else "in the order in which they were due"
    text = f"It waits for a permit of its flow: {cap.label} has {'; and '.join(limits)}. Waiting runs start {order}."
    return Sentence(text=text, source=f"permits of {cap.id}", cause=Cause.CONCURRENCY)


def _frozen_part(cap: ConcurrencyCap, now: int) -> Sentence:
    rate = 0 if cap.flow is None else cap.flow.per_minute or 0
    text = f"{cap.label[0].upper()}{cap.label[1:]} is frozen until {show(cap.paused_until)}: until then it waits."
    if cap.paused_until <= now:
        text = f"{cap.label[0].upper()}{cap.label[1:]} was frozen until {show(cap.paused_until)}: what waited starts, {rate:,} a minute."
    return Sentence(text=text, source=f"permits of {cap.id}", cause=Cause.FREEZE)


def may_have_been_suspended(governance: Governance | None, ready: int) -> bool:
    """Whether the tenant's profile has changed since a run was ready: it may have been suspended in between."""
    own = None if governance is None else governance.own
    return own is not None and own.accepts and own.updated_at >= ready


def suspended_between(facts: Facts, ready: int, until: int) -> Iterator[Sentence]:
    """The suspensions between two instants (UTC ms) that are over, by the audit entries."""
    entries = sorted((entry for entry in facts.holds.entries if entry.act in _ACTS), key=lambda entry: entry.at)
    begin: AuditEntryRow | None = None
    for entry in entries:
        if entry.act is AuditAct.SUSPEND_TENANT:
            begin = begin or entry
            continue
        if entry.at > ready and (begin is None or begin.at < until):
            yield _period(begin, entry)
        begin = None


def _period(begin: AuditEntryRow | None, end: AuditEntryRow) -> Sentence:
    since = "" if begin is None else f" by {begin.actor} from {show(begin.at)}"
    note = "" if begin is None or not begin.reason else f" ({begin.reason})"
    text = f"The tenant was suspended{since} until {show(end.at)}, when {end.actor} resumed it{note}: no run started."
    return Sentence(text=text, source=f"audit entry {(begin or end).id}", cause=Cause.SUSPENSION)


def freeze_ahead(facts: Facts) -> Iterator[Sentence]:
    """That the tenant is suspended, or is frozen now and when the fire is due."""
    yield from suspended_now(facts)
    yield from broken_now(facts)
    yield from in_wait_queue(facts)
    freeze = facts.holds.freeze
    if freeze is not None and freeze.until > max(facts.now, facts.at):
        note = f" ({freeze.reason})" if freeze.reason else ""
        text = f"The tenant is frozen until {show(freeze.until)}{by(freeze)}{note}: until then no run starts."
        yield Sentence(text=text, source=f"freeze of {facts.tenant}", cause=Cause.FREEZE)


def held_now(facts: Facts) -> Iterator[Sentence]:
    """That the queue is held back at present."""
    holds = facts.delivery.held_back
    if holds is None or holds.now is None:
        return
    why = f"{holds.depth:,} messages in it" if holds.why == "depth" else f"runs that had waited {span(holds.age or 0)}"
    text = f"The ticker has held its queue back since {show(holds.now.since)}, because of {why}, until workers have drained it."
    yield Sentence(text=text, source="log of held queues", cause=Cause.HELD_QUEUE)


def frozen_between(facts: Facts, ready: int, until: int) -> Iterator[Sentence]:
    """The freezes between two instants (UTC ms): those of the audit, else the stored one."""
    freeze, known = facts.holds.freeze, list(_by_entries(facts.holds.entries, ready, until))
    yield from known
    if known or freeze is None or freeze.created_at > until:
        return
    source = f"freeze of {facts.tenant}"
    if freeze.created_at < freeze.until and freeze.until > ready:
        reason = f" ({freeze.reason})" if freeze.reason else ""
        text = f"The tenant was frozen{by(freeze)} from {show(freeze.created_at)} until {show(freeze.until)}{reason}: no run started."
        yield Sentence(text=text, source=source, cause=Cause.FREEZE)
    elif _is_thaw(freeze) and ready < freeze.until and until - freeze.until <= _THAW:
        text = (
            f"The tenant was thawed at {show(freeze.until)}. If a freeze was in force before, it held the run; when it began "
            "is not stored."
        )
        yield Sentence(text=text, source=source)


def _is_thaw(freeze: Freeze) -> bool:
    return freeze.created_at >= freeze.until
