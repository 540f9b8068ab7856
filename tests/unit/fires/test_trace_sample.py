"""The trace of a tick goes with a sample of its runs: workers record, and X-Ray bills, what comes with a trace."""

from __future__ import annotations

from dataclasses import replace

from quarterjack.domain.names import one_off_ref
from quarterjack.fires.claim import TRACED, one_off_message

from tests.support.builders import a_one_off

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"


def test_one_run_in_twenty_carries_the_trace_and_always_the_same() -> None:
    runs = [replace(a_one_off(), ref=one_off_ref("acme", f"run-{number}")) for number in range(2_000)]
    traces = [one_off_message(run, TRACE).trace for run in runs]
    assert set(traces) == {TRACE, None}
    assert 2_000 // TRACED // 2 < traces.count(TRACE) < 2_000 // TRACED * 2
    assert [one_off_message(run, TRACE).trace for run in runs] == traces
    assert {one_off_message(run).trace for run in runs} == {None}
