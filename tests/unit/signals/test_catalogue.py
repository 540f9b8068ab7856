"""The table of metrics."""

from __future__ import annotations

import re

from quarterjack.signals.catalogue import METRICS
from quarterjack.signals.measurement import Emitter, Kind, Unit


def test_names_are_cloudwatchs_and_each_metric_has_an_emitter_and_a_meaning() -> None:
    for name, metric in METRICS.items():
        assert name == metric.name
        assert re.fullmatch(r"[A-Z][A-Za-z]{1,39}", name)
        assert metric.roles
        assert metric.meaning
        assert not metric.meaning.endswith(".")


def test_only_workers_measure_processes_and_jobs() -> None:
    for metric in METRICS.values():
        assert not metric.processes_only or metric.roles == (Emitter.WORKER,)
        assert metric.unit in Unit
        assert metric.kind is not Kind.COUNTER or metric.unit is Unit.COUNT
