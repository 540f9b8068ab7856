"""Read the tasks of a pipeline from the option ``tasks``, and check them as a whole. What is wrong is told with its place."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from quarterjack.domain.names import check_flag, check_name, check_whole, integral, is_builtin, is_name, word
from quarterjack.domain.payload import MAX_DEPTH, check_keys, is_too_deep, json_text
from quarterjack.domain.pipelines.expressions import FIRE, OF_TASK, PAYLOAD, is_reference, references_in, references_of
from quarterjack.domain.pipelines.graph import Graph, Join, MapSpec, Task
from quarterjack.domain.policies import Retry, overrides
from quarterjack.domain.queue import check_queue
from quarterjack.errors import InvalidInput

MOST_TASKS, MOST_EDGES = 1_000, 5_000
LONGEST = 200_000  # characters of all tasks, as JSON
MOST_AT_A_TIME = 1_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_LONGEST_NAME = 80  # characters of a task's name, and of a pipeline's


@lru_cache(maxsize=256)
def graph_of(tasks: str, *, halts: bool) -> Graph:
    """The graph of a revision; ``tasks``: as it is stored. A process reads it once."""
    return Graph(tasks=_tasks(json.loads(tasks)), halts=halts)


def check_tasks(field_name: str, given: object) -> str:
    """The tasks of a pipeline as they are stored: JSON text, in their order. Raises InvalidInput, which names the place."""
    if isinstance(given, str) and given.startswith("{"):  # as it is stored
        given = json.loads(given)
    if not isinstance(given, Mapping):
        raise InvalidInput(field_name, given, "is no mapping of tasks", "write TASK: {job: NAME, after: [OTHER]}")
    check_whole(f"{field_name} (their number)", len(given), 1, MOST_TASKS)
    try:
        found = _tasks(given)
    except InvalidInput as problem:
        raise problem.about(f"{field_name}.{problem.field}") from None
    text = json.dumps({task.name: task.as_dict() for task in found}, separators=(",", ":"), allow_nan=False)
    if len(text) > LONGEST:
        raise InvalidInput(
            field_name,
            f"{len(text):,} characters",
            "is too long",
            f"use {LONGEST:,} at most: move tasks into a pipeline of their own",
        )
    return text


def check_pipeline_name(name: object, field_name: str = "name") -> str:
    """The name of a pipeline, which is part of the ids of its tasks' runs. Raises InvalidInput."""
    if not isinstance(name, str) or not is_name(name) or len(name) > _LONGEST_NAME:
        remedy = f"use 1 to {_LONGEST_NAME} characters of A-Z a-z 0-9 . _ : @ / -"
        raise InvalidInput(field_name, name, "is not a valid name of a pipeline", remedy)
    return name


# Reading.

_WORDS = ("job", "pipeline", "payload", "after", "join", "when", "optional", "map", "queue")
_POLICIES = ("delivery", "start", "priority", "retry", "timeout", "deadline")
TASK_WORDS = (*_WORDS, *_POLICIES)


def _tasks(given: Mapping[str, Any]) -> tuple[Task, ...]:
    read = {name: _task(name, words) for name, words in given.items()}
    _check_after(read)
    ordered = _in_order(read)
    _check_references(ordered)
    return ordered


def _task(name: object, words: Any) -> Task:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME or _is_taken(name):
        remedy = (
            f"use 1 to {_LONGEST_NAME} letters, digits, _ and dots, no word of Python, neither fire nor payload, "
            "and neither result nor state after a dot"
        )
        raise InvalidInput("name", name, "is not a valid name of a task", remedy)
    if not isinstance(words, Mapping):
        raise InvalidInput(name, words, "is no mapping", "write job: NAME below it")
    unknown = [one for one in words if one not in TASK_WORDS]
    if unknown:
        raise InvalidInput(f"{name}.{unknown[0]}", "…", "is not known here", f"use {', '.join(TASK_WORDS)}")
    try:
        return _read(name, words)
    except InvalidInput as problem:
        raise problem.about(f"{name}.{problem.field}") from None


def _is_taken(name: str) -> bool:
    first, *more = name.split(".")
    return first in (FIRE, PAYLOAD) or any(map(keyword.iskeyword, (first, *more))) or not set(OF_TASK).isdisjoint(more)


def _read(name: str, words: Mapping[str, Any]) -> Task:
    job, pipeline = words.get("job"), words.get("pipeline")
    if (job is None) == (pipeline is None):
        raise InvalidInput("job", job, "is not the one thing that the task runs", "give either a job or a pipeline")
    retry = _retry(words.get("retry"))
    policies = {one: words[one] for one in _POLICIES if words.get(one) is not None and one != "retry"}
    if isinstance(words.get("map"), Mapping):
        _check_json("map.over", words["map"].get("over"))
    _check_json("payload", words.get("payload"))
    when = words.get("when")
    if when is not None and not isinstance(when, str):
        raise InvalidInput("when", when, "is no condition", "write a text such as 'report.result[\"rows\"] > 0'")
    queue = words.get("queue")
    return Task(
        name=name,
        job=None if job is None else _job(job),
        pipeline=None if pipeline is None else check_pipeline_name(pipeline, "pipeline"),
        payload=words.get("payload"),
        after=_after(words.get("after")),
        join=word(Join, "join", words.get("join") or Join.ALL),
        when=when,
        optional=check_flag("optional", words.get("optional") or False),
        map=_map(words.get("map"), pipeline, has_payload=words.get("payload") is not None),
        queue=None if queue is None else check_queue(queue),
        policies=overrides(retry=retry, **policies),
    )


def _retry(given: Any) -> Retry | None:
    if given is None or isinstance(given, Retry):
        return given
    known = [one.name for one in fields(Retry)]
    if not isinstance(given, Mapping):
        raise InvalidInput("retry", given, "is no mapping", "write retry: {max_attempts: 3}")
    unknown = [one for one in given if one not in known]
    if unknown:
        raise InvalidInput(f"retry.{unknown[0]}", "…", "is not known here", f"use {', '.join(known)}")
    try:
        return Retry(**{one: integral(value) for one, value in given.items()})
    except InvalidInput as problem:
        raise problem.about(f"retry.{problem.field}") from None


def _check_json(path: str, value: Any) -> None:
    """Raises InvalidInput unless a value is one of JSON, which no reader finds too deep."""
    problem, remedy = f"has lists and dicts nested more than {MAX_DEPTH} levels deep", "flatten it"
    try:
        text = json_text(value)
    except RecursionError:
        raise InvalidInput(path, "…", problem, remedy) from None
    except (TypeError, ValueError) as wrong:
        remedy = "use dicts, lists, text, finite numbers, booleans and None"
        raise InvalidInput(path, "…", f"is not JSON ({wrong})", remedy) from None
    if is_too_deep(text):
        raise InvalidInput(path, "…", problem, remedy)
    check_keys(value, path)


def _job(job: object) -> str:
    name = check_name(job, "job")
    if is_builtin(name):
        raise InvalidInput("job", name, "is the name of a pipeline's runs", "write pipeline: NAME, or map: {over: …}")
    return name


def _map(given: Any, pipeline: object, *, has_payload: bool) -> MapSpec | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or "over" not in given or set(given) - {"over", "at_a_time"}:
        raise InvalidInput("map", given, "is no map", 'write map: {over: "${orders.result}", at_a_time: 100}')
    if pipeline is not None:
        raise InvalidInput("map", given, "does not go with a pipeline", "map a job")
    if has_payload:
        raise InvalidInput("payload", "…", "does not go with a map", "its items are the payloads: put it into each")
    return MapSpec(
        over=given["over"],
        at_a_time=check_whole("map.at_a_time", integral(given.get("at_a_time", 100)), 1, MOST_AT_A_TIME),
    )


def _after(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, str) for one in given):
        raise InvalidInput("after", given, "is no list of tasks", "write after: [TASK, …]")
    if len(set(given)) < len(given):
        raise InvalidInput("after", list(given), "names a task twice", "name each once")
    return tuple(given)


def _check_after(tasks: Mapping[str, Task]) -> None:
    for task in tasks.values():
        for place, name in enumerate(task.after):
            if name not in tasks:
                known = ", ".join(list(tasks)[:10])
                raise InvalidInput(f"{task.name}.after[{place}]", name, "is no task", f"tasks are {known}")
    edges = sum(len(task.after) for task in tasks.values())
    if edges > MOST_EDGES:
        raise InvalidInput("after", f"{edges:,} in all", "is too many", f"use {MOST_EDGES:,} at most")


def _in_order(tasks: Mapping[str, Task]) -> tuple[Task, ...]:
    """Each task behind those it comes after, otherwise as they were given. Raises InvalidInput, which names the tasks of a cycle."""
    left = {name: len(task.after) for name, task in tasks.items()}  # tasks before it that have no place yet
    behind: dict[str, list[str]] = {name: [] for name in tasks}
    for name, task in tasks.items():
        for before in task.after:
            behind[before].append(name)
    given, ordered = {name: place for place, name in enumerate(tasks)}, list[str]()
    ready = [name for name, open_ in left.items() if not open_]
    while ready:
        ordered += ready
        next_ones = list[str]()
        for name in ready:
            for after in behind[name]:
                left[after] -= 1
                if not left[after]:
                    next_ones.append(after)
        ready = sorted(next_ones, key=given.__getitem__)
    if len(ordered) < len(tasks):
        raise _cycle({name: task for name, task in tasks.items() if left[name]})
    return tuple(tasks[name] for name in ordered)


def _cycle(left: Mapping[str, Task]) -> InvalidInput:
    seen, name = list[str](), next(iter(left))
    while name not in seen:
        seen.append(name)
        name = next(before for before in left[name].after if before in left)
    way = [*seen[seen.index(name) :], name]
    text = " → ".join(way)
    return InvalidInput(f"{way[0]}.after", text, "is a cycle", "each task comes after others, and never after itself")


def _check_references(ordered: Sequence[Task]) -> None:
    """Each task refers to tasks before it alone. Raises InvalidInput."""
    above: dict[str, frozenset[str]] = {}
    for task in ordered:
        above[task.name] = frozenset(task.after).union(*(above[name] for name in task.after))
        found = [*references_in(task.payload, f"{task.name}.payload")]
        if task.map is not None:
            found += references_in(task.map.over, f"{task.name}.map.over")
            _check_over(task.name, task.map)
        if task.when is not None:
            found += references_of(task.when, f"{task.name}.when")
        for path, place in found:
            if place.task is not None and place.task not in above[task.name]:
                names = sorted(above[task.name])
                remedy = f"tasks before it are {', '.join(names)}" if names else "it comes after no task"
                raise InvalidInput(path, place.text, f"refers to {place.task!r}, which is no task before it", remedy)


def _check_over(name: str, spec: MapSpec) -> None:
    if not isinstance(spec.over, list) and not (isinstance(spec.over, str) and is_reference(spec.over)):
        raise InvalidInput(f"{name}.map.over", spec.over, "is no list", 'give a list, or "${TASK.result}" alone')
