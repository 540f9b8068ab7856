"""Entries that stand for others."""

from __future__ import annotations

from dataclasses import replace

from minutehand.domain.history.entry import Book
from minutehand.domain.history.run_change import RunChange
from minutehand.domain.run import RunState
from minutehand.state.history.entries import placed

from tests.support.builders import a_run


def test_an_entry_stands_for_those_of_former_batches_that_were_withdrawn_in_its_own() -> None:
    """A run is refused, claimed again and skipped within a millisecond, and the batch before this one ends with the refusal."""
    refused = replace(a_run(), state=RunState.SUPERSEDED, ended_at=1_000)
    again = replace(refused, state=RunState.QUEUED, ended_at=None)
    skipped = replace(again, state=RunState.SKIPPED, ended_at=1_000)
    taken = RunChange(ref=refused.ref, sequence=11, at=1_000, old=refused, new=again)
    over = RunChange(ref=refused.ref, sequence=12, at=1_000, old=again, new=skipped)
    (entry,) = placed([taken, over])[Book.ENDED]
    assert (entry.state, entry.withdrawn, entry.again) == (RunState.SKIPPED, False, True)
    (alone,) = placed([over])[Book.ENDED]
    assert not alone.again
