"""Where the measurements of a process go: one protocol, and CloudWatch's embedded format as lines of text.

In this format an ECS task whose output goes to CloudWatch Logs feeds the alarms of the functions: the metrics, dimensions and units are
those of the functions' lines.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from quarterjack.signals.measurement import Kind, Measurement, lines_of, stand_ins

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
