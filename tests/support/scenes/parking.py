"""An installation with jobs that wait: for a time, for a signal, for children."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quarterjack import Context, Run, RunState
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import RunRow

from tests.support.scenes.world import World

HOUR = 3_600  # seconds


@dataclass
class Parking(World):
    """``called`` has the name of the job of each slice."""

    called: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.jobs.job("nap")(self._nap)
        self.jobs.job("ask")(self._ask)
        self.jobs.job("family")(self._family)
        self.jobs.job("ask-once", delivery="at_most_once")(self._ask)
        self.jobs.job("nap-once", delivery="at_most_once")(self._nap)
        self.jobs.job("nap-exact", start="exact")(self._nap)
        self.scheduler = self.owner()

    def _nap(self, ctx: Context, payload: Any) -> str:
        self.called.append(ctx.job)
        ctx.sleep(payload or HOUR)
        return "rested"

    def _ask(self, ctx: Context, payload: Any) -> Any:
        self.called.append(ctx.job)
        return ctx.wait_for("go", timeout=payload or 24 * HOUR)

    def _family(self, ctx: Context, payload: Any) -> Any:
        self.called.append(ctx.job)
        return ctx.gather([ctx.submit(job, step=f"{n}-{job}") for n, job in enumerate(payload)])

    def parked(self, job: str, payload: Any = None, **options: Any) -> Run:
        """A run after its first slice."""
        run = self.scheduler.submit(job, payload, **options)
        self.work()
        assert self.row(run.id).state is RunState.PARKED
        return run

    def row(self, run_id: str) -> RunRow:
        run = self.services.ledger.read(parse_run_id(run_id))
        assert run is not None
        return run

    def state(self, run: Run | str) -> str:
        return str(self.row(run if isinstance(run, str) else run.id).state)
