"""DAG files of Airflow as pipelines: each DAG becomes a schedule with tasks, and each operator the name of a job that is to be written."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from quarterjack.errors import InvalidInput
from quarterjack.importers import jobs_file
from quarterjack.importers.airflow.reading import LOOP_OF_DAGS, DagFile
from quarterjack.importers.airflow.schedules import schedule_words
from quarterjack.importers.airflow.tasks import ReadTask, is_empty, read_tasks
from quarterjack.importers.airflow.values import AirflowDag, AirflowTask, Unknown
from quarterjack.importers.report import Collector, Conversion, ImportReport, NotMapped
from quarterjack.importers.text import slug

_REMARKS = (
    "the jobs are still to be written: until then the schedules are paused",
    "Airflow starts a run at the end of its interval: {{ ds }} is its beginning, and ${fire.date} the day of the start",
    "templates ({{ … }}), connections and variables are not read: a job reads its payload, and secrets by name",
    "a pipeline with a failed task is DEAD; Airflow goes by the last tasks alone (optional: true lets a task fail)",
    "retries are counted with the first attempt: retries=3 is max_attempts: 4",
)
_SHOWN = ("bash_command", "sql", "python_callable", "command", "image", "endpoint", "external_dag_id", "application")
_LONGEST = 120  # characters of what a job is to do


def read_airflow(text: str, source: str) -> ImportReport:
    """Convert the DAGs of a file, which is not run. Raises InvalidInput for a file without one, and for text that is not Python."""
    read = DagFile(text, source)
    read.settle()
    if not read.dags:
        remedy = "give the file that calls DAG(…) or a function under @dag; DAGs that other modules make are not seen"
        raise InvalidInput("file", source, "has no DAG in it that can be read", remedy)
    found, jobs = Collector(source), dict[str, str]()
    for dag in read.dags:
        _convert(dag, found, jobs)
    for line, note in sorted(read.notes):
        if note == LOOP_OF_DAGS:
            found.left(line, _line(text, line), note)
        else:
            found.setting(line, _line(text, line), Conversion.LEFT, note)
    for task in read.loose:
        found.setting(task.line, task.id, Conversion.LEFT, "it is in no DAG that can be read")
    return found.report(
        "DAGs of Airflow, read without running the file",
        slug(f"airflow/{source}"),
        _REMARKS,
        lambda: jobs_file.for_operators(source, jobs),
    )


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _convert(dag: AirflowDag, found: Collector, jobs: dict[str, str]) -> None:
    if dag.id is None:
        found.left(
            dag.line, "DAG", "its dag_id is only known when the file runs: write it into the file, and import again"
        )
        return
    tasks, notes = read_tasks(dag, slug(dag.id)), list[str]()
    if not tasks:
        found.left(dag.line, dag.id, "it has no task that can be read")
        return
    try:
        words = {
            **schedule_words(dag, notes),
            "job": f"pipeline:{slug(dag.id)}",
            "tasks": {one.name: one.words for one in tasks},
        }
    except NotMapped as problem:
        found.left(dag.line, dag.id, str(problem))
        return
    if found.entry(dag.line, dag.id, dag.id, {**words, "paused": True}, notes):
        for one in tasks:
            _report(one, found, jobs)


def _report(one: ReadTask, found: Collector, jobs: dict[str, str]) -> None:
    task = one.task
    fit = Conversion.DIFFERS if one.notes else Conversion.EXACT
    found.setting(task.line, f"{one.name} = {task.operator}", fit, *one.notes)
    if "job" in one.words:
        jobs[one.words["job"]] = "" if is_empty(task) else _about(task)


def _about(task: AirflowTask) -> str:
    """What the job is to do, in words."""
    if task.function is not None:
        return f"what {task.function}() does"
    shown = next((name for name in _SHOWN if name in task.arguments), None)
    text = task.operator if shown is None else f"{task.operator}, {shown}={_said(task.arguments[shown])}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _said(value: Any) -> str:
    if isinstance(value, Unknown):
        return " ".join(value.text.split())
    node = getattr(value, "node", None)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name
    return " ".join(str(value).split()) if isinstance(value, (str, int, float, list, Mapping)) else "…"
