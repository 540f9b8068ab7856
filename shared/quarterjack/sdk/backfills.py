"""SDK methods for backfills: start, list, pause, resume and cancel them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from quarterjack.arguments import checked_limit, payload_text
from quarterjack.domain.names import check_flag, check_name, schedule_owner, word
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.domain.times import stamp, to_ms
from quarterjack.errors import InvalidInput
from quarterjack.owner.backfill import control, records
from quarterjack.owner.backfill.advance import BackfillMover
from quarterjack.owner.backfill.plan import BackfillSpec, count_existing, plan, why_nothing
from quarterjack.owner.backfill.records import BackfillLine, backfills_of, read_backfill
from quarterjack.owner.schedules.client_tokens import ScheduleCall
from quarterjack.sdk import views
from quarterjack.sdk.base import UNSET, SchedulerBase
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.requests import token_of
from quarterjack.sdk.schedule_views import Schedule, seen_of
from quarterjack.sdk.views import Page, Run
from quarterjack.state.backfill import (
    MAX_CONCURRENCY,
    ROW_PAYLOAD,
    BackfillOrder,
    BackfillOrderWord,
    BackfillState,
    BackfillStateWord,
    StoredBackfill,
)
from quarterjack.values import replace

_READS = 20  # maximum number of queries for one page of a backfill's runs; the page may be short because of it


@dataclass(frozen=True, kw_only=True)
class Backfill:
    """A backfill and its progress."""

    id: str | None  # pass it to get_backfill, pause_backfill …; None for a dry run
    tenant: str  # its owner
    schedule: str  # its name
    state: BackfillState  # PLANNED (dry run), RUNNING, PAUSED, CANCELLED or DONE
    reason: str | None  # why it is in this state
    start: datetime  # UTC, inclusive
    end: datetime  # UTC, exclusive
    order: BackfillOrder  # which fires come first
    concurrency: int  # maximum number of its concurrent runs
    total: int  # fires in the interval
    there: int | None = None  # dry run only: number of fires that have a run and would be skipped
    why_nothing: Sequence[str] = ()  # dry run that would run nothing: the reasons, in sentences
    under_way: int = 0  # runs that wait or run
    done: int = 0  # runs that ended
    failed: int = 0  # ended runs without success
    skipped: int = 0  # fires that already had a run
    first: datetime | None  # UTC: the first fire; None if there is none
    last: datetime | None  # UTC: the last fire
    created_at: datetime  # UTC
    ended_at: datetime | None  # UTC

    @property
    def progress(self) -> float:
        """Share of its fires that are handled, 0 to 1."""
        return (self.done + self.skipped) / self.total if self.total else 1.0


class BackfillMethods(SchedulerBase):
    def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        order: BackfillOrderWord = "oldest",
        concurrency: int = 10,
        payload: Any = UNSET,
        current: bool = False,
        allow_repeat: bool = False,
        tags: Mapping[str, str] | None = None,
        dry_run: bool = True,
        expected_revision: int | Schedule | None = None,
        client_token: str | None = None,
    ) -> Backfill:
        """Run the fires in ``[start, end)`` (aware, past) that have no run yet; at most ``concurrency`` (1 to 100) at a time.

        With ``dry_run``, the default, nothing is written: ``total`` fires are due, ``there`` of them have a run, and if nothing is to
        be run, ``why_nothing`` says why. Otherwise the workers run the backfill; ``get_backfill`` returns its progress.
        Each fire has the definition of the revision that was active at its time, or was paused then; with ``current=True`` all fires
        have the current definition, also fires before the schedule existed: an instant that it moves to another time than an earlier
        definition (its expression, ``window`` or ``jitter`` was changed) is another fire. ``payload`` replaces their payload.
        Each run has the tags of the schedule, and ``tags``.
        ``order`` is "oldest" or "newest".
        Fires older than the ledger's retention may have run already: they are refused without ``allow_repeat=True``.
        An interval has at most 1,000,000 fires. With a ``client_token`` a second call within 24 hours returns what the first one started.
        Raises InvalidInput, NotFound, Conflict (another revision than ``expected_revision`` is current), AlreadyExists, Unavailable.
        """
        self._access.check_schedule(Verb.BACKFILL, name)
        spec = BackfillSpec(
            start=_instant(start, "start"),
            end=_instant(end, "end"),
            order=word(BackfillOrder, "order", order),
            concurrency=checked_limit(concurrency, MAX_CONCURRENCY, "concurrency"),
            payload=None if payload is UNSET else payload_text(payload),
            current=check_flag("current", current),
            allow_repeat=check_flag("allow_repeat", allow_repeat),
        )
        labels = self._run_tags(tags)
        if spec.start >= spec.end:
            raise InvalidInput("end", str(end), f"is not later than start={start}", "give an end after the start")
        if spec.end > self.session.clock():
            remedy = "give now or earlier: from then on the schedule fires by itself"
            raise InvalidInput("end", str(end), "is still to come", remedy)
        expected, version = seen_of(expected_revision)
        identity = f"{stamp(self.session.clock())}-{uuid.uuid4().hex[:8]}"
        token = None if check_flag("dry_run", dry_run) else token_of(client_token, self.tenant, "backfill", name, spec)
        call = ScheduleCall(tenant=self.tenant, name=name, expected=expected, version=version)
        first = control.started_before(_owner(self.tenant, name), token, self._context)
        if first is not None:
            return backfill_view(first)
        planned, definitions = plan(call, spec, identity, self._context)
        self._check_backfilled(planned, definitions, payload)
        if dry_run:
            existing = count_existing(planned, definitions)
            reasons = why_nothing(planned, definitions, existing, current=current)
            return backfill_view(planned, there=existing.total(), reasons=reasons)
        self._take(RateWord.RUNS)
        text, ref = (None, None) if payload is UNSET else self._pending(payload).store(ROW_PAYLOAD, planned.owner)
        return backfill_view(
            control.start(replace(planned, payload=text, payload_ref=ref, tags=labels), self._context, token)
        )

    def _check_backfilled(self, planned: StoredBackfill, definitions: BackfillMover, payload: Any) -> None:
        """Check the payload for the job of each definition, or each definition's own. Raises InvalidInput."""
        for number in dict.fromkeys(span.revision for span in planned.spans):
            found = definitions.revision(number).definition
            self._access.check(Verb.BACKFILL, found.job, what=f"schedule {planned.name!r}")
            self._checks.may_run(found.job)
            if payload is not UNSET:
                self._checked(found.job, payload)
                continue
            try:
                self._checks.check_stored(found.job, found.payload, found.payload_ref)
            except InvalidInput as problem:
                remedy = f"{problem.remedy}; the payload is that of revision {number}: pass payload=, or current=True"
                raise InvalidInput(problem.field, problem.value, problem.problem, remedy) from None

    def get_backfill(self, name: str, id: str) -> Backfill:  # noqa: A002 (the name of the field)
        """A backfill and its progress. Raises NotFound, also when the retention since its end is over."""
        self._access.check_schedule(Verb.READ_RUNS, name)
        return backfill_view(control.find(_owner(self.tenant, name), check_name(id, "id"), self.session.services))

    def list_backfills(self, name: str) -> Sequence[Backfill]:
        """The backfills of a schedule, oldest first, also of a deleted schedule. Reads all of them in one query."""
        self._access.check_schedule(Verb.READ_RUNS, name)
        return [backfill_view(backfill) for backfill in backfills_of(_owner(self.tenant, name), self.session.services)]

    def pause_backfill(self, name: str, id: str) -> Backfill:  # noqa: A002
        """Pause a backfill. After the return none of its waiting runs starts; started runs continue, with their retries.

        Raises NotFound, Conflict (it has ended), Unavailable (then call again to finish).
        """
        self._access.check_schedule(Verb.PAUSE, name)
        return backfill_view(control.pause(_owner(self.tenant, name), check_name(id, "id"), self._context))

    def resume_backfill(self, name: str, id: str) -> Backfill:  # noqa: A002
        """Resume a paused backfill. Raises NotFound, Conflict (it has ended), JobNotGranted, Unavailable."""
        self._access.check_schedule(Verb.RESUME, name)
        owner, context = _owner(self.tenant, name), self._context
        stored = control.find(owner, check_name(id, "id"), self.session.services)
        defining = self.session.services.schedules.revisions({(owner, span.revision) for span in stored.spans})
        self._checks.may_run(*(revision.definition.job for revision in defining.found.values()))
        return backfill_view(control.resume(owner, id, context))

    def cancel_backfill(self, name: str, id: str) -> Backfill:  # noqa: A002
        """Cancel a backfill. After the return no run and no further attempt of it starts.

        Running attempts continue; ended runs stay as they are. Raises NotFound, Unavailable (then call again to finish).
        """
        self._access.check_schedule(Verb.CANCEL, name)
        return backfill_view(control.cancel(_owner(self.tenant, name), check_name(id, "id"), self._context))

    def backfill_runs(self, name: str, id: str, *, limit: int = 100, cursor: str | None = None) -> Page:  # noqa: A002
        """The runs of a backfill, sorted by time. It reads all runs of the interval, so a page may be short and not the last."""
        self._access.check_schedule(Verb.READ_RUNS, name)
        backfill = control.find(_owner(self.tenant, name), check_name(id, "id"), self.session.services)
        listing = Listing("backfill_runs", backfill.owner, backfill.id)
        found, position = list[Run](), listing.position(cursor)
        for _ in range(_READS):
            page = self.session.services.ledger.page(
                backfill.owner,
                after=backfill.start - 1,
                upto=backfill.end - 1,
                limit=checked_limit(limit) - len(found),
                cursor=position,
                newest_first=False,
            )
            runs = self._access.visible(page.items, Verb.READ_RUNS, _job_of)
            found += [self._access.run_view(run) for run in runs if run.backfill == backfill.id]
            position = page.cursor
            if position is None or len(found) == limit:
                break
        return Page(items=found, cursor=listing.next(position))

    def backfills(self, *, state: BackfillStateWord | None = None, limit: int = 50, cursor: str | None = None) -> Page:
        """The backfills of all schedules, of deleted ones too, the newest first; with ``state`` only those that are in it.

        One call looks at no more than 100, so a page may be short, or empty, and not the last. A backfill that was begun, and last
        paused, resumed or cancelled, more than two retentions ago is listed by ``list_backfills`` alone.
        Raises InvalidInput, Unavailable.
        """
        self._access.check(Verb.READ_RUNS)
        wanted = None if state is None else word(BackfillState, "state", state)
        listing, most = Listing("backfills", self.tenant, wanted), checked_limit(limit)
        found = records.lines(self.tenant, self.session.services, after=listing.position(cursor))
        looked = list(islice(found, (_MOST_READ if wanted else min(most, _MOST_READ)) + 1))
        items, last = [], None
        for line, stored in self._backfills_at(looked[: _MOST_READ if wanted else most]):
            if stored is not None and wanted in (None, stored.state):
                items.append(backfill_view(stored))
            last = line.key
            if len(items) == most:
                break
        is_end = not looked or last == looked[-1].key
        return Page(items=items, cursor=None if is_end else listing.next(last))

    def _backfills_at(self, lines: Sequence[BackfillLine]) -> Iterator[tuple[BackfillLine, StoredBackfill | None]]:
        """Lines with the backfills that they lead to, which are read side by side."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            yield from zip(
                lines,
                pool.map(lambda line: read_backfill(line.owner, line.id, self.session.services), lines),
                strict=True,
            )


def _job_of(run: RunRow) -> str:
    return run.job


def _owner(tenant: str, name: str) -> str:
    return schedule_owner(tenant, check_name(name))


def backfill_view(backfill: StoredBackfill, *, there: int | None = None, reasons: Sequence[str] = ()) -> Backfill:
    """The public form of a backfill; with ``there`` of one that is only planned."""
    planned = there is not None
    return views.view_of(
        Backfill,
        backfill,
        id=None if planned else backfill.id,
        schedule=backfill.name,
        state=BackfillState.PLANNED if planned else backfill.state,
        there=there,
        why_nothing=reasons,
        under_way=len(backfill.window),
    )


def _instant(moment: datetime, field: str) -> int:
    """A bound of the interval (UTC ms), rounded up: fires are at whole milliseconds."""
    return to_ms(moment, field) + (moment.microsecond % 1_000 > 0)


_AT_ONCE = 8  # reads
_MOST_READ = 100  # backfills that one call looks at
