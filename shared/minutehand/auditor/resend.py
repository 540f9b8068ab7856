"""Resend: a run long past its time, whose message must have been lost, is ordered again. The lease absorbs it if it was not."""

from __future__ import annotations

import logging

from minutehand.domain.agenda_entry import EntryKind
from minutehand.domain.run import RunRow
from minutehand.domain.schedule import Revision
from minutehand.fires.send import message_of, send
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.overlap import waits_in_turn
from minutehand.worker.admission.freeze import freeze_of

log = logging.getLogger(__name__)

_PAGE = 500  # entries of one query


def resend(run: RunRow, services: Services, clock: Clock) -> bool:
    """Whether it was sent and should not have had to be: one that waits for others of its schedule is sent for to make sure."""
    if freeze_of(run.ref.tenant, services, clock) is not None:
        return False  # its message goes round until the freeze ends: another would as well
    message = message_of(run, services)
    if message is None or not send([message], services.work, clock)[0] or waits_in_turn(run):
        return False
    log.warning("audit.resent", extra={"run_id": str(run.ref), "state": str(run.state)})
    return True


def not_come_to(revision: Revision, upto: int, services: Services) -> int | None:
    """From which instant (UTC ms) on its chain has not come to its fires, if that is not later than ``upto``."""
    after = None
    while True:
        page = services.agenda.due(revision.shard, upto=upto, after=after, limit=_PAGE)
        for entry in page.entries:
            if entry.id == revision.id and entry.kind is EntryKind.CHAIN:
                return entry.due
        if any(key.endswith(f"#{EntryKind.CHAIN}#{revision.id}") for key in page.newer):
            return 0
        after = page.last
        if after is None:
            return None
