"""What a run executes: from its row and the revision that defines it, never from a message, which anybody who may send can write."""

from __future__ import annotations

from quarterjack.domain.names import RunRef
from quarterjack.domain.payload import is_in_folder_of
from quarterjack.domain.policies import NO_OVERRIDES, Overrides, Priority, Start
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import Revision
from quarterjack.values import replace, value


@value(kw_only=True)
class RunSpec:
    """The job of a run, and how it is called."""

    job: str  # name of the job
    due: int  # UTC ms of the fire, or the time a one-off was submitted for
    payload: str | None = None  # JSON text; None: it is in the bucket
    payload_ref: str | None = None  # key in the bucket
    timezone: str = "UTC"  # of the schedule, for ctx.scheduled_at
    overrides: Overrides = NO_OVERRIDES  # policies that differ from the job's own
    queue: str | None = None  # name of its declared queue; None: the default one

    @property
    def start(self) -> Start:
        return self.overrides.start or Start.PROMPT

    @property
    def priority(self) -> Priority:
        return self.overrides.priority or Priority.NORMAL

    def payload_problem(self, run: RunRef) -> str | None:
        """Why it has no payload that its job may see; None: it has one."""
        if self.payload is None and self.payload_ref is None:
            return "its payload has left the ledger"
        if self.payload_ref is not None and not is_in_folder_of(self.payload_ref, run.tenant):
            return f"payload_ref={self.payload_ref!r} is not of tenant {run.tenant!r}"
        return None


def own_overrides(of_schedule: Overrides, of_run: str | None) -> Overrides:
    """The policies of a schedule's run: those of the schedule, and what its trigger says instead (JSON text)."""
    if of_run is None:
        return of_schedule
    return replace(
        of_schedule, **{name: value for name, value in vars(Overrides.parse(of_run)).items() if value is not None}
    )


def says_more(ref: RunRef, backfill: str | None) -> bool:
    """Whether the row of a run says more of it than its key and its revision do: that of no chain's fire."""
    return not ref.is_fire or backfill is not None


def of_one_off(run: RunRow) -> RunSpec:
    """What a one-off executes."""
    return RunSpec(
        job=run.job,
        due=run.due,
        payload=run.payload,
        payload_ref=run.payload_ref,
        timezone=run.timezone or "UTC",
        overrides=Overrides.parse(run.overrides),
        queue=run.queue,
    )


def of_schedule(ref: RunRef, revision: Revision, run: RunRow | None = None) -> RunSpec:
    """What a run of a schedule executes. ``revision``: the one that defines it; ``run``: its row, unless that says no more."""
    definition = revision.definition
    own = run is not None and (run.payload_beside or run.payload is not None or run.payload_ref is not None)
    return RunSpec(
        job=definition.job,
        due=ref.instant or 0,
        payload=run.payload if run is not None and own else definition.payload,
        payload_ref=run.payload_ref if run is not None and own else definition.payload_ref,
        timezone=definition.rule.timezone,
        overrides=own_overrides(definition.overrides, None if run is None else run.overrides),
        queue=definition.options.queue,
    )
