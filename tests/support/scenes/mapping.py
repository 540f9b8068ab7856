"""An installation with a job that maps, and what its window did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from quarterjack import Context, Retry, Run
from quarterjack.domain.run import RunRow
from quarterjack.errors import Permanent
from quarterjack.fires.windows.advance import read_window
from quarterjack.state.waits.window import ItemWindow, map_ref
from quarterjack.testing.process import Hand
from quarterjack.worker.context import WorkerContext

from tests.support.scenes.parking import Parking

SOON = Retry(max_attempts=3, base=1.0, jitter=0.0)


@dataclass
class Mapping(Parking):
    """``unfinished`` is the largest number of items that had not ended at the start of one, ``ran`` how often each payload ran."""

    unfinished: int = 0
    ran: Counter[object] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.jobs.job("item", retry=SOON)(self._item)
        self.jobs.job("mapper", retry=SOON)(self._mapper)

    def _item(self, ctx: Context, payload: Any) -> Any:
        self.ran[str(payload)] += 1
        self.unfinished = max(self.unfinished, len(self.alive(ctx.run_id)))
        self.during(ctx)
        if payload == "bad":
            raise Permanent("as it was told")
        return payload

    def _mapper(self, ctx: Context, payload: dict[str, Any]) -> Any:
        self.called.append(ctx.job)
        return list(ctx.map("item", payload.pop("items"), **payload))

    def alive(self, of: str) -> list[RunRow]:
        """The items of the map of one of them that have not ended."""
        head = of.rpartition(":")[0]
        return [run for run in self.memory.runs() if str(run.ref).startswith(f"{head}:") and not run.is_terminal]

    def items(self, run: Run | str) -> list[RunRow]:
        """The runs of a mapper's items, in their order."""
        parent = run if isinstance(run, str) else run.id
        found = [each for each in self.memory.runs() if each.parent == parent]
        return sorted(found, key=lambda each: each.child_no or 0)

    def window(self, run: Run, step: str = "item") -> ItemWindow:
        window = read_window(map_ref(self.row(run.id).ref, step), self.services)
        assert window is not None
        return window

    def mapped(self, items: Any, **options: Any) -> Run:
        """A mapper that a worker has taken, and nobody its items."""
        run = self.scheduler.submit("mapper", {"items": items, **options})
        self.take()
        return run

    def take(self, worker: WorkerContext | None = None) -> None:
        """A worker takes one message, and what that brings stays for others."""
        Hand(worker=worker or self.worker()).work(most=1)
