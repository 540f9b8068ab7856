"""Repairs of an audit: send a run again, remove entries beyond the end of their revision, move chains to their shard."""

from __future__ import annotations

import logging
from contextlib import suppress

from quarterjack.domain.run import WAITING, EntryKind, RunRow, RunState
from quarterjack.domain.schedule import Revision
from quarterjack.domain.tenants.agenda_layout import AgendaLayout
from quarterjack.domain.times import MINUTE
from quarterjack.fires.breakers import read_breakers
from quarterjack.fires.chain import revision_key
from quarterjack.fires.claim import message_of
from quarterjack.fires.context import FireContext, due_pages
from quarterjack.fires.flow.wait_queue import is_queued
from quarterjack.fires.resend import send_again
from quarterjack.fires.withdraw import withdraw_beyond
from quarterjack.owner.freeze import read_freeze
from quarterjack.ports.services import Clock, Services
from quarterjack.state.overlap import waits_in_turn

log = logging.getLogger(__name__)

_MOST_MOVED = 1_000  # chains of a shard in one audit: each is a transaction; the next audit moves more
GRACE = 5 * MINUTE  # how long past its time a run may wait before it is sent again


def is_stuck(run: RunRow, now: int) -> bool:
    """Whether a run is waiting or running long past its time, so that its message must have been lost."""
    if run.state in WAITING:
        return run.not_before < now - GRACE
    return run.state is RunState.RUNNING and (run.lease_until or 0) < now - GRACE


def resend(run: RunRow, services: Services, clock: Clock) -> bool:
    """Whether a lost message was replaced; a run that waits for its turn has no message, and is sent without being counted."""
    if read_freeze(run.ref.tenant, services, clock) is not None:
        return False  # workers keep its message in the queue until the freeze ends
    governance = services.tenants.governance(run.ref.tenant, clock())
    if not governance.profile.accepts:
        return False  # likewise, until the tenant is resumed
    if governance.limits.breaker_percent is not None and run.state in WAITING:
        breakers, _ = read_breakers(run.ref.tenant, services)
        if breakers.over(run.job):
            return False  # likewise, until there is a probe
    message = message_of(run, services)
    if message is None or not send_again([(run, message)], services, clock, waits=is_queued).sent:
        return False
    if waits_in_turn(run):
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


def tidy(shard: int, layout: AgendaLayout, context: FireContext) -> tuple[int, int]:
    """Remove the entries of a shard that lie beyond the end of their revision, and move chains that belong into another shard.

    How many of each: chains move when their tenant gets shards of its own, or the agenda more. Raises Unavailable.
    """
    services, removed, moved = context.services, 0, 0
    for page in due_pages(shard, services):
        keyed = []
        for entry in page.entries:
            if entry.kind is EntryKind.CHAIN:
                with suppress(ValueError):  # a malformed id, which the ticker counts and moves aside
                    keyed.append((entry, revision_key(entry)))
        found = services.schedules.revisions({key for _, key in keyed}).found if keyed else {}
        unneeded = []
        for entry, key in keyed:
            revision = found.get(key)
            if revision is not None and revision.active_until is not None and entry.due > revision.active_until:
                withdraw_beyond(revision, context)
                log.info("audit.tidied", extra={"entry": entry.key})
                unneeded.append(entry)
            elif revision is not None and moved < _MOST_MOVED and (home := layout.shard_of(revision.owner)) != shard:
                moved += services.schedules.move(revision, entry, home)
        removed += len(services.agenda.remove(unneeded)) if unneeded else 0
    return removed, moved
