"""The auditor's repairs: send a run's message again, and remove chain entries that no revision needs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from minutehand.domain.run import AgendaEntry, EntryKind, RunRow
from minutehand.domain.schedule import Revision
from minutehand.fires.chain import revision_key
from minutehand.fires.claim import message_of, send
from minutehand.fires.context import due_pages
from minutehand.fires.withdraw import withdraw_beyond
from minutehand.ports.clock import Clock
from minutehand.ports.schedules import RevisionKey
from minutehand.ports.services import Services
from minutehand.state.overlap import waits_in_turn
from minutehand.worker.admission.admit import freeze_of

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


def tidy(shard: int, services: Services, clock: Clock) -> int:
    """Remove the entries of a shard that lie beyond the end of their revision; how many. Raises Unavailable."""
    removed = 0
    for page in due_pages(shard, services):
        moot = _moot([entry for entry in page.entries if entry.kind is EntryKind.CHAIN], services)
        for entry, revision in moot:
            withdraw_beyond(revision, services, clock)
            log.info("audit.tidied", extra={"entry": entry.key})
        removed += len(services.agenda.remove([entry for entry, _ in moot])) if moot else 0
    return removed


def _moot(entries: Sequence[AgendaEntry], services: Services) -> list[tuple[AgendaEntry, Revision]]:
    keyed = [(entry, key) for entry in entries if (key := _revision_of(entry)) is not None]
    found = services.schedules.revisions({key for _, key in keyed}).found if keyed else {}
    known = [(entry, found[key]) for entry, key in keyed if key in found]
    return [
        (e, revision) for e, revision in known if revision.active_until is not None and e.due > revision.active_until
    ]


def _revision_of(entry: AgendaEntry) -> RevisionKey | None:
    """The revision that an entry is about; None for a malformed id, which the ticker counts and moves aside."""
    try:
        return revision_key(entry)
    except ValueError:
        return None
