"""SDK methods for the audit: who did what, and whether the record of it is whole."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Self

from quarterjack.arguments import MAX_DESCRIPTION, checked_limit, checked_text
from quarterjack.domain.audit import AuditAct, AuditActWord
from quarterjack.domain.names import check_flag, check_name, parse_run_id, word
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.caller import checked_actor_filter
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.domain.times import DAY, STAMP_DIGITS, from_ms, to_ms
from quarterjack.errors import InvalidInput
from quarterjack.sdk import views
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.views import Page

if TYPE_CHECKING:
    from quarterjack.auditor.log_verification import AuditVerdict

SPAN = 30 * DAY  # ms that a listing goes back, unless it is told how far
_INSTANTS = ("start", "end", "since", "until", "expires_at", "due_before")  # in the detail of an entry, UTC ms
_AHEAD = DAY  # ms: entries of a machine whose clock is fast are listed, too


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One act on one object."""

    at: datetime  # UTC
    actor: str  # who: "app:…" as the application says, "iam:<ARN>", or "system:<role>" for what the installation does by itself
    identity: str | None  # the caller's IAM identity, beside an actor that the application says
    via: str  # "sdk", "cli", "apply", "api", "console" or "system"
    act: str  # "create", "pause", "trigger", "cancel" …
    target: str  # what was changed: "tenant/name" of a schedule, a run's id, "tenant/name#backfill/id", or the tenant
    schedule: str | None  # name of the schedule that it is about
    before: (
        int | None
    )  # number of the schedule's revision before the act; None if it made the schedule or did not change it
    after: int | None  # number of the revision after the act
    reason: str | None  # as given, such as that of a pause
    call: str  # id of the call: the acts of a bulk call share it
    # What else tells the act: the replay of a redriven run, the runs of a purge …; instants as ISO 8601.
    detail: Mapping[str, Any]
    id: str  # of the entry


class AuditMethods(SchedulerBase):
    def audit(
        self,
        *,
        schedule: str | None = None,
        actor: str | None = None,
        act: AuditActWord | None = None,
        run_id: str | None = None,
        call: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        installation: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """Who did what from ``since`` to ``until`` (aware; default: the last 30 days), newest first: a page of ``AuditEntry``.

        ``actor`` is a name as the application gives it ("alice@acme"), or as an entry shows it. ``call`` is the id of a call whose
        acts are wanted. ``installation``: acts on the profile of the installation, instead of this tenant's. A query for each day of
        the interval. A page ends after ``limit`` entries, or once it has read about 150 read units or for about 2 s, so it may hold fewer
        or none: ``cursor`` goes on, and ``searched_to`` says how far back it has looked.
        Raises InvalidInput, Unavailable.
        """
        if check_flag("installation", installation):
            return self._of_installation().audit(
                schedule=schedule,
                actor=actor,
                act=act,
                run_id=run_id,
                call=call,
                since=since,
                until=until,
                limit=limit,
                cursor=cursor,
            )
        self._access.check(Verb.READ_AUDIT)
        now = self.session.clock()
        end = now + _AHEAD if until is None else to_ms(until, "until")
        start = min(now, end) - SPAN if since is None else to_ms(since, "since")
        if not 0 <= start <= end:
            field, value = ("until", until) if since is None else ("since", since)
            remedy = "give since before until, and both from 1970 on"
            raise InvalidInput(field, value, "leaves an empty interval", remedy)
        from quarterjack.owner.audit import AuditFilter, list_entries  # noqa: PLC0415 (as below)

        wanted = AuditFilter(
            since=start,
            until=end,
            schedule=None if schedule is None else check_name(schedule, "schedule"),
            actor=None if actor is None else checked_actor_filter(actor),
            act=None if act is None else word(AuditAct, "act", act),
            run=None if run_id is None else str(parse_run_id(run_id)),
            call=None if call is None else checked_text("call", call, MAX_DESCRIPTION),
        )
        listing = Listing("audit", self.tenant, schedule, actor, act, run_id, call, since, until)
        most, position = checked_limit(limit), listing.position(cursor)
        page = list_entries(
            self.tenant, wanted, self.session.services, limit=most, cursor=position, clock=self.session.clock
        )
        items = [
            views.view_of(AuditEntry, entry, act=str(entry.act), via=str(entry.via), detail=_told(entry.detail))
            for entry in page.items
        ]
        searched = None if page.cursor is None else from_ms(int(page.cursor[:STAMP_DIGITS]))
        return Page(items=items, cursor=listing.next(page.cursor), searched_to=searched)

    def verify_audit(
        self,
        *,
        day: date | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        installation: bool = False,
        limit: int | None = None,
    ) -> AuditVerdict:
        """Whether the audit is as it was written: of one UTC ``day``, or from ``since`` to ``until`` (aware; default: the last 30 days).

        Finds entries that were changed, removed or added since their day was closed, days without a close, and closes that were
        changed or removed; with the archive's bucket also those that were replaced together. An open day has no close yet: of its
        entries only a change is found. Reads all entries of the interval and all closes. ``installation``: that of the installation's
        profile, instead of this tenant's. ``limit``: most entries (1 to 1,000), the newest days first and each whole; ``rest`` is then
        the day to go on with, and ``too_long`` one that has more entries than that. Raises InvalidInput, Unavailable.
        """
        if check_flag("installation", installation):
            return self._of_installation().verify_audit(day=day, since=since, until=until, limit=limit)
        self._access.check(Verb.READ_AUDIT)
        now, most = self.session.clock(), None if limit is None else checked_limit(limit)
        if day is not None:
            if since is not None or until is not None:
                raise InvalidInput("day", day, "was given together with an interval", "give one of the two")
            if not isinstance(day, date) or isinstance(day, datetime):
                raise InvalidInput("day", day, "is not a date", "pass a datetime.date, in UTC")
            first = last = (day - date(1970, 1, 1)).days
        else:
            end = now if until is None else to_ms(until, "until")
            start = end - SPAN if since is None else to_ms(since, "since")
            first, last = start // DAY, min(end, now) // DAY
        if not 0 <= first <= last:
            field, value = ("day", day) if day is not None else ("until", until) if since is None else ("since", since)
            remedy = "give since before until, from 1970 on and not in the future"
            raise InvalidInput(field, value, "leaves nothing to verify", remedy)
        from quarterjack.auditor.log_verification import verify  # noqa: PLC0415 (`import quarterjack` need not take its time)

        return verify(self.tenant, first, last, self.session.services, now=now, limit=most)

    def _of_installation(self) -> Self:
        """A copy for the audit of the installation's profile, which is no tenant."""
        other = copy(self)
        other.tenant = INSTALLATION
        return other


def _told(detail: Mapping[str, Any]) -> dict[str, Any]:
    """The detail of an entry with its instants as ISO 8601, in UTC."""
    found = dict[str, Any]()
    for name, value in detail.items():
        if isinstance(value, Mapping):
            found[name] = _told(value)
        else:
            found[name] = from_ms(value).isoformat() if name in _INSTANTS and isinstance(value, int) else value
    return found
