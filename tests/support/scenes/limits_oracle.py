"""What must hold of tenants' limits in a history, decided from requests and rows: caps, rates, breakers, and whom no limit concerns.

    caps        live leases that have a permit of a cap are never more than it lets, by any profile since its worker received the messages
    rates       accepted acts between any two instants are at most the burst, what the rate adds, and the tokens of one second
    quotas      accepted runs that have not ended, and bytes in the bucket, are no more than any profile since lets
    breakers    what starts under an open breaker has a probe, and probes are no more than its record has given
    free        nothing of a tenant without limits waits for one, and no record of its limits is read or written

It knows which profile was in force when, and in which thread a worker asked; it does not know how the flow decides.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from greenlet import getcurrent
from quarterjack.domain.names import RunRef, schedule_owner
from quarterjack.domain.notice import BREAKERS
from quarterjack.domain.payload import owner_of_object, size
from quarterjack.domain.run import TERMINAL, EntryKind, RunState
from quarterjack.domain.tenants.limits import NO_LIMITS, AcceptedRate, RateWord, TenantLimits
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.fires.breakers import read_breakers
from quarterjack.owner.limits import take_place
from quarterjack.ports.services import Services
from quarterjack.state.lease import SKEW
from quarterjack.state.tenants.breaker import HINTS, Breaker, TenantBreakers, tenant_of_hint
from quarterjack.state.tenants.caps import ALL, EVERYBODY, PERMITS, ConcurrencyCap
from quarterjack.state.tenants.permits import PermitRequest, parse_permits
from quarterjack.stores.tenants.profiles import BELIEVED
from quarterjack.testing import Detail
from quarterjack.worker.breakers import BreakerBook, Passage, _Known
from quarterjack.worker.permits import PermitPool

from tests.support.histories.simulator import BatonCaps, Process, Stage
from tests.support.scenes.lease_oracle import Lease

_KNOWN = 2 * BELIEVED  # ms: one thread reads anew while others go by what is known
_CARRIED = 3 * SECOND  # of tokens: a process may take those of one second too much, and keeps what it has for two
_KEPT = 20 * SECOND  # for which nobody forgets a place that was taken
_COUNTS = 4  # after which places must be there again
_UNLUCKY = 0.01  # of starts: a queue here gives any visible message, so that a few are passed over and over
_WINDOW = 5 * MINUTE  # in which acts are counted
_WAITS = frozenset(
    {"concurrency", "permits_unread", "queue_unwritten", "permits_lapsed", "breaker", "tenant_suspended"}
)


class WatchedPool(PermitPool):
    """The permits of a process, as its worker asks for them."""

    def __init__(self, oracle: LimitsOracle) -> None:
        super().__init__()
        self._oracle = oracle
        self._caps = BatonCaps(oracle.stage)

    def take(self, wanted: Sequence[PermitRequest], *rest: Any) -> tuple[dict[str, ConcurrencyCap], str]:
        thread = self._oracle.thread()
        try:
            refused, process = super().take(wanted, *rest)
        except Exception:
            for each in wanted:
                if not any(cap.strict for cap in each.caps):
                    thread.uncapped |= {(each.run, cap.id) for cap in each.caps}
            raise
        for each in wanted:
            if each.run not in refused:
                thread.permits[each.run] |= {cap.id: cap for cap in each.caps}
        return refused, process


class WatchedBook(BreakerBook):
    """The breakers that a process knows, as its worker asks them."""

    def __init__(self, oracle: LimitsOracle, process: Process) -> None:
        super().__init__()
        self._oracle, self._process = oracle, process

    def ask(self, tenant: str, job: str, services: Services, now: int) -> Passage:
        passage = super().ask(tenant, job, services, now)
        self._oracle.asked(self._process, tenant, job, passage)
        return passage

    def _learn(self, known: _Known, breakers: TenantBreakers, now: int) -> None:
        super()._learn(known, breakers, now)
        for tenant, one in self._tenants.items():
            if one is known:
                self._oracle.learned(self._process, tenant)


@dataclass
class _Thread:
    """What a thread of a worker has asked since it received messages."""

    since: int  # UTC ms
    permits: dict[str, dict[str, ConcurrencyCap]] = field(default_factory=lambda: defaultdict(dict))  # by run and cap
    uncapped: set[tuple[str, str]] = field(default_factory=set)  # runs and caps whose permits could not be read
    passages: dict[tuple[str, str], list[tuple[Passage, int]]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class _Live:
    """A lease with permits."""

    ref: RunRef
    fence: int
    caps: dict[str, ConcurrencyCap]
    since: int  # UTC ms: its worker goes by no older profile


@dataclass
class _Open:
    """An open breaker."""

    since: int  # UTC ms
    call: int  # by whose number it was opened
    granted: int = 0  # probes, by its record
    used: int = 0  # by leases


class LimitsOracle:
    """Of one history. ``free`` are tenants without limits."""

    def __init__(self, stage: Stage, skew: int, free: Sequence[str]) -> None:
        self.stage, self._skew = stage, skew
        self._outside = stage.memory.connect()
        self.found: list[str] = []
        self._profiles: dict[str, list[tuple[int, TenantLimits]]] = defaultdict(list)
        self._threads: dict[int, _Thread] = {}
        self._live: dict[RunRef, _Live] = {}
        self._breakers: dict[str, TenantBreakers] = {}
        self._open: dict[tuple[str, str], _Open] = {}
        self._learned: dict[tuple[str, str], int] = {}  # process and tenant → the call that last told of its breakers
        # Process and owner of a record → UTC ms and number of the last call without an answer.
        self._unanswered: dict[tuple[str, str], tuple[int, int]] = {}
        self._failed: set[str] = set()  # processes of which a call had no answer: what they accept may need no place
        self._waiting: dict[str, set[RunRef]] = defaultdict(set)  # by tenant: accepted runs that took a place
        self._bytes: dict[str, int] = Counter()  # likewise, of payloads in the bucket
        self._accepted: dict[tuple[str, RateWord], list[tuple[int, int]]] = defaultdict(list)  # UTC ms: asked, returned
        self._free = frozenset(free)
        self._not_theirs = {f"{tenant}/{word}" for tenant in free for word in ("~permits", "~breakers", "~limits")}
        self.late: list[tuple[int, RunRef]] = []  # ms from due to the first start, of tenants without limits
        stage.unanswered = self._fails

    # What is seen.

    def watch(self, process: Process, worker: Any) -> None:
        """Look at what a worker process asks; before it begins."""
        vars(worker.heartbeat)["permits"] = WatchedPool(self)
        vars(worker)["breakers"] = WatchedBook(self, process)

    def thread(self) -> _Thread:
        return self._threads.setdefault(id(getcurrent()), _Thread(self.stage.now))

    def look(self, process: Process, detail: Detail) -> None:
        """After each call."""
        verb = detail.verb
        if verb == "receive":
            self._threads[id(getcurrent())] = _Thread(self.stage.now)
        elif verb == "submit":
            self._look_at_waiting(process, detail.items[0])
        elif detail.place == "payloads" and verb == "put":
            self._look_at_bytes(process, str(detail.items[0]))
        elif verb == "put_profile":
            self.profiles_changed()
        elif detail.place == "runs" and verb in ("record", "write_record", "lease_tokens"):
            for ref in detail.items:
                if isinstance(ref, RunRef):
                    self._look_at_record(process, ref, verb)
        elif verb == "renew":
            self._count(None)

    def leased(self, process: Process, lease: Lease) -> None:
        """A lease that was committed."""
        row = self.stage.memory.row(lease.ref) or {}
        tenant, job = lease.ref.tenant, row["job"]
        if tenant in self._free:
            if lease.fence == 1:
                self.late.append((self.stage.now - row["due"], lease.ref))
            return
        thread = self.thread()
        self._check_permits(thread, lease, tenant, job)
        self._check_probe(process, thread, lease, tenant, job)

    def waits(self, ref: RunRef, why: str) -> None:
        """A message was sent back, or away."""
        self.stage.count(f"waits: {why}")
        if ref.tenant in self._free and why in _WAITS:
            self.found.append(f"held by another's limits: {ref} ({why})")

    def accepted(self, process: Process, tenant: str, word: RateWord, asked: int) -> None:
        """An act of an owner was accepted. If its tokens could not be read, it need not have one."""
        if (process.name, f"{tenant}/~limits") not in self._unanswered:
            self._accepted[tenant, word].append((asked, self.stage.now))

    def _look_at_waiting(self, process: Process, ref: object) -> None:
        """A run was accepted. Who waited long enough may have lost the place that it took, and a clock that is wrong counts wrongly."""
        known = process.looked
        if (
            not isinstance(ref, RunRef)
            or process.name in self._failed
            or known < self.stage.now - _KEPT
            or self._skew > SKEW
        ):
            return
        waiting = self._waiting[ref.tenant]
        waiting.add(ref)
        waiting -= {each for each in waiting if (self.stage.memory.row(each) or {})["state"] in TERMINAL}
        self._at_most("waiting_runs", ref.tenant, len(waiting), known)

    def _look_at_bytes(self, process: Process, key: str) -> None:
        if process.name not in self._failed:
            tenant = str(owner_of_object(key)).partition("/")[0]
            self._bytes[tenant] += size(self.stage.memory._payloads[key][0])
            self._at_most("kept_bytes", tenant, self._bytes[tenant], process.looked)

    def _at_most(self, limit: str, tenant: str, number: int, since: int) -> None:
        lets = [getattr(limits, limit) for limits in self._in_force(tenant, since - _KNOWN)]
        if None not in lets and number > max(lets):
            self.found.append(f"over quota: {limit}={number} of {tenant}, which may have {max(lets)}")

    def _fails(self, process: Process, detail: Detail) -> None:
        self._failed.add(process.name)
        if detail.place == "runs":
            for ref in detail.items:
                if isinstance(ref, RunRef):
                    # A breaker's hint is written with it: without one no probe is taken.
                    owner = schedule_owner(tenant_of_hint(ref.key), BREAKERS) if ref.owner == HINTS else ref.owner
                    self._unanswered[process.name, owner] = self.stage.now, self.stage.calls

    def profiles_changed(self) -> None:
        for profile in self._outside.tenants.profiles():
            known = self._profiles[profile.tenant]
            if not known or known[-1][1] != profile.limits:
                known.append((self.stage.now, profile.limits))

    def _in_force(self, tenant: str, since: int) -> list[TenantLimits]:
        """The limits of a profile since then."""
        known = [(0, NO_LIMITS), *self._profiles[tenant]]
        first = max(place for place, (at, _) in enumerate(known) if at <= since)
        return [limits for _, limits in known[first:]]

    # Caps.

    def _most(self, cap: ConcurrencyCap, since: int) -> int | None:
        """The most that a cap has let since then; None: anything."""
        most = [self._let(cap, limits) for limits in self._in_force(_holder(cap), since)]
        return None if None in most else max(one for one in most if one is not None)

    def _let(self, cap: ConcurrencyCap, limits: TenantLimits) -> int | None:
        return limits.concurrent_runs if cap.job == ALL else limits.job_caps.get(cap.job)

    def _check_permits(self, thread: _Thread, lease: Lease, tenant: str, job: str) -> None:
        run, since = str(lease.ref), thread.since - BELIEVED
        permits = dict(thread.permits.get(run, {}))
        for cap in _possible(tenant, job):
            asked = cap.id in permits or (run, cap.id) in thread.uncapped
            if not asked and None not in [self._let(cap, one) for one in self._in_force(_holder(cap), since)]:
                self.found.append(f"no permit: {run} of {cap.id}")
        permits = {name: cap for name, cap in permits.items() if (run, name) not in thread.uncapped}
        self._live[lease.ref] = _Live(lease.ref, lease.fence, permits, since)
        self._count(self._live[lease.ref])

    def _count(self, new: _Live | None) -> None:
        """Of no cap there are more live leases than it lets; of those of a new one, no more than it lets since its worker looked."""
        going, since = Counter[str](), dict[str, int]()
        caps = dict[str, ConcurrencyCap]()
        for ref, live in list(self._live.items()):
            row = self.stage.memory.row(ref)
            if row is None or row["state"] != RunState.RUNNING or row["fence"] != live.fence:
                del self._live[ref]
            elif row.get("lease_until", 0) >= self.stage.now:
                going.update(live.caps.keys())
                caps |= live.caps
                since |= {name: min(live.since, since.get(name, live.since)) for name in live.caps}
        if self._skew > SKEW:  # clocks that differ by more break leases as well
            return
        for name, number in going.items():
            if new is not None and name not in new.caps:
                continue
            most = self._most(caps[name], since[name] if new is None else new.since)
            self.stage.counts["full"] += number == most
            if most is not None and number > most:
                self.found.append(f"too many: {number} live leases of {name}, which lets {most}")

    # Breakers.

    def _look_at_record(self, process: Process, ref: RunRef, verb: str) -> None:
        if ref.owner in self._not_theirs or (ref.owner == HINTS and tenant_of_hint(ref.key) in self._free):
            self.found.append(f"not free: {verb} of {ref} by {process.name}")
        tenant, _, word = ref.owner.partition("/")
        if word == "~breakers" and verb == "write_record":
            self._look_at_breakers(tenant)

    def _look_at_breakers(self, tenant: str) -> None:
        before, (after, _) = self._breakers.get(tenant, TenantBreakers()), read_breakers(tenant, self._outside)
        self._breakers[tenant] = after
        for name in {*before.jobs, *after.jobs}:
            old, new = before.jobs.get(name, Breaker()), after.jobs.get(name, Breaker())
            if not new.is_open:
                self.stage.counts["closed"] += self._open.pop((tenant, name), None) is not None
            elif not old.is_open or new.opened_at != old.opened_at:
                self._open[tenant, name] = _Open(self.stage.now, self.stage.calls)
                self.stage.count("opened")
            else:
                self._check_breaker(tenant, name, old, new)

    def _check_breaker(self, tenant: str, name: str, old: Breaker, new: Breaker) -> None:
        is_next = new.since != old.since
        self._open[tenant, name].granted += new.taken - (0 if is_next else old.taken)
        wrong = new.taken > new.rate or new.rate > old.rate * (2 if is_next else 1)
        if wrong or (is_next and new.since - old.since < MINUTE):
            self.found.append(f"probes: {name} of {tenant} has {new} after {old}")

    def learned(self, process: Process, tenant: str) -> None:
        """A worker process knows now what the last call told."""
        self._learned[process.name, tenant] = self.stage.calls

    def asked(self, process: Process, tenant: str, job: str, passage: Passage) -> None:
        """A worker asked the breakers before a job."""
        self.stage.count(f"passage {passage}")
        if passage is Passage.HELD:
            return
        self.thread().passages[tenant, job].append((passage, self.stage.now))
        now, learned = self.stage.now, self._learned.get((process.name, tenant), 0)
        unanswered, lost = self._unanswered.get((process.name, f"{tenant}/~breakers"), (0, 0))
        for one in self._over(tenant, job) if passage is Passage.FREE else ():
            if (learned > one.call > lost) or now - max(one.since, unanswered) > _KNOWN:
                self.found.append(
                    f"free passage: {job} of {tenant} at {process.name} {now - one.since} ms after it opened"
                )

    def _over(self, tenant: str, job: str) -> list[_Open]:
        return [self._open[tenant, name] for name in (job, "*") if (tenant, name) in self._open][:1]

    def _check_probe(self, process: Process, thread: _Thread, lease: Lease, tenant: str, job: str) -> None:
        passages = thread.passages[tenant, job]
        if not passages:
            limits = self._in_force(tenant, thread.since - BELIEVED)
            if all(one.breaker_percent is not None for one in limits):
                self.found.append(f"asked no breaker: {lease.ref} of {job}")
            return
        passage, at = next((one for one in passages if one[0] is Passage.PROBE), passages[0])
        passages.remove((passage, at))
        for one in self._over(tenant, job) if passage is Passage.PROBE else ():
            if one.since <= at:
                one.used += 1
                self.stage.count("probes")
                if one.used > one.granted:
                    self.found.append(f"too many probes: {lease.ref} is number {one.used} of {one.granted}")

    # Verdicts.

    def violations(self, late: int | None) -> list[str]:
        """What does not hold, when all is over. ``late``: ms that few runs of tenants without limits may be late; None: anything."""
        slow = [f"late: {ref} by {ms} ms, without limits" for ms, ref in self.late if late is not None and ms > late]
        if len(slow) <= len(self.late) * _UNLUCKY:
            slow = []
        return [*self.found, *slow, *self._too_fast(), *self._left(), *self._leaked()]

    def _too_fast(self) -> Iterator[str]:
        for (tenant, word), acts in self._accepted.items():
            acts.sort(key=lambda act: act[1])
            least = min((rate.burst for _, limits in self._profiles[tenant] if (rate := limits.rate(word))), default=0)
            for first, (begin, _) in enumerate(acts):
                number = 0
                for asked, returned in acts[first:]:
                    number += asked >= begin
                    most = self._acts(tenant, word, begin, returned) if number > least else None
                    if most is not None and number > most:
                        yield f"too fast: {number} {word} of {tenant} in {returned - begin} ms, not {most:.1f}"
                        return
                    if returned - begin > _WINDOW:
                        break

    def _acts(self, tenant: str, word: RateWord, begin: int, end: int) -> float | None:
        """How many acts may be accepted between two instants."""
        known = [(0, NO_LIMITS), *self._profiles[tenant]]
        first = max(place for place, (at, _) in enumerate(known) if at <= begin - _KNOWN)
        rates: list[AcceptedRate | None] = [limits.rate(word) for at, limits in known[first:] if at <= end]
        given = [rate for rate in rates if rate is not None]
        if len(given) < len(rates):
            return None
        burst, per_second = max(rate.burst for rate in given), max(rate.per_second for rate in given)
        return burst + per_second * (end - begin + 2 * self._skew + _CARRIED) / SECOND

    def _left(self) -> Iterator[str]:
        """Nobody waits in a line, nobody looks after one, and no timer is overdue."""
        for entry in self.stage.memory.entries():
            is_over = entry.due < self.stage.now - 2 * MINUTE and entry.kind is not EntryKind.CHAIN
            if isinstance(entry.shard, str) or entry.kind is EntryKind.QUEUE or is_over:
                yield f"left: {entry.shard} {entry.key}"

    def _leaked(self) -> Iterator[str]:
        """Every permit and every token is there again, and an open breaker gives a probe to who asks."""
        for tenant in (*self._profiles, EVERYBODY):
            for record in self._outside.records.listed(schedule_owner(tenant, PERMITS), "~"):
                for job, permits in parse_permits(record.body).current(self.stage.now).caps.items():
                    yield f"leaked: permits {permits} of {job} of {record.owner}#{record.key}"
            yield from self._leaked_tokens(tenant)
            yield from self._leaked_places(tenant)
            breakers, _ = read_breakers(tenant, self._outside)
            for name in breakers.open:
                if not breakers.jobs[name].probe(self.stage.now + MINUTE)[1]:
                    yield f"leaked: the probes of {name} of {tenant}, {breakers.jobs[name]}"

    def _leaked_places(self, tenant: str) -> Iterator[str]:
        """Some counts after the last run has ended there are places again: those that a process took and lost come back with the hints."""
        now, refused = self.stage.now, None
        for _ in range(_COUNTS):
            refused = take_place(tenant, self._outside, now, has_history=True)
            if refused is None:
                return
            now += int(refused.seconds * SECOND)
        yield f"leaked: places of {tenant}: {refused}"

    def _leaked_tokens(self, tenant: str) -> Iterator[str]:
        for word in RateWord:
            rate = self._in_force(tenant, self.stage.now)[-1].rate(word)
            if rate is not None and self._outside.usage.left(tenant, rate, self.stage.now) < rate.burst:
                yield f"leaked: tokens of {word} of {tenant}"


def _possible(tenant: str, job: str) -> list[ConcurrencyCap]:
    places = ((tenant, ALL), (tenant, job), (EVERYBODY, job))
    return [ConcurrencyCap(tenant=of, job=name, most=None) for of, name in places]


def _holder(cap: ConcurrencyCap) -> str:
    return INSTALLATION if cap.tenant == EVERYBODY else cap.tenant
