"""The SDK's reads of schedules: get, list, describe, preview."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice, pairwise
from typing import Any

from minutehand.arguments import checked_limit
from minutehand.domain.names import check_name
from minutehand.domain.schedule import Definition, Head, Revision, ScheduleState
from minutehand.domain.times import from_ms
from minutehand.fires.current import revision_of
from minutehand.owner.schedules import chain_health as chain
from minutehand.owner.schedules.chain_health import ChainHealth
from minutehand.sdk import views
from minutehand.sdk.base import SchedulerBase
from minutehand.sdk.filters import CHUNK, TagFilter, checked_cursor, checked_filter, walk
from minutehand.sdk.views import ChainView, DefinitionView, Page, RevisionView, Schedule, ScheduleDescription
from minutehand.timing import fires, timetable, zone

LOOKED_AT = 2_000  # heads that one call of list_schedules reads at the most: about 1 MB
MOST_FIRES = 1_000  # that preview shows
_UPCOMING = 5  # next fires that get_schedule shows
_DESCRIBED = 10  # next fires and last runs that describe_schedule shows
_REVISIONS = 20  # of a description
_READ = 25  # heads that are read at once at least: many deleted ones in a row must not cost a query each
_AGES = 10**13  # ms: as far as fires are looked for
_REMEDIES = {
    ChainHealth.MISSING: "no further fire would be claimed: `minutehand audit` puts the entry back, as the auditor does every hour",
    ChainHealth.QUARANTINED: "handling its entry failed ten times: see the ticker's log, then update, or pause and resume it",
    ChainHealth.UNKNOWN: "too many entries are due before it to look through: the ticker is behind, see `minutehand doctor`",
}


class ReadMethods(SchedulerBase):
    """Read methods for the schedules of one tenant."""

    def get_schedule(self, name: str) -> Schedule:
        """A schedule with its payload, last fire and next fires. Raises NotFound."""
        head = self._head(name)
        return self._view(head, revision_of(head, self._services))

    def _view(self, head: Head, revision: Revision) -> Schedule:
        return views.schedule_view(
            head,
            revision,
            payload=self._payload_of(revision.definition),
            last_fired=self._last_fired(head),
            upcoming=self._upcoming(head, revision, _UPCOMING),
        )

    def _head(self, name: str) -> Head:
        head = self._services.schedules.head(self.tenant, check_name(name))
        if head is None or head.state is ScheduleState.DELETED:
            raise self._no_schedule(name)
        return head

    def _last_fired(self, head: Head) -> int | None:
        runs = self._services.ledger.latest(head.owner, upto=self._clock())
        return next((run.due for run in runs if run.started_at is not None), None)

    def _upcoming(self, head: Head, revision: Revision, count: int) -> list[int]:
        if revision.active_until is not None or head.state in (ScheduleState.PAUSED, ScheduleState.DELETED):
            return []
        table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
        now = max(self._clock(), revision.active_from)
        return list(islice(fires(table, now, now + _AGES), count))

    def preview(self, name: str, count: int = 10) -> Sequence[datetime]:
        """The next ``count`` (1 to 1000) fires of a schedule, in its zone; none unless it is ACTIVE. Raises InvalidInput, NotFound."""
        head = self._head(name)
        upcoming = self._upcoming(head, revision_of(head, self._services), checked_limit(count, MOST_FIRES, "count"))
        return [from_ms(fire, zone(head.timezone)) for fire in upcoming]

    def list_schedules(
        self,
        *,
        prefix: str = "",
        state: str | None = None,
        job: str | None = None,
        tag: TagFilter | None = None,
        failing: bool | None = None,
        managed_by: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """Schedules that meet all conditions, sorted by name; deleted schedules only with ``state="DELETED"``.

        ``tag`` is ``("key", "value")``, or ``"key"`` for any value; ``failing``: whether an incident is open;
        ``managed_by``: the package or file that declares it.
        Only the prefix limits which schedules are read (about half a KB each); the other conditions filter the schedules read.
        One call reads at most 2,000, so a page may be short, even empty, and still have a ``cursor``: only None is the end.
        Raises InvalidInput, Unavailable.
        """
        conditions = checked_filter(
            prefix=prefix, state=state, job=job, tag=tag, failing=failing, managed_by=managed_by
        )
        position = checked_cursor(cursor, conditions)
        chunk = max(checked_limit(limit), CHUNK if conditions.is_rare else _READ)
        heads: list[Head] = []
        for calls, part in enumerate(walk(self.tenant, conditions, self._services, cursor=position, chunk=chunk), 1):
            heads += part.heads
            if len(heads) > limit:
                return _page(heads[:limit], heads[limit - 1].name)
            if len(heads) == limit or calls * chunk >= LOOKED_AT:
                return _page(heads, part.cursor)
        return _page(heads, None)

    def describe_schedule(self, name: str) -> ScheduleDescription:
        """A schedule with its definition, history, next fires, last runs, and the health of its chain.

        The history says what changed and when, not who changed it. Costs about five reads. Raises InvalidInput, NotFound, Unavailable.
        """
        head = self._head(name)
        revision = revision_of(head, self._services)
        now, local = self._clock(), zone(head.timezone)
        schedule = self._view(head, revision)
        definition = revision.definition
        history = list(islice(self._services.schedules.history(head.owner), _REVISIONS + 1))
        found = chain.check_chain(head, revision, self._services, self._clock)
        return ScheduleDescription(
            schedule=schedule,
            definition=DefinitionView(
                job=definition.job,
                rule=definition.rule,
                payload=schedule.payload,
                policies=definition.overrides.as_dict(),
                options=definition.options.as_dict(),
            ),
            revisions=_revisions(history),
            next_fires=[from_ms(fire, local) for fire in self._upcoming(head, revision, _DESCRIBED)],
            last_runs=[
                views.run_view(run) for run in islice(self._services.ledger.latest(head.owner, upto=now), _DESCRIBED)
            ],
            chain=ChainView(
                state=str(found.health),
                due=None if found.due is None else from_ms(found.due),
                remedy=_REMEDIES.get(found.health),
            ),
        )


def _page(heads: Sequence[Head], cursor: str | None) -> Page:
    return Page(items=[views.schedule_view(head) for head in heads], cursor=cursor)


def _revisions(history: Sequence[Revision]) -> list[RevisionView]:
    """Revisions, newest first, each with the fields that differ from its predecessor."""
    pairs = [*pairwise(history), *((one, None) for one in history[-1:])]
    return [
        views.view_of(
            RevisionView,
            one,
            **views.times_of(one, "active_from", "active_until"),
            closed_by=None if one.closed_by is None else str(one.closed_by),
            changed=[] if before is None else _changed(before.definition, one.definition),
        )
        for one, before in pairs[:_REVISIONS]
    ]


def _changed(before: Definition, after: Definition) -> list[str]:
    """Names of the fields that differ, as create_schedule and Rule call them."""
    old, new = _flat(before), _flat(after)
    return [name for name in dict.fromkeys((*new, *old)) if old.get(name) != new.get(name)]


def _flat(definition: Definition) -> dict[str, Any]:
    derived = ("seed", "last")
    rule = {name: value for name, value in definition.rule.as_dict().items() if name not in derived}
    text = definition.payload_ref or definition.payload
    return {
        "job": definition.job,
        **rule,
        "payload": text,
        **definition.overrides.as_dict(),
        **definition.options.as_dict(),
    }
