"""Where the figures of a process go: lines, Prometheus, OpenTelemetry; the same figures in each."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from typing import Any

import pytest
from quarterjack.errors import Misconfigured
from quarterjack.extras import install_remedy
from quarterjack.signals.catalogue import METRICS, measured
from quarterjack.signals.measurement import Emitter
from quarterjack.signals.sinks import (
    EmbeddedLines,
    OpenTelemetryFigures,
    PrometheusFigures,
    Sink,
    loaded_open_telemetry,
)

BY_JOB = {"job": "bill", "delivery": "at_least_once"}


def _taken(sink: Sink) -> None:
    sink.take([measured("Started", 2), measured("RunDuration", 1_500, 40_000), measured("Slots", 10)])
    sink.take([measured("Started", 1), replace(measured("Started", 1), dimensions=BY_JOB), measured("Slots", 12)])
    sink.take([measured("LeaseRefused", 1, reason="ended")])


def test_a_flush_writes_sums_values_and_the_latest_and_forgets_them() -> None:
    lines = list[dict[str, Any]]()
    sink = EmbeddedLines("quarterjack-worker", lambda text: lines.append(json.loads(text)), lambda: 1_700_000_000_000)
    _taken(sink)
    sink.flush()
    total, of_job = lines
    assert {name: total[name] for name in ("Started", "RunDuration", "Slots", "LeaseRefused.ended")} == {
        "Started": [3],
        "RunDuration": [1_500, 40_000],
        "Slots": [12],
        "LeaseRefused.ended": [1],
    }
    (said,) = total["_aws"]["CloudWatchMetrics"]
    assert (said["Namespace"], said["Dimensions"]) == ("Quarterjack", [["service"]])
    assert {each["Name"]: each["Unit"] for each in said["Metrics"]}["RunDuration"] == "Milliseconds"
    assert (total["service"], total["_aws"]["Timestamp"]) == ("quarterjack-worker", 1_700_000_000_000)
    assert of_job["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service", "job", "delivery"]]
    assert (of_job["Started"], of_job["job"]) == ([1], "bill")
    sink.flush()
    assert len(lines) == 2


def test_a_line_has_at_most_a_hundred_values_the_largest_among_them() -> None:
    lines = list[dict[str, Any]]()
    sink = EmbeddedLines("w", lambda text: lines.append(json.loads(text)), lambda: 0)
    for number in range(5_000):
        sink.take([measured("RunDuration", number)])
    sink.flush()
    (line,) = lines
    assert (len(line["RunDuration"]), max(line["RunDuration"])) == (100, 4_999)


def test_prometheus_reads_the_same_figures_in_base_units() -> None:
    sink = PrometheusFigures("quarterjack-worker")
    _taken(sink)
    text = sink.text().decode()
    service = 'service="quarterjack-worker"'
    assert f"quarterjack_started_total{{{service}}} 3.0" in text
    assert f"quarterjack_slots{{{service}}} 12.0" in text
    assert f"quarterjack_run_duration_seconds_sum{{{service}}} 41.5" in text
    assert f'quarterjack_run_duration_seconds_bucket{{le="2.0",{service}}} 1.0' in text
    assert 'quarterjack_job_started_total{delivery="at_least_once",job="bill",' in text
    assert f'quarterjack_lease_refused_by_reason_total{{reason="ended",{service}}} 1.0' in text


@pytest.mark.parametrize("name", [name for name, each in METRICS.items() if Emitter.WORKER in each.roles])
def test_each_metric_of_a_worker_can_be_an_instrument(name: str) -> None:
    sinks: list[Sink] = [PrometheusFigures("w"), OpenTelemetryFigures("w", _Api())]
    for sink in sinks:
        sink.take([measured(name, 1)])


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(Misconfigured, match=re.escape(install_remedy("metrics"))):
        PrometheusFigures("w")


class _Api:
    """OpenTelemetry's API of metrics, as far as it is used; keeps what its instruments are given."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, float, dict[str, str]]] = []

    def get_meter(self, name: str) -> _Api:
        assert name == "quarterjack"
        return self

    def __getattr__(self, create: str) -> Any:
        assert create in {"create_counter", "create_histogram", "create_gauge"}

        def make(name: str, *, unit: str, description: str) -> Any:
            assert description
            return _Instrument(self, name, unit)

        return make


class _Instrument:
    def __init__(self, api: _Api, name: str, unit: str) -> None:
        self._api, self._name, self._unit = api, name, unit

    def add(self, value: float, attributes: dict[str, str]) -> None:
        self._api.seen.append((self._name, self._unit, value, dict(attributes)))

    record = set = add


def test_open_telemetry_gets_the_same_figures() -> None:
    api = _Api()
    _taken(OpenTelemetryFigures("w", api))
    service = {"service": "w"}
    assert api.seen == [
        ("quarterjack.started", "1", 2, service),
        ("quarterjack.run.duration", "s", 1.5, service),
        ("quarterjack.run.duration", "s", 40.0, service),
        ("quarterjack.slots", "1", 10, service),
        ("quarterjack.started", "1", 1, service),
        ("quarterjack.job.started", "1", 1, service | BY_JOB),
        ("quarterjack.slots", "1", 12, service),
        ("quarterjack.lease.refused.by.reason", "1", 1, service | {"reason": "ended"}),
    ]


def test_open_telemetrys_own_api_takes_them() -> None:
    from opentelemetry import metrics

    _taken(OpenTelemetryFigures("w", metrics))


def test_open_telemetry_is_used_where_the_process_has_loaded_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.metrics", raising=False)
    assert loaded_open_telemetry("w") == []
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", _Api())
    assert len(loaded_open_telemetry("w")) == 1
