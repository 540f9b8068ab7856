"""Jobs that crash their worker process at random points, and what was promised of their runs all the same.

A bounded form of ``python -m bench runs crashes`` and ``at-most-once``; the witness is a file that the scheduler does not know.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from quarterjack.local.cloud import LocalCloud

from bench.hurried.crashes import Figures, crash_runs
from bench.hurried.crew import hurried

pytestmark = [pytest.mark.cloud, pytest.mark.proof]

RUNS = 80
LEASE = 4.0  # seconds


def crashed(cloud: LocalCloud, folder: Path, job: str) -> Figures:
    with hurried(cloud, folder, lease=LEASE) as hurry:
        figures = crash_runs(hurry, RUNS, workers=2, job=job, within=240)
        assert figures.crashes >= 5, "too few for a proof"
        assert figures.unended == 0, hurry.logs()
    return figures


def test_steps_are_recorded_once_and_effects_repeat_only_where_their_record_was_lost(
    local_cloud: LocalCloud, tmp_path: Path
) -> None:
    figures = crashed(local_cloud, tmp_path, "hurried.crash")
    assert figures.states == {"SUCCEEDED": RUNS}
    assert figures.repeated == figures.unrecorded, "no effect without a crash between it and its record"
    assert (figures.unexplained, figures.ambiguous, figures.missing) == (0, 0, 0)
    assert figures.keyed_twice == 0, "the idempotency key closes the gap downstream"


def test_at_most_once_never_starts_twice_and_tells_what_was_lost(local_cloud: LocalCloud, tmp_path: Path) -> None:
    figures = crashed(local_cloud, tmp_path, "hurried.crash-once")
    assert (figures.started_twice, figures.untold) == (0, 0)
    assert figures.states["LOST"] >= figures.crashes / 2
