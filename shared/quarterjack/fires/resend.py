"""Send the messages of runs again: for the auditor, one by one, and for an operator who has lost a queue.

Sending is always safe. A message only asks a worker to check the run: the row and its lease decide, so a second message of a run finds
it leased or ended and goes. A message that is not accepted leaves its run as it was. A run in the wait queue of a concurrency cap
gets no message: the ticker is told to read the wait queue, and sends when a permit is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quarterjack.domain.message import Message
from quarterjack.domain.run import RunRow
from quarterjack.fires.claim import send
from quarterjack.fires.context import next_look
from quarterjack.fires.flow.wait_queue import has_entry, put_queue_timer, wait_queue_of
from quarterjack.ports.services import Clock, Services
from quarterjack.state.tenants.caps import ConcurrencyCap

Waits = Callable[[ConcurrencyCap, RunRow, Services], bool]


@dataclass(frozen=True, kw_only=True)
class SentAgain:
    """What became of some runs."""

    sent: Sequence[Message] = ()  # accepted by their queues, or would be sent
    refused: Sequence[Message] = ()  # not accepted
    queued: int = 0  # runs that wait in the wait queue of a cap


def send_again(
    runs: Sequence[tuple[RunRow, Message]],
    services: Services,
    clock: Clock,
    *,
    waits: Waits = has_entry,
    dry_run: bool = False,
) -> SentAgain:
    """Send the messages of runs, but for those in the wait queue of a cap, as ``waits`` tells it. ``dry_run``: write and send nothing.

    Raises Unavailable, and Misconfigured if the default queue does not exist or refuses the caller.
    """
    found = [(message, wait_queue_of(run, services, clock, waits=waits)) for run, message in runs]
    going = [message for message, queue in found if queue is None]
    queues = {queue.id: queue for _, queue in found if queue is not None}
    if dry_run:
        return SentAgain(sent=going, queued=len(found) - len(going))
    for queue in queues.values():
        put_queue_timer(queue, services, next_look(clock()), clock())
    accepted = send(going, services.work, clock)
    answers = list(zip(going, accepted, strict=True))
    return SentAgain(
        sent=[message for message, is_accepted in answers if is_accepted],
        refused=[message for message, is_accepted in answers if not is_accepted],
        queued=len(found) - len(going),
    )
