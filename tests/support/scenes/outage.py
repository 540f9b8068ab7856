"""What tests of outages share: a ticker that dies, and a schedule's rows after it."""

from __future__ import annotations

from collections.abc import Sequence

from quarterjack.domain.run import RunRow
from quarterjack.testing import Crash, Detail, Hook, Memory


def divided(memory: Memory, owner: str) -> tuple[dict[int, RunRow], list[RunRow]]:
    """A schedule's runs by their fires, and its gaps."""
    runs = memory.runs(owner)
    return {run.due: run for run in runs if run.ref.is_fire}, [run for run in runs if not run.ref.is_fire]


class Dying(Hook):
    """The process dies before or after its n-th call."""

    def __init__(self, number: int = 10**9, *, after: bool = False) -> None:
        self.left, self.after, self.calls = number, after, 0

    def before_call(self, operation: str, detail: Detail) -> Sequence[int]:
        self.calls += 1
        self.left -= 1
        if self.left < 0 and not self.after:
            raise Crash
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        if self.left < 0:
            raise Crash
