"""The stream's side of a recorded history: all changes that there were, and historians which get them in batches.

Two kinds of historian, of which a history has one or both: one process follows the stream from its position, or an event source invokes
a function with batches of each shard, in halves and again where it failed. Batches are cut anywhere and come twice; a historian that was
taken for dead comes back and goes on with its old batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from zlib import crc32

from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import QuarterjackError
from quarterjack.historian.deliver import StreamReader, deliver
from quarterjack.historian.follow import StreamFollower
from quarterjack.ports.run_stream import RunStream, StreamPage, StreamShard

from tests.support.histories.accounts import EventReceiver
from tests.support.histories.simulator import NONE, Process, Stage

SHARDS = 3
PERIOD = 2.0  # seconds between two rounds
PATIENCE = 60 * SECOND  # ms after which a silent historian is taken for dead
BATCH = 40  # changes of a batch, at most
SLOW = (0, 0, 0, 20 * MINUTE, 150 * MINUTE)  # ms that a historian's clock is slow: its hours may be folded already
CATCH_UP = 20 * MINUTE  # what stalled comes back within ten


class Witness:
    """Every change of every run, whatever the stream still has."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.changes: list[RunChange] = []
        self._by_shard: dict[int, list[RunChange]] = {number: [] for number in range(SHARDS)}

    def look(self) -> None:
        """Take what was added; at least once a day."""
        added = self._stage.memory.changes(self.changes[-1].sequence if self.changes else 0)
        self.changes += added
        for change in added:
            self._by_shard[crc32(change.ref.owner.encode()) % SHARDS].append(change)

    def of_shard(self, number: int) -> Sequence[RunChange]:
        self.look()
        return self._by_shard[number]


class CutStream:
    """A stream whose pages end anywhere."""

    def __init__(self, stream: RunStream, dice: Random) -> None:
        self._stream, self._dice = stream, dice

    def name(self) -> str:
        return self._stream.name()

    def shards(self) -> Sequence[StreamShard]:
        return self._stream.shards()

    def read(self, shard: str, after: str | None) -> StreamPage:
        page = self._stream.read(shard, after)
        size = self._dice.randint(1, BATCH)
        if size >= len(page.changes):
            return page
        last = page.changes[size - 1]
        return replace(
            page, changes=page.changes[:size], position=str(last.sequence), at=last.at, has_more=True, is_end=False
        )


@dataclass
class _Source:
    """What an event source knows of a shard: how far it has read, and what it must deliver before it goes on."""

    shard: int
    read: int = 0  # changes
    left: list[Sequence[RunChange]] = field(default_factory=list)
    process: Process | None = None
    since: int = 0  # UTC ms of the invocation
    slow: int = 0  # ms that the process's clock is


class Feed:
    """The historians of a history."""

    def __init__(self, stage: Stage, witness: Witness, receiver: EventReceiver, *, local: bool, function: bool) -> None:
        self._stage, self._witness, self._receiver = stage, witness, receiver
        self._readers = (*((StreamReader.HISTORY,) if local else ()), StreamReader.EVENTS)  # that are processes
        self._sources = [_Source(number) for number in range(SHARDS)] if function else []
        self._followers: dict[StreamReader, Process] = {}
        self._is_away = False
        self._rounds = Counter[StreamReader]()  # of followers, to the end of the stream
        stage.memory.stream_shards = SHARDS

    def leave(self) -> None:
        """All historians die, and none is started."""
        self._is_away = True
        for process in self._stage.processes:
            process.dead = process.dead or process.name.startswith("historian")

    def come_back(self) -> None:
        self._is_away = False

    def arrivals(self) -> None:
        """Start the historians that are missing."""
        if self._is_away:
            return
        for reader in self._readers:
            if self._is_missing(self._followers.get(reader)):
                self._followers[reader] = self._stage.process("historian", partial(self._follow, reader))
        for source in self._sources:
            self._invoke(source)

    def _is_missing(self, process: Process | None) -> bool:
        """Whether it ended, or has stalled for so long that another one was started in its place."""
        return process is None or process not in self._stage.processes or process.wakes > self._stage.now + PATIENCE

    def _follow(self, reader: StreamReader, process: Process) -> None:
        services = replace(
            process.services,
            stream=CutStream(process.services.stream, Random(self._stage.random.random())),
            events=self._receiver.seen_by(process) if reader is StreamReader.EVENTS else None,
        )
        follower = StreamFollower(services, process.clock, reader)
        while (
            self._followers.get(reader) is process or self._stage.random.random() < 0.8
        ):  # else another one has taken its place
            try:
                more = follower.poll().has_more
                self._rounds[reader] += process is self._followers.get(reader) and not more
            except QuarterjackError:
                self._stage.count("historian stopped")
                more = False
            if not more:
                process.wait(PERIOD)

    def _invoke(self, source: _Source) -> None:
        if source.process is not None and not self._is_missing(source.process):
            return
        if source.process is not None and source.left:  # it died or stalled in the midst of a batch
            source.process = None
        there = self._witness.of_shard(source.shard)
        if not source.left and source.read < len(there):
            batch = there[source.read : source.read + self._stage.random.randint(1, BATCH)]
            source.read += len(batch)
            source.left = [batch]
        if source.left:
            batch = source.left[0]
            source.slow = self._stage.random.choice(SLOW)
            source.process = self._stage.process("historian", lambda process: self._deliver(source, batch, process))
            if self._stage.strikes("batch twice", self._stage.faults.repeat):
                self._stage.process("historian", lambda process: deliver(batch, process.services, process.clock()))

    def _deliver(self, source: _Source, batch: Sequence[RunChange], process: Process) -> None:
        try:
            deliver(batch, process.services, process.clock() - source.slow)
        except QuarterjackError:
            self._stage.count("batch failed")
            if source.process is process and source.left and source.left[0] is batch and len(batch) > 1:
                source.left[:1] = [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
            return
        if source.process is process and source.left and source.left[0] is batch:
            del source.left[0]

    def catch_up(self) -> bool:
        """Let historians alone go on until all is handled; False if they do not get there in twenty minutes."""
        stage, rounds = self._stage, self._rounds.copy()
        faults, stage.faults = stage.faults, replace(NONE, skew=stage.faults.skew)
        stage.only = lambda process: process.name.startswith("historian")
        end = stage.now + CATCH_UP
        while stage.now < end and (
            self._is_behind() or any(self._rounds[each] < rounds[each] + 2 for each in self._readers)
        ):
            self.arrivals()
            while stage.step():
                pass
            stage.now += SECOND
        stage.faults, stage.only = faults, None
        return stage.now < end

    def _is_behind(self) -> bool:
        """Whether a function has something left to do."""
        return any(source.left or source.read < len(self._witness.of_shard(source.shard)) for source in self._sources)
