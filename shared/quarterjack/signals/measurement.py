"""A metric and a measurement: one figure of a role under the name of a metric. The catalogue has the metrics and makes the measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from quarterjack.settings import Settings
from quarterjack.values import value

STAND_INS = 100  # values of a distribution that are sent of many: what one line of CloudWatch's format takes


class Unit(StrEnum):
    """The units of CloudWatch that metrics have."""

    COUNT = "Count"
    MILLISECONDS = "Milliseconds"
    MEGABYTES = "Megabytes"
    PERCENT = "Percent"


class Kind(StrEnum):
    """How values of a metric are put together: added up, spread over a distribution, or replaced by the latest."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Emitter(StrEnum):
    """Who emits a metric, as a function or as a process."""

    TICKER = "ticker"
    WORKER = "worker"
    UNDERTAKER = "undertaker"
    AUDITOR = "auditor"
    HISTORIAN = "historian"
    EVENTS = "events"


@dataclass(frozen=True)
class Metric:
    """One metric. ``names``: what its line says beside the figure, and CloudWatch does not bill as a dimension."""

    name: str
    unit: Unit
    kind: Kind
    roles: tuple[Emitter, ...]
    meaning: str
    names: tuple[str, ...] = ()
    by_job: bool = False  # also by job and by tenant, for those of ``metric_jobs`` and ``metric_tenants``
    processes_only: bool = False  # from `quarterjack worker` alone
    zeros: bool = False  # written although it is 0


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


@value()
class Metered:
    """Who has metrics of its own, beside the total."""

    jobs: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()


def metered(settings: Settings) -> Metered:
    """The jobs and tenants with metrics of their own."""
    texts = (settings.metric_jobs, settings.metric_tenants)
    return Metered(*(frozenset(filter(None, map(str.strip, (text or "").split(",")))) for text in texts))
