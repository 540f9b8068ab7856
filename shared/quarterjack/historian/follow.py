"""Follow the stream where no Lambda function is invoked with it: read every shard, deliver, and remember how far.

The position is written after the delivery. So a historian that is killed reads the last batch again, which is harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from quarterjack.domain.times import DAY, MINUTE, SECOND
from quarterjack.historian.deliver import DeliveryReport, StreamReader, deliver
from quarterjack.historian.progress import (
    ShardPosition,
    StreamGap,
    StreamPosition,
    read_position,
    write_gap,
    write_position,
)
from quarterjack.ports.run_stream import STREAM_DAYS, StreamShard, StreamTrimmed
from quarterjack.ports.services import Clock, Services
from quarterjack.values import replace

log = logging.getLogger(__name__)

_REFRESH = 10 * SECOND  # ms between two reads of the list of shards; it changes every few hours
_IDLE_WRITE = 15 * MINUTE  # ms between two writes of a position that has not changed
_AGED = STREAM_DAYS * DAY - 30 * MINUTE  # ms: a record this old may have been trimmed for its age
_PAGES = 20  # of one shard in a round


@dataclass(kw_only=True)
class FollowReport(DeliveryReport):
    """Counts of one round."""

    gaps: int = 0
    has_more: bool = False  # begin the next round at once
    stopped: bool = False  # an error ended it before its time


class StreamFollower:
    """One reader of the stream. A second one of its kind beside it would deliver everything twice, and do no other harm."""

    def __init__(self, services: Services, clock: Clock, reader: StreamReader = StreamReader.HISTORY) -> None:
        self._services, self._clock, self._reader = services, clock, reader
        self._suffix = "" if reader is StreamReader.HISTORY else f"~{reader}"  # of its position's key
        self._position: StreamPosition | None = None
        self._version = 0
        self._shards: list[StreamShard] = []  # parents first
        self._present: set[str] = set()  # their ids
        self._listed = 0  # UTC ms of the last read of the list of shards; 0: read it now
        self._written = 0  # UTC ms of the last write of the position

    def poll(self, report: FollowReport | None = None) -> FollowReport:
        """One round over all shards. Raises what stops a batch, and Misconfigured if there is no stream; then the next round repeats it.

        It counts into ``report``, by default a new one. After an error a report that was given has the batches before it, which do not
        come again, and says that the round was stopped.
        """
        report = FollowReport() if report is None else report
        try:
            return self._poll(report)
        except BaseException:
            report.stopped = True
            raise

    def _poll(self, report: FollowReport) -> FollowReport:
        position = self._refreshed(report)
        for shard in self._shards:
            if self._is_ready(shard, position):
                position = self._read(shard, position, report)
        if not report.has_more:
            position = replace(position, caught_up=self._clock())
        self._position = position
        if report.batches or self._clock() - self._written >= _IDLE_WRITE:
            self._write()
        return report

    # The shards.

    def _refreshed(self, report: FollowReport) -> StreamPosition:
        """The position in the present stream and its present shards."""
        if self._position is None:
            self._position, self._version = read_position(self._services, self._suffix)
        if self._listed and self._clock() - self._listed < _REFRESH:
            assert self._position is not None
            return self._position
        name, now = self._services.stream.name(), self._clock()
        position = self._position or StreamPosition(stream=name)
        if position.stream != name:
            self._note_gap(position, "the stream was replaced", report)
            position = StreamPosition(stream=name)
        self._shards = _parents_first(self._services.stream.shards())
        self._present = present = {shard.id for shard in self._shards}
        lost = [shard for shard, each in position.shards.items() if shard not in present and not each.ended]
        if lost:
            self._note_gap(position, f"shard {lost[0]} is gone", report)
        self._listed = now
        self._position = replace(position, shards={k: v for k, v in position.shards.items() if k in present})
        return self._position

    def _is_ready(self, shard: StreamShard, position: StreamPosition) -> bool:
        """Whether there is something to read, and all that came before it was read."""
        parent = position.shards.get(shard.parent or "", ShardPosition())
        is_ended = position.shards.get(shard.id, ShardPosition()).ended
        return not is_ended and (shard.parent not in self._present or parent.ended)

    # One shard.

    def _read(self, shard: StreamShard, position: StreamPosition, report: FollowReport) -> StreamPosition:
        """Deliver the records of a shard, page by page. Returns the position after them."""
        for _ in range(_PAGES):
            at = position.shards.get(shard.id, ShardPosition())
            try:
                page = self._services.stream.read(shard.id, at.after)
            except StreamTrimmed as problem:
                self._trimmed(at, position, problem, report)
                position = _moved(position, shard.id, ShardPosition())
                page = self._services.stream.read(shard.id, None)
                at = ShardPosition()
            done = deliver(
                page.changes,
                self._services,
                self._clock(),
                notices=page.notices,
                unreadable=page.unreadable,
                reader=self._reader,
            )
            report.add(done)
            after = page.position or at.after
            moved = ShardPosition(after=after, at=page.at if page.position else at.at, ended=page.is_end)
            position = _moved(position, shard.id, moved)
            if done.batches:
                self._position = position
                self._write()
            if page.is_end:
                self._listed = 0  # its children are ready now
                report.has_more = True
            if not page.has_more:
                return position
        report.has_more = True
        return position

    def _trimmed(
        self, at: ShardPosition, position: StreamPosition, problem: StreamTrimmed, report: FollowReport
    ) -> None:
        """Where the record at the position is gone only because nothing was written for a day, nothing is missing."""
        oldest = self._clock() - _AGED
        if at.at is not None and at.at <= oldest < position.caught_up:
            return
        self._note_gap(position, str(problem), report)

    def _note_gap(self, position: StreamPosition, problem: str, report: FollowReport) -> None:
        """Changes since the position may be missing."""
        known = [position.caught_up, *(each.at for each in position.shards.values() if each.at is not None)]
        gap = StreamGap(since=max(known), until=self._clock())
        report.gaps += 1
        is_history = self._reader is StreamReader.HISTORY
        remedy = "fill it from the ledger: `quarterjack history rebuild`" if is_history else "these events are not sent"
        fields = {"reader": str(self._reader), "since": gap.since, "until": gap.until, "error": problem}
        log.error("historian.gap", extra=fields | {"remedy": remedy})
        if is_history:
            write_gap(gap, self._services)

    # The position.

    def _write(self) -> None:
        assert self._position is not None
        self._written = self._clock()
        if write_position(self._position, self._version, self._services, self._suffix):
            self._version += 1
            return
        log.warning("historian.not_alone", extra={"remedy": "run one historian for an installation"})
        other, self._version = read_position(self._services, self._suffix)
        if other is not None and other.stream == self._position.stream:
            both = {**other.shards, **self._position.shards}
            furthest = {shard: _further(other.shards.get(shard), self._position.shards.get(shard)) for shard in both}
            self._position = replace(self._position, shards=furthest)


def _further(one: ShardPosition | None, other: ShardPosition | None) -> ShardPosition:
    """The one of two positions of a shard that is further on."""
    return max(filter(None, (one, other)), key=lambda each: (each.ended, int(each.after or 0)))


def _moved(position: StreamPosition, shard: str, to: ShardPosition) -> StreamPosition:
    return replace(position, shards={**position.shards, shard: to})


def _parents_first(shards: Sequence[StreamShard]) -> list[StreamShard]:
    """In an order in which each shard comes after the one that it follows."""
    left, ordered = {shard.id: shard for shard in shards}, list[StreamShard]()
    while left:
        ready = [shard for shard in left.values() if shard.parent not in left] or list(left.values())
        ordered += ready
        for shard in ready:
            del left[shard.id]
    return ordered
