"""The stream of the table of runs: every write of a run's row, kept for 24 hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quarterjack.domain.history.run_change import NoticeChange, RunChange
from quarterjack.errors import QuarterjackError

STREAM_DAYS = 1  # for which a stream keeps its changes


class StreamTrimmed(QuarterjackError):
    """The position is no longer, or not yet, in the shard: changes may be missing between it and the shard's oldest one."""


@dataclass(frozen=True, kw_only=True)
class StreamShard:
    """A part of the stream. All changes of one run are in one shard, or in the shards that follow it, in their order."""

    id: str
    parent: str | None = (
        None  # the shard that this one follows: it is read to its end first, as far as it is still there
    )


@dataclass(frozen=True, kw_only=True)
class StreamPage:
    """What one request read."""

    changes: Sequence[RunChange]  # of runs; in the shard's order
    position: str | None  # of the last record read, whatever it was about; None: as it was asked for
    at: int | None  # UTC ms of that record's write
    notices: Sequence[NoticeChange] = ()  # of incidents that began or ended, of circuit breakers that opened or closed
    unreadable: int = 0  # records of runs that could not be read; they are logged
    has_more: bool = False  # read again at once
    is_end: bool = False  # the shard is closed, and was read to its end


class RunStream(Protocol):
    """The stream, shard by shard."""

    def name(self) -> str:
        """Names this stream: one that was switched off and on again is another one. Raises Misconfigured if there is none."""

    def shards(self) -> Sequence[StreamShard]:
        """All shards that have changes, or may get some."""

    def read(self, shard: str, after: str | None) -> StreamPage:
        """The changes after a position, None: from the oldest on. Raises StreamTrimmed."""
