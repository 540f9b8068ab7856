"""CloudWatch's part: the states of all alarms after each minute, and the pages that go out.

A window slides with every minute. Of values that are missing CloudWatch takes older ones in their place, as far as it has read: it reads
``READ_MORE`` values more than the alarm looks at. Where it has too few, it treats the others as the alarm says. ``lateness`` says how
many minutes after the end of its minute a figure is there, metric by metric: until then it is missing, and a longer period has the
figures of its first minutes alone. How many values more CloudWatch reads is not documented, but for one example (5 for an alarm of 3):
nothing that the alarms of the stack do may rest on it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tests.support.signals.alarms import CompositeAlarm, FigureOfAlarm, MetricAlarm, alarms_of
from tests.support.signals.figures import FigureStore
from tests.support.signals.formulas import Series, evaluate
from tests.support.signals.lateness import Lateness, punctual

OK, ALARM = "OK", "ALARM"
READ_MORE = 2
_COMPARE = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
}


@dataclass(frozen=True)
class Told:
    """A message to the topic."""

    minute: int  # minutes that were over
    alarm: str
    state: str


@dataclass
class Waiting:
    """A composite alarm whose page is held back."""

    since: int  # it is in alarm, or its suppressor has gone
    minutes: int  # that it waits


@dataclass
class Evaluator:
    """All alarms of a template's resources. ``states`` by name; ``told`` in order."""

    resources: Mapping[str, Mapping[str, Any]]
    figures: FigureStore = field(default_factory=FigureStore)
    lateness: Lateness = punctual
    states: dict[str, str] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.metric_alarms, self.composites = alarms_of(self.resources)
        self._parts_first = _parts_first(self.composites)
        self.minute = 0
        self._waiting: dict[str, Waiting] = {}
        self._paged = set[str]()  # composite alarms whose begin was told
        self.states.update({alarm.name: OK for alarm in self.metric_alarms} | {one.name: OK for one in self.composites})

    def evaluate(self) -> list[Told]:
        """Another minute is over; what is told after it."""
        self.minute += 1
        before, told = dict(self.states), len(self.told)
        for alarm in self.metric_alarms:
            self.states[alarm.name] = self._state(alarm)
            if alarm.pages and self.states[alarm.name] != before[alarm.name]:
                self._tell(alarm.name)
        if self.minute == 1 or self.states != before:  # a composite alarm follows from the others
            for composite in self._parts_first:
                self.states[composite.name] = ALARM if _holds(composite.rule, self.states) else OK
        for composite in self.composites:
            if composite.pages:
                self._page(composite, before)
        return self.told[told:]

    # Metric alarms.

    def _state(self, alarm: MetricAlarm) -> str:
        there = tuple([self._there(figure) for figure in alarm.figures.values()])
        asked, known = (id(self.resources), alarm.name, self.minute, there), self.figures.states
        if asked not in known:
            length = alarm.out_of + READ_MORE + 1  # the first is for a difference
            each = zip(alarm.figures.items(), there, strict=True)
            series = tuple([(word, self._series(figure, length, until)) for (word, figure), until in each])
            known[asked] = _state_of(
                alarm.formula, series, alarm.out_of, alarm.times, alarm.operator, alarm.threshold, alarm.missing
            )
        return known[asked]

    def _there(self, figure: FigureOfAlarm) -> int | None:
        """The minute until which a figure is there; None, if it was never measured: so it is of most parts, most of the time."""
        key = (figure.namespace, figure.name, figure.dimensions)
        return self.minute - self.lateness(key, self.minute) if self.figures.has(key) else None

    def _series(self, figure: FigureOfAlarm, length: int, there: int | None) -> tuple[float | None, ...]:
        if there is None:
            return (None,) * length
        key = (figure.namespace, figure.name, figure.dimensions)
        ends = range(self.minute - figure.period * (length - 1), self.minute + 1, figure.period)
        value, statistic, period = self.figures.value, figure.statistic, figure.period
        return tuple([value(key, statistic, end - period, min(end, there)) for end in ends])

    # Composite alarms.

    def _page(self, composite: CompositeAlarm, before: Mapping[str, str]) -> None:
        name, hidden = composite.name, self._hidden(composite.suppressor)
        if self.states[name] == OK:
            self._waiting.pop(name, None)
            if before[name] == ALARM and name in self._paged:
                self._paged.discard(name)
                self._tell(name)
            return
        if name in self._paged:
            return
        if before[name] == OK:
            self._waiting[name] = Waiting(self.minute, composite.wait)
        if hidden:
            self._waiting[name] = Waiting(self.minute + 1, composite.extension)  # from its end on
            return
        waiting = self._waiting[name]
        if composite.suppressor is None or self.minute - waiting.since >= waiting.minutes:
            self._paged.add(name)
            self._tell(name)

    def _hidden(self, suppressor: str | None) -> bool:
        return suppressor is not None and self.states[suppressor] == ALARM

    def _tell(self, name: str) -> None:
        self.told.append(Told(self.minute, name, self.states[name]))


@lru_cache(maxsize=65_536)
def _state_of(
    formula: str,
    series: tuple[tuple[str, Series], ...],
    out_of: int,
    times: int,
    compared: str,
    threshold: float,
    missing: str,
) -> str:
    """Of a metric alarm. Most figures are the same, minute after minute and at each lateness."""
    values = evaluate(formula, dict(series), out_of + READ_MORE + 1)[1:]
    recent, lacking = values[-out_of:], 0
    if None in recent:
        known = [value for value in values if value is not None][-out_of:]
        recent, lacking = list(known), out_of - len(known)
    beyond = sum(_COMPARE[compared](value, threshold) for value in recent if value is not None)
    if missing == "breaching":
        beyond += lacking
    elif missing != "notBreaching":
        raise NotImplementedError(missing)
    return ALARM if beyond >= times else OK


def _parts_first(composites: Sequence[CompositeAlarm]) -> list[CompositeAlarm]:
    """Each after the composite alarms that it is made of."""
    by_name, done = {one.name: one for one in composites}, dict[str, CompositeAlarm]()

    def add(one: CompositeAlarm) -> None:
        for name in _names(one.rule):
            if name in by_name and name not in done:
                add(by_name[name])
        done.setdefault(one.name, one)

    for one in composites:
        add(one)
    return list(done.values())


def _holds(rule: ast.expr, states: Mapping[str, str]) -> bool:
    match rule:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_holds(value, states) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_holds(value, states) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _holds(operand, states)
        case ast.Call(func=ast.Name(id="ALARM"), args=[ast.Constant(value=str() as name)]):
            return states[name] == ALARM
    raise NotImplementedError(ast.unparse(rule))


def _names(rule: ast.expr) -> list[str]:
    return [node.value for node in ast.walk(rule) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
