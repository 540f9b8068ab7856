"""Recorded histories: all that can become of a run happens, historians keep record of it, and at the end what they wrote must be true.

Owners, tickers and workers are those of rich histories, among scenes that are in every history. The historians suffer the same faults;
at the end they catch up, and ``projections`` compares archive, pages and ledger, ``accounts`` acts with lines and ends with events.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

from quarterjack import Context, Retry
from quarterjack.auditor.audit import audit
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND
from quarterjack.errors import QuarterjackError, WaitTimedOut
from quarterjack.historian import pages
from quarterjack.historian import rebuild as rebuilding
from quarterjack.historian.archive import compact_archive
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.historian.progress import OWNER, gaps

from tests.support.histories.accounts import AuditWitness, EventReceiver
from tests.support.histories.projections import Projections
from tests.support.histories.recorded_feed import Feed, Witness
from tests.support.histories.recorded_scenes import SCENES, TAGS, Cast
from tests.support.histories.rich import Rich
from tests.support.histories.simulator import Faults, Process
from tests.support.scenes.world import NOON

REST = 45 * MINUTE
LATE = 12 * MINUTE  # what stalled comes back within ten
AGED = 20 * SECOND  # ms after its end from which a row may be removed here


class Recorded(Rich):
    """One seed, one history of six busy minutes and an hour in which it all ends."""

    busy = 6 * MINUTE
    between = (1, 5, 20, 40)

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.jobs.job("slow", retry=Retry(max_attempts=3, base=1_500.0, cap=1_500.0))(self._slow)
        self.jobs.job("doomed", retry=Retry(max_attempts=1))(self._doomed)
        self.jobs.job("moody", retry=Retry(max_attempts=1))(self._moody)
        self.jobs.job("asks")(self._asks)
        self.is_moody = True
        self.witness = Witness(self.stage)
        self.audited, self.receiver = AuditWitness(self.stage), EventReceiver(self.stage)
        self.feed = Feed(self.stage, self.witness, self.receiver, local=seed % 3 != 0, function=seed % 3 != 1)
        self.cast = Cast(self)
        self.scenes = list(SCENES)
        self.next_care = NOON + MINUTE

    def run(self) -> list[str]:
        # So that few entries make pages of every kind, and a rebuild reads few parts of the ledger.
        with patch.multiple(pages, LARGE=8, MANY=20, MOST=15), patch.object(rebuilding, "SEGMENTS", 2):
            return super().run()

    def _run(self) -> list[str]:
        stage = self.stage
        try:
            self._live(NOON + self.busy)
            found = self._violations()
            if found:
                return found
            self.rest()
            self.going = False
            stage.process("owner", self._come_to_rest)
            self._live(NOON + self.busy + 30 * MINUTE)
            stage.process("auditor", lambda process: audit(process.services, clock=process.clock))
            self._live(NOON + self.busy + REST)
            self.expire(lambda run: hash_of(run) % 3 == 0)
            self._live(NOON + self.busy + REST + LATE)
            return self._violations() or self._later()
        finally:
            stage.close()

    def _later(self) -> list[str]:
        """The hours are over, and folded while a historian that was away writes into them."""
        for hours in (2, 2, 3):
            self.cast.late()
            self.stage.now += hours * HOUR
            self.next_tick = self.stage.now
            self.stage.faults = self.faults
            self._live(self.stage.now + 4 * MINUTE)
            self.rest()
            self._live(self.stage.now + LATE)
            found = self._violations()
            if found:
                return found
        return self._counted()

    def _counted(self) -> list[str]:
        """Once all hours are folded, the statistics are those of the ledger."""
        stage = self.stage
        stage.now += 3 * HOUR
        services = stage.memory.connect()
        compact_pages(services, clock=lambda: stage.now, budget=HOUR)
        projections = Projections(self.witness.changes, services, stage.now, TAGS)
        return list(projections.statistics())

    def _arrivals(self, quiet: bool) -> None:
        super()._arrivals(quiet)
        self.feed.arrivals()
        if self.stage.now >= self.next_care:
            self.next_care += (2 if self.stage.now < NOON + self.busy else 20) * MINUTE
            for name, care in (("compactor", self._compact), ("folder", self._fold), ("rebuilder", self._rebuild)):
                self.stage.process(name, care)
        while self.scenes and self.stage.now >= NOON + self.scenes[0][0] * SECOND:
            _, scene = self.scenes.pop(0)
            try:
                scene(self.cast)
            except QuarterjackError as problem:
                raise AssertionError(f"{scene.__name__}: {problem}") from problem

    def _compact(self, process: Process) -> None:
        """As if the hour were over."""
        compact_archive(process.services.archive, clock=lambda: process.clock() + 2 * HOUR, budget=HOUR)

    def _fold(self, process: Process) -> None:
        compact_pages(process.services, clock=process.clock, budget=HOUR)

    def _rebuild(self, process: Process) -> None:
        """In half of the histories, for a rebuild would repair what a historian does wrong."""
        if self.stage.seed % 2:
            return
        rebuilding.rebuild(_spec(process.clock()), process.services, clock=process.clock)

    def _slow(self, ctx: Context, payload: object) -> None:
        self._begins(ctx)
        if ctx.attempt == 1:
            raise RuntimeError("not the first time")

    def _doomed(self, ctx: Context, payload: object) -> None:
        self._begins(ctx)
        raise ValueError("never")

    def _asks(self, ctx: Context, payload: object) -> None:
        self._begins(ctx)
        with suppress(WaitTimedOut):
            ctx.wait_for("go", timeout=100)

    def _moody(self, ctx: Context, payload: object) -> None:
        self._begins(ctx)
        if self.is_moody:
            raise ValueError("not now")

    def _look(self, process: Process, detail: Any) -> None:
        self.audited.look()
        super()._look(process, detail)

    def expire(self, chosen: Callable[[RunRow], bool]) -> None:
        """Remove rows that have ended, as DynamoDB does after their retention."""
        for run in self.stage.memory.runs():
            aged = (run.ended_at or self.stage.now) < self.stage.now - AGED
            if run.is_terminal and aged and chosen(run):
                self.stage.memory._runs.delete(*run.ref, expired=True)
                self.stage.count("expired rows")

    def _violations(self) -> list[str]:
        found = [] if self.feed.catch_up() else ["behind: the historians do not catch up"]
        self.witness.look()
        memory = self.stage.memory
        compared = Projections(self.witness.changes, memory.connect(), self.stage.now, TAGS)
        found += compared.violations(memory.runs())
        return [*found, *self.audited.violations(), *self.receiver.violations(self.witness.changes)]


class Unfollowed(Recorded):
    """Recorded histories whose historian is away for 25 hours in which runs end, and whose history is then made again."""

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.feed = Feed(self.stage, self.witness, self.receiver, local=True, function=False)

    def _run(self) -> list[str]:
        stage = self.stage
        try:
            self._live(NOON + self.busy)
            found = self._violations()
            self.feed.leave()
            self.next_care = NOON + 100 * HOUR
            self._live(NOON + 2 * self.busy)
            self.cast.late()
            self.rest()
            stage.process("owner", self._come_to_rest)
            self._live(NOON + REST)
            self.witness.look()  # before the stream forgets
            stage.now += 25 * HOUR
            self.next_tick = stage.now
            self.cast.late()
            self.feed.come_back()
            self.stage.faults = self.faults
            stage.process("rebuilder", self._made_again_beside)
            self._live(stage.now + 5 * MINUTE)
            self.rest()
            self._live(stage.now + LATE)
            return [*found, *self._made_again()]
        finally:
            stage.close()

    def _made_again_beside(self, process: Process) -> None:
        """A rebuild beside the historian, which may die on the way."""
        rebuilding.rebuild(_spec(process.clock()), process.services, clock=process.clock)

    def _made_again(self) -> list[str]:
        behind = [] if self.feed.catch_up() else ["behind: the historians do not catch up"]
        self.witness.look()
        memory, now = self.stage.memory, self.stage.now
        services = memory.connect()
        reported = [] if list(services.records.listed(OWNER, "~gap~")) else ["no gap was reported"]
        rebuilding.rebuild(_spec(now), services, clock=lambda: now)
        left = [f"gap: {gap} is filled" for gap in gaps(services)]
        return [*behind, *reported, *left, *Projections(self.witness.changes, services, now, TAGS).pages()]


def _spec(now: int) -> rebuilding.RebuildSpec:
    return rebuilding.RebuildSpec(tenant=None, after=now - 3 * DAY, upto=now + 100 * DAY)


def hash_of(run: RunRow) -> int:
    return sum(str(run.ref).encode())
