"""Send the messages of runs again: for the auditor, one by one, and for an operator who has lost a queue.

Sending is always safe. A message only asks a worker to look at the run: the row and its lease decide, so a second message of a run finds
it leased or ended and goes. A message that is not accepted leaves its run as it was. A run that waits in the line of a concurrency cap
gets no message: the ticker is told to read the line, and sends when a slot is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quarterjack.domain.message import Message
from quarterjack.domain.run import RunRow
from quarterjack.fires.claim import send
from quarterjack.fires.context import next_look
from quarterjack.fires.lines import has_entry, line_of, look_after_line
from quarterjack.ports.services import Clock, Services
from quarterjack.state.tenants.slots import ConcurrencyCap

Waits = Callable[[ConcurrencyCap, RunRow, Services], bool]


@dataclass(frozen=True, kw_only=True)
class SentAgain:
    """What became of some runs."""

    sent: Sequence[Message] = ()  # accepted by their queues, or would be sent
    refused: Sequence[Message] = ()  # not accepted
    in_line: int = 0  # runs that wait in the line of a cap


def send_again(
    runs: Sequence[tuple[RunRow, Message]],
    services: Services,
    clock: Clock,
    *,
    waits: Waits = has_entry,
    dry_run: bool = False,
) -> SentAgain:
    """Send the messages of runs, but for those that wait in the line of a cap, as ``waits`` tells it. ``dry_run``: write and send nothing.

    Raises Unavailable, and Misconfigured if the default queue does not exist or refuses the caller.
    """
    found = [(message, line_of(run, services, clock, waits=waits)) for run, message in runs]
    going = [message for message, line in found if line is None]
    lines = {line.id: line for _, line in found if line is not None}
    if dry_run:
        return SentAgain(sent=going, in_line=len(found) - len(going))
    for line in lines.values():
        look_after_line(line, services, next_look(clock()), clock())
    accepted = send(going, services.work, clock)
    answers = list(zip(going, accepted, strict=True))
    return SentAgain(
        sent=[message for message, is_accepted in answers if is_accepted],
        refused=[message for message, is_accepted in answers if not is_accepted],
        in_line=len(found) - len(going),
    )
