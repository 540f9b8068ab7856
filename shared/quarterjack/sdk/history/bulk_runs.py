"""The SDK's act on every run that a filter finds: cancel, redrive, replay, hasten or reassign them, eight at a time.

Each run is changed by the call for one run, so access, limits, audit and guards are its own. The history lists the runs page by page. A
page is fixed before its first action: the cursor has the ids of its runs, and the counts before it. After a crash the actions on this
page are repeated, which changes nothing where they were done, and are counted once:

    list a page ─► note the cursor: its runs, the next page ─► act on each ─► list the next page

    a crash before the note     the page is listed again: nothing of it was begun
    a crash after it            its runs are acted on again: an action that was done finds its run as it wants it
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from quarterjack.arguments import checked_rate
from quarterjack.concurrency.rate_limits import StopSignal, TokenBucket
from quarterjack.domain.history.entry import RunKindWord
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_flag, parse_run_id, word
from quarterjack.domain.policies import Priority, PriorityWord
from quarterjack.domain.queue import DEFAULT_QUEUE, check_queue
from quarterjack.domain.run import RunState, RunStateWord
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.app_versions import check_version
from quarterjack.domain.times import from_ms, to_ms
from quarterjack.errors import Conflict, InvalidInput, Unavailable
from quarterjack.owner.limits import check_priority
from quarterjack.owner.runs.dead import DeadRunFilter, dead_runs
from quarterjack.sdk.call_verbs import BULK_RUN_VERBS
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.dead import DeadRunMethods
from quarterjack.sdk.history.finding import FindMethods
from quarterjack.sdk.history.versions import VersionMethods
from quarterjack.sdk.requests import token_of
from quarterjack.sdk.runs import RunMethods
from quarterjack.sdk.schedules.filters import TagFilter
from quarterjack.sdk.views import Run

if TYPE_CHECKING:
    from quarterjack.sdk.history.bulk_runs_work import BulkRunsResult, Notes, RunWork, Seen
    from quarterjack.sdk.schedules.bulk_work import BulkProgress

Act = Callable[["RunBulkMethods", str, str], object]  # with the id of the run, and the idempotency key of the act
BulkRunAction = Literal["cancel", "redrive", "replay", "hasten", "requeue", "reassign"]


class RunBulkMethods(RunMethods, DeadRunMethods, FindMethods, VersionMethods):
    def bulk_runs(
        self,
        action: BulkRunAction,
        *,
        schedule: str | None = None,
        state: RunStateWord | Sequence[RunStateWord] | None = None,
        job: JobRef | None = None,
        prefix: str | None = None,
        tag: TagFilter | None = None,
        error_type: str | None = None,
        kind: RunKindWord | Sequence[RunKindWord] | None = None,
        queue: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        to_queue: str | None = None,
        to_priority: PriorityWord | None = None,
        version: str | None = None,
        as_it_was: bool = False,
        allow_repeat: bool = False,
        client_token: str | None = None,
        dry_run: bool = False,
        rate: float = 50.0,
        on_progress: Callable[[BulkProgress], object] | None = None,
        cursor: str | None = None,
        stop: StopSignal | None = None,
    ) -> BulkRunsResult:
        """Cancel, redrive, replay, hasten, requeue or reassign every run that meets all conditions of ``list_runs``; give one at least.

        | action | runs | each as |
        |---|---|---|
        | ``"cancel"`` | that have not ended | ``cancel_run`` |
        | ``"redrive"`` | DEAD, LOST, EXPIRED, and on the list of dead runs | ``redrive`` with ``allow_repeat``, ``as_it_was`` |
        | ``"replay"`` | that have ended | ``replay_run`` with ``as_it_was`` |
        | ``"hasten"`` | that wait for a time | ``reschedule`` to now, or ``retry_run`` between two attempts |
        | ``"requeue"`` | one-offs that have not begun | ``requeue`` to ``to_queue`` and ``to_priority`` |
        | ``"reassign"`` | that wait | ``reassign_run`` to ``version`` |

        ``schedule`` is the name of one; ``queue`` is that of runs that have not ended. What ends after the begin is not concerned, as the
        newest runs are listed first, and the history is some seconds behind. Waiting fires are found with ``schedule`` only.
        At most ``rate`` runs a second, eight at a time. A run of which it cannot be done stops no other: ``failed`` has its error.
        ``on_progress`` is called after each run with the counts so far. It ends early if ``stop`` (a ``threading.Event``) is set or the
        tenant's rate is used up. To continue then, or after a crash, make the same call with the ``cursor`` of the result or of the
        last progress, or, if it had a ``client_token``, with that token within a day: each run is acted on, and counted, once.
        A ``dry_run`` writes nothing and counts the runs by state and job.
        Raises InvalidInput, Forbidden, KeyReused (the token), Conflict (another call with the token goes on), Misconfigured (the
        history is switched off), Throttled (before the first run), and Unavailable (the message has the cursor).
        """
        from quarterjack.sdk.history import bulk_runs_work as working  # noqa: PLC0415 (`import quarterjack` need not take its time)
        from quarterjack.sdk.schedules.bulk_work import WaitingStop  # noqa: PLC0415 (as above)

        wanted = self._checks.named_job(job)
        if not isinstance(action, str) or action not in working.RUN_ACTIONS:
            raise InvalidInput("action", action, "is not known", f"use one of {', '.join(working.RUN_ACTIONS)}")
        self._access.check(BULK_RUN_VERBS[action], wanted)
        self._access.check(Verb.READ_RUNS, wanted)
        conditions: dict[str, Any] = {"name": schedule, "job": wanted, "prefix": prefix, "tag": tag}
        conditions |= {"error_type": error_type, "kind": kind, "since": since, "until": until}
        if all(each is None for each in (*conditions.values(), state, queue)):
            remedy = "say which runs: schedule, state, job, prefix, tag, error_type, kind, queue, since or until"
            raise InvalidInput("schedule", schedule, "is missing, and so is every other condition", remedy)
        given = {
            "to_queue": to_queue,
            "to_priority": to_priority,
            "version": version,
            "as_it_was": as_it_was,
            "allow_repeat": allow_repeat,
        }
        conditions["state"] = sorted(working.checked_states(action, state))
        waits_in = working.checked_queue(action, queue)
        act = self._act_on_runs(action, given)
        check_flag("dry_run", dry_run)
        words = (action, {**conditions, "queue": waits_in}, given)
        token = None if dry_run else token_of(client_token, self.tenant, "bulk_runs", *words)
        listing = Listing("bulk_runs", self.tenant, *words, dry_run)
        work = working.RunWork(
            act=act,
            key=f"bulk-{uuid.uuid4().hex}",
            listing=listing,
            on_progress=on_progress,
            began=self.session.clock(),
        )
        position = listing.position(cursor)
        notes = working.Notes(token=token, services=self.session.services, clock=self.session.clock)
        if position := notes.read() or position:
            work.go_to(position)
        seen = working.Seen()
        pages = self._pages_of_runs(action, conditions, waits_in, work, seen if dry_run else None)
        pace = TokenBucket(checked_rate(rate, "runs"), self.session.clock, WaitingStop(stop or threading.Event(), work))
        is_over = self._act_on_pages(pages, work, pace, notes, dry_run=dry_run)
        if work.halted is not None and not work.count + work.failed_count:
            raise work.halted
        return work.result(action, is_over=is_over, dry_run=dry_run, states=seen.states, jobs=seen.jobs)

    def _act_on_pages(
        self, pages: Iterator[None], work: RunWork, pace: TokenBucket, notes: Notes, *, dry_run: bool
    ) -> bool:
        """Act on page after page. False if it ended before the last run. Raises Conflict, Unavailable."""
        from quarterjack.sdk.schedules.bulk_work import AT_ONCE  # noqa: PLC0415 (as above)

        acting = self._of_one_call()
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="bulk") as pool:
            try:
                for _ in pages:
                    if work.page:
                        notes.write(work)
                    if dry_run:
                        work.count_page()
                    for run_id in () if dry_run else work.page:
                        work.settle(most=AT_ONCE - 1)
                        if work.halted is not None or not pace.go_on():
                            work.settle(most=0)
                            return False
                        work.begin(run_id, acting, run_id, pool)
                    work.settle(most=0)
                    if work.halted is not None:
                        return False
                    work.close_page()
                    if not work.is_last and pace.is_stopped():
                        return False
                notes.write(work)
            except Unavailable as problem:
                work.settle(most=0)
                reached = f"{work.count:,} runs are done; go on with cursor={work.cursor!r}"
                raise Unavailable(f"{reached}: {problem}") from problem
        return True

    def _pages_of_runs(
        self, action: str, conditions: dict[str, Any], queue: str | None, work: RunWork, seen: Seen | None
    ) -> Iterator[None]:
        """Fill ``work.page`` with the ids of further runs, until all were read; at first with those that another call has left."""
        from quarterjack.sdk.history.bulk_runs_work import PAGE  # noqa: PLC0415 (as above)

        if work.page:
            yield
        while not work.is_last:
            page = self.list_runs(**conditions, limit=PAGE, cursor=work.after)
            runs = self._concerned(action, page.items, queue, work.began)
            if seen is not None:
                seen.add(runs)
            work.page, work.after, work.is_last = [run.id for run in runs], page.cursor, page.cursor is None
            yield

    def _concerned(self, action: str, runs: Sequence[Run], queue: str | None, began: int) -> Sequence[Run]:
        """The runs of a page that the action concerns, and that wait in the queue, if one is asked for."""
        if action == "hasten":
            waiting = (run for run in runs if run.not_before > from_ms(began))
            runs = [run for run in waiting if run.schedule is None or run.state is not RunState.QUEUED]
        if action == "requeue":
            runs = [run for run in runs if run.schedule is None]
        if action == "redrive" and runs:
            ends = [run.ended_at for run in runs if run.ended_at is not None]
            died = DeadRunFilter(after=to_ms(min(ends), "since") - 1, upto=to_ms(max(ends), "until"))
            listed = {str(dead.run) for dead in dead_runs(self.tenant, died, self.session.services)}
            runs = [run for run in runs if run.id in listed]
        if queue is not None and runs:
            from quarterjack.fires.claim import messages_of  # noqa: PLC0415 (`import quarterjack` need not take its time)

            rows = self.session.services.ledger.look([parse_run_id(run.id) for run in runs]).found
            found = messages_of([*rows.values()], self.session.services)
            names = {str(ref): each.queue or DEFAULT_QUEUE for ref, each in found.items() if each is not None}
            runs = [run for run in runs if names.get(run.id) == queue]
        return runs

    def _act_on_runs(self, action: str, given: Mapping[str, Any]) -> Act:
        """The call for one run. Raises InvalidInput for an argument that is missing, or is another action's."""
        from quarterjack.sdk.history.bulk_runs_work import TAKES  # noqa: PLC0415 (as above)

        for name, value in given.items():
            if name not in TAKES.get(action, ()) and value not in (None, False):
                takers = " and ".join(repr(other) for other in TAKES if name in TAKES[other])
                raise InvalidInput(name, value, f"is not an argument of {action!r}", f"it is for {takers}")
        as_it_was = check_flag("as_it_was", given["as_it_was"])
        repeats = check_flag("allow_repeat", given["allow_repeat"])
        match action:
            case "cancel":
                return lambda owner, run_id, key: owner.cancel_run(run_id)
            case "redrive":
                return lambda owner, run_id, key: owner.redrive(run_id, allow_repeat=repeats, as_it_was=as_it_was)
            case "replay":
                return lambda owner, run_id, key: owner.replay_run(
                    run_id, idempotency_key=_key(key, run_id), as_it_was=as_it_was
                )
            case "requeue":
                queue, priority = self._checked_requeue(given["to_queue"], given["to_priority"])
                return lambda owner, run_id, key: owner.requeue(run_id, queue=queue, priority=priority)
            case "hasten":
                return self._hastening
        version = check_version(given["version"])
        return lambda owner, run_id, key: owner.reassign_run(run_id, version)

    def _checked_requeue(self, queue: Any, priority: Any) -> tuple[str | None, Priority | None]:
        """Refused before the first run is moved. Raises InvalidInput."""
        if queue is None and priority is None:
            raise InvalidInput(
                "to_queue", queue, "is not given, and neither is to_priority", "give one of them, or both"
            )
        own = None if priority is None else word(Priority, "to_priority", priority)
        check_priority(own, self.tenant, self.session.services, self.session.clock())
        return None if queue is None else check_queue(queue, "to_queue"), own

    @staticmethod
    def _hastening(owner: RunBulkMethods, run_id: str, key: str) -> None:  # noqa: ARG004 (the key of a submission)
        owner._hasten(run_id)

    def _hasten(self, run_id: str) -> None:
        """Let a run that waits for a time start now. Nothing is to be done for one that has begun, or whose time has come."""
        from quarterjack.sdk.history.bulk_runs_work import READY  # noqa: PLC0415 (as above)

        run = self._access.read_run(run_id, Verb.RESCHEDULE)
        if run.state not in READY or run.not_before <= self.session.clock():
            return
        try:
            if run.state is RunState.QUEUED:
                self.reschedule(run_id, delay=0)
            else:
                self.retry_run(run_id)
        except Conflict:
            if self._access.read_run(run_id, Verb.RESCHEDULE).state in READY:
                raise


def _key(act: str, run_id: str) -> str:
    """The idempotency key of what an act submits for a run."""
    return f"{act}-{hashlib.sha256(run_id.encode()).hexdigest()[:32]}"
