"""Freeze: while a tenant is frozen its messages go round, and no run of it takes a lease.

A worker reads the freeze in the batch in which it reads revisions, so that a freeze costs nothing while there is none. What it read
is believed for FRESH: a start that comes later than that looks again. So nothing starts later than FRESH after `freeze` returned,
but for a process that stalls between that look and its lease. A frozen run spends no attempt, holds no slot, and expires by its
deadline; the freeze is durable, and a message that was sent back finds its end or its thaw within RETURN.
"""

from __future__ import annotations

from minutehand.domain.formats.message import Message
from minutehand.domain.freeze import Freeze, freeze_key
from minutehand.domain.times import MINUTE, SECOND
from minutehand.errors import Unavailable
from minutehand.flow.desk import Desk
from minutehand.flow.heartbeat import Ticket
from minutehand.flow.outcome import Outcome
from minutehand.ports.clock import Clock
from minutehand.ports.schedules import RevisionBatch
from minutehand.ports.services import Services

FRESH = 5 * SECOND  # how long a worker believes what it read; a batch has started by then, mostly
RETURN = 5 * MINUTE  # after which the message of a frozen run comes back at the latest: a thaw takes effect within that
_UNREAD = 10 * SECOND  # before a message comes back whose tenant's freeze could not be read


def frozen(desk: Desk, ticket: Ticket, message: Message, revisions: RevisionBatch) -> Outcome | None:
    """Send the message back if its tenant is frozen. None: it is not."""
    tenant, now = message.run.tenant, desk.clock()
    if now - revisions.read_at > FRESH:
        revisions = desk.services.schedules.revisions([freeze_key(tenant)])
    if freeze_key(tenant) in revisions.unanswered or freeze_key(tenant) in revisions.broken:
        return desk.kept(ticket, "freeze_unread", message, after=_UNREAD)
    freeze = revisions.frozen.get(tenant)
    if freeze is None or freeze.until <= now:
        return None
    until = min(freeze.until, now + RETURN)
    if desk.postpone(ticket, message, until + SECOND):  # a second later: an exact message comes that much early
        return Outcome(gone=True, action="postponed", why="frozen", message=message)
    return desk.kept(ticket, "frozen", message, after=_UNREAD)


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
