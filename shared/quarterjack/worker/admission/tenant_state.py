"""What the tenant of a run lets start: nothing while it is suspended, no job that it may not run, and of a job whose circuit breaker is
open, only probes. Of an erased tenant nothing is touched.

This is the decisive check: a message, a row or a schedule may say anything. What holds for the tenant was read with the revisions of the
batch, and is asked again where the lease is taken: a run may have waited for its payload or its turn since, or its process have stalled.
So a job that is taken from a tenant starts no more after five seconds. The worker's own registry says whether patterns count for a job.
"""

from __future__ import annotations

import logging

from quarterjack.domain.message import Wait
from quarterjack.domain.run import Failure, RunState
from quarterjack.domain.tenants.access import KIND, NOT_GRANTED, job_problem
from quarterjack.domain.tenants.profile import Governance
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import Unavailable
from quarterjack.state.lease import has_live_lease
from quarterjack.worker.admission.refused import RETRY_AFTER, given_up, refused
from quarterjack.worker.breakers import Passage
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import Outcome, ReadyRun

log = logging.getLogger(__name__)

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
    now = ready.as_of
    at = now + RETURN + SECOND  # a second later: an exact message comes that much early
    return Outcome.postponed("tenant_suspended", order=message, at=at, otherwise=now + UNREAD)


def not_granted(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """End a run as DEAD whose tenant may not run its job, by what ``suspended`` has judged. Raises Unavailable."""
    job = ready.job
    problem = job_problem(ready.governance, job.name, by_name=job.by_name)
    if problem is None:
        return None
    message = ready.message
    lost = _as_lost(worker, ready)
    if lost is not None:
        return lost
    log.warning("run.not_granted", extra={"run_id": str(message.run), "job": job.name, "tenant": message.run.tenant})
    return given_up(worker, ready.received, NOT_GRANTED, Failure(kind=KIND, message=problem))


def barred(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """May a run still start that was admitted a while ago? What holds for its tenant is read anew, if it is too old by now.

    Nothing is called between this and the lease, in which a process could stall. Raises Unavailable.
    """
    ready.as_of = worker.clock()
    return None if is_believed(ready, ready.as_of) else suspended(worker, ready) or not_granted(worker, ready)


def is_believed(ready: ReadyRun, now: int) -> bool:
    """Whether a run may start now by what it was admitted by."""
    return is_fresh(ready, ready.governance, now)


def _as_lost(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """At most once, and its worker vanished: it is LOST, as without this check. A DEAD run would be redriven by mistake."""
    if not ready.is_at_most_once:
        return None
    now, run = worker.clock(), worker.services.ledger.read(ready.message.run)
    if run is None or run.state is not RunState.RUNNING or has_live_lease(run, now):
        return None
    return refused(worker, ready, run, now) or Outcome.kept("contended", at=now + RETRY_AFTER)


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
    read, tries = ready.governance, 0
    while not is_fresh(ready, read, ready.as_of):
        tenant, now = ready.message.run.tenant, worker.clock()
        if tries == _TRIES:
            raise Unavailable(
                f"what holds for tenant {tenant!r} took more than {FRESH // SECOND} s to read, {tries} times"
            )
        read = worker.services.tenants.governance(tenant, now, longest=_longest(ready, now))
        ready.as_of = worker.clock()
        tries += 1
    ready.governance = read
    return read


def is_fresh(ready: ReadyRun, read: Governance, now: int) -> bool:
    """Whether a run may start now by what was read."""
    return 0 <= now - read.read_at <= _longest(ready, now)


def _longest(ready: ReadyRun, now: int) -> int:
    """How old (ms) it may be now: a run that is leased ahead begins at its instant."""
    return FRESH - max(ready.message.not_before - now, 0)
