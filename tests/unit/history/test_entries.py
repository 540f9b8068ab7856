"""Entries that stand for others."""

from __future__ import annotations

from dataclasses import replace

from quarterjack.domain.history.entry import Book
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.run import RunState
from quarterjack.state.history.entries import placed

from tests.support.builders import a_one_off, a_run


def test_a_one_off_that_was_moved_to_and_fro_is_at_its_last_place() -> None:
    """Each move is a batch of its own: what stands at a place must not be taken for the first entry there."""
    first = a_one_off(due=60_000, not_before=60_000)
    there = replace(first, due=90_000, revision=1)
    back = replace(first, revision=2)
    (submitted,) = placed([RunChange(ref=first.ref, sequence=1, at=1_000, old=None, new=first)])[Book.OPEN]
    moved = placed([RunChange(ref=first.ref, sequence=2, at=1_000, old=first, new=there)])[Book.OPEN]
    again = placed([RunChange(ref=first.ref, sequence=3, at=1_000, old=there, new=back)])[Book.OPEN]
    assert [(each.at, each.withdrawn) for each in (submitted, *moved, *again)] == [
        (60_000, False),
        *[(60_000, True), (90_000, False)],
        *[(90_000, True), (60_000, False)],
    ]
    assert [each.again for each in (submitted, *moved, *again)] == [False, True, True, True, True]


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
