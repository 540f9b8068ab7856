"""Report: a run that was found LOST or EXPIRED goes to the undertaker, who lists it beside the dead.

    transition ──► letter ──► the message, or the watch, goes

Whoever made the transition reports it, and holds on to what brought them there until the letter is sent: dying in between, they come
again, find the run as they left it, and send the letter. The undertaker takes the second of two for what it is.
"""

from __future__ import annotations

from minutehand.domain.formats.dead_letter import DeadLetter
from minutehand.domain.formats.message import Message
from minutehand.domain.run import RunRow
from minutehand.ports.services import Services


def report(run: RunRow, services: Services) -> None:
    """Send the letter of a run that has ended so; none for one that is recorded already. Raises Unavailable."""
    if run.buried_at is not None:
        return
    order = Message(run=run.ref, revision=run.revision, job=run.job, due=run.due, not_before=run.not_before)
    why = run.reason or str(run.state)
    services.dead.send(DeadLetter(body=order.encode(), reason=why, fence=run.fence, state=str(run.state)))
