"""A schedule with a past, and an onlooker who counts the runs of a backfill that have not ended, after every call of anybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import Revision
from quarterjack.sdk.backfills import Backfill
from quarterjack.testing import Detail
from quarterjack.timing import fires, timetable
from quarterjack.worker.stages import Outcome

from tests.support.scenes.world import OWNER, Faults, World


class At(Faults):
    """Something happens before or after the n-th call of a process."""

    def __init__(self, number: int, what: Callable[[], object], *, before: bool) -> None:
        super().__init__()
        self.number, self.what, self.before = number, what, before

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        answer = super().before_call(operation, detail)
        if self.before and len(self.calls) == self.number:
            self.what()
        return answer

    def after_call(self, operation: str, detail: Detail) -> None:
        super().after_call(operation, detail)
        if not self.before and len(self.calls) == self.number:
            self.what()


class Scene(World):
    """A world whose schedule ``s`` was created, updated, paused and resumed, and of which part has run."""

    def past(self) -> Scene:
        """Every minute for ten minutes, then every 90 s for ten, ten of pause, then every 2 minutes; the fires up to now have run."""
        self.scheduler.create_schedule("s", "note", "* * * * *", payload=1)
        self.live(600)
        self.scheduler.update_schedule("s", expression="rate(90 seconds)", payload=2)
        self.live(600)
        self.scheduler.pause_schedule("s")
        self.live(600)
        self.scheduler.resume_schedule("s")
        self.scheduler.update_schedule("s", expression="*/2 * * * *", payload=3)
        self.live(600)
        return self

    def idle(self, job: str = "note") -> Scene:
        """A schedule that was paused at once for 20 minutes and has no fires for months now: of 19 minutely ones none has run."""
        self.scheduler.create_schedule("s", job, "* * * * *")
        self.scheduler.pause_schedule("s")
        self.wait(1_200)
        self.scheduler.update_schedule("s", expression="0 0 1 1 *")
        self.scheduler.resume_schedule("s")
        self.live(1)
        return self

    # What must be.

    def oracle(self, start: int, end: int) -> list[int]:
        """The fires in ``[start, end)`` (UTC ms) as the revisions have them, a pause belonging to the revision that was paused."""
        revisions = self.memory.revisions(OWNER)
        bounds = [revision.active_from for revision in revisions[1:]] + [end]
        due: list[int] = []
        for revision, until in zip(revisions, bounds, strict=True):
            table = timetable(revision.definition.rule, anchor=revision.counts_from, key=OWNER)
            due += [f for f in fires(table, max(revision.active_from, start - 1), min(until, end - 1)) if f < end]
        return due

    def definer(self, fire: int) -> Revision:
        """The revision whose time a fire lies in."""
        return [revision for revision in self.memory.revisions(OWNER) if revision.active_from < fire][-1]

    # What is.

    def of(self, backfill: Backfill) -> list[RunRow]:
        """The runs that a backfill claimed, in order of time."""
        return [run for run in self.memory.runs(OWNER) if run.backfill == backfill.id]

    def fired(self) -> list[int]:
        """All fires that have a run which started, in order of time (UTC ms)."""
        begun = {start.run_id for start in self.started}
        return [run.due for run in self.memory.runs(OWNER) if str(run.ref) in begun and run.ref.is_fire]

    def starts(self) -> Counter[int]:
        """How often each fire started, by seconds after NOON."""
        return Counter(self.began())

    def now_is(self, backfill: Backfill) -> Backfill:
        assert backfill.id is not None
        return self.scheduler.get_backfill("s", backfill.id)

    def until_over(self, backfill: Backfill, seconds: int = 3_600) -> Backfill:
        """Let time pass until it has ended, a minute at a time."""
        for _ in range(seconds // 60):
            if self.now_is(backfill).ended_at is not None:
                break
            self.live(60)
        return self.now_is(backfill)

    def settle_down(self) -> list[Outcome]:
        """Long enough for every lease, message and entry that was left to be dealt with."""
        return self.live(15 * 60)


class Onlooker(Faults):
    """After every call: how many runs of any backfill have not ended."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene, self.most = scene, 0

    def after_call(self, operation: str, detail: Detail) -> None:
        super().after_call(operation, detail)
        live = [run for run in self.scene.memory.runs(OWNER) if run.backfill and not run.is_terminal]
        self.most = max(self.most, len(live))


def whole(**given: Any) -> dict[str, Any]:
    """Arguments of a backfill that is not only planned."""
    return {"dry_run": False} | given
