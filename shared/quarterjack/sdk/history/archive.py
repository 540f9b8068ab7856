"""SDK methods that read the archive: every transition of runs, long after the ledger has forgotten them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from quarterjack.domain.job import JobRef
from quarterjack.domain.names import RunRef, check_name, parse_run_id
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import MINUTE, to_ms
from quarterjack.errors import InvalidInput, Misconfigured, NotFound, shorten
from quarterjack.fires.context import REACH
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.views import RunTransition, view_of

if TYPE_CHECKING:
    from quarterjack.domain.history.transition_line import TransitionKind, TransitionKindWord, TransitionLine
    from quarterjack.ports.buckets import Archive


class ArchiveMethods(SchedulerBase):
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
        self._permit(Verb.READ_ARCHIVE, self._named_job(job))
        from quarterjack.historian.archive_reader import ArchiveFilter, read_archive  # noqa: PLC0415 (`import quarterjack` need not take its time)

        start, end = to_ms(since, "since"), self.session.clock() + MINUTE if until is None else to_ms(until, "until")
        if until is None and end <= start:
            raise InvalidInput("since", since, "lies ahead", "give a moment that has passed")
        if end <= start:
            raise InvalidInput("until", until, "is not after since", "give a later moment, or leave it out")
        wanted = ArchiveFilter(
            since=max(start, 0),
            until=max(end, 0),
            schedule=None if schedule is None else check_name(schedule, "schedule"),
            job=self._named_job(job),
            run=None if run_id is None else self._own(run_id),
            kind=None if kind is None else _kind(kind),
        )
        return map(_view, read_archive(self._archive(), self.tenant, wanted))

    def transitions(self, run_id: str) -> Sequence[RunTransition]:
        """The transitions of one run, oldest first, from the archive: of the hours from its claim to its end.

        Those of a run that has left the ledger are found by ``archive(run_id=..., since=...)``. Raises InvalidInput, NotFound,
        Misconfigured, Unavailable.
        """
        from quarterjack.historian.archive_reader import ArchiveFilter, read_archive  # noqa: PLC0415 (as above)

        self._permit_some(Verb.READ_HISTORY, what=f"run {shorten(run_id, 300)}")
        store, run = self._archive(), self._read(run_id, Verb.READ_HISTORY)
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
