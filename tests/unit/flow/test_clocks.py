"""Clocks that are wrong all the time: each role has one of its own, ten seconds off (nothing breaks) or ninety (nothing is lost).

The stories here are without faults, so that what they show is the clocks' doing; ``test_interleaving`` has clocks with faults.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from quarterjack import Context, Retry, Scheduler
from quarterjack.auditor.audit import audit
from quarterjack.domain.names import fire_ref, schedule_owner
from quarterjack.domain.run import RunState
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.state.lease import HEARTBEAT
from quarterjack.testing.process import Hand, bury_all, make_worker
from quarterjack.ticker.tick import tick
from quarterjack.timing import fires, timetable
from quarterjack.worker.context import WorkerContext

from tests.support.parts import in_turn
from tests.support.scenes.world import NOON, START, World

NEAR, FAR = 10 * SECOND, 90 * SECOND
ROLES = ("owner", "ticker", "worker", "undertaker", "auditor")
UPDATE, PAUSE, END = 12 * MINUTE, 20 * MINUTE, 45 * MINUTE  # after NOON
LONG = 150 * SECOND  # of a job, with heartbeats
PROMPT = (
    5 * SECOND
)  # how late a start is when all clocks are right: rounding, and workers that take one message a second


@dataclass
class Story:
    """45 minutes of an installation. ``offsets``: how many ms each clock is fast; the second worker's is as slow."""

    offsets: dict[str, int]
    world: World = field(default_factory=World)
    starts: list[tuple[str, int, int]] = field(default_factory=list)  # run, attempt, true UTC ms
    paused_at: int = 0
    repairs: int = 0  # of the auditor
    second: int = 0  # after NOON

    def __post_init__(self) -> None:
        world = self.world
        for name, options in JOBS.items():
            world.jobs.job(name, **options)(self._job)
        self.scheduler = Scheduler("acme", jobs=world.jobs, services=world.process(), clock=self.clock("owner"))
        offset = self.offsets.get("worker", 0)
        self.hands = [Hand(worker=self._worker("w1", offset)), Hand(worker=self._worker("w2", -offset))]
        self.busy: set[int] = set()

    def clock(self, role: str) -> Callable[[], int]:
        return lambda: self.world.clock() + self.offsets.get(role, 0)

    def _worker(self, name: str, offset: int) -> WorkerContext:
        world = self.world
        clock = lambda: world.clock() + offset  # noqa: E731 (a clock)
        return make_worker(world.process(), world.jobs, clock, wait=world.wait, chance=random.Random(name), name=name)

    # What happens.

    def play(self) -> Story:
        owner = self.scheduler
        owner.create_schedule("s", "plain", "* * * * *")
        owner.create_schedule("dense", "plain", "rate(7 seconds)", start="exact")
        owner.create_schedule("once", "at-most-once", "*/3 * * * *")
        for job in ("fails", "again", "much-later"):
            owner.submit(job, delay=100, idempotency_key=job)
        owner.submit("long", delay=104, idempotency_key="long")  # alone: a hand does what it takes one after the other
        while self.second < END // SECOND:
            self._pass_second()
        return self

    def _pass_second(self) -> None:
        """Whoever comes now: owner, a tick a minute, an audit every ten, and workers that may have a message to receive."""
        self.second += 1
        self.world.reach(max(NOON + self.second * SECOND, self.world.clock()))
        services, ms = self.world.services, self.second * SECOND
        for at, act in ((UPDATE, self._update), (PAUSE, self._pause)):
            if ms == at:
                act()
        if ms % MINUTE == 0:
            tick(services, clock=self.clock("ticker"), holder="ticker")
        if ms % (10 * MINUTE) == 0:
            found = audit(services, clock=self.clock("auditor"))
            self.repairs += found.rearmed + found.unclaimed + found.resent
        for place in (0, 1) if self.second % 2 else (1, 0):
            self._work(place)
        bury_all(services, self.clock("undertaker"))

    def _work(self, place: int) -> None:
        if place in self.busy:
            return
        self.busy.add(place)
        self.hands[place].work(most=1)  # a hand that has the long job runs nothing else beside it
        self.busy.discard(place)

    def _update(self) -> None:
        self.scheduler.update_schedule("s", expression="*/2 * * * *")

    def _pause(self) -> None:
        for name in ("s", "dense", "once"):
            self.scheduler.pause_schedule(name)
        self.paused_at = self.world.clock()

    def _job(self, ctx: Context, payload: object) -> None:
        self.starts.append((ctx.run_id, ctx.attempt, self.world.clock()))
        if ctx.job == "fails" or (ctx.job in ("again", "much-later") and ctx.attempt == 1):
            raise ConnectionError
        if ctx.job == "long" and ctx.attempt == 1:
            self._take_long(ctx)

    def _take_long(self, ctx: Context) -> None:
        """A heartbeat every 20 s, while the queue delivers the message a second time and another worker looks at it."""
        (mine,) = self.busy
        (message,) = [m for m in self.world.memory.messages() if str(m.run) == ctx.run_id]
        self.world.memory.work.put(message.encode(), 0)
        for second in range(1, LONG // SECOND):
            self._pass_second()
            if second * SECOND % HEARTBEAT == 0:
                self.hands[mine].worker.heartbeat.beat(self.hands[mine].worker.clock())

    # What is seen.

    def owed(self) -> set[str]:
        """The runs of all fires that the revisions have, by the pure time engine, and of all one-offs."""
        found = set()
        for name in ("s", "dense", "once"):
            for revision in self.world.memory.revisions(schedule_owner("acme", name)):
                table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
                due = fires(table, revision.active_from, revision.active_until or NOON)
                found |= {str(fire_ref(revision.owner, fire)) for fire in due}
        return found | {str(run.ref) for run in self.world.memory.runs() if run.ref.is_one_off}

    def first_starts(self) -> dict[str, int]:
        """ms after its time of each run's first start."""
        due = {str(run.ref): run.due for run in self.world.memory.runs()}
        first: dict[str, int] = {}
        for run_id, _, at in self.starts:
            first.setdefault(run_id, at - due[run_id])
        return first

    def lost(self) -> list[str]:
        """What was due and never started, and not because a pause took it back."""
        cancelled = {str(run.ref) for run in self.world.memory.runs() if run.state is RunState.CANCELLED}
        return sorted(self.owed() - self.first_starts().keys() - cancelled)

    def twice(self) -> list[str]:
        """Runs of which an attempt began although the one before had not ended."""
        failed = {"fails": 3, "again": 2, "much-later": 2}
        count = Counter(run_id for run_id, _, _ in self.starts)
        due = {run_id: failed.get(run_id.partition("~")[2].partition("#")[0], 1) for run_id in count}
        return sorted(run_id for run_id, starts in count.items() if starts > due[run_id])

    def after_the_pause(self) -> list[str]:
        return [run_id for run_id, _, at in self.starts if at > self.paused_at and "~" not in run_id]

    def figures(self) -> dict[str, int]:
        late = self.first_starts().values()
        return {
            "runs": len(late),
            "early": sum(ms < 0 for ms in late),
            "late": sum(ms > NEAR for ms in late),
            "twice": len(self.twice()),
            "lost": len(self.lost()),
        }


JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "at-most-once": {"delivery": "at_most_once"},
    "fails": {"retry": Retry(max_attempts=3, base=20, jitter=0)},
    "again": {"retry": Retry(max_attempts=3, base=20, jitter=0)},
    "much-later": {"retry": Retry(max_attempts=2, base=1_200, jitter=0)},  # beyond what a queue holds back
    "long": {},
}
ONE_ROLE = [(role, sign * size) for size in (NEAR, FAR) for role, sign in product(ROLES, (1, -1))]
PARTS = 4  # `make test` plays one of these stories, `make check` all


def mixed(seed: int, size: int) -> dict[str, int]:
    dice = random.Random(seed)
    return {role: dice.choice([-size, dice.randint(-size, size), size]) for role in ROLES}


def play(offsets: dict[str, int]) -> Story:
    story = Story(offsets).play()
    assert all(run.is_terminal for run in story.world.memory.runs())
    return story


def nothing_breaks(story: Story) -> None:
    """What holds under any clocks."""
    assert story.lost() == []
    assert story.after_the_pause() == []
    assert not [run_id for run_id in story.twice() if "once/" in run_id]
    dead = story.scheduler.list_dead(since=START).items
    assert [(run.id, run.job) for run in dead] == [("acme/~fails#once", "fails")]
    states = {run.ref.owner: run.state for run in story.world.memory.runs() if run.ref.is_one_off}
    assert states.pop("acme/~fails") is RunState.DEAD
    assert set(states.values()) == {RunState.SUCCEEDED}
    assert story.repairs == 0


@in_turn(("role", "offset"), ONE_ROLE, [f"{role}{offset // SECOND:+}" for role, offset in ONE_ROLE], of=PARTS)
def test_one_role_alone_with_a_wrong_clock(role: str, offset: int) -> None:
    story = play({role: offset})
    nothing_breaks(story)
    size = abs(offset)
    late = story.first_starts().values()
    print(role, offset, story.figures())  # noqa: T201 (the figures of the documentation)
    assert -size <= min(late)
    assert max(late) <= size + PROMPT
    if size == NEAR:
        assert story.twice() == []


@in_turn("seed", range(8), [str(seed) for seed in range(8)], of=PARTS)
def test_every_role_ten_seconds_off_another_way(seed: int) -> None:
    story = play(mixed(seed, NEAR))
    nothing_breaks(story)
    assert story.twice() == []
    assert all(-NEAR <= ms <= NEAR + PROMPT for ms in story.first_starts().values())


@in_turn("seed", range(8), [str(seed) for seed in range(8)], of=PARTS)
def test_every_role_ninety_seconds_off_another_way(seed: int) -> None:
    story = play(mixed(seed, FAR))
    nothing_breaks(story)
    assert all(-FAR <= ms <= 2 * FAR + PROMPT for ms in story.first_starts().values())


def test_such_clocks_start_runs_early_late_and_twice() -> None:
    """What the documentation says of them does happen; where it did not, the tests above would prove nothing."""
    figures = play({"worker": FAR}).figures()
    assert figures["lost"] == 0
    assert figures["early"] > 0
    assert figures["twice"] > 0
    assert play({"worker": -FAR}).figures()["late"] > 0


def test_right_clocks_start_runs_on_time() -> None:
    story = play({})
    nothing_breaks(story)
    assert all(0 <= ms <= PROMPT for ms in story.first_starts().values())
    assert story.twice() == []
