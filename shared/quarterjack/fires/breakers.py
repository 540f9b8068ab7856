"""Circuit breakers as they are stored, and the ticker's part: fires of an open breaker stay in the agenda, but for its probes.

    <tenant>/~breakers    ~breakers         the breakers of a tenant that fail or are open, and when some were
    <tenant>/~breakers    ~notice~…         that one has opened, or closed: an event is made of it
    ~quarterjack/~hints    ~open~<tenant>    that one of them is open

The notice is written with the opening or closing, whose version decides between processes: so it is one for each.
What is held back is missed, as in an outage: the schedule's catch-up policy decides when its turn comes. If breakers cannot be read or
written, nothing is held back.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.history.transition_line import iso
from quarterjack.domain.message import reading
from quarterjack.domain.names import schedule_owner
from quarterjack.domain.notice import BREAKERS, BreakerNotice, notice_key
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.times import MINUTE
from quarterjack.errors import Unavailable
from quarterjack.fires.gates import UNLIMITED, Gate, PlanLimit
from quarterjack.ports.services import Clock, Services
from quarterjack.state.tenants.breaker import HINTS, Hint, OpenPeriod, TenantBreakers, parse_breakers
from quarterjack.stores.records import Record

log = logging.getLogger(__name__)

_LOOK = 10  # minutes between two looks of a ticker that has nothing due
_TRIES = 8  # writes of breakers that others keep writing

Edit = Callable[[TenantBreakers], TenantBreakers]


def read_breakers(tenant: str, services: Services) -> tuple[TenantBreakers, int]:
    """The breakers of a tenant and their version; 0: nothing was ever counted. Raises Unavailable, Unreadable."""
    record = services.records.read(_owner(tenant), BREAKERS)
    if record is None:
        return TenantBreakers(), 0
    with reading(f"breakers of {tenant!r}", record.body):
        return parse_breakers(record.body), record.version


def change_breakers(tenant: str, edit: Edit, services: Services) -> TenantBreakers:
    """The breakers of a tenant after an edit, written unless it changes nothing. Raises Unavailable, Unreadable."""
    for _ in range(_TRIES):
        before, version = read_breakers(tenant, services)
        after = edit(before)
        if after == before:
            return after
        if after.open and (not before.open or any(after.jobs[name].refused for name in after.open)):
            put_hint(Hint.OPEN, tenant, services)  # before it is open: a ticker drops what it finds no reason for
        if write_breakers(tenant, before, after, version, services):
            return after
    raise Unavailable(f"the breakers of tenant {tenant!r} were written by others {_TRIES} times")


def write_breakers(
    tenant: str,
    before: TenantBreakers,
    after: TenantBreakers,
    version: int,
    services: Services,
    audit: AuditEntryRow | None = None,
) -> bool:
    """Write breakers over those that were read in that version; False if somebody else has written meanwhile. Raises Unavailable."""
    # Two processes that take a probe in the same millisecond make the same of it: a record that is stored already would be another's.
    body = after.body() | {"writer": secrets.token_hex(4)}
    record = Record(owner=_owner(tenant), key=BREAKERS, version=version + 1, body=body)
    changes = after.changes(before)
    written = services.records.write(record, audit, beside=[_notice(tenant, change, services) for change in changes])
    if written:
        _log_changes(tenant, changes)
    return written


def _owner(tenant: str) -> str:
    return schedule_owner(tenant, BREAKERS)


def _notice(tenant: str, change: OpenPeriod, services: Services) -> Record:
    at = change.since if change.until is None else change.until
    notice = BreakerNotice(
        tenant=tenant,
        job=change.job,
        opened_at=str(iso(change.since)),
        closed_at=iso(change.until),
        actor=change.actor,
    )
    body, expires = {"breaker": asdict(notice)}, at + services.retention
    return Record(owner=notice.owner, key=notice_key(notice.token), version=1, body=body, expires=expires)


def _log_changes(tenant: str, changes: Sequence[OpenPeriod]) -> None:
    for change in changes:
        if change.until is None:
            log.error("breaker.opened", extra={"tenant": tenant, "job": change.job})
        else:
            log.warning("breaker.closed", extra={"tenant": tenant, "job": change.job, "actor": change.actor})


def read_open(services: Services, now: int, hints: TickHints | None = None) -> dict[str, TenantBreakers]:
    """The breakers of all tenants that have an open one, or had until GRACE ago. Raises Unavailable.

    With the ``hints`` of a tick those of all other tenants are removed.
    """
    found = {}
    for tenant in hinted(Hint.OPEN, services) if hints is None else hints.of(Hint.OPEN):
        breakers, _ = read_breakers(tenant, services)
        found[tenant] = breakers
        if hints is not None and not breakers.are_felt(now):
            remove_hint(Hint.OPEN, tenant, services)
    return found


class BreakerCheck(Gate):
    """What a tick lets through of tenants with an open breaker. Thread-safe."""

    def __init__(self, services: Services, clock: Clock, hints: TickHints) -> None:
        self._services, self._clock, self._hints = services, clock, hints
        self._open: dict[str, TenantBreakers] = {}  # by tenant, once they were read
        self._is_read = False
        self._left: dict[tuple[str, str], int] = {}  # fires that are still let through, by tenant and job
        self._most: dict[str, int] = {}  # fires of an entry that is let through
        self._marked = set[str]()  # tenants whose breakers know of this tick that it held something back
        self._lock = threading.Lock()
        self.held = Counter[tuple[str, str]]()  # entries that were held back, by tenant and job

    def admit(self, entries: Sequence[AgendaEntry]) -> Sequence[AgendaEntry]:
        """The entries that may be handled now; the others stay in the agenda."""
        if not any(entry.kind is EntryKind.CHAIN for entry in entries):
            return entries
        with self._lock:
            if not self._is_read:
                self._open, self._is_read = self._read(), True
            if not self._open:
                return entries
            wanted = Counter(key for entry in entries if (key := self._key(entry)) is not None)
            return [entry for entry in entries if self._may_go(entry, wanted)]

    @property
    def tenants(self) -> list[str]:
        """Those of which entries were held back."""
        return sorted({tenant for tenant, _ in self.held})

    def has_held(self, tenant: str, job: str, due: int) -> bool:
        """Whether a fire that is claimed now, and was due then (UTC ms), is late because it was held back."""
        breakers = self._open.get(tenant)
        return breakers is not None and breakers.has_held(job, due, self._clock())

    def limit(self, entry: AgendaEntry) -> PlanLimit:
        """The share of an entry in the probes of its open breaker."""
        most = self._most.get(entry.key)
        return UNLIMITED if most is None else PlanLimit(fires=most)

    def close_quiet(self) -> None:
        """Close the breakers for which nothing waits any more. A tick that has nothing due looks for them once in _LOOK minutes."""
        now = self._clock()
        with self._lock:
            if not self._is_read and now // MINUTE % _LOOK == 0:
                self._open, self._is_read = self._read(), True
        for tenant, breakers in self._open.items():
            if breakers.without_quiet(now) == breakers:
                continue
            try:
                change_breakers(tenant, lambda present: present.without_quiet(now), self._services)
            except Exception as problem:  # noqa: BLE001 (any failure: another tick, or who asks it for a probe, closes it)
                error = f"{type(problem).__name__}: {problem}"
                log.warning("breaker.not_closed", extra={"tenant": tenant, "error": error})

    def _key(self, entry: AgendaEntry) -> tuple[str, str] | None:
        """Tenant and job of an entry of which not everything may go."""
        tenant = entry.tenant
        if entry.kind is not EntryKind.CHAIN or entry.job is None or tenant not in self._open:
            return None
        return (tenant, entry.job) if self._open[tenant].over(entry.job) else None

    def _may_go(self, entry: AgendaEntry, wanted: Counter[tuple[str, str]]) -> bool:
        key = self._key(entry)
        if key is None:
            return True
        breakers = self._open[key[0]]
        left = self._left.get(key)
        if left is None:
            left = breakers.fed(key[1], self._clock()) or 0
        most = -(-left // wanted[key])  # what is left is shared among the entries that are still to come
        wanted[key] -= 1
        self._left[key] = left - most
        if most:
            self._most[entry.key] = most
            return True
        self.held[key] += 1
        self._mark(key[0], breakers.over(key[1]))
        return False

    def _mark(self, tenant: str, names: Sequence[str]) -> None:
        """Let the breakers know that something waits for them."""
        if tenant in self._marked:
            return
        self._marked.add(tenant)
        now = self._clock()
        try:
            change_breakers(tenant, lambda present: present.held(names, now), self._services)
        except Exception as problem:  # noqa: BLE001 (any failure: then it closes a little too early)
            log.warning("breaker.not_marked", extra={"tenant": tenant, "error": f"{type(problem).__name__}: {problem}"})

    def _of_the_limit(self, tenant: str, breakers: TenantBreakers) -> TenantBreakers:
        """The breakers of a tenant, all closed if it has none any more: no worker asks them for probes then."""
        now = self._clock()
        if not breakers.open or self._services.tenants.governance(tenant, now).limits.breaker_percent is not None:
            return breakers
        return change_breakers(tenant, lambda present: present.without(None, now), self._services)

    def _read(self) -> dict[str, TenantBreakers]:
        try:
            found = read_open(self._services, self._clock(), self._hints)
            return {tenant: self._of_the_limit(tenant, breakers) for tenant, breakers in found.items()}
        except Exception as problem:  # noqa: BLE001 (any failure: nothing is held back)
            log.warning("breakers.not_looked_at", extra={"error": f"{type(problem).__name__}: {problem}"})
            return {}


def put_hint(why: Hint, name: str, services: Services) -> None:
    """Put a hint, unless it is there. Raises Unavailable."""
    services.records.write(Record(owner=HINTS, key=f"{why}{name}", version=1, body={}))


def remove_hint(why: Hint, name: str, services: Services) -> None:
    """Remove a hint. Raises Unavailable."""
    services.records.remove(Record(owner=HINTS, key=f"{why}{name}", version=1, body={}))


def hinted(why: Hint, services: Services) -> list[str]:
    """The names that hints of this kind have. Raises Unavailable."""
    return [record.key.removeprefix(why) for record in services.records.listed(HINTS, why)]


class TickHints:
    """All hints, read once. Thread-safe."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._keys: Sequence[str] | None = None
        self._lock = threading.Lock()

    def of(self, why: Hint) -> list[str]:
        """The names that hints of this kind have. Raises Unavailable."""
        with self._lock:
            if self._keys is None:
                self._keys = [record.key for record in self._services.records.listed(HINTS, "~")]
        return [key.removeprefix(why) for key in self._keys if key.startswith(why)]
