"""Send the message of a run again that is long past its time. If the first message was not lost, the lease makes this one harmless."""

from __future__ import annotations

import logging

from minutehand.domain.agenda_entry import EntryKind
from minutehand.domain.run import RunRow
from minutehand.domain.schedule import Revision
from minutehand.fires.agenda_entries import due_pages
from minutehand.fires.send import message_of, send
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.overlap import waits_in_turn
from minutehand.worker.admission.freeze import freeze_of

log = logging.getLogger(__name__)


def resend(run: RunRow, services: Services, clock: Clock) -> bool:
    """Whether a lost message was replaced; a run that waits for its turn has no message, and is sent without being counted."""
    if freeze_of(run.ref.tenant, services, clock) is not None:
        return False  # workers keep its message in the queue until the freeze ends
    message = message_of(run, services)
    if message is None or not send([message], services.work, clock)[0] or waits_in_turn(run):
        return False
    log.warning("audit.resent", extra={"run_id": str(run.ref), "state": str(run.state)})
    return True


def is_behind(revision: Revision, upto: int, services: Services) -> bool:
    """Whether the revision's chain has an entry that is due up to an instant (UTC ms), so that the ticker will claim the fires."""
    for page in due_pages(revision.shard, services, upto=upto):
        if any(entry.id == revision.id and entry.kind is EntryKind.CHAIN for entry in page.entries):
            return True
        if any(key.endswith(f"#{EntryKind.CHAIN}#{revision.id}") for key in page.newer):
            return True
    return False
