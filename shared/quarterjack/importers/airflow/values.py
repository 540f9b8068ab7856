"""What the expressions of a DAG file stand for, as far as its text alone says it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Unknown:
    """A value that only running the file would give; ``text``: its source."""

    text: str


@dataclass(eq=False)
class AirflowDag:
    """A DAG."""

    id: str | None  # None: only running the file would give it
    line: int
    arguments: Mapping[str, Any]
    tasks: list[AirflowTask] = field(default_factory=list)


@dataclass(eq=False)
class AirflowTask:
    """A task: an operator, or a call of a decorated function."""

    id: str
    operator: str  # class of the operator, or the decorator: ``@task.branch``
    line: int
    arguments: Mapping[str, Any]  # of the operator or the decorator
    function: str | None = None  # the decorated function
    given: Mapping[str, Any] = field(default_factory=dict)  # what the decorated function is called with
    mapped: Mapping[str, Any] | None = None  # what ``expand`` got
    before: dict[AirflowTask, None] = field(default_factory=dict)  # the tasks it comes after
    dag: AirflowDag | None = None


@dataclass(eq=False)
class AirflowGroup:
    """A task group."""

    prefix: str  # of the ids of its tasks
    tasks: list[AirflowTask] = field(default_factory=list)

    @property
    def roots(self) -> list[AirflowTask]:
        """Tasks that come after none of the group."""
        return [task for task in self.tasks if not any(one in task.before for one in self.tasks)]

    @property
    def leaves(self) -> list[AirflowTask]:
        """Tasks that no other of the group comes after."""
        return [task for task in self.tasks if not any(task in one.before for one in self.tasks)]


@dataclass(frozen=True)
class ResultOf:
    """What a task returned, or a part of it."""

    task: AirflowTask
    path: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class EdgeLabel:
    """``a >> Label("…")``: the tasks before it."""

    before: Sequence[AirflowTask] = ()


@dataclass(frozen=True)
class AirflowTimetable:
    """A timetable object: ``CronTriggerTimetable("0 2 * * *", timezone="UTC")``."""

    name: str
    arguments: Mapping[str, Any]
    positional: Sequence[Any]


@dataclass(frozen=True)
class LocalFunction:
    """A function of the file. ``kind``: "dag", "task_group", "", or that of a task: "task", "task.branch" and so on."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    kind: str
    arguments: Mapping[str, Any]  # of its decorator
    fixed: Mapping[str, Any] = field(default_factory=dict)  # what ``partial`` got


@dataclass(frozen=True)
class PartialOperator:
    """``BashOperator.partial(…)``, before ``expand``."""

    operator: str
    arguments: Mapping[str, Any]


def first_of(value: Any) -> list[AirflowTask]:
    """The tasks that start when a value begins: what comes after another task."""
    if isinstance(value, AirflowGroup):
        return value.roots
    return [one for each in value for one in first_of(each)] if isinstance(value, list) else _single(value)


def last_of(value: Any) -> list[AirflowTask]:
    """The tasks with which a value ends: what another task comes after."""
    if isinstance(value, AirflowGroup):
        return value.leaves
    return [one for each in value for one in last_of(each)] if isinstance(value, list) else _single(value)


def _single(value: Any) -> list[AirflowTask]:
    match value:
        case AirflowTask():
            return [value]
        case ResultOf(task=task):
            return [task]
        case EdgeLabel(before=before):
            return list(before)
    return []


def relate(before: Any, after: Any) -> None:
    """``before >> after``."""
    for task in first_of(after):
        for one in last_of(before):
            if one is not task:
                task.before[one] = None


def results_in(value: Any) -> Iterator[AirflowTask]:
    """The tasks whose results a value has in it."""
    match value:
        case AirflowTask():
            yield value
        case ResultOf(task=task):
            yield task
        case Mapping():
            for inner in value.values():
                yield from results_in(inner)
        case list():
            for inner in value:
                yield from results_in(inner)


def is_known(value: Any) -> bool:
    """Whether a value is data alone."""
    match value:
        case Mapping():
            return all(isinstance(key, str) and is_known(inner) for key, inner in value.items())
        case list():
            return all(map(is_known, value))
    return value is None or isinstance(value, (str, int, float, bool))
