"""Remove what is left of deleted schedules, a retention after their deletion, unless something still refers to it.

    no run? no open backfill? ──► head: the numbering only ──► revisions, oldest first ──► head: cleared

The head is written first, under its version: from then on who creates a schedule of the name anew goes on with the numbering and reads
no old revision. Who creates it at that moment wins, or reads the head again. Revisions go oldest first: a worker that has one of them
goes through those after it, to find the deletion that took a late run back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.schedule import Head, ScheduleState
from quarterjack.domain.times import DAY, HOUR
from quarterjack.fires.acts import line_of
from quarterjack.fires.context import FireContext
from quarterjack.owner.backfill.advance import backfills_of
from quarterjack.state.backfill import ENDED

log = logging.getLogger(__name__)

MARGIN = DAY  # beyond the retention: the life of a client token, and what clocks may differ
_REVISIONS = 1_000  # of one schedule that one audit removes: 5 s


@dataclass(kw_only=True)
class Retired:
    """What was removed."""

    schedules: int = 0  # of whose heads only the numbering is left
    revisions: int = 0


def retire_all(
    heads: Iterable[Head],
    context: FireContext,
    guarded: Callable[[dict[str, str], Callable[[], None]], None],
    is_over: Callable[[], bool],
) -> Retired:
    """Retire those of the heads that may be. Nothing is begun once it ``is_over``; ``guarded`` keeps a failure from stopping the others."""
    found, now = Retired(), context.clock()
    due = sorted(
        (head for head in heads if _is_due(head, now, context.services.retention)), key=lambda head: head.owner
    )
    # Those that something refers to for years are asked each hour; with little time not the same ones first each hour.
    first = now // HOUR * 7_919 % len(due) if due else 0
    for head in (*due[first:], *due[:first]):
        if is_over():
            break
        guarded({"schedule": head.owner}, partial(_retire, head, context, found))
    return found


def _is_due(head: Head, now: int, retention: int) -> bool:
    if head.clearing:
        return True
    return (
        head.state is ScheduleState.DELETED and head.retired_at is None and head.updated_at < now - retention - MARGIN
    )


def _retire(head: Head, context: FireContext, found: Retired) -> None:
    """Retire one schedule, or go on where an audit stopped. Raises Unavailable."""
    services = context.services
    if not head.clearing:
        if _is_referred_to(head, context):
            return
        after = head.retired(context.clock())
        line = line_of(AuditAct.RETIRE, head.owner, context, before=head, after=after)
        if not services.schedules.close(after, expected=head.version, revision=None, line=line):
            return  # it was created anew meanwhile
        log.info("audit.retired", extra={"tenant": head.tenant, "schedule": head.name})
        found.schedules += 1
        head = after
    removed = services.leftovers.remove_revisions(head.owner, upto=head.revision, most=_REVISIONS)
    found.revisions += removed
    if removed < _REVISIONS:
        cleared = replace(head, clearing=False, version=head.version + 1)
        services.schedules.close(cleared, expected=head.version, revision=None)


def _is_referred_to(head: Head, context: FireContext) -> bool:
    services = context.services
    return services.leftovers.has_runs(head.owner) or any(
        backfill.state not in ENDED for backfill in backfills_of(head.owner, services)
    )
