"""Owners who change their schedules at random while these fire, and what each of them was told.

Every act is the public SDK's. What an act was told is kept with the times of its call and its return: what must hold afterwards is
worked out from that alone, see ``reckoning``.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Scheduler
from quarterjack.errors import QuarterjackError
from quarterjack.sdk.schedules.bulk import BulkAction
from quarterjack.services import system_clock
from quarterjack.state.backfill import BackfillOrder

# What is claimed ahead and taken back again is most of the work of a race: these fire ten to twenty times within the look-ahead.
EXPRESSIONS = ("rate(10 seconds)", "rate(15 seconds)", "*/12 * * * * *", "2/20 * * * * *", "rate(20 seconds)")
DENSE = ("* * * * * *", "*/2 * * * * *", "rate(1 second)", "1-59/2 * * * * *")
ACTS = {  # how often, of a hundred
    "create": 12,
    "update": 19,
    "upsert": 8,
    "pause": 12,
    "resume": 18,
    "delete": 6,
    "trigger": 9,
    "skip_next": 6,
    "backfill": 7,
    "bulk": 3,
}
BULK = 4  # names of one bulk operation: those of a tag


@dataclass(frozen=True, kw_only=True)
class Told:
    """An act that was not refused."""

    act: str  # create, update …; of a bulk operation "bulk pause" …
    name: str  # of the schedule
    called: int  # UTC ms
    returned: int  # UTC ms
    revision: int | None = None  # the current one, as it was told
    run: str | None = None  # id of the run that was triggered or skipped
    said: object = None  # what its payload says; of an update of something else None
    drain: bool = False  # of a pause or delete


@dataclass(kw_only=True)
class Owners:
    """Some threads with an SDK each; together they make ``operations`` acts in about ``seconds``."""

    connect: Callable[[], Scheduler]
    job: str  # of all schedules; it tells the witness what its payload says
    payload: Callable[[str], Any]  # what says something, as the job wants it
    names: Sequence[str]  # of the schedules
    operations: int
    seconds: float
    seed: int
    threads: int = 8
    expressions: Sequence[str] = EXPRESSIONS
    told: list[Told] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)  # by act and error
    defects: list[BaseException] = field(default_factory=list)  # errors that are no answer of ours

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._left = self.operations
        self._said = 0

    def act(self) -> None:
        """Create the schedules, then let every thread act until the number is reached."""
        began, dice = time.monotonic(), random.Random(self.seed)
        first = self.connect()
        for name in self.names:
            self._try("create", first, name, dice)
        threads = [threading.Thread(target=self._owner, args=(number, began)) for number in range(self.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.defects:
            raise self.defects[0]

    def _owner(self, number: int, began: float) -> None:
        dice, owner, pause = random.Random(f"{self.seed}-{number}"), self.connect(), threading.Event()
        while True:
            with self._lock:
                if self._left == 0 or self.defects:
                    return
                self._left -= 1
                due = began + self.seconds * (1 - self._left / self.operations)
            pause.wait(max(due - time.monotonic(), 0))
            (act,) = dice.choices(list(ACTS), weights=list(ACTS.values()))
            self._try(act, owner, dice.choice(self.names), dice)

    def _try(self, act: str, owner: Scheduler, name: str, dice: random.Random) -> None:
        try:
            doing: Callable[[Scheduler, str, random.Random], None] = getattr(self, f"_{act}")
            doing(owner, name, dice)
        except QuarterjackError as problem:
            with self._lock:
                self.refused[f"{act}: {type(problem).__name__}"] += 1
        except BaseException as problem:  # noqa: BLE001 (it is raised when the threads have ended)
            self.defects.append(problem)

    def _note(self, act: str, name: str, called: int, **told: Any) -> None:
        done = Told(act=act, name=name, called=called, returned=system_clock(), **told)
        with self._lock:
            self.told.append(done)

    def _words(self, name: str, dice: random.Random) -> tuple[str, dict[str, Any]]:
        """A definition that says something nobody has said before."""
        with self._lock:
            self._said += 1
            said = f"{name}.{self._said}"
        words: dict[str, Any] = {"payload": self.payload(said), "start": dice.choice(["prompt", "prompt", "exact"])}
        words["automatic_backfill"] = dice.random() < 0.2
        words["max_running"] = 1 if dice.random() < 0.1 else None
        return said, words

    # The acts.

    def _create(self, owner: Scheduler, name: str, dice: random.Random) -> None:
        said, words = self._words(name, dice)
        tags = {"herd": str(list(self.names).index(name) // BULK)}
        called = system_clock()
        made = owner.create_schedule(name, self.job, dice.choice(self.expressions), tags=tags, **words)
        self._note("create", name, called, revision=made.revision, said=said)

    def _update(self, owner: Scheduler, name: str, dice: random.Random) -> None:
        said, words = self._words(name, dice)
        if dice.random() < 0.5:
            words["expression"] = dice.choice(self.expressions)
        if dice.random() < 0.2:
            words["expected_revision"] = owner.get_schedule(name).revision
        called = system_clock()
        made = owner.update_schedule(name, **words)
        self._note("update", name, called, revision=made.revision, said=said)

    def _upsert(self, owner: Scheduler, name: str, dice: random.Random) -> None:
        said, words = self._words(name, dice)
        tags = {"herd": str(list(self.names).index(name) // BULK)}
        called = system_clock()
        done = owner.upsert_schedule(name, self.job, dice.choice(self.expressions), tags=tags, **words)
        self._note("upsert", name, called, revision=done.schedule.revision, said=said)

    def _pause(self, owner: Scheduler, name: str, dice: random.Random) -> None:
        drain, soon = dice.random() < 0.2, timedelta(seconds=dice.choice([2, 5]))
        until = datetime.now(UTC) + soon if dice.random() < 0.2 else None
        called = system_clock()
        made = owner.pause_schedule(name, drain=drain, until=until)
        self._note("pause", name, called, revision=made.revision, drain=drain)

    def _resume(self, owner: Scheduler, name: str, dice: random.Random) -> None:
        called = system_clock()
        made = owner.resume_schedule(name)
        self._note("resume", name, called, revision=made.revision)

    def _delete(self, owner: Scheduler, name: str, dice: random.Random) -> None:
        drain = dice.random() < 0.2
        called = system_clock()
        owner.delete_schedule(name, drain=drain)
        self._note("delete", name, called, drain=drain)

    def _trigger(self, owner: Scheduler, name: str, dice: random.Random) -> None:
        said, words = None, {}
        if dice.random() < 0.5:
            said = f"{name}.by-hand.{dice.random()}"
            words["payload"] = self.payload(said)
        called = system_clock()
        run = owner.trigger(name, **words)
        self._note("trigger", name, called, revision=run.revision, run=run.id, said=said)

    def _skip_next(self, owner: Scheduler, name: str, dice: random.Random) -> None:
        called = system_clock()
        self._note("skip_next", name, called, run=owner.skip_next(name).id)

    def _backfill(self, owner: Scheduler, name: str, dice: random.Random) -> None:
        end = datetime.now(UTC) - timedelta(seconds=dice.choice([0.005, 0.005, 5]))
        start = end - timedelta(seconds=dice.choice([10, 30, 60]))
        order, current = dice.choice(list(BackfillOrder)), dice.random() < 0.3
        called = system_clock()
        owner.backfill(name, start, end, order=order, current=current, concurrency=3, dry_run=False)
        self._note("backfill", name, called)

    def _bulk(self, owner: Scheduler, name: str, dice: random.Random) -> None:
        acts: list[BulkAction] = ["pause", "resume", "trigger", "retag"]
        act, herd = dice.choice(acts), list(self.names).index(name) // BULK
        words: dict[str, Any] = {"tags": {"seen": "yes"}} if act == "retag" else {}
        called = system_clock()
        done = owner.bulk(act, tag=("herd", str(herd)), **words)
        for each in done.done:
            self._note(f"bulk {act}", each, called)
        with self._lock:
            self.refused.update({f"bulk {act}: one of them": len(done.failed)} if done.failed else {})
