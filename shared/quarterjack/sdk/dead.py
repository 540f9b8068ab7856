"""SDK methods for dead runs: list, replay, redrive, purge."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from quarterjack.arguments import MAX_DESCRIPTION, checked_limit, checked_rate, checked_text
from quarterjack.concurrency.rate_limits import StopSignal
from quarterjack.domain.history.dead_run import parse_dead_key
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_flag, check_name, one_off_ref
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.domain.times import DAY, from_ms, to_ms
from quarterjack.errors import InvalidInput, shorten
from quarterjack.owner.runs import dead as dead_list
from quarterjack.owner.runs import redrive as redriving
from quarterjack.owner.runs.dead import DeadRunFilter
from quarterjack.owner.runs.redrive import Redriving, replay
from quarterjack.sdk.base import UNSET, SchedulerBase
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.views import Page, Redriven, Run
from quarterjack.values import replace


class DeadRunMethods(SchedulerBase):
    def list_dead(
        self,
        *,
        job: JobRef | None = None,
        schedule: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        error_type: str | None = None,
        include_redriven: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """Runs that failed for good (DEAD, LOST or EXPIRED) from ``since`` to ``until`` (aware; default: the last 24 hours), newest first.

        ``job``, ``schedule`` and ``error_type`` (the exception's class name) filter the runs. Redriven runs are left out unless
        ``include_redriven``. Costs a query for each day of the interval. A page ends after ``limit`` runs, or once it has read about
        150 read units or for about 2 s, so it may hold fewer or none: ``cursor`` goes on, and ``searched_to`` says how far back it has
        looked.
        Raises InvalidInput, Unavailable.
        """
        name = self._checks.named_job(job)
        self._access.check(Verb.READ_RUNS, name)
        conditions = self._filter(
            since,
            until,
            name,
            schedule,
            error_type,
            redriven=check_flag("include_redriven", include_redriven),
        )
        listing = self._listing("list_dead", conditions, since, until)
        position, most = listing.position(cursor), checked_limit(limit)
        page = dead_list.list_dead(
            self.tenant, conditions, self.session.services, limit=most, cursor=position, clock=self.session.clock
        )
        items, reached = [self._access.dead_view(dead) for dead in page.items], page.cursor
        searched = None if reached is None else from_ms(parse_dead_key(reached)[0])
        return Page(items=items, cursor=listing.next(reached), searched_to=searched)

    def replay_run(
        self,
        run_id: str,
        *,
        payload: Any = UNSET,
        tags: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        as_it_was: bool = False,
    ) -> Run:
        """Repeat an ended run as a new one-off with the same job, payload, policies and ``ctx.scheduled_at``, also if its
        schedule has changed or was deleted.

        ``payload`` replaces the original's. The new run gets the application version that new runs get, or with ``as_it_was`` that of
        the original; its tags are ``tags`` and those of the original and its schedule. With an ``idempotency_key`` a second call
        returns the same replay. The new run's ``replay_of`` is the id of the old one. Raises InvalidInput, NotFound, Conflict (it has
        not ended), AlreadyExists (the key has another run), Unavailable.
        """
        self._access.check_some(Verb.REPLAY, what=f"run {shorten(run_id, 300)}")
        key = uuid.uuid4().hex if idempotency_key is None else check_name(idempotency_key, "idempotency_key")
        keeps, labels = check_flag("as_it_was", as_it_was), self._run_tags(tags)
        original = self._access.read_run(run_id, Verb.REPLAY)
        stored = self._replacement(payload, original.job)
        again, check = one_off_ref(self.tenant, key), self._check_replay(payload)
        self._take(RateWord.RUNS)
        return self._access.run_view(
            replay(original, again, self._context, payload=stored, check=check, as_it_was=keeps, tags=labels)
        )

    def redrive(
        self,
        run_id: str | None = None,
        *,
        job: JobRef | None = None,
        schedule: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        error_type: str | None = None,
        payload: Any = UNSET,
        allow_repeat: bool = False,
        as_it_was: bool = False,
        dry_run: bool = False,
        rate: float = 50.0,
        limit: int | None = None,
        cursor: str | None = None,
        stop: StopSignal | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> Redriven:
        """Replay a dead run, or all dead runs that a filter finds (see ``list_dead``). Repeated calls replay each run once.

        At most ``rate`` runs a second and ``limit`` in all; ``stop`` (a ``threading.Event``) ends it early. Then, or after an
        error, call again: redriven runs are not on the list any more, and ``cursor`` skips runs that cannot be redriven. A
        ``dry_run`` writes nothing. ``on_progress`` is called after each run with the number read so far. A LOST run has delivery
        "at_most_once" and may have done its work: it is repeated only with ``allow_repeat=True``. The new runs get the application
        version that new runs get, or with ``as_it_was`` that of their originals; a run that was redriven already keeps the one it got.
        Raises InvalidInput, Unavailable; for a single run NotFound, Conflict (it did not fail for good, or is LOST) and
        AlreadyExists (it was redriven with another payload).
        """
        name = self._checks.named_job(job)
        if run_id is not None:
            self._access.check_some(Verb.REDRIVE, what=f"run {shorten(run_id, 300)}")
        else:
            self._access.check(Verb.REDRIVE, name)
        check_flag("dry_run", dry_run)
        keeps = check_flag("as_it_was", as_it_was)
        filters = (name, schedule, since, until, error_type)
        if run_id is not None:
            _alone(run_id, filters)
            run = self._access.read_run(run_id, Verb.REDRIVE)
            ref, name = run.ref, run.job
        else:
            _require_condition("since", filters)
            conditions = self._filter(since, until, name, schedule, error_type)
            most = None if limit is None else checked_limit(limit, most=1_000_000)
            listing = self._listing("redrive", conditions, since, until)
            position = listing.position(cursor)
        how = Redriving(
            context=self._context,
            dry_run=dry_run,
            allow_repeat=check_flag("allow_repeat", allow_repeat),
            as_it_was=keeps,
            rate=checked_rate(rate, "runs"),
            stop=threading.Event() if stop is None else stop,
            on_progress=on_progress or (lambda handled: None),
            payload=self._replacement(payload, name),
            check=self._check_replay(payload),
            begin=partial(self._take, RateWord.RUNS),
        )
        if run_id is not None:
            return Redriven(runs=[self._access.dead_view(redriving.redrive_one(ref, how))], failed={}, dry_run=dry_run)
        done = redriving.redrive_all(self.tenant, conditions, how, limit=most, cursor=position)
        runs = [self._access.dead_view(dead) for dead in done.runs]
        return Redriven(runs=runs, failed=done.failed, dry_run=dry_run, cursor=listing.next(done.cursor))

    def purge(
        self,
        run_id: str | None = None,
        *,
        job: JobRef | None = None,
        schedule: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        error_type: str | None = None,
        dry_run: bool = False,
        limit: int | None = None,
        stop: StopSignal | None = None,
    ) -> int:
        """Remove a dead run from the list, or all that a filter finds, of any age and also redriven ones. Returns their number.

        The runs stay in the ledger. At most ``limit``, and no further 98 after ``stop`` (a ``threading.Event``) is set;
        the same call goes on.
        Raises InvalidInput, Unavailable (then call again to continue); for a single run NotFound, Conflict (it did not fail for good).
        """
        name = self._checks.named_job(job)
        filters = (name, schedule, since, until, error_type)
        check_flag("dry_run", dry_run)
        if run_id is not None:
            self._access.check_some(Verb.PURGE, what=f"run {shorten(run_id, 300)}")
            _alone(run_id, filters)
            run = self._access.read_run(run_id, Verb.PURGE)
            return dead_list.purge_one(run, self._context, dry_run=dry_run)
        self._access.check(Verb.PURGE, name)
        _require_condition("until", filters)
        conditions = self._filter(since, until, name, schedule, error_type, redriven=True, ever=True)
        return dead_list.purge(
            self.tenant,
            conditions,
            self._context,
            dry_run=dry_run,
            limit=None if limit is None else checked_limit(limit, most=1_000_000),
            stop=threading.Event() if stop is None else stop,
        )

    def _filter(
        self,
        since: datetime | None,
        until: datetime | None,
        job: str | None,
        schedule: str | None,
        error_type: str | None,
        *,
        redriven: bool = False,
        ever: bool = False,
    ) -> DeadRunFilter:
        """The filter, its bounds limited to the index's retention. ``ever``: from the index's beginning."""
        now = self.session.clock()
        oldest, newest = dead_list.oldest(now, self.session.services), now + dead_list.AHEAD
        upto = newest if until is None else to_ms(until, "until")
        earliest = oldest if ever else min(now, upto) - DAY
        after = (earliest if since is None else to_ms(since, "since")) - 1
        if after >= upto:
            remedy = "give a time before until, and not in the future"
            raise InvalidInput("since", since, "leaves an empty interval", remedy)
        return DeadRunFilter(
            after=max(after, oldest),
            upto=min(upto, newest),
            job=job,
            schedule=None if schedule is None else check_name(schedule, "schedule"),
            error_type=None if error_type is None else checked_text("error_type", error_type, MAX_DESCRIPTION),
            redriven=redriven,
        )

    def _listing(self, call: str, conditions: DeadRunFilter, since: datetime | None, until: datetime | None) -> Listing:
        """The listing of a cursor: the conditions, with the bounds as given, because the default ones move with the clock."""
        after, upto = (None if moment is None else to_ms(moment, "since") for moment in (since, until))
        return Listing(call, self.tenant, replace(conditions, after=0, upto=0), after, upto)

    def _check_replay(self, payload: Any) -> Callable[[RunRow], None]:
        """A check of replays that get this payload, or keep their own."""

        def check(run: RunRow) -> None:
            self._checks.may_run(run.job)
            if payload is UNSET:
                self._checks.check_stored(run.job, run.payload, run.payload_ref)
            else:
                self._checked(run.job, payload)

        return check

    def _replacement(self, payload: Any, job: str | None) -> str | None:
        """The new payload; of this job, if all runs are of one."""
        if payload is UNSET:
            return None
        return (self._pending(payload) if job is None else self._checked(job, payload)).text


def _alone(run_id: str, filters: tuple[object, ...]) -> None:
    if any(value is not None for value in filters):
        raise InvalidInput("run_id", run_id, "was given together with a filter", "give one of the two")


def _require_condition(field: str, given: tuple[object, ...]) -> None:
    if all(value is None for value in given):
        remedy = f"say which runs: {field}, job, schedule or error_type"
        raise InvalidInput(field, None, "is missing, and so is every other condition", remedy)
