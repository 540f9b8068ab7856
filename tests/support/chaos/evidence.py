"""What can be known of a siege from outside: what jobs wrote down, what was done to whom, what processes say of themselves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from quarterjack.local.processes import parse

from tests.support.chaos.chaos_monkey import Pace
from tests.support.chaos.journal import Blow, Journal
from tests.support.chaos.process_group import ProcessGroup

Line = dict[str, Any]
_RELEASED = ("run.released", "worker.not_released")  # the latter may have taken effect
_FINAL = ("killed", "asked to end", "gave it back")
_AT_ONCE = ("asked to end", "gave it back")  # then the next start need not wait for a lease to run out


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """A run started again although its attempt had not failed."""

    run: str
    first: Line  # the start before
    again: Line
    process: str  # whose start the first was
    blow: Blow | None  # what explains it

    @property
    def seconds(self) -> float:
        """From what happened to the next start."""
        assert self.blow is not None
        return float(self.again["at"]) - self.blow.at

    def __str__(self) -> str:
        why = f"{self.process} was {self.blow.kind}" if self.blow else f"nothing had happened to {self.process}"
        return f"{self.run} started again after {self.again['at'] - self.first['at']:.1f} s: {why}"


@dataclass
class Evidence:
    """Put together once all is over."""

    lines: list[Line]  # of the witness file
    journal: Journal
    troupe: ProcessGroup
    pace: Pace
    ticks: list[float] = field(default_factory=list)  # UTC seconds at which a tick was done, whoever's

    def __post_init__(self) -> None:
        self.starts: dict[str, list[Line]] = defaultdict(list)  # by run, in order of time
        self._ends: set[tuple[str, int, int]] = set()  # run, attempt, pid of attempts that raised
        for line in sorted(self.lines, key=lambda line: float(line["at"])):
            if line["what"] == "start":
                self.starts[line["run"]].append(line)
            elif line["what"] == "raise":
                self._ends.add((line["run"], line["attempt"], line["pid"]))
        self._released: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for log in self.troupe.logs:
            for event in _events(log):
                self._note(log.stem, event)
        self.ticks.sort()

    def _note(self, process: str, event: Line) -> None:
        at = datetime.fromisoformat(event["time"]).timestamp()
        if event["event"] == "tick.done":
            self.ticks.append(at)
        elif event["event"] in _RELEASED:
            self._released[event["run_id"]].append((process, at))

    def repeats(self) -> list[Repeat]:
        """Every start that followed another without a failure in between."""
        found = []
        for run, starts in self.starts.items():
            for first, again in pairwise(starts):
                if (run, first["attempt"], first["pid"]) in self._ends and again["attempt"] > first["attempt"]:
                    continue
                process = self.troupe.name_of(first["pid"])
                blow = self._explanation(process, first, again)
                found.append(Repeat(run=run, first=first, again=again, process=process, blow=blow))
        return found

    def _explanation(self, process: str, first: Line, again: Line) -> Blow | None:
        """What cost a process its lease: the most decisive blow between the two starts, or None. None for a lease taken too early."""
        hit = [blow for blow in self.journal.blows if blow.process == process and not blow.kind.endswith("sqs")]
        hit += [
            Blow(kind="gave it back", process=process, at=at, until=at)
            for by, at in self._released[first["run"]]
            if by == process
        ]
        hit = [blow for blow in hit if blow.at <= again["at"] and blow.until >= first["at"]]
        final = [blow for blow in hit if blow.kind in _FINAL]
        if not final and sum(blow.seconds for blow in hit) < self.pace.lease / 3:
            return None  # one heartbeat late, at the most
        renewed = min(blow.at for blow in hit) - 2 * self.pace.lease / 3  # two heartbeats before, at the earliest
        if again["at"] < renewed + self.pace.lease + self.pace.skew and not any(b.kind in _AT_ONCE for b in hit):
            return None
        return final[0] if final else max(hit, key=lambda blow: blow.seconds)


def _events(log: Path) -> Iterator[Line]:
    if log.exists():
        for line in log.read_bytes().splitlines():
            event = parse(line)
            if event is not None:
                yield event


def witness(path: Path) -> list[Line]:
    """What the jobs said."""
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
