"""The audit's lines and the closes of its days. Lines are written by the stores, in the transactions of the acts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quarterjack.domain.audit import AuditLineRow, DayClose
from quarterjack.ports.records import OnRead, RowPage
from quarterjack.state.transition import Condition


@dataclass(frozen=True, kw_only=True)
class StoredLine:
    """A line as it was found in the table."""

    key: str
    digest: str  # as it is stored
    line: AuditLineRow | None  # None: its text was erased, or cannot be read
    is_genuine: bool  # the digest is that of the line; of an erased one nobody can tell
    is_erased: bool = False


@dataclass(frozen=True, kw_only=True)
class StoredClose:
    """A close as it was found in the table."""

    number: int | None  # by its key; None: the key has none
    close: DayClose | None  # None: it cannot be read
    is_genuine: bool  # the stored digest is that of the close
    problem: str = ""  # why it cannot be read


@dataclass(frozen=True, kw_only=True)
class ShutDays:
    """The days of which ``shut`` was called, by their gates."""

    days: frozenset[int]
    damaged: Mapping[int | None, str] = field(
        default_factory=dict
    )  # by day: what is wrong with its gates; None: no day is known


class Audit(Protocol):
    """Lines are only ever added, closes only ever put where there is none."""

    def register(self, tenant: str, day: int) -> None:
        """Before the first line of a day: remember that the tenant may have some. Once a process. Raises Unavailable."""

    def write(self, line: AuditLineRow) -> None:
        """A line of an act that writes nothing else. Raises Unavailable, also if its day is closed."""

    def page(
        self,
        tenant: str,
        day: int,
        *,
        first: str,
        last: str,
        only: Condition | None,
        limit: int,
        on_read: OnRead | None = None,
    ) -> RowPage:
        """Lines of a day with keys in ``[first, last]``, newest first, that meet ``only``, in one query of ``limit`` rows.

        A line that was erased or cannot be read is left out. The page's cursor is the key of the last row that was read, None at the
        end of the day.
        """

    def lines(self, tenant: str, day: int) -> Iterator[StoredLine]:
        """All lines of a day in the order of their keys."""

    def tenants(self, day: int) -> Sequence[str]:
        """The tenants that may have lines of a day."""

    def shut_days(self, tenant: str, first: int, last: int) -> ShutDays:
        """The days of an interval, both included, of which ``shut`` was called, and gates among them that are damaged."""

    def shut(self, tenant: str, day: int, *, now: int) -> None:
        """From the return on no line of that day is accepted."""

    def closes(self, tenant: str, *, newest: int | None = None) -> Sequence[StoredClose]:
        """All closes of a tenant, or so many of the newest, in the order of their numbers, also those that cannot be read."""

    def close(self, close: DayClose) -> bool:
        """Put a close; False, and nothing is written, if its number exists."""

    def done_days(self) -> frozenset[int]:
        """The days of which ``mark_done`` was told."""

    def mark_done(self, day: int) -> None:
        """Remember that all tenants of a day are closed."""
