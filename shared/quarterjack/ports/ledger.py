"""The ledger of runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from quarterjack.domain.audit import AuditLineRow
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import AgendaEntry, FailedAttemptRow, RunRow, SiblingRows
from quarterjack.ports.records import RowPage
from quarterjack.state.transition import Transition
from quarterjack.values import value


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """The answer to claims. A ref in none of the three was not answered."""

    created: frozenset[RunRef] = frozenset()
    existing: Mapping[RunRef, RunRow] = field(default_factory=dict)  # created earlier
    unreadable: frozenset[RunRef] = frozenset()  # created earlier, as a row that this release cannot read as a run


@dataclass(frozen=True, kw_only=True)
class BatchReadResult:
    """The answer to a batch read: a ref that is neither found nor unanswered has no row."""

    found: Mapping[RunRef, RunRow] = field(default_factory=dict)
    unanswered: frozenset[RunRef] = frozenset()  # or its row cannot be read as a run by this release


@value(kw_only=True)
class TransitionResult:
    """The answer to one transition: whether it was applied, and the row as it is now (None: there is none)."""

    applied: bool
    run: RunRow | None


class BesideKind(StrEnum):
    """The kinds of sibling rows that a job writes beside its run's row."""

    STEP = "step"  # the result of one step; recorded once
    CHECKPOINT = "checkpoint"  # the state from which the next slice continues; each replaces the last
    RESULT = "result"  # a result too large for the row


@value(kw_only=True)
class CommitResult:
    """The answer to a job's transaction; nothing was written unless it is ``committed``."""

    committed: bool = False
    recorded: bool = False  # the step of that name was recorded before
    refused: int | None = None  # the place of the job's first item whose condition does not hold
    # None of the three: the lease does not hold the run any more.


class Ledger(Protocol):
    """The runs of all tenants. An owner is "tenant/name" of a schedule, or a tenant's owner of one-offs."""

    def claim(self, runs: Sequence[RunRow]) -> ClaimResult:
        """Put each run unless its key exists."""

    def put(self, run: RunRow, line: AuditLineRow) -> RunRow | None:
        """Put a run as ``claim`` does, with the line of the act: None, or the run that exists. Raises Unreadable."""

    def move(self, ref: RunRef, transition: Transition, line: AuditLineRow | None = None) -> TransitionResult:
        """Apply one transition. A write whose response was lost counts as applied if the row shows it.

        With the ``line`` of an act it is a transaction, and the row is read after it.
        """

    def reschedule(
        self, ref: RunRef, transition: Transition, *, put: AgendaEntry, remove: AgendaEntry, line: AuditLineRow
    ) -> TransitionResult:
        """Apply a transition and replace the agenda entry of the run, in one transaction; the row is read after it."""

    def move_all(self, moves: Sequence[tuple[RunRef, Transition]]) -> Mapping[RunRef, bool]:
        """Apply transitions in batches: True applied, False refused, absent not answered.

        Raises TypeError for a transition that PartiQL cannot express: alternatives in its guard, or a change that depends on the row.
        """

    def lease_all(
        self, leases: Sequence[tuple[RunRef, Transition]], *, known: Collection[RunRef] = ()
    ) -> Mapping[RunRef, TransitionResult]:
        """Take leases of runs in batches; each must be its run's ``first``. A ref that is absent from the result was not answered.

        For ``known`` runs the row may be missing from an applied result; a refusal always has it. Raises TypeError as ``move_all``.
        """

    def read(self, ref: RunRef) -> RunRow | None:
        """One run with its payload; None if there is none."""

    def look(self, refs: Sequence[RunRef], *, whole: bool = False) -> BatchReadResult:
        """Runs in batches; with the payloads in sibling rows if ``whole``, which are a second batch where there are any."""

    def never_leased(self, owner: str, *, after: int | None, upto: int | None = None) -> Iterator[RunRow]:
        """QUEUED runs of a schedule with fires in ``(after, upto]`` (UTC ms; None: unbounded), oldest first."""

    def window(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        """All runs of a schedule with fires in ``(after, upto]``, oldest first."""

    def unfinished(
        self, parts: Mapping[int, str], *, segments: int, rows: int | None = None
    ) -> tuple[list[RunRow], dict[int, str]]:
        """A page of each of these parts of the ledger, side by side: its runs that are not terminal.

        ``parts``: numbers from 0 to ``segments`` - 1, each with the cursor that an earlier call gave, or "" for its beginning. The second
        value has the cursors of those that are not at their end. A page is at most 1 MiB and ``rows`` rows, those of ended runs included.
        Read with eventual consistency.
        """

    def runs(self, *, segment: int, segments: int, tenant: str | None = None) -> Iterator[RunRow]:
        """All runs of one segment of the ledger, or those of one tenant among them, read with eventual consistency."""

    def relist(self, ref: RunRef, *, now: int) -> bool:
        """Mark an ended run, so that its row passes the stream again; False if it has not ended."""

    def latest(self, owner: str, *, upto: int) -> Iterator[RunRow]:
        """Runs of a schedule with fires up to ``upto`` (UTC ms), newest first. Pages are read as the iterator advances."""

    def succeeded(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        """SUCCEEDED runs of a schedule with fires in ``(after, upto]``, newest first. Pages are read as the iterator advances."""

    def page(
        self, owner: str, *, after: int | None, upto: int | None, limit: int, cursor: str | None, newest_first: bool
    ) -> RowPage:
        """One page of a schedule's runs in order of fire time. ``cursor`` is the key of the last run that was read."""

    def last_runs(self, owners: Sequence[str], *, upto: int, limit: int) -> Mapping[str, Sequence[RunRow]]:
        """Of each schedule the last runs that were due by ``upto`` (UTC ms), newest first: a query each, all at the same time.

        Eventually consistent: a run's last change within a second may be missing. Raises Unavailable.
        """

    def submit(self, run: RunRow, line: AuditLineRow | None = None) -> RunRow | None:
        """Put a one-off with its payload, and the ``line`` of the act, unless its key exists: None, or the run that exists."""

    def record(self, attempt: FailedAttemptRow) -> None:
        """Put the immutable row of a failed attempt."""

    def attempts(self, ref: RunRef) -> Sequence[FailedAttemptRow]:
        """The failed attempts of a run, oldest first."""

    def keep(self, ref: RunRef, *, fence: int, kind: BesideKind, name: str, text: str, expires: int) -> bool:
        """Put a sibling row of a run, in one transaction with the check that the lease of this ``fence`` still holds the run.

        False, and nothing is written, if it does not, or if a STEP of that ``name`` exists. ``text`` is JSON, ``expires`` is UTC ms.
        """

    def commit(
        self, ref: RunRef, *, fence: int, step: str, text: str, expires: int, items: Sequence[Mapping[str, Any]]
    ) -> CommitResult:
        """Record a step as ``keep`` does, in one transaction with a job's own ``items`` (as boto3's ``transact_write_items`` takes them).

        Raises InvalidInput for items that DynamoDB does not take, or of a table of Quarterjack's; Misconfigured, Unavailable.
        """

    def beside(self, ref: RunRef) -> SiblingRows:
        """The sibling rows of a run, in one query."""
