"""The reports of the roles as measurements: every metric of the catalogue is made, by the roles that it names, and no other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, TypeVar

import pytest
from quarterjack.auditor.log_closing import ClosingReport
from quarterjack.auditor.walk import AuditReport
from quarterjack.domain.policies import Priority
from quarterjack.domain.run import RunState
from quarterjack.fires.context import (
    LATE_SEND,
    BackfillProgress,
    EntryCounts,
    FireCounts,
    MessageCounts,
    MissedFires,
    ScheduleCounts,
    TickCounts,
    WaitCounts,
)
from quarterjack.historian.archive import CompactionReport
from quarterjack.historian.deliver import DeliveryReport
from quarterjack.historian.page_compaction import PageCompactionReport
from quarterjack.ports.queues import WorkDepth
from quarterjack.signals.catalogue import METRICS, counted, measured
from quarterjack.signals.measurement import Emitter, Measurement, Metered, lines_of, stand_ins
from quarterjack.signals.reports import (
    of_audit,
    of_burial,
    of_closing,
    of_compaction,
    of_events,
    of_gauges,
    of_history,
    of_page_compaction,
    of_tick,
)
from quarterjack.state.backpressure import QueueDepth
from quarterjack.ticker.gauges import Gauges
from quarterjack.ticker.tick import TickReport
from quarterjack.undertaker.bury import Burial

from tests.support.builders import a_run, a_run_entry

R = TypeVar("R")
_IN_HANDLERS = {  # what a handler counts itself, because no report tells it
    Emitter.AUDITOR: {"ArchiveNotCompacted", "HistoryRelisted"},
    Emitter.EVENTS: {"EventBatches", "EventsStopped"},
    Emitter.HISTORIAN: {"HistorianBatches", "HistorianStopped"},
}


def _full(kind: type[R], **given: Any) -> R:
    """A report whose every number is 1."""
    numbers = {each.name: 1 for each in fields(kind) if each.type in {"int", "bool"}}  # type: ignore[arg-type]
    return kind(**{**numbers, **given})


def _made_by(role: Emitter) -> list[Measurement]:
    if role is Emitter.TICKER:
        progress = BackfillProgress(tenant="acme", backfill="b1", created=1, left=1)
        miss = MissedFires(tenant="acme", schedule="s", late=1, skipped=1)
        problem = (a_run_entry(a_run().ref), ValueError("odd"))
        done = TickCounts(
            agenda=_full(EntryCounts, failures=(problem,)),
            fires=_full(FireCounts, misses=(miss,)),
            messages=_full(MessageCounts, lags=(LATE_SEND + 1,)),
            schedules=_full(ScheduleCounts, backfills=(progress,)),
            waits=WaitCounts(checks=(("signal", 5),)),
        )
        report = _full(TickReport, held=["reports"], broken=["acme"], ages={(3, "default"): 5}, handled=done)
        depth = WorkDepth(queue=None, number=0, priority=Priority.NORMAL, depth=QueueDepth(waiting=1, at_hand=1))
        return of_tick(report, whole=True) + of_gauges(Gauges(depths=[depth], ready=1, expired=1))
    if role is Emitter.UNDERTAKER:
        burials = [
            *(Burial(action="recorded", state=state, began=True, paused=True) for state in RunState),
            *(Burial(action=action) for action in ("returned", "unreadable", "rejected", "dropped")),
        ]
        return [each for burial in burials for each in of_burial(burial)]
    if role is Emitter.AUDITOR:
        return (
            of_audit(_full(AuditReport))
            + of_closing(_full(ClosingReport))
            + of_compaction(_full(CompactionReport))
            + of_page_compaction(_full(PageCompactionReport))
        )
    return of_history(_full(DeliveryReport)) if role is Emitter.HISTORIAN else of_events(_full(DeliveryReport))


def _names(measurements: Iterable[Measurement]) -> set[str]:
    return {each.metric.name for each in measurements}


@pytest.mark.parametrize("role", [role for role in Emitter if role is not Emitter.WORKER])
def test_a_role_makes_the_metrics_that_the_catalogue_says_it_does(role: Emitter) -> None:
    expected = {name for name, metric in METRICS.items() if role in metric.roles}
    assert _names(_made_by(role)) | _IN_HANDLERS.get(role, set()) == expected


@pytest.mark.parametrize("role", [role for role in Emitter if role is not Emitter.WORKER])
def test_a_measurement_says_the_names_that_the_catalogue_has(role: Emitter) -> None:
    for each in _made_by(role):
        assert tuple(each.names) == each.metric.names
        assert each.values


def test_an_empty_tick_still_says_that_it_was_one_and_a_group_is_none() -> None:
    quiet = TickReport(now=0)
    assert _names(of_tick(quiet, whole=True)) == {"Ticks", "BehindBy"}
    assert _names(of_tick(quiet, whole=False)) == {"BehindBy"}


def test_parked_runs_that_were_checked_are_counted_by_what_they_wait_for() -> None:
    checks = (("signal", 5_000), ("children", 9_000), ("signal", 7_000))
    report = TickReport(now=0, handled=TickCounts(waits=WaitCounts(checks=checks)))
    found = {each.name: each.values for each in of_tick(report, whole=False) if "Wait" in each.name}
    assert found == {
        "WaitsChecked": (3,),
        "WaitsChecked.children": (1,),
        "WaitsChecked.signal": (2,),
        "LongestWait": (9_000,),
        "LongestWait.children": (9_000,),
        "LongestWait.signal": (7_000,),
    }


def test_what_was_not_measured_is_not_said() -> None:
    assert of_gauges(Gauges(depths=[WorkDepth(queue=None, number=0, priority=Priority.NORMAL, depth=None)])) == []


def test_a_metric_that_the_catalogue_lacks_cannot_be_made() -> None:
    with pytest.raises(KeyError):
        counted(Invented=1)


def test_a_metered_jobs_or_tenants_burial_is_said_twice() -> None:
    burial = Burial(action="recorded", run=a_run(job="bill"))
    both = Metered(jobs=frozenset({"bill"}), tenants=frozenset({"acme"}))
    assert [dict(each.dimensions) for each in of_burial(burial, both)] == [{}, {"job": "bill"}, {"tenant": "acme"}]
    others = Metered(jobs=frozenset({"other"}), tenants=frozenset({"beta"}))
    assert [dict(each.dimensions) for each in of_burial(burial, others)] == [{}]


# Lines and values.


def test_values_that_stand_for_many_keep_the_largest_and_the_percentiles() -> None:
    few = [3, 1, 2]
    assert stand_ins(few) == few
    many = list(range(1_000, 0, -1))
    chosen = stand_ins(many)
    assert (len(chosen), max(chosen)) == (100, 1_000)
    assert chosen[49] == pytest.approx(500, rel=0.02)
    assert chosen[94] == pytest.approx(950, rel=0.02)
    assert max(stand_ins([0] * 100 + [9])) == 9


def test_a_name_is_in_each_line_once_and_lines_have_one_set_of_words() -> None:
    given = [
        measured("StartLag", 1),
        measured("Started", 1),
        measured("StartLag", 2),
        measured("Missed", 1, tenant="acme", schedule="s"),
        measured("Skipped", 1, tenant="acme", schedule="s"),
        measured("Missed", 1, tenant="acme", schedule="t"),
    ]
    lines = [[(each.name, *each.values) for each in line] for line in lines_of(given)]
    assert lines == [
        [("StartLag", 1), ("Started", 1)],
        [("StartLag", 2)],
        [("Missed", 1), ("Skipped", 1)],
        [("Missed", 1)],
    ]
