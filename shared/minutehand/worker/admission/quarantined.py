"""Quarantined: a run whose worker crashed waits until no other such run executes in this process."""

from __future__ import annotations

from minutehand.domain.formats.message import Message
from minutehand.domain.times import SECOND
from minutehand.state.decisions import deaths
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.stages import ReceivedMessage

_AGAIN = 10 * SECOND  # before a message comes back whose run found others in the quarantine


def quarantined(worker: WorkerContext, received: ReceivedMessage, message: Message) -> Outcome | None:
    """Enter the crash quarantine if the run's worker crashed; a message that came for the first time needs no look. Raises Unavailable."""
    if received.delivery.receives <= 1:
        return None
    crashes = deaths(worker.services.ledger.read(message.run), worker.clock())
    stay = worker.quarantine.enter(crashes)
    if stay is None:
        return Outcome.kept(message, "other_suspect_runs", at=worker.clock() + _AGAIN)
    received.in_flight.stay = stay
    return None
