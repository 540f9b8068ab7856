"""The SDK's list of runs: of one schedule from the ledger, of all schedules and one-offs from the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from quarterjack.arguments import MAX_DESCRIPTION, checked_limit, checked_text
from quarterjack.domain.history.entry import RunKind, RunKindWord
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_flag, check_name, schedule_owner, word
from quarterjack.domain.run import FAILED, RunRow, RunState, RunStateWord
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import DAY, from_ms, to_ms
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.history.workers import InstallationMethods
from quarterjack.sdk.schedules.filters import TagFilter, checked_tag
from quarterjack.sdk.views import Page, Run

if TYPE_CHECKING:
    from quarterjack.state.history.search import Search

MOST_STRIPS = 100  # schedules of last_runs, and runs of each
_FAR = 200 * 365 * DAY  # ms ahead: no run is due later
_Word = TypeVar("_Word", RunState, RunKind)


class FindMethods(InstallationMethods):
    def list_runs(
        self,
        name: str | None = None,
        *,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
        newest_first: bool = False,
        upcoming: bool = True,
        state: RunStateWord | Sequence[RunStateWord] | None = None,
        failed: bool = False,
        job: JobRef | None = None,
        prefix: str | None = None,
        tag: TagFilter | None = None,
        error_type: str | None = None,
        kind: RunKindWord | Sequence[RunKindWord] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        all_tenants: bool = False,
    ) -> Page:
        """Runs of a schedule, or of all schedules and one-offs.

        With ``name`` alone: the runs of this schedule with fires in ``(after, before]``, sorted by time, from the ledger; also of
        a deleted schedule. With ``upcoming=False`` runs that are not due yet are left out; ``before`` may then be None on every page.

        Without ``name``, or with any of the following filters: the history. First the runs that have not ended, by the time they are
        due, then ended ones by their end, each newest first. Waiting fires are listed with ``name`` only, those due over a day ago after
        all others. ``state`` (one or several), ``failed`` (DEAD, LOST, EXPIRED), ``job``, ``prefix`` of the schedule's name, ``tag``
        of the run or its schedule (("key", "value"), or "key"), ``error_type`` (the exception's class) and ``kind`` (fire, one-off,
        trigger, backfill, replay) filter them. ``since`` and ``until`` bound the end of ended runs, and the time that others are due
        (of a backfill's: when it was claimed), so that with ``until`` a run that waits for later is left
        out. ``newest_first``, ``upcoming``, ``after`` and ``before`` are for ``name`` alone.
        Payloads, results, error texts, actors, workers and their times are in ``get_run``. A page ends after ``limit`` runs, 250 read
        units or 0.3 s, whichever is first, so it may hold fewer or none: ``cursor`` goes on, and ``searched_to`` says how far back it has
        looked. The history is some seconds behind. Without ``name``, ``state="RUNNING"`` asks the workers, as ``list_running`` does: a
        fire that began within the last 8 s may be missing. ``all_tenants`` lists one tenant after the other, of the 24 hours before
        ``until`` unless ``since`` is given; RUNNING is then for itself, with ``job``, ``prefix``, ``error_type`` and ``kind`` at the most.

        Raises InvalidInput, NotFound (no schedule ever had this name), Misconfigured (the history is switched off), Unavailable.
        """
        owner = None if name is None else schedule_owner(self.tenant, check_name(name))
        start = None if after is None else to_ms(after, "after")
        end = None if before is None else to_ms(before, "before")
        order = check_flag("newest_first", newest_first), check_flag("upcoming", upcoming)
        job = self._checks.named_job(job)
        every = check_flag("all_tenants", all_tenants)
        if name is not None:
            self._access.check_schedule(Verb.READ_RUNS, name)
        elif not every:
            self._access.check(Verb.READ_RUNS, job)
        if every:
            self._access.check_all_tenants(Verb.READ_RUNS)
        filters = (state, job, prefix, tag, error_type, kind, since, until)
        if owner is not None and not every and not check_flag("failed", failed) and all(one is None for one in filters):
            return self._of_schedule(owner, start, end, order, limit, cursor)
        _for_one_schedule(
            after=after, before=before, newest_first=newest_first or None, upcoming=None if upcoming else False
        )
        from quarterjack.state.history.search import Search  # noqa: PLC0415 (`import quarterjack` need not take its time)

        search = Search(
            states=_states(state, failed=check_flag("failed", failed)),
            job=job,
            schedule=name,
            prefix=None if prefix is None else check_name(prefix, "prefix"),
            tag=None if tag is None else checked_tag(tag),
            error_type=None if error_type is None else _error_type(error_type),
            kinds=_words(RunKind, "kind", kind),
        )
        if name is None and search.states is not None and RunState.RUNNING in search.states:
            of = None if every else self.tenant
            if len(search.states) == 1 and (tag, since, until) == (None, None, None):
                return self._running(
                    Listing("list_runs", of, search), of, limit, cursor, partial(search.wants_run, tags={})
                )
            if every:
                remedy = "leave out tag, since, until and the other states, or list one tenant"
                raise InvalidInput("state", state, "of all tenants has to stand for itself", remedy)
        page = self._found(search, since, until, limit, cursor, all_tenants=every)
        if name is not None and not every and cursor is None and not page.items:
            self._check_known(name)
        return page

    def last_runs(self, names: Sequence[str], count: int = 30) -> Mapping[str, Sequence[Run]]:
        """The last ``count`` runs (1 to 100) of each of at most 100 schedules, by name, newest first: to look at, not to act on.

        A query for each schedule, all at the same time, with eventual consistency, so that a change within the last second may be
        missing. A schedule without runs, or without a right to read them, has none. Raises InvalidInput, Unavailable.
        """
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise InvalidInput("names", names, "is not a list of names", 'give a list, e.g. ["nightly"]')
        owners = {schedule_owner(self.tenant, check_name(name)): name for name in names}
        if len(owners) > MOST_STRIPS:
            raise InvalidInput("names", len(owners), f"are more than {MOST_STRIPS}", "ask for some at a time")
        self._access.check_some(Verb.READ_RUNS)
        now, most = self.session.clock(), checked_limit(count, MOST_STRIPS, "count")
        found = self.session.services.ledger.last_runs(list(owners), upto=now, limit=most)
        return {
            owners[owner]: [
                self._access.run_view(run, now=now) for run in self._access.visible_of_all(runs, Verb.READ_RUNS)
            ]
            for owner, runs in found.items()
        }

    def _check_known(self, name: str) -> None:
        """Raises NotFound if no schedule ever had this name."""
        if self.session.services.schedules.head(self.tenant, name) is not None:
            return
        owner = schedule_owner(self.tenant, name)
        if not self.session.services.ledger.page(
            owner, after=None, upto=None, limit=1, cursor=None, newest_first=True
        ).items:
            raise self._access.no_schedule(name)

    def _of_schedule(
        self, owner: str, start: int | None, end: int | None, order: tuple[bool, bool], limit: int, cursor: str | None
    ) -> Page:
        newest_first, upcoming = order
        listing = Listing("list_runs", owner, start, end, *order)
        page = self.session.services.ledger.page(
            owner,
            after=start,
            upto=end if upcoming else min(one for one in (self.session.clock(), end) if one is not None),
            limit=checked_limit(limit),
            cursor=listing.position(cursor),
            newest_first=newest_first,
        )
        name = owner.partition("/")[2]
        if not page.items and self.session.services.schedules.head(self.tenant, name) is None:
            raise self._access.no_schedule(name)
        now = self.session.clock()
        return Page(
            items=[
                self._access.run_view(run, now=now) for run in self._access.visible_of_all(page.items, Verb.READ_RUNS)
            ],
            cursor=listing.next(page.cursor),
        )

    def _found(
        self,
        search: Search,
        since: datetime | None,
        until: datetime | None,
        limit: int,
        cursor: str | None,
        *,
        all_tenants: bool,
    ) -> Page:
        if not self._has_history:
            raise Misconfigured(
                "QUARTERJACK_HISTORY=off: only runs of one schedule are listed, by its name and without filters"
            )
        now = self.session.clock()
        upto = now + _FAR if until is None else to_ms(until, "until")
        earliest = min(now, upto) - DAY if all_tenants else -1
        after = earliest if since is None else to_ms(since, "since") - 1
        if after >= upto:
            raise InvalidInput("since", since, "leaves an empty interval", "give a time before until")
        tenant = None if all_tenants else self.tenant
        bounds = (None if since is None else after, None if until is None else upto)
        listing = Listing("list_runs", tenant, search, *bounds)
        from quarterjack.history.find import Finder, FindSpec  # noqa: PLC0415 (as above)
        from quarterjack.history.read import PageBudget  # noqa: PLC0415 (as above)
        from quarterjack.stores.history.pages import ReadMeter  # noqa: PLC0415 (as above)

        spec = FindSpec(search=search, after=after, upto=upto, limit=checked_limit(limit))
        position, meter = listing.position(cursor), ReadMeter()
        budget = PageBudget(meter, self.session.clock)
        finder = Finder(self.session.services, spec, meter=meter, budget=budget, running=self._at_hand, now=now)
        found = finder.of_all(position) if tenant is None else finder.of_tenant(tenant, position)
        return Page(
            items=[self._access.run_view(run, now=now, kind=kind) for run, kind in found.runs if self._may_read(run)],
            cursor=listing.next(found.cursor),
            searched_to=None if found.searched is None or found.searched < 0 else from_ms(found.searched),
        )

    def _may_read(self, run: RunRow) -> bool:
        return self._access.may(Verb.READ_RUNS, run.job, run.ref.tenant)

    def _at_hand(self, tenant: str, limit: int, after: str | None) -> tuple[Sequence[RunRow], str | None]:
        from quarterjack.owner.workers import running_runs  # noqa: PLC0415 (as above)

        found = running_runs(tenant, self.session.services, self.session.clock(), limit=limit, after=after)
        return found.runs, found.cursor


def _for_one_schedule(**given: object) -> None:
    """Raises InvalidInput for the first argument that the history does not know."""
    for field, value in given.items():
        if value is not None:
            remedy = "use since and until, or pass a schedule's name and no filter"
            raise InvalidInput(field, value, "is for the fires of one schedule", remedy)


def _error_type(value: object) -> str:
    text = checked_text("error_type", value, MAX_DESCRIPTION)
    if not text:
        raise InvalidInput(
            "error_type", text, "is empty", "name an exception's class, e.g. ValueError, or leave it out"
        )
    return text


def _states(state: object, *, failed: bool) -> frozenset[RunState] | None:
    if not failed:
        return _words(RunState, "state", state)
    if state is not None:
        raise InvalidInput("failed", failed, "was given together with state", "give one of the two")
    return FAILED


def _words(kind: type[_Word], field: str, given: Any) -> frozenset[_Word] | None:
    if given is None:
        return None
    several = given if isinstance(given, (list, tuple, set, frozenset)) else (given,)
    if not several:
        raise InvalidInput(field, given, "is empty", f"name at least one of {', '.join(kind)}, or leave it out")
    return frozenset(word(kind, field, one) for one in several)
