"""The index of dead runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from quarterjack.domain.audit import AuditLineRow
from quarterjack.domain.run import DeadRunRow
from quarterjack.ports.records import OnRead
from quarterjack.state.transition import Condition


class DeadIndex(Protocol):
    """One line for each dead run. Only the undertaker writes lines, so that other runs cost nothing here."""

    def put(self, dead: DeadRunRow, *, expires: int) -> bool:
        """Put a line that expires at ``expires`` (UTC ms); False, and nothing is written, if it exists."""

    def read(
        self, tenant: str, *, after: int, upto: int, only: Condition | None, before: str | None, page: int | None
    ) -> Iterator[DeadRunRow]:
        """A tenant's runs that died in ``(after, upto]`` (UTC ms), newest first. Pages are read as the iterator advances.

        ``only``: a condition on the line. ``before``: only lines beyond this key. ``page``: lines of one query; None: as many as fit.
        """

    def pages(
        self,
        tenant: str,
        *,
        after: int,
        upto: int,
        only: Condition | None,
        before: str | None,
        rows: int,
        on_read: OnRead,
    ) -> Iterator[tuple[Sequence[DeadRunRow], str]]:
        """As ``read``, a query of so many ``rows`` at a time: the runs that meet ``only``, and the key from which the next query goes on.

        ``on_read`` gets the read units of each query.
        """

    def mark(self, dead: DeadRunRow, *, redriven_as: str) -> bool:
        """Write the id of the run that repeats this one; False if the line no longer exists."""

    def remove(self, dead: Sequence[DeadRunRow], line: AuditLineRow) -> bool:
        """Delete at most 98 lines in one transaction with the act's ``line``; False, and nothing is deleted, if one does not exist."""
