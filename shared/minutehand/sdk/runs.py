"""The SDK's runs: submit, get, list."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from minutehand import views
from minutehand.arguments import checked_limit, due_time
from minutehand.errors import NotFound
from minutehand.flow import submit as submitting
from minutehand.model.moment import to_ms
from minutehand.model.names import check_name, one_off_ref, parse_run_id, schedule_owner
from minutehand.model.policies import Retry, overrides
from minutehand.model.run import Run as LedgerRun
from minutehand.model.run import RunState
from minutehand.sdk.base import Base
from minutehand.views import Page, Run


class Runs(Base):
    """Runs of one tenant."""

    def submit(
        self,
        job: str,
        payload: Any = None,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        idempotency_key: str | None = None,
        delivery: str | None = None,
        start: str | None = None,
        retry: Retry | None = None,
    ) -> Run:
        """Run a job once: now, at ``run_at`` (aware), or after ``delay`` (seconds or timedelta).

        With an ``idempotency_key`` a second call returns the same run instead of a second one, for as long as the ledger keeps it.
        Raises InvalidInput, AlreadyExists (the key has another job, payload, policy or ``run_at``), Unavailable (try again).
        """
        now = self._clock()
        due = due_time(run_at, delay, now)
        policies = self._resolved(self._job_name(job), overrides(delivery=delivery, start=start, retry=retry))
        run_id = uuid.uuid4().hex if idempotency_key is None else check_name(idempotency_key, "idempotency_key")
        text, ref = self._stored(payload)
        run = LedgerRun(
            ref=one_off_ref(self.tenant, run_id),
            state=RunState.QUEUED,
            revision=0,
            job=job,
            due=due,
            not_before=due,
            created_at=now,
            payload=text,
            payload_ref=ref,
            overrides=policies.encode(),
        )
        return views.run_view(submitting.submit(run, self._services, self._clock, same_time=run_at is not None))

    def get_run(self, run_id: str) -> Run:
        """A run by its id. Raises InvalidInput, NotFound."""
        ref = parse_run_id(run_id)
        run = self._services.ledger.read(ref) if ref.tenant == self.tenant else None
        if run is None:
            raise NotFound(f"run_id={run_id!r}: tenant {self.tenant!r} has no such run, or its retention is over")
        payload = None if run.payload_ref is None else self._services.payloads.get(run.payload_ref)
        return views.run_view(run, payload)

    def list_runs(
        self,
        name: str,
        *,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Runs of a schedule with fires in ``(after, before]``, in order of time. Runs of a deleted schedule too."""
        page = self._services.ledger.page(
            schedule_owner(self.tenant, check_name(name)),
            after=None if after is None else to_ms(after, "after"),
            upto=None if before is None else to_ms(before, "before"),
            limit=checked_limit(limit),
            cursor=cursor,
            newest_first=newest_first,
        )
        return Page(items=[views.run_view(run) for run in page.items], cursor=page.cursor)
