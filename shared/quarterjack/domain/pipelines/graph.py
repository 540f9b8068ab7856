"""The tasks of a pipeline and their order: read from the option ``tasks`` of a schedule, checked as a whole.

tasks:
orders: {job: orders.extract, payload: {day: "${fire.date}"}}
stock:  {job: stock.extract}
report: {job: report.build, after: [orders, stock], payload: {orders: "${orders.result}"}}
mail:   {job: report.mail, after: [report], when: 'report.result["rows"] > 0'}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from typing import Any

from quarterjack.domain.names import MAP, PIPELINE
from quarterjack.domain.pipelines.expressions import Reference, references_in, references_of
from quarterjack.domain.policies import Overrides
from quarterjack.values import value

DEEPEST = 5  # pipelines within each other


class Join(StrEnum):
    """When a task starts, by the ends of the tasks it comes after."""

    ALL = "all"  # all have succeeded
    ANY = "any"  # one has succeeded, whatever the others do
    NONE_FAILED = "none_failed"  # all have ended, and none has failed, nor was skipped since one above it has: others may be skipped
    DONE = "done"  # all have ended, however


@value(kw_only=True)
class MapSpec:
    """A task that runs its job once for each item."""

    over: Any  # a list, or the reference to one
    at_a_time: int = 100  # items that are unfinished at a time


@value(kw_only=True)
class Task:
    """One task."""

    name: str
    job: str | None = None  # name of its job; None: it runs a pipeline
    pipeline: str | None = None  # name of the pipeline that it runs
    payload: Any = None  # JSON with references
    after: tuple[str, ...] = ()  # tasks that end before it starts
    join: Join = Join.ALL
    when: str | None = None  # a condition; if it does not hold the task is skipped
    optional: bool = False  # whether its failure counts as its end
    map: MapSpec | None = None
    queue: str | None = None  # name of its declared queue
    policies: Overrides = field(default_factory=Overrides)  # that differ from the job's own

    @property
    def runs(self) -> str:
        """The name of the job of its run."""
        if self.pipeline is not None:
            return f"{PIPELINE}{self.pipeline}"
        return f"{MAP}{self.job}" if self.map is not None else self.job or ""

    @property
    def template(self) -> Any:
        """What its run's payload is made from."""
        if self.map is None:
            return self.payload
        return {"items": self.map.over, "at_a_time": self.map.at_a_time}

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        """What its payload and its condition refer to."""
        found = [each for _, each in references_in(self.template, "payload")]
        return (*found, *(each for _, each in references_of(self.when, "when"))) if self.when else tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """Its words that differ from their defaults, as JSON values."""
        found: dict[str, Any] = {
            "job": self.job,
            "pipeline": self.pipeline,
            "payload": self.payload,
            "after": list(self.after) or None,
            "join": None if self.join is Join.ALL else str(self.join),
            "when": self.when,
            "optional": self.optional or None,
            "map": None if self.map is None else {"over": self.map.over, "at_a_time": self.map.at_a_time},
            "queue": self.queue,
            **self.policies.as_dict(),
        }
        return {name: given for name, given in found.items() if given is not None}


@value(kw_only=True)
class Graph:
    """The tasks of one revision, each behind those that it comes after. The number of a task is its place, from 1."""

    tasks: tuple[Task, ...]
    halts: bool = True  # whether no task starts any more when one has failed

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of the tasks, by name."""
        return {task.name: number for number, task in enumerate(self.tasks, 1)}

    @cached_property
    def edges(self) -> tuple[tuple[int, ...], ...]:
        """For each task the numbers of those that it comes after."""
        return tuple(tuple(self.numbers[name] for name in task.after) for task in self.tasks)

    def task(self, number: int) -> Task:
        """The task of that number."""
        return self.tasks[number - 1]
