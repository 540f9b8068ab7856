"""Concurrency caps, and their permits. Pure.

The caps of a tenant share one record with their permits: how many each process has leased, until when, and for which runs a message is
on its way from a cap's wait queue. A cap over all tenants has a record of its own. The version decides between the processes that write it.

    free ──taken──► held by a process ──given_back──► free         a process that dies leaves them: free at ``until`` + SKEW
      │                    ▲
      └──fed──► sent for a queued run                         whose message does not arrive: free at ``until``

A run has a lease only while its process holds a permit of each of its caps, and no lease ends later than the permits of its process. So
live leases never exceed a cap, whoever dies or stalls.

The record of a flow's key has the same form. Its permits are held by runs, not by processes: what was kept for a queued run is its permit
until it ends, and its worker renews that with the lease. ``slot`` spaces the starts of a flow with ``per_minute``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quarterjack.domain.policies.flow import Flow, parse_flow, starts_of
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.state.tenants.caps import ALL, ConcurrencyCap
from quarterjack.values import replace

# ms that permits last after they were taken or renewed: a lease may begin within the difference.
HELD = LEASE + 15 * SECOND
SENT = 120 * SECOND  # ms that a permit is kept for a run whose message is on its way
KEPT = 15 * MINUTE  # the same for a run with a flow, whose message is the only one and may lie behind many others
AHEAD = 180 * SECOND  # ms by which a message is sent before its start: a wait queue is looked at more often
BOOKED = (
    10 * SECOND
)  # ms for which starts are booked, one at least: who waits longer may still be passed, skipped, or moved
MOST_SENT = 100  # runs of a record whose messages are on their way at a time: bounds it


@dataclass(frozen=True, kw_only=True)
class CapPermits:
    """The permits of one cap."""

    held: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # by process: how many, until when (UTC ms)
    sent: Mapping[str, int] = field(default_factory=dict)  # by id of a queued run: until when (UTC ms)
    has_queue: bool = False  # whether runs may wait in the wait queue for which no message is on its way
    flow: Flow | None = (
        None  # of a flow's key: its terms as they were asked for last; then ``sent`` has the runs with a lease as well
    )
    label: str = ""  # of a flow's key, for people
    paused_until: int = 0  # of a part that is frozen: UTC ms up to which none of its runs starts
    since: int = 0  # the same: UTC ms of the act that said so
    slot: int = 0  # of a flow with ``per_minute``: UTC ms of the next start without a burst

    def used(self) -> int:
        """Permits that are not free."""
        return sum(count for count, _ in self.held.values()) + len(self.sent)

    def current(self, now: int) -> CapPermits:
        """Without what is over."""
        held = {name: (count, until) for name, (count, until) in self.held.items() if until + SKEW >= now}
        left = 0 if self.flow is None else SKEW
        sent = {run: until for run, until in self.sent.items() if until + left >= now}
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

    def claimed(self, cap: ConcurrencyCap, runs: Sequence[tuple[str, bool]], now: int) -> tuple[CapPermits, set[str]]:
        """After runs of a flow asked, by id and whether each was queued; and which got a permit. The order is that of ``taken``."""
        asked = self.under(cap)
        flow = asked.flow
        assert flow is not None
        # Moved since their starts were booked: this is another message.
        early = {run for run, _ in runs if self.sent.get(run, 0) - KEPT > now + SKEW}
        if now < asked.paused_until:
            return asked.without(run for run, _ in runs), set()
        asked, runs = asked.without(early), [each for each in runs if each[0] not in early]
        expected = {run for run, _ in runs if run in asked.sent}
        late = [run for run, was_queued in runs if was_queued and run not in expected]
        new = [run for run, was_queued in runs if not was_queued and run not in expected and not self.has_queue]
        others = {run: until for run, until in asked.sent.items() if run not in expected}
        free = len(runs) if cap.most is None else max(cap.most - len(asked.sent), 0)
        starts, slot = starts_of(flow, self.slot, now, now, min(free, len(late) + len(new)))
        got = expected | {*[*late, *new][: len(starts)]}
        own = {run: max(self.sent.get(run, 0), now + HELD) for run in got} if cap.most is not None else {}
        return replace(asked, sent=others | own, slot=slot), got

    def under(self, cap: ConcurrencyCap) -> CapPermits:
        """With the terms of a flow as a run asks by them; those of an earlier act say nothing more."""
        if cap.since < self.since:
            return self
        return replace(self, flow=cap.flow, label=cap.label, paused_until=cap.paused_until, since=cap.since)

    def reserved(self, cap: ConcurrencyCap, runs: Sequence[str], now: int) -> tuple[CapPermits, set[str]]:
        """After permits of a flow were taken for runs whose messages are sent next; and which got one. Nobody passes those who wait."""
        asked = self.under(cap)
        assert asked.flow is not None
        expected = {run for run in runs if run in self.sent}
        new = [] if self.has_queue else [run for run in runs if run not in expected]
        free = MOST_SENT if cap.most is None else cap.most
        free = max(min(free, MOST_SENT) - len(self.sent), 0)
        starts, slot = starts_of(asked.flow, self.slot, now, now, min(free, len(new)))
        got = {run: start + KEPT for run, start in zip(new, starts, strict=False)}
        return replace(asked, sent={**self.sent, **got}, slot=slot), expected | got.keys()

    def kept_for(self, runs: Iterable[str], now: int) -> CapPermits:
        """After the worker of runs of a flow renewed the permits that they have."""
        return replace(self, sent={**self.sent, **{run: max(self.sent[run], now + HELD) for run in runs}})

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

    def room(self, most: int | None, now: int) -> int:
        """For how many queued runs a message may be sent."""
        free = MOST_SENT if most is None else most - self.used()
        free = 0 if now < self.paused_until else max(min(free, MOST_SENT - len(self.sent)), 0)
        if self.flow is None or not self.flow.interval:
            return free
        ahead = sum(self.start_of(run) > now for run in self.sent)
        free = min(free, max(int(BOOKED / self.flow.interval), 1) - ahead)
        return len(starts_of(self.flow, self.slot, now, now + AHEAD, free)[0])

    def fed(self, runs: Sequence[str], now: int, *, has_queue: bool) -> CapPermits:
        """After it was decided to send for queued runs: each permit is kept until its run's start and some time after it."""
        starts, slot = [now] * len(runs), self.slot
        if self.flow is not None:
            starts, slot = starts_of(self.flow, slot, now, now + AHEAD, len(runs))
        kept = SENT if self.flow is None else KEPT
        sent = {run: start + kept for run, start in zip(runs, starts, strict=True)}
        return replace(self, sent={**self.sent, **sent}, has_queue=has_queue, slot=slot)

    def start_of(self, run: str) -> int:
        """When a queued run starts for which a message is sent now (UTC ms)."""
        return self.sent[run] - (SENT if self.flow is None else KEPT)


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

    def room(self, cap: ConcurrencyCap, now: int) -> int:
        """For how many runs of a cap's queue a message may be sent."""
        sent = sum(len(permits.sent) for permits in self.caps.values())
        return max(min(self.of(cap.job).room(cap.most, now), MOST_SENT - sent), 0)

    def body(self) -> dict[str, Any]:
        """As JSON-able values; the reverse is ``parse_permits``. What a process has ends at one time, the latest of its permits."""
        held: dict[str, tuple[int, dict[str, int]]] = {}
        for job, permits in self.caps.items():
            for name, (count, until) in permits.held.items():
                latest, counts = held.get(name, (0, {}))
                held[name] = max(until, latest), {**counts, job: count}
        flows = {job: _flow_body(permits) for job, permits in self.caps.items() if permits.flow is not None}
        return {
            "held": {name: list(one) for name, one in held.items()},
            "sent": {job: dict(permits.sent) for job, permits in self.caps.items() if permits.sent},
            "queues": [job for job, permits in self.caps.items() if permits.has_queue],
        } | ({"flows": flows} if flows else {})


def _flow_body(permits: CapPermits) -> dict[str, Any]:
    assert permits.flow is not None
    body = {"flow": permits.flow.as_dict(), "label": permits.label, "slot": permits.slot}
    return body | ({"paused": [permits.paused_until, permits.since]} if permits.since else {})


def parse_permits(body: Mapping[str, Any]) -> SharedPermits:
    """Raises what garbage raises."""
    held: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for name, (until, counts) in body["held"].items():
        for job, count in counts.items():
            held[job][str(name)] = int(count), int(until)
    sent = {job: {str(run): int(until) for run, until in runs.items()} for job, runs in body["sent"].items()}
    queues, flows = {*body["queues"]}, body.get("flows", {})
    return SharedPermits(
        {
            job: CapPermits(
                held=held.get(job, {}), sent=sent.get(job, {}), has_queue=job in queues, **_parse_flow(flows.get(job))
            )
            for job in sorted({*held, *sent, *queues, *flows})
        }
    )


def _parse_flow(given: Mapping[str, Any] | None) -> dict[str, Any]:
    if given is None:
        return {}
    paused_until, since = map(int, given.get("paused", (0, 0)))
    return {
        "flow": parse_flow(given["flow"]),
        "label": str(given["label"]),
        "slot": int(given["slot"]),
        "paused_until": paused_until,
        "since": since,
    }
