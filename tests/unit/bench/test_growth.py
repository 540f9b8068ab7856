"""The bench of a worker's memory: what it samples, and what a worker says that it holds."""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from quarterjack.testing import Harness

from bench import growth
from bench.weighed import mixed
from tests.support.parts import in_rotation

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def test_every_job_of_the_mix_is_known() -> None:
    harness = Harness(at=datetime(2026, 5, 4, tzinfo=UTC))
    load = growth.Load(harness.scheduler, rate=1e9, size=100)
    for kind in growth.MIX:
        load._submit(kind)  # a job that nobody knows is refused
    assert {run.job for run in harness.memory.runs()} == {f"growth.{kind}" for kind in growth.MIX}


def test_a_sample_has_the_memory_and_threads_of_a_process() -> None:
    found = growth.weight(os.getpid())
    assert found["rss_mb"] >= found["pss_mb"] >= found["pss_anon_mb"] > 5
    assert found["threads"] >= 1


@in_rotation(of=6)
def test_a_worker_says_what_it_holds(tmp_path: Path) -> None:
    place = tmp_path / "held.jsonl"
    asked: dict[str, Any] = {"file": str(place), "trace": True, "trim": True}
    context: Any = None
    try:
        mixed.holds(context, asked)
        mixed.holds(context, asked)
    finally:
        tracemalloc.stop()
    before, after = map(json.loads, place.read_text().splitlines())
    assert before["objects"] > 100
    assert "places" not in before
    assert after["traced"] > 0
    assert sum(after["kinds"].values()) > 100
