"""The owners: what they ask for while everything breaks, through the SDK; some of them through a proxy as well.

A call that was Unavailable is made again, with the same token or key, until it is answered: then its effect is there once.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from quarterjack import Run, Scheduler
from quarterjack.domain.policies import StartWord
from quarterjack.errors import QuarterjackError, Unavailable
from quarterjack.local.session.verifier import WatchedSchedule

from tests.support.chaos.journal import Journal

NEVER = "0 0 1 1 *"  # what everything is changed to at the end
_EPOCH = ", from=2026-01-01T00:00:00Z"
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Load:
    """How much there is to do. Seconds."""

    every: int  # of a usual schedule
    copies: int  # of usual schedules
    short: tuple[float, float]  # how long a usual attempt takes, from and to
    long: tuple[float, float]  # and one of a long job
    think: float  # between two acts of an owner, on average
    delay: float  # of a one-off, at the most


@dataclass(frozen=True, kw_only=True)
class Paused:
    """A pause or deletion had returned."""

    name: str
    revision: int  # the last one that it stopped
    at: float  # UTC seconds
    started: frozenset[str]  # ids of its runs that had started by then


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """A cancellation had returned: how the run was then."""

    run: Run
    at: float  # UTC seconds


@dataclass
class Accepted:
    """What owners were told."""

    steady: list[WatchedSchedule] = field(default_factory=list)  # nobody changes these
    submitted: dict[str, float] = field(default_factory=dict)  # run ids → UTC seconds at which they are due
    paused: list[Paused] = field(default_factory=list)
    cancelled: list[Cancelled] = field(default_factory=list)
    hastened: set[str] = field(default_factory=set)  # runs whose next attempt an owner has started
    calls: int = 0


class Owners:
    """``direct`` and ``faulted`` are two ways to the same installation."""

    def __init__(
        self, seed: int, load: Load, direct: Scheduler, faulted: Scheduler, folder: Path, journal: Journal
    ) -> None:
        self._seed, self._load, self._journal = seed, load, journal
        self._direct, self._faulted = direct, faulted
        self._payload = {"to": str(folder / "witness.jsonl"), "keyed": str(folder / "keyed")}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._count = 0
        self.accepted = Accepted()

    # The schedules that nobody changes.

    def create_steady(self) -> None:
        load, every = self._load, self._load.every
        self.steady("minutely", "chaos.note", "* * * * *", load.short)
        for number in range(load.copies):
            self.steady(f"usual-{number}", "chaos.note", f"rate({every} seconds{_EPOCH})", load.short)
        self.steady("exact", "chaos.note", f"rate({every} seconds{_EPOCH})", load.short, start="exact")
        self.steady("long", "chaos.note", f"rate({2 * every} seconds{_EPOCH})", load.long)
        self.steady("polite", "chaos.polite", f"rate({2 * every} seconds{_EPOCH})", load.long)
        self.steady("steps", "chaos.steps", f"rate({every} seconds{_EPOCH})", load.long)
        self.steady("once", "chaos.once", f"rate({every} seconds{_EPOCH})", load.short)
        self.steady("once-long", "chaos.once", f"rate({2 * every} seconds{_EPOCH})", load.long)
        self.steady("flaky", "chaos.flaky", f"rate({2 * every} seconds{_EPOCH})", load.short)
        self.steady("doomed", "chaos.doomed", f"rate({3 * every} seconds{_EPOCH})", load.short)

    def steady(
        self,
        name: str,
        job: str,
        expression: str,
        takes: tuple[float, float],
        *,
        start: StartWord = "prompt",
        by: Scheduler | None = None,
        **more: Any,
    ) -> None:
        """Create a schedule that nobody changes. ``by`` whom; ``more``: of ``create_schedule``."""
        owner = by or self._direct
        owner.create_schedule(name, job, expression, payload=self._with(takes), start=start, **more)
        tenant, since = self._direct.tenant, datetime.now(UTC)
        watched = WatchedSchedule(
            tenant=tenant, name=name, expression=expression, timezone="UTC", start=start, since=since
        )
        self.accepted.steady.append(watched)

    def drop(self, name: str) -> None:
        """Delete a schedule that nobody changed until now; its fires are judged no more."""
        self._direct.delete_schedule(name)
        self.accepted.steady = [schedule for schedule in self.accepted.steady if schedule.name != name]

    def move(self, to: Scheduler) -> None:
        """The schedules that nobody changes are in another installation from now on."""
        self._direct = to

    def _with(self, takes: tuple[float, float]) -> dict[str, Any]:
        return self._payload | {"takes": list(takes)}

    # Those who change what is theirs.

    def start(self) -> None:
        """Two owners of schedules and two who submit, one of each through the proxy."""
        for number, scheduler in enumerate((self._direct, self._faulted)):
            for kind, life in (("moody", self._be_moody), ("eager", self._be_eager)):
                arguments = (life, f"{kind}-{number}", scheduler)
                self._threads.append(threading.Thread(target=self._live, args=arguments, daemon=True))
        for thread in self._threads:
            thread.start()

    def submit(self, job: str, count: int) -> list[str]:
        """Submit so many runs that are due now; their ids."""
        runs = [self._direct.submit(job, self._with(self._load.short)) for _ in range(count)]
        self.accepted.submitted |= {run.id: run.due.timestamp() for run in runs}
        return [run.id for run in runs]

    def submit_again(self, run_ids: Sequence[str]) -> None:
        """Those of ``submit`` or of an owner are lost, and are submitted anew."""
        for run_id in run_ids:
            del self.accepted.submitted[run_id]
        self.submit("chaos.note", len(run_ids))

    def move_to(self, scheduler: Scheduler) -> None:
        """The installation has other tables from now on."""
        self._direct = self._faulted = scheduler

    def stop(self) -> None:
        """Each finishes the call that it is in."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def end_schedules(self) -> float:
        """Nothing is due any more; UTC seconds of the last instant before that."""
        before = time.time()
        for schedule in self._direct.list_schedules(limit=1_000).items:
            self._direct.update_schedule(schedule.name, expression=NEVER)
        return before

    def _live(self, life: Callable[[str, Scheduler], None], name: str, scheduler: Scheduler) -> None:
        try:
            life(name, scheduler)
        except Exception as problem:  # noqa: BLE001 (whatever it is, it is a finding)
            self._journal.refuse(f"{name}: {type(problem).__name__}: {problem}")

    def _be_moody(self, name: str, owner: Scheduler) -> None:
        """Two schedules: create, update, pause, resume, delete."""
        dice, there = random.Random(f"{self._seed} {name}"), dict.fromkeys((f"{name}-a", f"{name}-b"), False)
        while not self._stop.wait(dice.uniform(0.2, 1.8) * self._load.think):
            schedule = dice.choice(list(there))
            act = dice.choice(("update", "update", "pause", "resume", "delete")) if there[schedule] else "create"
            there[schedule] = act != "delete"
            self._insist(f"{act} {schedule}", lambda token: self._act(act, owner, schedule, token, dice))  # noqa: B023

    def _act(self, act: str, owner: Scheduler, name: str, token: str, dice: random.Random) -> None:
        expression = f"rate({dice.randint(1, self._load.every)} seconds)"
        match act:
            case "create":
                self._call(
                    lambda: owner.create_schedule(
                        name, "chaos.note", expression, payload=self._with(self._load.short), client_token=token
                    )
                )
            case "update":
                self._call(lambda: owner.update_schedule(name, expression=expression, client_token=token))
            case "resume":
                self._call(lambda: owner.resume_schedule(name, client_token=token))
            case "pause":
                stopped = self._call(lambda: owner.pause_schedule(name, client_token=token))
                self._note_pause(name, stopped.revision)
            case _:
                revision = self._call(lambda: owner.get_schedule(name)).revision
                self._call(lambda: owner.delete_schedule(name, client_token=token))
                self._note_pause(name, revision)

    def _note_pause(self, name: str, revision: int) -> None:
        now = datetime.now(UTC)
        runs = self._direct.list_runs(name, after=now - timedelta(minutes=20), limit=1_000).items
        started = frozenset(run.id for run in runs if run.started_at is not None)
        done = Paused(name=name, revision=revision, at=now.timestamp(), started=started)
        self.accepted.paused.append(done)

    def _be_eager(self, name: str, owner: Scheduler) -> None:
        """Submit one after the other; cancel some."""
        dice = random.Random(f"{self._seed} {name}")
        mine: list[str] = []
        while not self._stop.wait(dice.uniform(0.2, 1.8) * self._load.think):
            if mine and dice.random() < 0.2:
                run_id = mine.pop(dice.randrange(len(mine)))
                self._insist(f"cancel {run_id}", lambda _: self._cancel(owner, run_id))  # noqa: B023
                continue
            job, delay = dice.choice(("chaos.note", "chaos.polite", "chaos.once")), self._load.delay * dice.random()
            due = datetime.now(UTC) + timedelta(seconds=dice.choice((0.0, delay)))
            takes = dice.choice((self._load.short, self._load.long))
            run = self._insist(
                f"submit {job}",
                lambda key: owner.submit(job, self._with(takes), run_at=due, idempotency_key=key),  # noqa: B023
            )
            if run is not None:
                self.accepted.submitted[run.id] = run.due.timestamp()
                mine = [*mine[-5:], run.id]

    def _cancel(self, owner: Scheduler, run_id: str) -> None:
        run = owner.cancel_run(run_id)
        self.accepted.cancelled.append(Cancelled(run=run, at=time.time()))

    # Calls.

    def _insist(self, what: str, call: Callable[[str], _T]) -> _T | None:
        """Call with a key of its own until it is answered; what else goes wrong is a finding."""
        with self._lock:
            self._count += 1
            key = f"k{self._count}"
        try:
            done = self._call(lambda: call(key))
        except QuarterjackError as problem:
            self._journal.refuse(f"owner: {what} ({key}): {type(problem).__name__}: {problem}")
            return None
        self._journal.tell(f"owner: {what} ({key})")
        return done

    def _call(self, call: Callable[[], _T]) -> _T:
        while True:
            self.accepted.calls += 1
            try:
                return call()
            except Unavailable as problem:
                self._journal.tell(f"owner: again: {problem}")
                time.sleep(0.2)
