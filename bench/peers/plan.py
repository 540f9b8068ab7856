"""What a peer is to do, as it is told by the environment. Standard library only: this side runs in the peers' own processes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.observed import witness

VARIABLE = "BENCH_PLAN"
EVERY = 10  # seconds between the fires of a schedule
TIMES = 3  # fires of each schedule that count
HALF = 30  # seconds: the fires lie in one half of a minute, which the fields of a cron expression can name
RECURRING, BURST = "recurring", "burst"
OURS = "Quarterjack, embedded cloud"  # name of ours in the rows
Row = dict[str, Any]  # of the table


@dataclass(frozen=True)
class Plan:
    """Schedules that all fire at the same instants, every ten seconds of half a minute; or one-offs that are all due as it begins."""

    kind: str  # recurring or burst
    size: int  # schedules or one-offs
    first: int  # UTC seconds; of schedules a minute or its half
    database: str = ""  # URL of the peer's own
    redis: str = ""

    @property
    def names(self) -> list[str]:
        """Whose they are."""
        return [f"{self.kind}-{number:05}" for number in range(self.size)]

    @property
    def fires(self) -> list[tuple[str, int]]:
        """All that are awaited; due in UTC ms."""
        times = TIMES if self.kind == RECURRING else 1
        return [(name, (self.first + EVERY * turn) * 1_000) for turn in range(times) for name in self.names]

    def note(self, name: str) -> None:
        """Say that a job begins. A schedule's need not know for which fire: that is told from the order."""
        witness.note(name, self.first * 1_000)

    @property
    def begin(self) -> datetime:
        """When it begins; the schedules fire in this minute, and where they can be told so, in no other."""
        return datetime.fromtimestamp(self.first, UTC)

    @property
    def seconds(self) -> list[int]:
        """Of that minute, at which they fire."""
        return [self.begin.second + EVERY * turn for turn in range(TIMES)]

    def encode(self) -> str:
        return json.dumps(asdict(self))


def given() -> Plan:
    """The plan of this process."""
    return Plan(**json.loads(os.environ[VARIABLE]))


def ready(role: str) -> None:
    """Say that this process is set up."""
    Path(os.environ[witness.FOLDER], f"{role}.ready").touch()


def in_order(began: list[witness.Began], plan: Plan) -> Iterator[witness.Began]:
    """Each schedule's first start belongs to its first fire, and so on; what begins after the last is not looked at."""
    turns: dict[str, int] = {}
    for one in sorted(began, key=lambda one: one.at):
        turn = turns[one.key] = turns.get(one.key, -1) + 1
        if turn < TIMES:
            yield one._replace(due=(plan.first + EVERY * turn) * 1_000)
