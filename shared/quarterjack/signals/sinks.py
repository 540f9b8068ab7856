"""The sinks of measurements: CloudWatch's embedded format as lines of text, instruments of Prometheus and of OpenTelemetry.

In the embedded format an ECS task whose output goes to CloudWatch Logs feeds the alarms of the functions: the metrics, dimensions and
units are those of the functions' lines. Instruments are in base units: seconds, bytes, parts of one. A measurement with words of its own
(`job`, `reason`, a queue) is an instrument of its own, so that a sum over the others counts nothing twice.
"""

from __future__ import annotations

import json
import random
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quarterjack.errors import Misconfigured
from quarterjack.extras import install_remedy
from quarterjack.signals.measurement import Kind, Measurement, Metric, Unit, lines_of, stand_ins
from quarterjack.values import replace

NAMESPACE = "Quarterjack"
_KEPT = 1_000  # values of a distribution that are kept of a minute, by chance


class Sink(Protocol):
    """Takes measurements, from any thread."""

    def take(self, measurements: Sequence[Measurement]) -> None:
        """Take what was measured just now."""

    def flush(self) -> None:
        """Called about once a minute, and at the end."""


@dataclass
class _Gathered:
    """The values of one metric with its words, since the last flush."""

    last: Measurement
    values: list[float] = field(default_factory=list)
    count: int = 0
    largest: float = 0

    def add(self, measurement: Measurement) -> None:
        self.last = measurement
        if measurement.metric.kind is Kind.COUNTER:
            self.values = [sum(self.values) + sum(measurement.values)]
        elif measurement.metric.kind is Kind.GAUGE:
            self.values = list(measurement.values[-1:])
        else:
            for value in measurement.values:
                self._keep(value)

    def _keep(self, value: float) -> None:
        """Each value of the minute is kept with the same chance, and the largest always."""
        self.count += 1
        self.largest = max(self.largest, value)
        if len(self.values) < _KEPT:
            self.values.append(value)
        elif (place := random.randrange(self.count)) < _KEPT:
            self.values[place] = value

    @property
    def measurement(self) -> Measurement:
        if self.count > _KEPT:
            self.values[0] = self.largest
        return replace(self.last, values=stand_ins(self.values))


class EmbeddedLines:
    """Writes a line a minute in CloudWatch's embedded format, and one for each set of words. ``service`` is the dimension."""

    def __init__(self, service: str, write: Callable[[str], object], clock: Callable[[], int]) -> None:
        self._service, self._write, self._clock = service, write, clock
        self._gathered: dict[tuple[object, ...], _Gathered] = {}
        self._lock = threading.Lock()

    def take(self, measurements: Sequence[Measurement]) -> None:
        with self._lock:
            for each in measurements:
                key = (each.name, *each.dimensions.items(), *each.names.items())
                if key not in self._gathered:
                    self._gathered[key] = _Gathered(each)
                self._gathered[key].add(each)

    def flush(self) -> None:
        with self._lock:
            gathered, self._gathered = self._gathered, {}
        for line in lines_of(each.measurement for each in gathered.values()):
            self._write(json.dumps(self._line(line), separators=(",", ":")))

    def _line(self, line: Sequence[Measurement]) -> dict[str, Any]:
        first = line[0]
        said = {
            "Namespace": NAMESPACE,
            "Dimensions": [["service", *first.dimensions]],
            "Metrics": [{"Name": each.name, "Unit": str(each.metric.unit)} for each in line],
        }
        words = {"service": self._service, **first.dimensions, **first.names}
        figures = {each.name: list(each.values) for each in line}
        return {"_aws": {"Timestamp": self._clock(), "CloudWatchMetrics": [said]}} | words | figures


_SCALES = {
    Unit.COUNT: (1.0, "", "1"),
    Unit.MILLISECONDS: (0.001, "seconds", "s"),
    Unit.MEGABYTES: (2.0**20, "bytes", "By"),
    Unit.PERCENT: (0.01, "ratio", "1"),
}
_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3_600)  # bounds of buckets
_COUNTS = (1, 2, 3, 5, 10, 20, 50)


def _words(measurement: Measurement) -> dict[str, str]:
    reason = {"reason": measurement.reason} if measurement.reason else {}
    return {**measurement.dimensions, **measurement.names, **reason}


def _parts(measurement: Measurement) -> list[str]:
    """The words of an instrument's name."""
    own = [each.lower() for each in re.findall(r"[A-Z][a-z]+", measurement.metric.name)]
    prefix = ["job"] if "job" in measurement.dimensions else []
    return [*prefix, *own, *(["by", "reason"] if measurement.reason else [])]


class PrometheusFigures:
    """The text of ``/metrics``. Raises Misconfigured if the library is not installed."""

    def __init__(self, service: str) -> None:
        try:
            import prometheus_client  # noqa: PLC0415 (it is an extra)
        except ModuleNotFoundError:
            raise Misconfigured(f"/metrics: prometheus_client is not installed; {install_remedy('metrics')}") from None
        self._library: Any = prometheus_client
        self._registry: Any = prometheus_client.CollectorRegistry()
        self._service, self._lock = service, threading.Lock()
        self._made: dict[str, Any] = {}

    def take(self, measurements: Sequence[Measurement]) -> None:
        for each in measurements:
            scale = _SCALES[each.metric.unit][0]
            words = {"service": self._service} | _words(each)
            instrument = self._instrument(each, list(words)).labels(**words)
            for value in each.values:
                match each.metric.kind:
                    case Kind.COUNTER:
                        instrument.inc(value)
                    case Kind.GAUGE:
                        instrument.set(value * scale)
                    case Kind.HISTOGRAM:
                        instrument.observe(value * scale)

    def flush(self) -> None:
        """Nothing waits here: whoever scrapes reads what there is."""

    def text(self) -> bytes:
        """Prometheus's text format."""
        text: bytes = self._library.generate_latest(self._registry)
        return text

    def _instrument(self, measurement: Measurement, labels: list[str]) -> Any:
        unit = _SCALES[measurement.metric.unit][1]
        name = "_".join(["quarterjack", *_parts(measurement), *([unit] if unit else [])])
        with self._lock:
            if name not in self._made:
                self._made[name] = self._make(measurement.metric, name, labels)
            return self._made[name]

    def _make(self, metric: Metric, name: str, labels: list[str]) -> Any:
        kinds = {Kind.COUNTER: self._library.Counter, Kind.GAUGE: self._library.Gauge}
        if metric.kind is not Kind.HISTOGRAM:
            return kinds[metric.kind](name, metric.meaning, labels, registry=self._registry)
        buckets = _SECONDS if metric.unit is Unit.MILLISECONDS else _COUNTS
        return self._library.Histogram(name, metric.meaning, labels, registry=self._registry, buckets=buckets)


class OpenTelemetryFigures:
    """Instruments of the meter ``quarterjack``; they go where the process's MeterProvider sends them."""

    def __init__(self, service: str, api: Any) -> None:
        self._service, self._meter = service, api.get_meter("quarterjack")
        self._lock, self._made = threading.Lock(), dict[str, Any]()

    def take(self, measurements: Sequence[Measurement]) -> None:
        for each in measurements:
            scale = _SCALES[each.metric.unit][0]
            attributes: Mapping[str, str] = {"service": self._service} | _words(each)
            instrument = self._instrument(each)
            for value in each.values:
                match each.metric.kind:
                    case Kind.COUNTER:
                        instrument.add(value, attributes)
                    case Kind.GAUGE:
                        instrument.set(value * scale, attributes)
                    case Kind.HISTOGRAM:
                        instrument.record(value * scale, attributes)

    def flush(self) -> None:
        """The provider's reader sends them when it is time."""

    def _instrument(self, measurement: Measurement) -> Any:
        metric, name = measurement.metric, ".".join(["quarterjack", *_parts(measurement)])
        with self._lock:
            if name not in self._made:
                make = getattr(self._meter, f"create_{metric.kind}")
                self._made[name] = make(name, unit=_SCALES[metric.unit][2], description=metric.meaning)
            return self._made[name]


def loaded_open_telemetry(service: str) -> list[OpenTelemetryFigures]:
    """Its sink, if this process has loaded the API of metrics: nobody collects them otherwise, and to load it takes time."""
    api = sys.modules.get("opentelemetry.metrics")
    return [] if api is None else [OpenTelemetryFigures(service, api)]
