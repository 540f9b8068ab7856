"""A measurement: one figure of a role, under a name of the catalogue. Wherever it leaves, it is made here and nowhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quarterjack.signals.catalogue import METRICS, Metric

STAND_INS = 100  # values of a distribution that are sent of many: what one line of CloudWatch's format takes


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Values of one metric. A counter has one: its sum. ``reason``: a part of it, as in ``LeaseRefused.ended``."""

    metric: Metric
    values: Sequence[float]
    reason: str = ""
    dimensions: Mapping[str, str] = field(default_factory=dict)  # `job` and `delivery`: each combination is billed
    names: Mapping[str, str] = field(default_factory=dict)  # said beside the figure, and not billed

    @property
    def name(self) -> str:
        """The metric's, with the reason."""
        return f"{self.metric.name}.{self.reason}" if self.reason else self.metric.name


def measured(name: str, *values: float, reason: str = "", **names: str) -> Measurement:
    """A measurement of the metric ``name``. Raises KeyError if the catalogue has none."""
    return Measurement(metric=METRICS[name], values=values, reason=reason, names=names)


def counted(**counts: float) -> list[Measurement]:
    """Measurements of counters and gauges by name; those of zero are left out, unless their metric is written although it is 0."""
    return [measured(name, value) for name, value in counts.items() if value or METRICS[name].zeros]


def stand_ins(values: Sequence[float]) -> Sequence[float]:
    """At most STAND_INS values that stand for all: evenly spaced in their order, the largest among them."""
    if len(values) <= STAND_INS:
        return values
    in_order, step = sorted(values), len(values) / STAND_INS
    return [in_order[int((place + 1) * step) - 1] for place in range(STAND_INS)]


def lines_of(measurements: Iterable[Measurement]) -> list[list[Measurement]]:
    """The measurements that may share a line: those with the same dimensions and names. A name is in each line once."""
    lines: dict[tuple[object, ...], list[Measurement]] = {}
    seen = Counter[tuple[object, ...]]()
    for each in measurements:
        words = (tuple(each.dimensions.items()), tuple(each.names.items()))
        lines.setdefault((*words, seen[*words, each.name]), []).append(each)
        seen[*words, each.name] += 1
    return list(lines.values())
