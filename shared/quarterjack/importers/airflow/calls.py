"""DagCalls in a DAG file: DAGs, task groups, operators, decorated functions, and the functions that set edges."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from quarterjack.importers.airflow.expressions import dotted, made
from quarterjack.importers.airflow.values import (
    AirflowDag,
    AirflowGroup,
    AirflowTask,
    EdgeLabel,
    LocalFunction,
    PartialOperator,
    Unknown,
    relate,
    results_in,
)
from quarterjack.values import replace

_OPERATORS = ("Operator", "Sensor", "OperatorAsync", "SensorAsync")
_NO_ID = "the id of a task that only running the file gives: the task is not read"


class DagCalls:
    """The calls that make or join tasks. ``DagFile`` evaluates their arguments."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.open: list[AirflowDag | AirflowGroup] = []  # the blocks in which the walk is
        self.dags: list[AirflowDag] = []
        self.loose: list[AirflowTask] = []  # tasks whose DAG is not known yet
        self.notes: list[tuple[int, str]] = []  # by line

    @abstractmethod
    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""

    @abstractmethod
    def invoke(self, function: LocalFunction, node: ast.Call) -> Any:
        """Follow a call of a function that is no task."""

    def note(self, line: int, text: str) -> None:
        """Note something that cannot be read, once."""
        if (line, text) not in self.notes:
            self.notes.append((line, text))

    def keywords(self, node: ast.Call) -> dict[str, Any]:
        """The keywords of a call; those of ``**`` too, if they are known."""
        found = dict[str, Any]()
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is not None:
                found[keyword.arg] = value
            elif isinstance(value, dict):
                found |= value
        return found

    def makes_task(self, node: ast.Call) -> bool:
        """Whether a call makes a task."""
        name = dotted(node.func)
        known = self.names.get(name.partition(".")[0])
        is_task = isinstance(known, LocalFunction) and (known.kind != "" or self._has_tasks(known))
        return is_task or name.endswith(_OPERATORS) or any(keyword.arg == "task_id" for keyword in node.keywords)

    def makes_dag(self, node: ast.Call) -> bool:
        """Whether a call makes a DAG, or is of a function of the file that does."""
        name = dotted(node.func)
        known = self.names.get(name.partition(".")[0])
        if not isinstance(known, LocalFunction):
            return name.rpartition(".")[2] == "DAG"
        inside = (each for each in ast.walk(known.node) if isinstance(each, ast.Call))
        return known.kind == "dag" or any(dotted(each.func).rpartition(".")[2] == "DAG" for each in inside)

    def _has_tasks(self, function: LocalFunction) -> bool:
        """Whether a function of the file makes a task itself."""
        inside = (each for each in ast.walk(function.node) if isinstance(each, ast.Call))
        return any(dotted(each.func).endswith(_OPERATORS) for each in inside)

    def call(self, node: ast.Call) -> Any:  # noqa: C901, PLR0911 (a table of cases)
        """The value of a call."""
        name = dotted(node.func)
        last = name.rpartition(".")[2]
        if isinstance(node.func, ast.Attribute):
            found = self._method(node, node.func.attr, self.value(node.func.value))
            if found is not None:
                return found
        elif isinstance(node.func, ast.Call) or name in self.names:
            target = self.value(node.func)
            if isinstance(target, LocalFunction):
                return (
                    self._task(target, node, None)
                    if target.kind.startswith("task") and target.kind != "task_group"
                    else (self.invoke(target, node))
                )
        if last == "DAG":
            return self.dag(None, node)
        if last == "TaskGroup":
            given = self.keywords(node)
            return self.group(str(given.get("group_id") or (self.value(node.args[0]) if node.args else "group")), given)
        if last == "cross_downstream" and len(node.args) == 2:
            relate(self.value(node.args[0]), self.value(node.args[1]))
            return Unknown("None")
        if last in ("chain", "chain_linear"):
            return self._chain([self.value(one) for one in node.args])
        if last == "Label":
            return EdgeLabel()
        if self.makes_task(node):
            return self._operator(last, self.keywords(node), node, None)
        found = made(name, [self.value(one) for one in node.args], self.keywords(node))
        return Unknown(ast.unparse(node)) if found is None else found

    def _method(self, node: ast.Call, method: str, target: Any) -> Any:  # noqa: C901, PLR0911 (a table of cases)
        """The value of a call of a method that is known; None: it is another."""
        if method in ("set_downstream", "set_upstream") and node.args:
            other = self.value(node.args[0])
            relate(*((target, other) if method == "set_downstream" else (other, target)))
            return other
        if isinstance(target, LocalFunction) and target.kind.startswith("task"):
            if method == "override":
                return replace(target, arguments={**target.arguments, **self.keywords(node)})
            if method == "partial":
                return replace(target, fixed=self.keywords(node))
            if method in ("expand", "expand_kwargs"):
                return self._task(target, node, self._expanded(node))
        if isinstance(target, PartialOperator) and method in ("expand", "expand_kwargs"):
            return self._operator(target.operator, target.arguments, node, self._expanded(node))
        if (
            method == "partial"
            and (operator := dotted(node.func).split(".")[-2:-1])
            and operator[0].endswith(_OPERATORS)
        ):
            return PartialOperator(operator[0], self.keywords(node))
        if isinstance(target, AirflowTask) and method in ("as_setup", "as_teardown"):
            return self._teardown(target, self.keywords(node)) if method == "as_teardown" else target
        if method == "append" and isinstance(target, list) and node.args:
            target.append(self.value(node.args[0]))
            return Unknown("None")
        if method == "items" and isinstance(target, dict):
            return [[key, value] for key, value in target.items()]
        return None

    def _teardown(self, task: AirflowTask, given: Mapping[str, Any]) -> AirflowTask:
        """A task that runs however those before it ended."""
        relate(given.get("setups"), task)
        task.arguments = {"trigger_rule": "all_done", **task.arguments}
        return task

    def _expanded(self, node: ast.Call) -> Mapping[str, Any]:
        return self.keywords(node) | {f"#{place}": self.value(one) for place, one in enumerate(node.args)}

    def _chain(self, values: Sequence[Any]) -> Any:
        """Edges between neighbours; between two lists of one length, pair by pair."""
        for one, other in pairwise(values):
            if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
                for before, after in zip(one, other, strict=True):
                    relate(before, after)
            else:
                relate(one, other)
        return Unknown("None")

    # What is made.

    def dag(self, function: LocalFunction | None, node: ast.Call) -> AirflowDag:
        """A DAG, of a call or of a decorated function."""
        given = dict(function.arguments) if function is not None else self.keywords(node)
        if function is None:
            positional = ("dag_id", "description", "schedule")
            given = dict(zip(positional, map(self.value, node.args), strict=False)) | given
        name = given.get("dag_id") or (function.node.name if function is not None else None)
        dag = AirflowDag(name if isinstance(name, str) else None, node.lineno, given)
        self.dags.append(dag)
        return dag

    def group(self, name: str, given: Mapping[str, Any] | None = None) -> AirflowGroup:
        """A task group within those that are open."""
        before = self._prefix()
        return AirflowGroup(before if (given or {}).get("prefix_group_id") is False else f"{before}{name}.")

    def _prefix(self) -> str:
        return next((one.prefix for one in reversed(self.open) if isinstance(one, AirflowGroup)), "")

    def bound(self, function: LocalFunction, node: ast.Call) -> dict[str, Any]:
        """The parameters of a function as it is called."""
        arguments = function.node.args
        places = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        known = {*places, *(one.arg for one in arguments.kwonlyargs)}
        positional, named = [self.value(one) for one in node.args], self.keywords(node)
        given = dict(zip(reversed(places), map(self.value, reversed(arguments.defaults)), strict=False))
        given |= dict(zip(places, positional, strict=False))
        if arguments.vararg is not None:
            given[arguments.vararg.arg] = positional[len(places) :]
        if arguments.kwarg is not None:
            given[arguments.kwarg.arg] = {name: value for name, value in named.items() if name not in known}
        return given | {name: value for name, value in named.items() if name in known}

    def _task(self, function: LocalFunction, node: ast.Call, mapped: Mapping[str, Any] | None) -> Any:
        given = dict(function.fixed) if mapped is not None else {**function.fixed, **self._passed(function, node)}
        name = function.arguments.get("task_id") or function.node.name
        task = AirflowTask(
            id=f"{self._prefix()}{name}",
            operator=f"@{function.kind}",
            line=node.lineno,
            arguments=function.arguments,
            function=function.node.name,
            given=given,
            mapped=mapped,
        )
        return self._added(task, [given, dict(mapped or {})])

    def _passed(self, function: LocalFunction, node: ast.Call) -> dict[str, Any]:
        """What a decorated function is called with; not its defaults, which it has itself."""
        parameters = [one.arg for one in (*function.node.args.posonlyargs, *function.node.args.args)]
        return {**dict(zip(parameters, map(self.value, node.args), strict=False)), **self.keywords(node)}

    def _operator(self, name: str, given: Mapping[str, Any], node: ast.Call, mapped: Mapping[str, Any] | None) -> Any:
        task_id = given.get("task_id")
        if not isinstance(task_id, str):
            self.note(node.lineno, _NO_ID)
            return Unknown(ast.unparse(node))
        group = given.get("task_group")
        prefix = group.prefix if isinstance(group, AirflowGroup) else self._prefix()
        task = AirflowTask(f"{prefix}{task_id}", name, node.lineno, given, mapped=mapped)
        dag = given.get("dag")
        task.dag = dag if isinstance(dag, AirflowDag) else None
        if isinstance(group, AirflowGroup):
            group.tasks.append(task)
        others = {key: value for key, value in given.items() if key not in ("dag", "task_group", "default_args")}
        return self._added(task, [others, dict(mapped or {})])

    def _added(self, task: AirflowTask, given: Sequence[Any]) -> AirflowTask:
        for one in results_in(list(given)):
            task.before[one] = None
        task.dag = task.dag or next((one for one in reversed(self.open) if isinstance(one, AirflowDag)), None)
        for opened in self.open:
            if isinstance(opened, AirflowGroup):
                opened.tasks.append(task)
        (self.loose if task.dag is None else task.dag.tasks).append(task)
        return task

    def settle(self) -> None:
        """Give loose tasks the DAG of a task that they are joined with, or the only DAG."""
        left = len(self.loose) + 1
        while self.loose and len(self.loose) < left:
            left = len(self.loose)
            for task in [*self.loose]:
                joined = [*task.before, *(one for dag in self.dags for one in dag.tasks if task in one.before)]
                task.dag = next((one.dag for one in joined if one.dag is not None), None)
                if task.dag is None and len(self.dags) == 1:
                    task.dag = self.dags[0]
                if task.dag is not None:
                    self.loose.remove(task)
                    task.dag.tasks.append(task)
