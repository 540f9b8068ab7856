"""A long job on the Lambda handler: one invocation after the other, without a limit of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from quarterjack import RunState
from quarterjack.local.cloud import LocalCloud

from bench.hurried.sliced import UNITS, slice_runs

pytestmark = [pytest.mark.check, pytest.mark.cloud]


def test_a_job_of_ten_slices_resumes_nine_times_and_spends_one_attempt(local_cloud: LocalCloud, tmp_path: Path) -> None:
    run, invocations, _ = slice_runs(local_cloud, tmp_path, count=10, length=0)
    assert (run.state, run.attempt, run.slices, run.fence) == (RunState.SUCCEEDED, 1, 9, 10)
    assert invocations == 10
    assert run.failed_attempts == []
    units = UNITS * 10 - UNITS // 2
    assert run.result == units
    assert (tmp_path / "units").read_text().split() == [str(number + 1) for number in range(units)], "none twice"
