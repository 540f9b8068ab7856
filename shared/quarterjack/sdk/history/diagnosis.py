"""SDK methods that explain runs: the archive of their transitions, their log lines, and why one ran late or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from quarterjack.arguments import checked_limit
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import RunRef, check_name, parse_run_id
from quarterjack.domain.redaction import USUAL
from quarterjack.domain.run import TERMINAL, RunRow
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import MINUTE, from_ms, to_ms
from quarterjack.errors import InvalidInput, Misconfigured, NotFound, Unreadable, shorten
from quarterjack.fires.context import REACH, find_revision
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.caller_access import masked_attempts, masked_run, without_text
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.views import RunTransition, view_of
from quarterjack.values import replace

if TYPE_CHECKING:
    from quarterjack.domain.history.transition_line import TransitionKind, TransitionKindWord, TransitionLine
    from quarterjack.domain.schedule import Revision
    from quarterjack.ports.buckets import Archive
    from quarterjack.ports.run_logs import RunLogsPage
    from quarterjack.sdk.history.views import LogPage
    from quarterjack.why.answer import Answer
    from quarterjack.why.evidence import EvidenceReader
    from quarterjack.why.facts import Facts


_EARLIER = 15 * MINUTE  # ms: runs are claimed early
_LATER = MINUTE  # ms: clocks differ, and the undertaker logs after the end
_SOON = timedelta(minutes=2)  # in which lines come into CloudWatch Logs


class DiagnosisMethods(SchedulerBase):
    def archive(
        self,
        *,
        since: datetime,
        until: datetime | None = None,
        schedule: str | None = None,
        job: JobRef | None = None,
        run_id: str | None = None,
        kind: TransitionKindWord | None = None,
    ) -> Iterator[RunTransition]:
        """The transitions of runs in ``[since, until)`` (aware; default: up to now), oldest first, from the archive in the bucket.

        ``schedule``, ``job``, ``run_id`` and ``kind`` ("leased", "dead" …) filter them after they are read. Reads the objects of
        one hour at a time. A transition is in the archive some seconds after it happened, and stays after its run has left the
        ledger. Raises InvalidInput, NotFound (the run is another tenant's), Misconfigured (there is no bucket); while it is read,
        Unavailable.
        """
        self._access.check(Verb.READ_ARCHIVE, self._checks.named_job(job))
        from quarterjack.historian.archive import ArchiveFilter, read_archive  # noqa: PLC0415 (`import quarterjack` need not take its time)

        start, end = to_ms(since, "since"), self.session.clock() + MINUTE if until is None else to_ms(until, "until")
        if until is None and end <= start:
            raise InvalidInput("since", since, "lies ahead", "give a moment that has passed")
        if end <= start:
            raise InvalidInput("until", until, "is not after since", "give a later moment, or leave it out")
        wanted = ArchiveFilter(
            since=max(start, 0),
            until=max(end, 0),
            schedule=None if schedule is None else check_name(schedule, "schedule"),
            job=self._checks.named_job(job),
            run=None if run_id is None else self._own(run_id),
            kind=None if kind is None else _kind(kind),
        )
        return map(_view, read_archive(self._archive(), self.tenant, wanted))

    def transitions(self, run_id: str) -> Sequence[RunTransition]:
        """The transitions of one run, oldest first, from the archive: of the hours from its claim to its end.

        Those of a run that has left the ledger are found by ``archive(run_id=..., since=...)``. Raises InvalidInput, NotFound,
        Misconfigured, Unavailable.
        """
        from quarterjack.historian.archive import ArchiveFilter, read_archive  # noqa: PLC0415 (as above)

        self._access.check_some(Verb.READ_HISTORY, what=f"run {shorten(run_id, 300)}")
        store, run = self._archive(), self._access.read_run(run_id, Verb.READ_HISTORY)
        since, until = _lifetime(run, self.session.clock())
        wanted = ArchiveFilter(since=since, until=until, run=run.ref)
        return [_view(line) for line in read_archive(store, self.tenant, wanted)]

    def _own(self, run_id: str) -> RunRef:
        """A run of this tenant, which may have left the ledger."""
        ref = parse_run_id(run_id)
        if ref.tenant != self.tenant:
            raise NotFound(
                f"run_id={run_id!r}: tenant {self.tenant!r} has no such run; use the scheduler of its tenant"
            )
        return ref

    def _archive(self) -> Archive:
        store = self.session.services.archive
        if not store.is_on:
            raise Misconfigured(
                "QUARTERJACK_BUCKET is not set, so there is no archive; set it to the stack's BucketName"
            )
        return store

    def why(self, name: str, at: datetime) -> Answer:
        """Why the fire of a schedule at ``at`` (aware) ran, ran late, did not run, or was none; also of a deleted schedule.

        The answer has a verdict and sentences, each with the row, record or rule that it rests on. What the evidence does not tell is
        said so. A fire in the second that begins at ``at`` is meant, too. Costs about eight reads.
        Raises InvalidInput, NotFound (no schedule ever had this name), Conflict (others change it all the time), Unavailable.
        """
        self._access.check_schedule(Verb.READ_HISTORY, name)
        facts = self._evidence.of_fire(check_name(name), to_ms(at, "at"))
        if facts is None:
            raise self._access.no_schedule(name)
        return self._explained(facts, f"schedule {name!r}")

    def why_run(self, run_id: str, *, task: str | None = None) -> Answer:
        """The same for a run: of a fire, a trigger, a backfill, or a one-off. ``task``: for that task of a pipeline's run.

        Raises InvalidInput, NotFound (there is no such run or task, or its row has left the ledger), Conflict, Unavailable.
        """
        if task is not None:
            return self._why_task(run_id, check_name(task, "task"))
        self._access.check_some(Verb.READ_HISTORY, what=f"run {shorten(run_id, 300)}")
        ref = parse_run_id(run_id)
        facts = self._evidence.of_run(ref) if ref.tenant == self.tenant else None
        if facts is None:
            self._access.check_seen(Verb.READ_HISTORY, None, f"run {shorten(run_id, 300)}")
            raise NotFound(
                f"run_id={run_id!r}: tenant {self.tenant!r} has no such run, or its retention is over; list_runs() shows those it has"
            )
        return self._explained(facts, f"run {run_id!r}")

    def _why_task(self, run_id: str, name: str) -> Answer:
        from quarterjack.owner.runs.pipelines import look_at, number_of  # noqa: PLC0415 (who has no pipeline does not load it)

        run = self._access.read_run(run_id, Verb.READ_HISTORY)
        state = look_at(run, self.session.services)
        number = number_of(state.pipeline, name)
        if number in state.rows:
            return self.why_run(str(state.rows[number].ref))
        facts = self._evidence.of_run(run.ref)
        if facts is None:
            raise NotFound(f"run_id={run_id!r}: its row has left the ledger meanwhile")
        return self._explained(replace(facts, pipeline=state), f"run {run_id!r}", number)

    def _explained(self, facts: Facts, what: str, task: int | None = None) -> Answer:
        """The answer, for a caller who may know of the job that ran, or would have. Raises Forbidden."""
        from quarterjack.why.explain import explain  # noqa: PLC0415 (`import quarterjack` need not take its time)

        job, run = _job_of(facts), facts.run
        self._access.check_seen(Verb.READ_HISTORY, job, what)
        if not self._access.may(Verb.READ_PAYLOADS, job):
            facts = replace(
                facts, run=None if run is None else masked_run(run), attempts=masked_attempts(facts.attempts)
            )
        elif run is not None and run.failure and not self._access.may_read_errors(run.ref, run.job, run):
            facts = replace(facts, run=without_text(run), attempts=masked_attempts(facts.attempts))
        if facts.pipeline is not None:
            from quarterjack.sdk.pipelines.show import masked_state  # noqa: PLC0415 (who has no pipeline does not load it)

            facts = replace(facts, pipeline=masked_state(facts.pipeline, self._access))
        return explain(facts, task)

    @property
    def _evidence(self) -> EvidenceReader:
        from quarterjack.why.evidence import EvidenceReader  # noqa: PLC0415 (`import quarterjack` need not take its time)

        return EvidenceReader(self.tenant, self.session.services, self.session.clock)

    def run_logs(self, run_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        """The log lines of a run, oldest first: those of its job's loggers, and Quarterjack's own about it (``LogLine``).

        They come from CloudWatch Logs, from the folder that QUARTERJACK_LOGS names, or from the harness. A page ends after ``limit``
        lines, a megabyte or some requests, so it may hold few lines, or none: ``cursor`` goes on. ``missing`` says why lines may be
        missing: lines come into CloudWatch some seconds late, and leave it after its retention; the lines of worker processes are there
        only if QUARTERJACK_LOG_GROUPS names their group. What a job prints has no run id, and is no line of it. Long texts are cut.
        Values of secrets were masked when a line was written; here also what errors of the job must not repeat.

        Raises InvalidInput, NotFound, Misconfigured (logs that this role may not read), Unavailable.
        """
        run = self._access.read_run(run_id, Verb.READ_LOGS)
        listing, most = Listing("run_logs", str(run.ref)), checked_limit(limit)
        position = listing.position(cursor)
        from quarterjack.ports.run_logs import RunLogsQuery  # noqa: PLC0415 (`import quarterjack` need not take its time)
        from quarterjack.sdk.history.views import LogPage, line_view  # noqa: PLC0415 (as above)

        revision = self._revision_of(run)
        page = self.session.services.logs.read(
            RunLogsQuery(
                run_id=str(run.ref),
                begin=min(run.due, run.started_at or run.due) - _EARLIER,
                end=self._end_of(run) + _LATER,
                queues=self._queues_of(run, revision),
                limit=most,
                position=position,
            )
        )
        known = self._jobs.get(run.job)
        redact = USUAL if known is None else known.policies.redact
        payload = run.payload if revision is None or run.payload is not None else revision.definition.payload
        return LogPage(
            items=[line_view(line, redact, payload) for line in page.lines],
            cursor=listing.next(page.position),
            searched_to=from_ms(page.searched_to),
            sources=page.sources,
            missing=self._missing(run, page) if page.position is None else None,
        )

    def _end_of(self, run: RunRow) -> int:
        ended = run.ended_at if run.state in TERMINAL else None
        return self.session.clock() if ended is None else max(ended, run.due)

    def _revision_of(self, run: RunRow) -> Revision | None:
        """Of its schedule; None for a one-off, and where it cannot be read or has left the table."""
        if run.ref.is_one_off:
            return None
        try:
            return find_revision(run.ref.owner, run.revision, self.session.services)
        except Unreadable:
            return None

    def _queues_of(self, run: RunRow, revision: Revision | None) -> Sequence[str | None]:
        """The queues whose workers may have run it."""
        if run.ref.is_one_off:
            return (run.queue,)
        return (None, *self.session.services.work.names()) if revision is None else (revision.definition.options.queue,)

    def _missing(self, run: RunRow, page: RunLogsPage) -> str | None:
        logs = self.session.services.logs
        if not page.sources:
            return f"there is no log in {logs.place}; {logs.remedy}"
        if run.worker is not None and not logs.has_lines_of(run.worker):
            return (
                f"the last attempt was on the process {run.worker}, which does not log to {logs.place}; {logs.remedy}"
            )
        if page.lines:
            return None
        if run.worker is None:
            return "no worker has started it, so nothing was logged about it"
        if from_ms(self.session.clock()) - from_ms(self._end_of(run)) < _SOON:
            return f"nothing is in {logs.place} yet; lines come some seconds late: look again"
        return (
            f"nothing is in {logs.place}: the lines are over their retention, or a worker logs elsewhere; {logs.remedy}"
        )


def _kind(kind: object) -> TransitionKind:
    from quarterjack.domain.history.transition_line import TransitionKind  # noqa: PLC0415 (as above)

    if isinstance(kind, str) and kind in TransitionKind.__members__.values():
        return TransitionKind(kind)
    raise InvalidInput("kind", kind, "is not a kind of transition", f"use one of {', '.join(TransitionKind)}")


def _lifetime(run: RunRow, now: int) -> tuple[int, int]:
    """Between which moments (UTC ms) a run can have transitions: clocks differ, and a fire may have been claimed more than once."""
    first = run.created_at
    if run.ref.is_fire and run.backfill is None:
        first = min(first, run.due - REACH)
    counted_again = run.skipped is not None
    last = now if not run.is_terminal or counted_again else max(run.ended_at or now, run.buried_at or 0)
    return max(first - MINUTE, 0), last + MINUTE


def _view(line: TransitionLine) -> RunTransition:
    from quarterjack.domain.history.transition_line import SEQUENCE_DIGITS  # noqa: PLC0415 (as above)

    return view_of(RunTransition, line, run=str(line.ref), sequence=f"{line.sequence:0{SEQUENCE_DIGITS}d}")


def _job_of(facts: Facts) -> str | None:
    """Of the run, else of the revision that was current then."""
    if facts.run is not None:
        return facts.run.job
    if facts.governing is not None:
        return facts.revisions[facts.governing].definition.job
    return None if facts.head is None else facts.head.job
