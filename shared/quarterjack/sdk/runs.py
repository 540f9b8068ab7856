"""SDK methods for runs: trigger, skip, get, wait, cancel, reschedule, retry."""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from quarterjack.arguments import due_time
from quarterjack.domain.names import SHORTEST, check_flag, check_name, check_seconds, schedule_owner
from quarterjack.domain.policies import PriorityWord, overrides
from quarterjack.domain.run import WAITING, RunRow
from quarterjack.domain.schedule import Head
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.domain.times import to_ms
from quarterjack.errors import InvalidInput, NotFinished, NotFound, shorten
from quarterjack.fires.context import revision_of
from quarterjack.fires.withdraw import held_leases, wait_for_held
from quarterjack.owner.limits import check_priority
from quarterjack.owner.runs import change as changing
from quarterjack.owner.runs import submit as submitting
from quarterjack.owner.runs.submit import StorePayload
from quarterjack.owner.schedules import skip as skipping
from quarterjack.sdk.base import UNSET, SchedulerBase
from quarterjack.sdk.caller_access import read_run
from quarterjack.sdk.schedule_views import Schedule
from quarterjack.sdk.session import Session
from quarterjack.sdk.views import Run


class RunMethods(SchedulerBase):
    def trigger(
        self,
        name: str,
        *,
        payload: Any = UNSET,
        priority: PriorityWord | None = None,
        tags: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        expected_revision: int | Schedule | None = None,
    ) -> Run:
        """Run a schedule now, independent of its expression, with this ``payload`` and ``priority`` or those of the schedule.

        Its tags are those of the schedule, and ``tags``.

        The run has an id of its own, which no fire has. A paused or completed schedule can be triggered; a later pause or delete
        cancels the run unless it has started. With an ``idempotency_key`` a second call returns the same run, as long as the
        ledger keeps it. Raises InvalidInput, NotFound, KeyReused (the key has another payload or priority), Conflict
        (another revision than ``expected_revision`` is current), Unavailable.
        """
        key = None if idempotency_key is None else check_name(idempotency_key, "idempotency_key")
        permit = self._access.head_check(Verb.TRIGGER, name)
        call = self._call("trigger", permit, name, expected_revision, None)
        own = overrides(priority=priority)
        labels = self._run_tags(tags)
        check_priority(own.priority, self.tenant, self.session.services, self.session.clock())
        pending = None if payload is UNSET else self._pending(payload)

        def checked(head: Head) -> StorePayload | None:
            self._checks.may_run(head.job)
            if pending is None:
                self._check_revision(head)
            else:
                self._checks.check_payload(head.job, payload, pending.text)
            self._take(RateWord.RUNS)
            return None if pending is None else pending.of_run

        spec = submitting.TriggerSpec(
            token=uuid.uuid4().hex, key=key, payload=checked, overrides=own.encode(), tags=labels
        )
        return self._access.run_view(submitting.trigger(call, spec, self._context))

    def skip_next(
        self, name: str, *, expected_revision: int | Schedule | None = None, client_token: str | None = None
    ) -> Run:
        """Skip the next fire that has not started. Returns its run, which is SKIPPED. A second call skips the fire after it.

        Nothing else of the schedule changes, and the skip survives updates and pauses. With a ``client_token`` a second call
        within 24 hours returns the run of the first. Raises InvalidInput, NotFound, Conflict (the schedule is paused, has no
        further fire, or another revision than ``expected_revision``), AlreadyExists, Unavailable.
        """
        self._access.check_schedule(Verb.SKIP, name)  # also before the run of an earlier call is returned
        call = self._call("skip_next", self._access.head_check(Verb.SKIP, name), name, expected_revision, client_token)
        text = uuid.uuid4().hex if call.token is None else f"{call.token.place}{call.token.digest}"
        act = hashlib.sha256(text.encode()).hexdigest()[:32]
        self._take(RateWord.CHANGES)
        return self._access.run_view(skipping.skip_next(call, self._context, act=act))

    def _check_revision(self, head: Head) -> None:
        """Check the payload of a schedule, if its job says what fits: only then is its definition read."""
        if self._checks.looks_at(head.job):
            found = revision_of(head, self.session.services).definition
            self._checks.check_stored(found.job, found.payload, found.payload_ref)

    def get_run(self, run_id: str) -> Run:
        """A run with its payload, result, steps and failed attempts. Raises InvalidInput, NotFound.

        A payload or result that is not in the bucket any more is None. ``waits_because`` is set for a run that waits although no worker
        has ever known its job, or its tenant is suspended or may not run it.
        """
        run = self._access.read_run(run_id, Verb.READ_RUNS)
        may_see = self._access.may(Verb.READ_PAYLOADS, run.job)
        beside = self.session.services.siblings.read(run.ref)
        result = beside.result if run.result_ref == "beside" else run.result
        if may_see and run.result_ref not in (None, "beside"):
            result = self._stored(str(run.result_ref))
        payload = None if run.payload_ref is None or not may_see else self._stored(run.payload_ref)
        waits = self._checks.waits_because(run.job) if run.state in WAITING else None
        name = run.ref.schedule
        head = None if name is None else self.session.services.schedules.head(self.tenant, name)
        return self._access.run_view(
            run,
            now=self.session.clock(),
            payload=payload,
            result=result,
            beside=beside,
            waits_because=waits,
            tags={} if head is None else head.tags,
        )

    def _stored(self, key: str) -> str | None:
        try:
            return self.session.services.payloads.get(self.tenant, key)
        except NotFound:
            return None

    def wait_for(self, run_id: str, timeout: float = 60.0) -> Run:
        """Wait until a run has ended, for at most ``timeout`` seconds. Raises NotFinished, NotFound.

        Reads the ledger after 50 ms, then at growing intervals of at most 5 s. Raises InvalidInput for a timeout of 0 or over 14 days.
        """
        waiter = threading.Event()
        for pause in pauses_until_ended(self.session, self.tenant, run_id, timeout):
            waiter.wait(pause)
        return self.get_run(run_id)

    def cancel_run(self, run_id: str) -> Run:
        """Cancel a run. A waiting run never starts; a running job sees ``ctx.cancelled`` at its worker's next heartbeat.

        Returns the run: CANCELLED, RUNNING with ``cancel_requested``, or ended before. Raises InvalidInput, NotFound.
        """
        return self._access.run_view(changing.cancel_run(self._access.read_run(run_id, Verb.CANCEL), self._context))

    def cancel_runs(
        self,
        name: str,
        *,
        between: tuple[datetime, datetime],
        dry_run: bool = False,
        on_progress: Callable[[int], None] | None = None,
        stop: threading.Event | None = None,
    ) -> int:
        """Cancel the runs of a schedule with fires in ``(between[0], between[1]]`` that have not ended. Returns their number.

        Later fires still start: to stop these, too, pause the schedule first. ``on_progress`` is called after each run with the
        number so far; ``stop`` ends the call early, and the same call continues.
        """
        self._access.check_schedule(Verb.CANCEL, name)
        owner, services = schedule_owner(self.tenant, check_name(name)), self.session.services
        if not isinstance(between, (tuple, list)) or len(between) != 2:
            raise InvalidInput("between", between, "is not a pair of datetimes", "pass (after, upto)")
        after, upto = (to_ms(moment, f"between[{place}]") for place, moment in enumerate(between))
        check_flag("dry_run", dry_run)
        count, held, context = 0, list[RunRow](), self._context
        for run in services.ledger.window(owner, after=after, upto=upto):
            if stop is not None and stop.is_set():
                break
            if not run.is_terminal and self._access.may(Verb.CANCEL, run.job):
                count += 1
                if not dry_run:
                    held += held_leases([changing.end_run(run, context)], self.session.clock())
                if on_progress is not None:
                    on_progress(count)
        wait_for_held(held, services)
        return count

    def reschedule(self, run_id: str, *, at: datetime | None = None, delay: float | timedelta | None = None) -> Run:
        """Move a one-off that has not begun to another time: ``at`` (aware), or ``delay`` (seconds or timedelta) from now.

        Its deadline moves with it. A call that repeats ``at`` changes nothing. Raises InvalidInput (also for a run of a schedule),
        NotFound, Conflict (it has begun or ended), Unavailable (try again).
        """
        self._access.check_some(Verb.RESCHEDULE, what=f"run {shorten(run_id, 300)}")
        if at is None and delay is None:
            raise InvalidInput("at", at, "says no time", "give at, an aware datetime, or delay, seconds from now")
        due = due_time(at, delay, self.session.clock(), "at")
        run = self._access.read_run(run_id, Verb.RESCHEDULE)
        self._checks.may_run(run.job)
        self._take(RateWord.CHANGES)
        return self._access.run_view(changing.reschedule_run(run, due, self._context))

    def requeue(self, run_id: str, *, queue: str | None = None, priority: PriorityWord | None = None) -> Run:
        """Move a one-off that has not begun to another ``queue`` ("default": the default one), or give it another ``priority``, or both.

        It starts when it would have started, and a call that is repeated changes nothing. Raises InvalidInput (also for a run of a
        schedule, an undeclared queue, a priority above the tenant's), NotFound, Conflict (it has begun or ended), Unavailable (try again).
        """
        self._access.check_some(Verb.RESCHEDULE, what=f"run {shorten(run_id, 300)}")
        own = overrides(priority=priority).priority
        if queue is None and own is None:
            raise InvalidInput("queue", queue, "is not given, and neither is priority", "give one of them, or both")
        check_priority(own, self.tenant, self.session.services, self.session.clock())
        run = self._access.read_run(run_id, Verb.RESCHEDULE)
        if queue is not None:
            self._checks.queue_name(run.job, queue)
        self._checks.may_run(run.job)
        self._take(RateWord.CHANGES)
        return self._access.run_view(changing.requeue_run(run, self._context, queue=queue, priority=own))

    def retry_run(self, run_id: str) -> Run:
        """Start the next attempt of a waiting run now. Raises Conflict if the run does not wait for a next attempt."""
        run = self._access.read_run(run_id, Verb.RETRY)
        self._checks.may_run(run.job)
        self._take(RateWord.RUNS, place=False)  # it has one
        return self._access.run_view(changing.hasten_run(run, self._context))


def pauses_until_ended(session: Session, tenant: str, run_id: str, timeout: float) -> Iterator[float]:
    """Seconds to wait before the run is read again, until it has ended. Raises as ``Scheduler.wait_for``."""
    seconds = check_seconds("timeout", timeout, SHORTEST)
    if seconds is None:
        raise InvalidInput("timeout", timeout, "is not a number of seconds", "use 0.001 to 1,209,600 (14 days)")
    pause, give_up = 0.05, time.monotonic() + seconds
    while not (run := read_run(session, tenant, run_id, Verb.READ_RUNS)).is_terminal:
        left = give_up - time.monotonic()
        if left <= 0:
            raise NotFinished(
                f"run_id={run_id!r}: still {run.state} after {seconds:g} s; wait longer, or read it later"
            )
        yield min(pause, left)
        pause = min(pause * 1.5, 5.0)
