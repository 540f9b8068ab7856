"""Runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from minutehand.domain.names import RunRef
from minutehand.domain.quick import quick
from minutehand.domain.run import FailedAttemptRow, RunRow, SiblingRows
from minutehand.ports.page import RowPage
from minutehand.state.transitions.transition import Transition


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """Answer to claims: created now, or there already. A ref in none of the three was not answered."""

    created: frozenset[RunRef] = frozenset()
    existing: Mapping[RunRef, RunRow] = field(default_factory=dict)
    unreadable: frozenset[RunRef] = frozenset()  # there already, as a row that this release cannot read as a run


@dataclass(frozen=True, kw_only=True)
class BatchReadResult:
    """Answer to a look at runs: a ref that is neither found nor unanswered has no row."""

    found: Mapping[RunRef, RunRow] = field(default_factory=dict)
    unanswered: frozenset[RunRef] = frozenset()  # or there as a row that this release cannot read as a run


@quick
@dataclass(frozen=True, kw_only=True)
class TransitionResult:
    """Answer to one transition: whether it was applied, and the row as it is now (None: there is none)."""

    applied: bool
    run: RunRow | None


class BesideKind(StrEnum):
    """What a job leaves beside its run's row."""

    STEP = "step"  # the result of one step; recorded once
    CHECKPOINT = "checkpoint"  # the state to go on from; each replaces the last
    RESULT = "result"  # a result too large for the row


class Ledger(Protocol):
    """Runs."""

    def claim(self, runs: Sequence[RunRow]) -> ClaimResult:
        """Put each run unless its key exists."""

    def move(self, ref: RunRef, transition: Transition) -> TransitionResult:
        """Apply one transition. A write that took effect although its answer got lost counts as applied."""

    def move_all(self, moves: Sequence[tuple[RunRef, Transition]]) -> Mapping[RunRef, bool]:
        """Apply many transitions in batches: True applied, False refused, absent not answered."""

    def lease_all(
        self, leases: Sequence[tuple[RunRef, Transition]], *, known: Collection[RunRef] = ()
    ) -> Mapping[RunRef, TransitionResult]:
        """Take leases of many runs, each one's ``first``, in batches. A ref that is absent from the answer was not answered.

        Of ``known`` runs the row need not come back with a lease that was taken; with a refusal it does.
        """

    def read(self, ref: RunRef) -> RunRow | None:
        """One run, read strongly, its payload included."""

    def look(self, refs: Sequence[RunRef]) -> BatchReadResult:
        """Many runs, read strongly in batches, without the payloads that lie beside them."""

    def never_leased(self, owner: str, *, after: int | None, upto: int | None = None) -> Iterator[RunRow]:
        """QUEUED runs of a schedule with fires in ``(after, upto]`` (UTC ms; None: unbounded), read strongly."""

    def window(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        """All runs of a schedule with fires in ``(after, upto]``, oldest first."""

    def unfinished(self, *, segment: int, segments: int) -> Iterator[RunRow]:
        """Every run of one segment of the ledger that has not ended, read eventually: for the auditor."""

    def latest(self, owner: str, *, upto: int) -> Iterator[RunRow]:
        """Runs of a schedule with fires up to then, newest first; read as far as they are asked for."""

    def succeeded(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        """SUCCEEDED runs of a schedule with fires in ``(after, upto]``, newest first; read as far as they are asked for."""

    def page(
        self, owner: str, *, after: int | None, upto: int | None, limit: int, cursor: str | None, newest_first: bool
    ) -> RowPage:
        """Runs of a schedule in order of fire time."""

    def submit(self, run: RunRow) -> RunRow | None:
        """Put a one-off with its payload unless its key exists; the existing run, or None if this one was put."""

    def record(self, attempt: FailedAttemptRow) -> None:
        """Put the immutable row of a failed attempt."""

    def attempts(self, ref: RunRef) -> Sequence[FailedAttemptRow]:
        """The failed attempts of a run, oldest first."""

    def keep(self, ref: RunRef, *, fence: int, kind: BesideKind, name: str, text: str, expires: int) -> bool:
        """Put what a job leaves beside its run, in one transaction with the check that the fence still holds the run.

        False, and nothing written, if it does not, or if a STEP of that name is there. ``expires`` is UTC ms.
        """

    def beside(self, ref: RunRef) -> SiblingRows:
        """All that lies beside a run, in one query."""
