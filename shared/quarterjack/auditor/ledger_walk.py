"""The ledger: runs of any age whose message must be lost, such as one-offs; and large payloads that nothing needs any more.

An audit reads one group of parts of the ledger, side by side, a page of each a step. A group that is too large for one audit continues
in the next, behind the key that was read last.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from quarterjack.auditor.payloads import remove_payloads
from quarterjack.auditor.repairs import is_stuck, resend
from quarterjack.auditor.run_walk import WINDOW
from quarterjack.auditor.walk import Round
from quarterjack.domain.names import RunRef


class LedgerWalk:
    """Through this hour's group of parts; nothing else would find their lost messages."""

    share = 20

    def __init__(self, state: Round, *, segments: int, most: int) -> None:
        self._state, self._segments, self._most = state, segments, most

    def step(self) -> bool:
        progress = self._state.progress
        first = progress.segment % self._segments
        group = range(first, min(first + self._most, self._segments))
        begun = {number: progress.parts[str(number)] for number in group if str(number) in progress.parts}
        rows, rest = self._state.services.ledger.unfinished(begun or dict.fromkeys(group, ""), segments=self._segments)
        for run in rows:
            if is_stuck(run, self._state.clock() - WINDOW):
                self._state.guarded({"run_id": str(run.ref)}, partial(self._resend, run.ref))
        progress.parts = {str(number): cursor for number, cursor in rest.items()}
        if not rest:
            progress.segment = group.stop % self._segments
        return not rest

    def _resend(self, ref: RunRef) -> None:
        services, clock = self._state.services, self._state.clock
        fresh = services.ledger.read(ref)
        if fresh is not None and is_stuck(fresh, clock() - WINDOW):
            self._state.report.overdue += resend(fresh, services, clock)


class PayloadWalk:
    """Through all large payloads, once in each pass through the ledger, before its first part."""

    share = 10

    def __init__(self, state: Round) -> None:
        self._state = state
        self._batches: Iterator[tuple[str, int]] | None = None

    def step(self) -> bool:
        progress = self._state.progress
        if self._batches is None:
            if not progress.removing and (progress.segment or progress.parts):
                return True
            self._batches = remove_payloads(self._state.services, self._state.clock, after=progress.removing)
        done, removed = next(self._batches, ("", 0))
        progress.removing = done
        self._state.report.removed += removed
        return not done
