"""The timer that ends a pause at its time; ``pauses`` says which entry ends which pause."""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.schedule import Head, ScheduleState
from minutehand.errors import ExpressionError
from minutehand.fires.context import FireContext
from minutehand.fires.current import revision_of
from minutehand.fires.plan import end_of
from minutehand.fires.tick_counts import TickCounts
from minutehand.owner.schedules.arm import resume
from minutehand.owner.schedules.pauses import EARLY
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services

log = logging.getLogger(__name__)


class _MootError(Exception):
    """The head has moved: another change was first."""


def end_pause(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """Resume a schedule whose pause ends. True when the entry may go. Raises Unavailable, Conflict."""
    del counts
    services, clock = context.services, context.clock
    tenant, _, name = entry.id.partition("/")
    head = services.schedules.head(tenant, name)
    if head is None or not _means(head, entry):
        return True
    options = revision_of(head, services).definition.options
    early = 0 if options.automatic_backfill else EARLY  # its fires lie in the pause, and must not start in it
    if entry.due > clock() + early:
        return False

    def allow(now: Head | None) -> None:
        if now is None or not _means(now, entry):
            raise _MootError

    try:
        resume(tenant, name, services, clock, early=early, allow=allow)
    except _MootError:
        return True
    except ExpressionError:  # the expression ended during the pause
        return _complete(head, end_of(options), services, clock)
    log.info("schedule.resumed", extra={"tenant": tenant, "schedule": name})
    return True


def _means(head: Head, entry: AgendaEntry) -> bool:
    return head.state is ScheduleState.PAUSED and head.resume_at == entry.due


def _complete(head: Head, state: ScheduleState, services: Services, clock: Clock) -> bool:
    over = replace(head, state=state, resume_at=None, version=head.version + 1, updated_at=clock())
    return services.schedules.close(over, expected=head.version, revision=None)
