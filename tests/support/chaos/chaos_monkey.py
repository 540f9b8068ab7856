"""The tormentor: what it does to whom, and when, follows from the seed. It strikes one process after the other, never all workers."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.chaos.fault_injector import FaultInjector
from tests.support.chaos.journal import Journal
from tests.support.chaos.process_group import ProcessGroup

SERVICES = ("dynamodb", "sqs")


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How hard and how often. Seconds."""

    lease: float  # LEASE of the workers
    skew: float  # SKEW of the workers
    between: float  # two strikes, on average
    rest: float  # until a dead process is started again, at the most
    brief: float  # a stop or partition that nobody need notice, at the most


ACTS = {
    "kill worker": 6,
    "kill ticker": 2,
    "kill undertaker": 1,
    "end worker": 2,
    "end ticker": 1,
    "stop worker": 3,  # for longer than a lease
    "stop ticker": 2,
    "stop undertaker": 1,
    "pause worker": 2,  # for less than a lease
    "cut worker": 4,
    "cut ticker": 2,
    "sever worker": 2,  # cut off for longer than a lease
}  # how often each, by comparison


class Tormentor:
    """Strikes when it is told the time; ``mischief`` by process."""

    def __init__(
        self,
        seed: int,
        pace: Pace,
        troupe: ProcessGroup,
        mischief: dict[str, FaultInjector],
        journal: Journal,
        now: float,
    ) -> None:
        self._dice, self._pace = random.Random(f"{seed} tormentor"), pace
        self._troupe, self._mischief, self._journal = troupe, mischief, journal
        self._deck: list[str] = []
        self._next = now + self._dice.uniform(0.5, 1.0) * pace.between

    def look(self, now: float) -> None:
        """Strike if it is time (UTC seconds)."""
        if now < self._next:
            return
        self._next = now + self._dice.uniform(0.3, 1.7) * self._pace.between
        act, _, kind = self._draw().partition(" ")
        names = [name for name in self._troupe.names if name.startswith(kind) and self._troupe.idle(name)]
        if not names or (kind == "worker" and not self._may_strike_worker()):
            return
        getattr(self, f"_{act}")(self._dice.choice(names))

    def _draw(self) -> str:
        """From a shuffled deck, so that a short siege has some of everything."""
        if not self._deck:
            self._deck = [act for act, times in ACTS.items() for _ in range(times)]
            self._dice.shuffle(self._deck)
        return self._deck.pop()

    def _may_strike_worker(self) -> bool:
        """One always goes on."""
        workers = [name for name in self._troupe.names if name.startswith("worker")]
        return sum(self._troupe.idle(name) for name in workers) > 1

    def _long(self) -> float:
        return (self._pace.lease + self._pace.skew) * self._dice.uniform(1.1, 1.5)

    def _brief(self) -> float:
        return self._pace.brief * self._dice.uniform(0.2, 1.0)

    def _kill(self, name: str) -> None:
        self._journal.strike("killed", name)
        self._troupe.kill(name, rest=self._pace.rest * self._dice.random())

    def _end(self, name: str) -> None:
        self._journal.strike("asked to end", name)
        self._troupe.terminate(name, rest=self._pace.rest * self._dice.random())

    def _stop(self, name: str) -> None:
        self._freeze(name, self._long())

    def _pause(self, name: str) -> None:
        self._freeze(name, self._brief())

    def _freeze(self, name: str, seconds: float) -> None:
        self._journal.strike("stopped", name, seconds)
        self._troupe.freeze(name, seconds)

    def _cut(self, name: str) -> None:
        self._sever(name, self._brief())

    def _sever(self, name: str, seconds: float | None = None) -> None:
        service, deaf = self._dice.choice(SERVICES), self._dice.random() < 0.4
        length = self._long() if seconds is None else seconds
        self._journal.strike(f"{'deaf to' if deaf else 'cut off from'} {service}", name, length)
        self._mischief[name].cut(service, length, deaf=deaf)
