"""Concurrency caps, and their permits. Pure.

The caps of a tenant share one record with their permits: how many each process has leased, until when, and for which runs a message is
on its way from a cap's wait queue. A cap over all tenants has a record of its own. The version decides between the processes that write it.

    free ──taken──► held by a process ──given_back──► free         a process that dies leaves them: free at ``until`` + SKEW
      │                    ▲
      └──fed──► sent for a queued run                         whose message does not arrive: free at ``until``

A run has a lease only while its process holds a permit of each of its caps, and no lease ends later than the permits of its process. So
live leases never exceed a cap, whoever dies or stalls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quarterjack.domain.names import schedule_owner
from quarterjack.domain.tenants.limits import NO_LIMITS
from quarterjack.domain.tenants.profile import INSTALLATION, Governance
from quarterjack.domain.times import SECOND
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.values import replace

ALL = "*"  # stands for all jobs of a tenant; in no job's name
PERMITS = "~permits"
SHARED = "~caps"  # the key of the record that the caps of a tenant share
EVERYBODY = "~quarterjack"  # stands for a tenant in the caps of jobs over all tenants
# ms that permits last after they were taken or renewed: a lease may begin within the difference.
HELD = LEASE + 15 * SECOND
SENT = 120 * SECOND  # ms that a permit is kept for a run whose message is on its way
MOST_SENT = 100  # runs of a record whose messages are on their way at a time: bounds it


@dataclass(frozen=True, kw_only=True)
class ConcurrencyCap:
    """How many runs have a lease at a time: of a tenant, of a tenant and job, or of a job of all tenants."""

    tenant: str  # or EVERYBODY
    job: str  # or ALL
    most: int | None  # None: there is no cap any more, and what is left of its wait queue goes on
    strict: bool = False  # whether runs wait while its permits cannot be read or written

    @property
    def owner(self) -> str:
        """The owner of its record."""
        return schedule_owner(self.tenant, PERMITS)

    @property
    def key(self) -> str:
        """The key of its record, which the caps of a tenant share."""
        return f"~{self.job}" if self.tenant == EVERYBODY else SHARED

    @property
    def record(self) -> str:
        """Names its record."""
        return f"{self.owner}#{self.key}"

    @property
    def id(self) -> str:
        """Names it: in entries of its queue and in logs."""
        return f"{self.owner}#~{self.job}"

    @property
    def wait_queue(self) -> str:
        """The partition of the agenda in which its runs wait."""
        return f"queue#{self.id}"


@dataclass(frozen=True)
class PermitHold:
    """A permit that a run has."""

    cap: ConcurrencyCap
    process: str  # the name in the cap's record under which it was taken


def caps_of(governance: Governance, job: str) -> tuple[ConcurrencyCap, ...]:
    """The caps of a job of a tenant, in the order in which everybody asks them: who is refused by the narrower takes none of the wider."""
    installation, limits = governance.installation, governance.limits
    if installation is None and limits is NO_LIMITS:
        return ()
    found = [
        (governance.tenant, job, limits.job_caps.get(job)),
        (governance.tenant, ALL, limits.concurrent_runs),
        (EVERYBODY, job, None if installation is None else installation.limits.job_caps.get(job)),
    ]
    return tuple(
        ConcurrencyCap(tenant=tenant, job=of, most=most, strict=bool(limits.concurrency_strict))
        for tenant, of, most in found
        if most is not None
    )


def cap_named(identity: str, governance: Governance) -> ConcurrencyCap:
    """The cap of an id, as profiles have it now. ``governance`` is its tenant's, or the installation's. Raises ValueError."""
    owner, _, key = identity.partition("#")
    tenant, _, word = owner.partition("/")
    if word != PERMITS or not key.startswith("~") or not tenant:
        raise ValueError(f"{identity!r} names no concurrency cap")
    job, limits = key[1:], governance.limits
    if tenant == EVERYBODY:
        most = None if governance.installation is None else governance.installation.limits.job_caps.get(job)
    elif job == ALL:
        most = limits.concurrent_runs
    else:
        most = limits.job_caps.get(job)
    return ConcurrencyCap(tenant=tenant, job=job, most=most, strict=bool(limits.concurrency_strict))


def governed_by(identity: str) -> str:
    """The tenant whose profile has the cap of an id."""
    tenant = identity.partition("/")[0]
    return INSTALLATION if tenant == EVERYBODY else tenant


@dataclass(frozen=True, kw_only=True)
class CapPermits:
    """The permits of one cap."""

    held: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # by process: how many, until when (UTC ms)
    sent: Mapping[str, int] = field(default_factory=dict)  # by id of a queued run: until when (UTC ms)
    has_queue: bool = False  # whether runs may wait in the wait queue for which no message is on its way

    def used(self) -> int:
        """Permits that are not free."""
        return sum(count for count, _ in self.held.values()) + len(self.sent)

    def current(self, now: int) -> CapPermits:
        """Without what is over."""
        held = {name: (count, until) for name, (count, until) in self.held.items() if until + SKEW >= now}
        sent = {run: until for run, until in self.sent.items() if until >= now}
        return self if (held, sent) == (self.held, self.sent) else replace(self, held=held, sent=sent)

    def taken(
        self, process: str, own: int, runs: Sequence[tuple[str, bool]], most: int | None, now: int
    ) -> tuple[CapPermits, set[str]]:
        """After a process, with ``own`` permits before, took some for runs, by id and whether each was queued; and which runs got one.

        Whoever has waited goes first; others take none while somebody waits.
        """
        expected = [run for run, _ in runs if run in self.sent]
        sent = {run: until for run, until in self.sent.items() if run not in expected}
        before = replace(self.with_held(process, own, now + HELD), sent=sent)
        free = len(runs) if most is None else max(most - before.used(), 0)
        late = [run for run, was_queued in runs if was_queued and run not in sent and run not in expected]
        new = [run for run, was_queued in runs if not was_queued and run not in expected and not self.has_queue]
        got = [*expected, *late, *new][:free]
        if not got and before.sent == self.sent:
            return self, set()
        return before.with_held(process, own + len(got), now + HELD), set(got)

    def with_held(self, process: str, count: int, until: int) -> CapPermits:
        """With so many permits of a process, up to an instant (UTC ms); the end of what it has is never moved forward."""
        if not count:
            return replace(self, held={name: one for name, one in self.held.items() if name != process})
        until = max(until, self.held.get(process, (0, 0))[1])
        return replace(self, held={**self.held, process: (count, until)})

    def kept(self, process: str, own: int) -> CapPermits:
        """After a process gave back all permits but ``own``; where it has none, none are its own any more."""
        if process not in self.held:
            return self
        return self.with_held(process, min(own, self.held[process][0]), 0)

    def renewed(self, process: str, own: int, now: int) -> CapPermits:
        """After a process, whose permits are in the record, renewed them."""
        return self.with_held(process, own, now + HELD)

    def without(self, runs: Iterable[str]) -> CapPermits:
        """After the messages of queued runs came, which took no permit."""
        gone = self.sent.keys() & set(runs)
        return replace(self, sent={run: until for run, until in self.sent.items() if run not in gone}) if gone else self

    def enqueued(self) -> CapPermits:
        """After runs were put in the wait queue."""
        return self if self.has_queue else replace(self, has_queue=True)

    def room(self, most: int | None) -> int:
        """For how many queued runs a message may be sent."""
        free = MOST_SENT if most is None else most - self.used()
        return max(min(free, MOST_SENT - len(self.sent)), 0)

    def fed(self, runs: Iterable[str], now: int, *, has_queue: bool) -> CapPermits:
        """After it was decided to send for queued runs."""
        return replace(self, sent={**self.sent, **dict.fromkeys(runs, now + SENT)}, has_queue=has_queue)


@dataclass(frozen=True, kw_only=True)
class PermitRequest:
    """A run that asks for a permit of each of its caps that share a record."""

    run: str  # its id
    was_queued: bool  # whether it has waited in a wait queue
    caps: tuple[ConcurrencyCap, ...]


@dataclass(frozen=True)
class SharedPermits:
    """The permits of the caps that share a record, by job; those of which none is taken and for which nobody waits are left out."""

    caps: Mapping[str, CapPermits] = field(default_factory=dict)

    def of(self, job: str) -> CapPermits:
        """Those of one cap."""
        return self.caps.get(job, CapPermits())

    def changed(self, permits: Mapping[str, CapPermits]) -> SharedPermits:
        """With other permits of some caps."""
        return SharedPermits({job: one for job, one in {**self.caps, **permits}.items() if one != CapPermits()})

    def current(self, now: int) -> SharedPermits:
        """Without what is over."""
        return self.changed({job: one.current(now) for job, one in self.caps.items()})

    def taken(
        self, process: str, own: Mapping[str, int], wanted: Sequence[PermitRequest], now: int
    ) -> tuple[SharedPermits, dict[str, ConcurrencyCap]]:
        """After a process, with ``own`` permits before, took permits for runs, all or none for each; and by which cap a run was refused."""
        before, refused = self.kept(process, own), dict[str, ConcurrencyCap]()
        caps = {cap.job: cap for each in wanted for cap in each.caps}
        asking = {job: [each for each in wanted if any(cap.job == job for cap in each.caps)] for job in caps}
        after = dict[str, CapPermits]()
        for job in sorted(caps, key=lambda one: one == ALL):
            runs = [(each.run, each.was_queued) for each in asking[job] if each.run not in refused]
            after[job], got = before.of(job).taken(process, own.get(job, 0), runs, caps[job].most, now)
            refused |= {run: caps[job] for run, _ in runs if run not in got}
        for job, permits in after.items():
            count = own.get(job, 0) + sum(each.run not in refused for each in asking[job])
            if permits.held.get(process, (0, 0))[0] > count:  # another cap refused some of these
                after[job] = permits.with_held(process, count, now)
        return before.changed(after).together(process), refused

    def together(self, process: str) -> SharedPermits:
        """With one end of all permits of a process, the latest: that of what it took last."""
        own = {job: permits.held[process] for job, permits in self.caps.items() if process in permits.held}
        latest = max((until for _, until in own.values()), default=0)
        return self.changed({job: self.of(job).with_held(process, count, latest) for job, (count, _) in own.items()})

    def kept(self, process: str, own: Mapping[str, int]) -> SharedPermits:
        """After a process gave back all permits but ``own``."""
        return self.changed({job: permits.kept(process, own.get(job, 0)) for job, permits in self.caps.items()})

    def has(self, process: str, jobs: Iterable[str]) -> bool:
        """Whether a process has permits of these caps."""
        return all(process in self.of(job).held for job in jobs)

    def renewed(self, process: str, own: Mapping[str, int], now: int) -> SharedPermits:
        """After a process, whose permits are in the record, renewed them."""
        return self.changed({job: self.of(job).renewed(process, own.get(job, 0), now) for job in {*self.caps, *own}})

    def until(self, process: str) -> int:
        """When the permits of a process are over (UTC ms); 0: it has none."""
        return max((permits.held[process][1] for permits in self.caps.values() if process in permits.held), default=0)

    def room(self, cap: ConcurrencyCap) -> int:
        """For how many runs of a cap's queue a message may be sent."""
        sent = sum(len(permits.sent) for permits in self.caps.values())
        return max(min(self.of(cap.job).room(cap.most), MOST_SENT - sent), 0)

    def body(self) -> dict[str, Any]:
        """As JSON-able values; the reverse is ``parse_permits``. What a process has ends at one time, the latest of its permits."""
        held: dict[str, tuple[int, dict[str, int]]] = {}
        for job, permits in self.caps.items():
            for name, (count, until) in permits.held.items():
                latest, counts = held.get(name, (0, {}))
                held[name] = max(until, latest), {**counts, job: count}
        return {
            "held": {name: list(one) for name, one in held.items()},
            "sent": {job: dict(permits.sent) for job, permits in self.caps.items() if permits.sent},
            "queues": [job for job, permits in self.caps.items() if permits.has_queue],
        }


def parse_permits(body: Mapping[str, Any]) -> SharedPermits:
    """Raises what garbage raises."""
    held: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for name, (until, counts) in body["held"].items():
        for job, count in counts.items():
            held[job][str(name)] = int(count), int(until)
    sent = {job: {str(run): int(until) for run, until in runs.items()} for job, runs in body["sent"].items()}
    queues = {*body["queues"]}
    return SharedPermits(
        {
            job: CapPermits(held=held.get(job, {}), sent=sent.get(job, {}), has_queue=job in queues)
            for job in sorted({*held, *sent, *queues})
        }
    )
