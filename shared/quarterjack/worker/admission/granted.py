"""Granted: a run starts only if its tenant may run its job. This is the decisive check: a message, a row or a schedule may say anything.

What the tenant may run was read with the revisions of the batch, and is asked again where the lease is taken: a run may have waited for
its payload or its turn since, or its process have stalled. So a job that is taken from a tenant starts no more after five seconds.
The worker's own registry says whether patterns count for a job.
"""

from __future__ import annotations

import logging

from quarterjack.domain.run import Failure, RunState
from quarterjack.domain.tenants.access import KIND, NOT_GRANTED, job_problem
from quarterjack.state.lease import has_live_lease
from quarterjack.worker.admission.refused import RETRY_AFTER, given_up, refused
from quarterjack.worker.admission.tenant_state import governance_of, is_fresh, suspended
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import Outcome, ReadyRun

log = logging.getLogger(__name__)


def not_granted(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """End a run as DEAD whose tenant may not run its job. Raises Unavailable."""
    job = ready.job
    problem = job_problem(governance_of(worker, ready), job.name, by_name=job.by_name)
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
    return None if is_believed(worker, ready) else suspended(worker, ready) or not_granted(worker, ready)


def is_believed(worker: WorkerContext, ready: ReadyRun) -> bool:
    """Whether a run may start by what it was admitted by."""
    return is_fresh(worker, ready, ready.governance)


def _as_lost(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """At most once, and its worker vanished: it is LOST, as without this check. A DEAD run would be redriven by mistake."""
    if not ready.is_at_most_once:
        return None
    now, run = worker.clock(), worker.services.ledger.read(ready.message.run)
    if run is None or run.state is not RunState.RUNNING or has_live_lease(run, now):
        return None
    return refused(worker, ready, run, now) or Outcome.kept("contended", at=now + RETRY_AFTER)
