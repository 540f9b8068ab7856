"""Freeze: while a tenant is frozen its messages go round, and no run of it takes a lease.

A worker reads the freeze in the batch in which it reads revisions, so that a freeze costs nothing while there is none. What it read
is believed for FRESH: a start that comes later than that looks again. So nothing starts later than FRESH after `freeze` returned,
but for a process that stalls between that look and its lease. A frozen run spends no attempt, holds no slot, and expires by its
deadline; the freeze is durable, and a message that was sent back finds its end or its thaw within RETURN.
"""

from __future__ import annotations

from minutehand.domain.freeze import Freeze, freeze_key
from minutehand.domain.times import MINUTE, SECOND
from minutehand.errors import Unavailable
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.stages import ReadyRun

FRESH = 5 * SECOND  # how long a worker believes what it read; a batch has started by then, mostly
RETURN = 5 * MINUTE  # after which the message of a frozen run comes back at the latest: a thaw takes effect within that
_UNREAD = 10 * SECOND  # before a message comes back whose tenant's freeze could not be read


def frozen(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """Send the message back if its tenant is frozen."""
    message, revisions, now = ready.message, ready.received.revisions, worker.clock()
    tenant = message.run.tenant
    if now - revisions.read_at > FRESH:
        revisions = worker.services.schedules.revisions([freeze_key(tenant)])
    if freeze_key(tenant) in revisions.unanswered or freeze_key(tenant) in revisions.broken:
        return Outcome.kept(message, "freeze_unread", at=now + _UNREAD)
    freeze = revisions.frozen.get(tenant)
    if freeze is None or freeze.until <= now:
        return None
    until = min(freeze.until, now + RETURN) + SECOND  # a second later: an exact message comes that much early
    return Outcome.postponed(message, "frozen", order=message, at=until, otherwise=now + _UNREAD)


def freeze_of(tenant: str, services: Services, clock: Clock) -> Freeze | None:
    """A tenant's freeze, if it is not over. Raises Unavailable, or what an item that is none raises."""
    key = freeze_key(tenant)
    answer = services.schedules.revisions([key])
    if key in answer.broken:
        raise answer.broken[key]
    if key in answer.unanswered:
        raise Unavailable(f"the freeze of tenant {tenant!r} could not be read; try again")
    freeze = answer.frozen.get(tenant)
    return freeze if freeze is not None and freeze.until > clock() else None
