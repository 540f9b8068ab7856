"""Shadow: a schedule that only tries its clock. Where a worker would take the lease, the run ends instead, and no job starts.

One conditional write, so a duplicate finds it ended; a run that its owner took back meanwhile is refused as a lease would be.
"""

from __future__ import annotations

import logging

from minutehand.domain.formats.message import Message
from minutehand.domain.policies import Policies
from minutehand.domain.run import RunState
from minutehand.domain.schedule import Revision
from minutehand.flow.desk import Desk
from minutehand.flow.heartbeat import Ticket
from minutehand.flow.lease import AGAIN, after_refusal
from minutehand.flow.outcome import Outcome
from minutehand.state.transitions.before_start import shadow

log = logging.getLogger(__name__)


def shadowed(
    desk: Desk, ticket: Ticket, message: Message, body: str, revision: Revision | None, policies: Policies
) -> Outcome | None:
    """End the run of a schedule with ``shadow=True`` as SHADOWED. None: its schedule has none."""
    if revision is None or not revision.definition.options.shadow:
        return None
    now = desk.clock()
    moved = desk.services.ledger.move(
        message.run, shadow(revision=message.revision, now=now, expires=desk.expires(max(now, message.due)))
    )
    if not moved.applied:
        refused = after_refusal(desk, ticket, message, body, policies, moved.run, now)
        return refused or desk.kept(ticket, "contended", message, after=AGAIN)
    desk.delete(ticket)
    lag = now - message.due
    ids = {"run_id": str(message.run), "job": message.job, "tenant": message.run.tenant}
    log.info("run.shadowed", extra=ids | {"lateness_ms": lag})
    return Outcome(gone=True, action="settled", why="shadow", state=RunState.SHADOWED, message=message, start_lag=lag)
