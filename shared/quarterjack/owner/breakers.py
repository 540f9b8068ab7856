"""Close a tenant's circuit breakers by hand."""

from __future__ import annotations

from quarterjack.domain.audit import AuditAct
from quarterjack.errors import Conflict, NotFound
from quarterjack.fires.acts import actor_of, line_of
from quarterjack.fires.breakers import read_breakers, write_breakers
from quarterjack.fires.context import FireContext

_RACES = 8  # writes of workers that may come in between


def reset(tenant: str, job: str | None, context: FireContext) -> list[str]:
    """Close the breaker of a job, or all of a tenant (None); the names of those that were open. Raises NotFound, Conflict, Unavailable."""
    for _ in range(_RACES):
        before, version = read_breakers(tenant, context.services)
        if job is not None and job not in before.open:
            raise NotFound(
                f"job={job!r}: tenant {tenant!r} has no open breaker of that name; `quarterjack breakers list` shows those there are"
            )
        closed = before.open if job is None else [job]
        if not closed:
            return []
        line = line_of(AuditAct.RESET_BREAKER, tenant, context, jobs=closed)
        after = before.without(job, context.clock(), actor_of(context))
        if write_breakers(tenant, before, after, version, context.services, line):
            return closed
    raise Conflict(f"tenant={tenant!r}: workers changed its breakers {_RACES} times meanwhile; try again")
