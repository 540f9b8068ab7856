"""The state of a run's tenant: of one that was erased nothing is touched, of one that is suspended nothing starts, and of a job of it
whose circuit breaker is open, only probes.
"""

from __future__ import annotations

from quarterjack.domain.message import Wait
from quarterjack.domain.tenants.profile import Governance
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import Unavailable
from quarterjack.worker.breakers import Passage
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import Outcome, ReadyRun

RETURN = (
    5 * MINUTE
)  # after which the message of a run comes back that is frozen or suspended: the end of it takes effect within that
BREAK = MINUTE  # after which, or up to three times as long, the message of a run comes back that an open breaker holds
UNREAD = 10 * SECOND  # before a message comes back whose revision, or what holds for its tenant, could not be read
FRESH = 4 * SECOND  # after its reading, that a profile decides a start: with a second for the lease's request, five
ERASED = "tenant_erased"
_TRIES = 3  # readings that took so long that they say nothing of the present


def out_of_bounds(worker: WorkerContext, governance: Governance | None) -> Outcome:
    """Drop the message of a tenant that is erased, without a write; before all else, because its rows may be gone.

    While it is not known what holds for the tenant, the message comes back.
    """
    if governance is None:
        return Outcome.kept("tenant_unread", at=worker.clock() + UNREAD)
    return Outcome.refused(ERASED)


def suspended(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """Send the message back if its tenant is suspended. Raises Unavailable, Unreadable."""
    message, profile = ready.message, governance_of(worker, ready).profile
    if profile.accepts:
        return None
    if profile.is_erased:
        return Outcome.refused(ERASED)
    now = worker.clock()
    at = now + RETURN + SECOND  # a second later: an exact message comes that much early
    return Outcome.postponed("tenant_suspended", order=message, at=at, otherwise=now + UNREAD)


def held_by_breaker(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """Send the message back if a circuit breaker stands before its job, and there is no probe for it."""
    message = ready.message
    if ready.governance.limits.breaker_percent is None:
        return None
    now = worker.clock()
    passage = worker.breakers.ask(message.run.tenant, ready.spec.job, worker.services, now)
    if passage is not Passage.HELD:
        ready.in_flight.has_probe = passage is Passage.PROBE
        return None
    at = now + BREAK + int(worker.random.random() * 2 * BREAK)
    order = message.having_waited(Wait.BREAKER)
    return Outcome.postponed("breaker", order=order, at=at, otherwise=now + UNREAD)


def governance_of(worker: WorkerContext, ready: ReadyRun) -> Governance:
    """What holds for the run's tenant, as young as its start needs it. Raises Unavailable, Unreadable."""
    tenant, read = ready.message.run.tenant, ready.governance
    for _ in range(_TRIES):
        if is_fresh(worker, ready, read):
            ready.governance = read
            return read
        read = worker.services.tenants.governance(tenant, worker.clock(), longest=_longest(worker, ready))
    raise Unavailable(f"what holds for tenant {tenant!r} took more than {FRESH // SECOND} s to read, {_TRIES} times")


def is_fresh(worker: WorkerContext, ready: ReadyRun, read: Governance) -> bool:
    """Whether a run may start by what was read."""
    return 0 <= worker.clock() - read.read_at <= _longest(worker, ready)


def _longest(worker: WorkerContext, ready: ReadyRun) -> int:
    """How old (ms) it may be now: a run that is leased ahead begins at its instant."""
    return FRESH - max(ready.message.not_before - worker.clock(), 0)
