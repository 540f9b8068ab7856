"""Guard: a step of one message that fails lets that message come back, and stops no other."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.stages import ReceivedMessage

log = logging.getLogger(__name__)

_SOON = 10 * SECOND  # before a message comes back that met an unavailable service
_LATER = 60 * SECOND  # before a message comes back that met a defect of ours

_T = TypeVar("_T")


def guarded(worker: WorkerContext, received: ReceivedMessage, step: Callable[[], _T]) -> _T | Outcome:
    """What a step of a message gives, or the outcome of its failure."""
    try:
        return step()
    except Unavailable as problem:
        return on_service_error(worker, received, str(problem))
    except Exception:
        log.exception("work.defect", extra={"run_id": str(received.in_flight.ref)})
        return on_internal_error(worker, received)


def on_service_error(worker: WorkerContext, received: ReceivedMessage, problem: str) -> Outcome:
    """A service did not answer: the message comes back soon."""
    log.warning("work.unavailable", extra={"run_id": str(received.in_flight.ref), "error": problem})
    return Outcome.kept(received.message, "unavailable", at=worker.clock() + _SOON)


def on_internal_error(worker: WorkerContext, received: ReceivedMessage) -> Outcome:
    """What went wrong is ours: the message comes back later."""
    return Outcome.kept(received.message, "defect", at=worker.clock() + _LATER)
