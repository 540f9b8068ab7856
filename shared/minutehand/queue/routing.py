"""Routing: every message goes to the queue that it names.

A queue that is named but not there (taken out of the code while schedules still name it) takes nothing: its messages count as not
accepted, so their runs wait where they are, in the agenda or in the ledger, until it is declared again or they are cancelled. They are
not sent elsewhere: a queue is a promise about memory and concurrency, which no other queue keeps. The others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from minutehand.flow.ports import Parcel

log = logging.getLogger(__name__)


def by_queue(parcels: Sequence[Parcel]) -> dict[str | None, list[int]]:
    """The places of the parcels for each queue; None is the default one."""
    places: dict[str | None, list[int]] = {}
    for place, parcel in enumerate(parcels):
        places.setdefault(parcel.message.queue, []).append(place)
    return places


def note_refusal(queue: str, messages: int, problem: object) -> None:
    """A declared queue took nothing: it is not there, or this process may not send to it."""
    log.error("queue.refused", extra={"queue": queue, "messages": messages, "error": str(problem)})
