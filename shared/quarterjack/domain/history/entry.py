"""The history's entries: what listings and statistics tell of a run, without its payload, its result and its attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal

from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow, RunState
from quarterjack.values import value


class RunKind(StrEnum):
    """Where a run comes from."""

    FIRE = "fire"  # a fire of a schedule that its chain claimed, or the row of a gap
    ONE_OFF = "one-off"  # submitted
    TRIGGER = "trigger"  # a schedule that was run by hand
    BACKFILL = "backfill"  # a past fire that a backfill claimed
    REPLAY = "replay"  # it repeats another run


RunKindWord = RunKind | Literal["fire", "one-off", "trigger", "backfill", "replay"]


class Book(StrEnum):
    """The two lists of a tenant's runs."""

    ENDED = "ended"  # by the time of their end
    OPEN = "open"  # by the time they are due or claimed, the later: all but fires that have not ended, and runs between two attempts


@value(kw_only=True)
class HistoryEntry:
    """One run in a book, or its withdrawal. Of several with the same ``run`` and ``at`` the one with the greatest ``order`` holds.

    It is flat because pages store entries by column.
    """

    run: RunRef
    at: int  # UTC ms: its place in the book; the end of an ended run; of an open one see ``open_place``
    order: int  # of the change: from its sequence number in the stream, see ``state.history.entries``
    withdrawn: bool = False  # the run is not at this place any more
    again: bool = False  # an earlier entry at this place may exist
    state: RunState
    job: str
    due: int  # UTC ms
    not_before: int  # UTC ms
    created_at: int  # UTC ms
    started_at: int | None = None  # UTC ms of the first lease
    attempt: int = 0  # attempts begun
    fence: int = 0  # leases taken
    revision: int = 0  # of its schedule
    kind: RunKind = RunKind.FIRE
    reason: str | None = None  # of its state, shortened
    error_type: str | None = None  # class of the last failure, shortened
    backfill: str | None = None  # id of the backfill that it belongs to
    replay_of: str | None = None  # id of the run that it repeats
    app_version: str | None = None  # application version that it is assigned to
    skipped: int | None = None  # the row of a gap: number of missed fires
    skipped_until: int | None = None  # the same: UTC ms of the last of them
    tags: Mapping[str, str] = field(
        default_factory=dict
    )  # its own, and those of its schedule as of when the entry was written

    @property
    def schedule(self) -> str | None:
        """Name of the run's schedule; None for a one-off."""
        return self.run.schedule


def kind_of(run: RunRow) -> RunKind:
    if run.replay_of is not None:
        return RunKind.REPLAY
    if run.ref.is_one_off:
        return RunKind.ONE_OFF
    if run.backfill is not None:
        return RunKind.BACKFILL
    return RunKind.FIRE if run.ref.is_fire or run.skipped_until is not None else RunKind.TRIGGER
