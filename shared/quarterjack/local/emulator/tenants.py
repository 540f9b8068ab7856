"""The tenants of one queue of the emulator: which of them is noisy, as AWS documents fair queues (``messages`` has the rule)."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

SHARE = 0.1  # of a queue's messages in flight, or of its recent processing time, above which a tenant is noisy
IN_FLIGHT = 30  # messages of a tenant below which its share of those in flight says nothing
SILENT = 300.0  # seconds without a send after which a tenant is quiet
RECENT = 60.0  # seconds of processing time that count
_STEP = 5.0  # seconds of processing time that are added up together


class QueueTenants:
    """What one queue knows of its tenants: messages in flight, recent processing time, the latest send. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._flying = Counter[str]()
        self._since = dict[str, float]()  # up to when the processing time of what is in flight was added
        self._latest = dict[str, float]()  # send
        self._steps = deque[tuple[float, defaultdict[str, float]]]()  # begin of a step, and seconds by tenant

    def in_flight(self) -> Counter[str]:
        """How many messages of each tenant are in flight: a copy."""
        return self._flying.copy()

    def sends(self, tenant: str, at: float) -> None:
        self._latest.pop(tenant, None)  # so that they stay in the order of sending
        self._latest[tenant] = at

    def begins(self, tenant: str, now: float) -> None:
        """A message is delivered."""
        self._add(tenant, now)
        self._flying[tenant] += 1

    def ends(self, tenant: str, now: float) -> None:
        """A message is no longer in flight."""
        self._add(tenant, now)
        self._flying[tenant] -= 1
        if not self._flying[tenant]:
            del self._flying[tenant], self._since[tenant]

    def noisy(self, now: float) -> frozenset[str]:
        for tenant in self._flying:
            self._add(tenant, now)
        self._forget(now)
        spent = Counter[str]()
        for _, seconds in self._steps:
            spent.update(seconds)
        limit = SHARE * sum(spent.values())
        found = {tenant for tenant, part in spent.items() if part > limit}
        most = max(SHARE * self._flying.total(), IN_FLIGHT - 1)
        found |= {tenant for tenant, number in self._flying.items() if number > most}
        return frozenset(tenant for tenant in found if self._latest.get(tenant, 0.0) > now - SILENT)

    def _add(self, tenant: str, now: float) -> None:
        """Add the processing time of what is in flight of a tenant, up to now."""
        since = max(self._since.get(tenant, now), now - RECENT)
        elapsed = max(now - since, 0.0) * self._flying[tenant]
        self._since[tenant] = now
        if not elapsed:
            return
        if not self._steps or now - self._steps[-1][0] >= _STEP:
            self._steps.append((now, defaultdict(float)))
        self._steps[-1][1][tenant] += elapsed

    def _forget(self, now: float) -> None:
        while self._steps and self._steps[0][0] < now - RECENT:
            self._steps.popleft()
        while self._latest and self._latest[next(iter(self._latest))] <= now - SILENT:
            del self._latest[next(iter(self._latest))]
