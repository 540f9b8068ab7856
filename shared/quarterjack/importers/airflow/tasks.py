"""The tasks of a DAG as tasks of a pipeline, each with a note for each difference."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quarterjack.domain.pipelines.expressions import OF_TASK
from quarterjack.importers.airflow.schedules import LEFT_OF_TASKS, policy_words
from quarterjack.importers.airflow.values import AirflowDag, AirflowTask, ResultOf, Unknown, is_known

_OTHERS = re.compile(r"[^A-Za-z0-9_.]+")
_LONGEST = 80  # characters of a task's name
_JOINS: Mapping[str, tuple[str, str | None]] = {  # the join, and the difference
    "all_success": ("all", None),
    "none_failed": ("none_failed", None),
    "none_failed_or_skipped": ("none_failed", None),
    "none_failed_min_one_success": ("none_failed", "it starts also if all tasks before it were skipped"),
    "one_success": ("any", None),
    "all_done": ("done", None),
    "all_done_min_one_success": ("done", "it starts also if none has succeeded"),
    "one_done": ("any", "it waits for the first success, not for the first end"),
    "none_skipped": ("done", "it starts also if one was skipped"),
    "always": ("done", "it waits for the tasks before it"),
    "dummy": ("done", "it waits for the tasks before it"),
    "all_failed": ("done", "{above}, and has not failed: write the task that fails into when"),
    "one_failed": (
        "done",
        "it waits for all tasks before it; {above}, and has not failed: write the task that fails into when",
    ),
    "all_skipped": ("done", "{above}, too"),
}
_ABOVE = "a task before it that does not start since one above it has failed is SKIPPED"
_BY_STATE = {"all_failed": " and ", "one_failed": " or ", "all_skipped": " and "}
_ENDS = '["DEAD", "LOST", "EXPIRED", "CANCELLED"]'


@dataclass(frozen=True)
class ReadTask:
    """A task, as a pipeline has it."""

    task: AirflowTask
    name: str
    words: Mapping[str, Any]
    notes: Sequence[str]


def read_tasks(dag: AirflowDag, prefix: str) -> list[ReadTask]:
    """All tasks of a DAG, each behind those before it. ``prefix``: of the names of jobs."""
    tasks = _in_order(dag.tasks)
    names = _names(tasks)
    return [_read(task, names, prefix, dag) for task in tasks]


def _in_order(tasks: Iterable[AirflowTask]) -> list[AirflowTask]:
    """A cycle stays at the end, as it is: the pipeline is refused with its names."""
    left, ordered = dict.fromkeys(tasks), dict[AirflowTask, None]()
    while ready := [task for task in left if all(one in ordered or one not in left for one in task.before)]:
        for task in ready:
            ordered[task] = None
            del left[task]
    return [*ordered, *left]


def _names(tasks: Iterable[AirflowTask]) -> dict[AirflowTask, str]:
    taken, found = set[str](), dict[AirflowTask, str]()
    for task in tasks:
        parts = [part for part in _OTHERS.sub("_", task.id).split(".") if part]
        taken_words = (*keyword.kwlist, *OF_TASK)  # by conditions
        parts = [f"_{part}" if part[0].isdigit() else f"{part}_" if part in taken_words else part for part in parts]
        name = ".".join(parts)[: _LONGEST - 4].rstrip(".") or "task"
        if name.partition(".")[0] in ("fire", "payload"):
            name = f"task_{name}"
        number = 1
        while name in taken:
            number += 1
            name = f"{name.removesuffix(f'__{number - 2}') if number > 2 else name}__{number - 1}"
        taken.add(name)
        found[task] = name
    return found


def _read(task: AirflowTask, names: Mapping[AirflowTask, str], prefix: str, dag: AirflowDag) -> ReadTask:
    notes = list[str]()
    name, before = names[task], [one for one in task.before if one in names]
    if names[task] != task.id:
        notes.append(f"{task.id!r} is not a valid name of a task, or not the only one: it becomes {name}")
    if len(before) < len(task.before):
        notes.append("it comes after a task of another DAG: let that one trigger this pipeline")
    words: dict[str, Any] = {**_runs(task, prefix, name, notes), "after": [names[one] for one in before]}
    defaults = dag.arguments.get("default_args")
    given = {**(defaults if isinstance(defaults, Mapping) else {}), **task.arguments}
    words |= _when(task, given.get("trigger_rule", "all_success"), before, names, notes)
    words |= _payload(task, names, notes)
    words |= policy_words(given, notes)
    notes += [f"{word} is left out" for word in task.arguments if word in LEFT_OF_TASKS]
    kept = {word: value for word, value in words.items() if value not in (None, [], {})}
    return ReadTask(task, name, kept, tuple(notes))


def _runs(task: AirflowTask, prefix: str, name: str, notes: list[str]) -> dict[str, Any]:
    other = task.arguments.get("trigger_dag_id")
    if "TriggerDagRun" in task.operator and isinstance(other, str):
        if task.arguments.get("wait_for_completion") is not True:
            notes.append("it waits for the end of that pipeline; Airflow goes on at once")
        return {"pipeline": other}
    if task.operator.endswith(("Sensor", "SensorAsync")) or task.operator == "@task.sensor":
        notes.append("a sensor is a job that waits: ctx.sleep, ctx.wait_for, or RetryAfter")
    if "SubDag" in task.operator:
        notes.append("import the sub-DAG by itself, and write pipeline: NAME in place of job")
    return {"job": f"{prefix}.{task.function or name}"}


def is_empty(task: AirflowTask) -> bool:
    """Whether a task does nothing."""
    return task.operator in ("EmptyOperator", "DummyOperator")


# When a task starts.


def _when(
    task: AirflowTask, given: Any, before: Sequence[AirflowTask], names: Mapping[AirflowTask, str], notes: list[str]
) -> dict[str, Any]:
    """``given``: its trigger rule."""
    text = (given.text if isinstance(given, Unknown) else str(given)).rpartition(".")[2].lower()
    join, difference = _JOINS.get(text, ("all", f"trigger_rule={text} is not known: it starts when all have succeeded"))
    if difference:
        notes.append(f"trigger_rule {text}: {difference.format(above=_ABOVE)}" if text in _JOINS else difference)
    words: dict[str, Any] = {} if join == "all" else {"join": join}
    if text in _BY_STATE:
        test = '== "SKIPPED"' if text == "all_skipped" else f"in {_ENDS}"
        return words | {"when": _BY_STATE[text].join(f"{names[one]}.state {test}" for one in before) or None}
    branches = [one for one in before if _is_branch(one) or _is_circuit(one)]
    if not branches:
        return words
    if len(before) > 1:
        notes.append(f"{names[branches[0]]} chooses among the tasks after it: write the condition into when")
        return words
    chooser = names[branches[0]]
    if _is_circuit(branches[0]):
        notes.append(f"the job of {chooser} returns true or false")
        return words | {"when": f"{chooser}.result == true"}
    notes.append(f"the job of {chooser} returns the name of the one task that follows; for several write when yourself")
    return words | {"when": f"{chooser}.result == {json.dumps(names[task])}"}


def _is_branch(task: AirflowTask) -> bool:
    return "Branch" in task.operator or task.operator.startswith(("@task.branch",))


def _is_circuit(task: AirflowTask) -> bool:
    return "ShortCircuit" in task.operator or task.operator == "@task.short_circuit"


# Its payload.


def _payload(task: AirflowTask, names: Mapping[AirflowTask, str], notes: list[str]) -> dict[str, Any]:
    given = _referring(task.given if task.function is not None else _given(task, notes), names, notes)
    if task.mapped is None:
        return {"payload": given} if given else {}
    if given:
        notes.append("partial(…) is left out: an item of a map is the whole payload")
    values = [*task.mapped.values()]
    if len(values) != 1 or any(name.startswith("#") for name in task.mapped):
        notes.append("expand of several arguments: let a job before it return the list of payloads, and write map")
        return {}
    over = _reference(values[0], names) or _literal(values[0])
    if not isinstance(over, str) and not (isinstance(over, list) and is_known(over)):
        notes.append("what expand gets is only known when the file runs: write map")
        return {}
    notes.append("the payload of an item is the item itself, not an argument by name")
    return {"map": {"over": over}}


def _given(task: AirflowTask, notes: list[str]) -> Mapping[str, Any]:
    """What an operator passes on: to its function, or as the ``conf`` of another DAG."""
    if "op_args" in task.arguments:
        notes.append("op_args is left out: a payload names its values")
    word = "conf" if "TriggerDagRun" in task.operator else "op_kwargs"
    found = task.arguments.get(word)
    if found is not None and not isinstance(found, Mapping):
        notes.append(f"{word} is only known when the file runs: write it into payload")
    return found if isinstance(found, Mapping) else {}


def _literal(value: Any) -> Any:
    """A value as it stands in a payload, where ``${`` begins a reference."""
    match value:
        case str():
            return value.replace("${", "$${")
        case list():
            return [_literal(one) for one in value]
        case Mapping():
            return {key: _literal(inner) for key, inner in value.items()}
    return value


def _referring(given: Mapping[str, Any], names: Mapping[AirflowTask, str], notes: list[str]) -> dict[str, Any]:
    found = dict[str, Any]()
    for name, value in given.items():
        if (reference := _reference(value, names)) is not None:
            found[name] = reference
        elif isinstance(value, list) and all(is_known(one) or _reference(one, names) for one in value):
            found[name] = [_reference(one, names) or _literal(one) for one in value]
        elif is_known(value):
            found[name] = _literal(value)
            if "{{" in str(value):
                notes.append(
                    f"the template of {name} stays text: write a reference, as ${{fire.date}}, or compute it in the job"
                )
        else:
            notes.append(f"argument {name} is only known when the file runs: write it into payload")
    return found


def _reference(value: Any, names: Mapping[AirflowTask, str]) -> str | None:
    found = ResultOf(value) if isinstance(value, AirflowTask) else value
    if not isinstance(found, ResultOf) or found.task not in names:
        return None
    return "${" + f"{names[found.task]}.result" + "".join(f"[{json.dumps(key)}]" for key in found.path) + "}"
