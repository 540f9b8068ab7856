"""A fire is claimed, and the ledger has a run for it already."""

from __future__ import annotations

from enum import StrEnum

from minutehand.domain.run import RunRow, RunState


class OnExisting(StrEnum):
    """What to do with a claim whose run exists."""

    SEND = "send"  # a ticker may have died between claim and send; the lease makes a duplicate harmless
    TAKE_OVER = "take over"  # an older revision claimed it and it never started
    LEAVE = "leave"  # started, ended, or of a newer revision


def on_existing(run: RunRow, revision: int) -> OnExisting:
    """A fire of ``revision`` is claimed and ``run`` is in the ledger."""
    if run.revision == revision:
        return OnExisting.SEND if run.state is RunState.QUEUED else OnExisting.LEAVE
    revivable = run.state is RunState.QUEUED or run.unstarted
    return OnExisting.TAKE_OVER if run.revision < revision and revivable else OnExisting.LEAVE
