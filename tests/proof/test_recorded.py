"""Some recorded histories: what the historians wrote is what happened, and each history has everything in it."""

from __future__ import annotations

import itertools
import time
from collections import Counter

import pytest
from minutehand.domain.history.transition_line import TransitionKind
from minutehand.historian import rebuild as rebuilding
from minutehand.state.history.run_changes import transition_of

from tests.support import simulate
from tests.support.histories.recorded import Recorded, Unfollowed
from tests.support.histories.simulator import CALM, HOSTILE, WILD, Faults
from tests.support.parts import in_parts

KNOWN = tuple(range(12))  # one process, a function, and both, under faults of each class
PARTS = 6  # `make test` plays one, `make check` all
NOT_HERE = {TransitionKind.REBUILT, TransitionKind.REMOVED}  # nobody rebuilds, or deletes rows of runs


@in_parts(PARTS)
def test_what_historians_write_is_what_happened(part: int) -> None:
    today = itertools.islice(itertools.count(int(time.time())), 1)
    for seed in (*KNOWN[part::PARTS], *today):
        found = simulate.play(seed, "history")
        assert found.violations == [], f"python -m tests.support.simulate --kind history --only {seed}"


@pytest.mark.parametrize(("seed", "faults"), [(1, CALM), (4, HOSTILE)])
def test_after_25_hours_without_a_historian_a_gap_is_reported_and_a_rebuild_fills_it(seed: int, faults: Faults) -> None:
    history = Unfollowed(seed, faults)
    assert history.judged() == []


def test_without_a_rebuild_what_the_historian_did_not_see_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "rebuild", lambda spec, services, *, clock: None)
    history = Unfollowed(1, CALM)
    assert sum(text.startswith(("page missing", "open missing")) for text in history.judged()) > 10


@pytest.mark.parametrize("faults", [CALM, WILD])
def test_everything_that_may_become_of_a_run_is_in_each_history(faults: Faults) -> None:
    history = Recorded(5, faults)
    assert history.judged() == []
    told = Counter(line.kind for change in history.witness.changes if (line := transition_of(change)) is not None)
    assert set(TransitionKind) - set(told) == NOT_HERE
    assert history.stage.counts["expired rows"] > 0
    assert history.seen.leases
