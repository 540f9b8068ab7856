"""The graph of a pipeline as text, DOT and Mermaid: of its definition, or of one run with the states of its tasks.

tasks = tasks_of_run(scheduler.pipeline_run(run_id))
tasks = tasks_of_definition(scheduler.get_schedule("nightly").definition["tasks"])
drawing("nightly", tasks, "text")
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from quarterjack.domain.names import MAP, PIPELINE
from quarterjack.domain.run import FAILED, RunState
from quarterjack.errors import InvalidInput
from quarterjack.sdk.pipelines.views import WAITING, PipelineRun, TaskRun
from quarterjack.terminal import in_one_line, span
from quarterjack.values import value

WIDTH = 80  # characters of a line of the text
_LEAST = 28  # characters beside names and states that are worth a column
_NAMED = 8  # tasks that a line names
_ALL = "all"  # the default join
_QUIET, _GOOD, _BAD, _GOING, _WAITS = "skipped", "succeeded", "failed", "running", "waiting"
_FILLS: Mapping[str, tuple[str, str]] = {  # class of states → fill and line; its text is black, and names the state
    _GOOD: ("#c8e6c9", "#2e7d32"),
    _BAD: ("#ffcdd2", "#c62828"),
    _GOING: ("#bbdefb", "#1565c0"),
    _WAITS: ("#ffffff", "#616161"),
    _QUIET: ("#e0e0e0", "#9e9e9e"),
}
_CLASSES: Mapping[str, str] = {
    RunState.SUCCEEDED: _GOOD,
    RunState.SKIPPED: _QUIET,
    RunState.RUNNING: _GOING,
    RunState.CANCELLED: _BAD,
    **dict.fromkeys(FAILED, _BAD),
}


@value(kw_only=True)
class DrawnTask:
    """A task as it is drawn."""

    name: str
    job: str  # name of its job, or "pipeline:<name>", "map:<job>"
    after: Sequence[str] = ()  # the tasks before it, which come before it in the list, too
    join: str = _ALL
    when: str | None = None  # its condition
    optional: bool = False
    run: TaskRun | None = None  # in one run of the pipeline

    @property
    def state_class(self) -> str:
        """The class of its state, by which it is coloured: "succeeded", "failed", "running", "waiting" or "skipped"."""
        return _CLASSES.get(WAITING if self.run is None else self.run.state, _WAITS)

    @property
    def status(self) -> str:
        """Its state with its duration, or its number of attempts; empty without a run."""
        if self.run is None:
            return ""
        if self.run.duration is not None:
            return f"{self.run.state} {span(self.run.duration)}"
        return self.run.state if self.run.attempt < 2 else f"{self.run.state} attempt {self.run.attempt}"

    @property
    def terms(self) -> list[str]:
        """What differs from the usual: its job if that is not its name, its join, its condition, and whether it may fail."""
        return [
            *([self.job if ":" in self.job else f"job {self.job}"] if self.job != self.name else []),
            *([f"join {self.join}"] if self.join != _ALL else []),
            *([f"when {self.when}"] if self.when is not None else []),
            *(["optional"] if self.optional else []),
        ]


def tasks_of_definition(tasks: Mapping[str, Mapping[str, Any]]) -> list[DrawnTask]:
    """The tasks of a definition: their words by name, as ``get_schedule(…).definition["tasks"]`` has them."""
    return [
        DrawnTask(
            name=name,
            job=_job(words),
            after=words.get("after", ()),
            join=words.get("join", _ALL),
            when=words.get("when"),
            optional=words.get("optional", False),
        )
        for name, words in tasks.items()
    ]


def tasks_of_run(run: PipelineRun) -> list[DrawnTask]:
    """The tasks of a pipeline's run, with their states."""
    return [
        DrawnTask(
            name=task.name,
            job=task.job,
            after=task.after,
            join=task.join,
            when=task.when,
            optional=task.optional,
            run=task,
        )
        for task in run.tasks
    ]


def drawing(name: str, tasks: Sequence[DrawnTask], form: str) -> str:
    """The graph of pipeline ``name`` in a form: "text", "dot" or "mermaid". Raises InvalidInput for another one."""
    return _FORMS[check_form(form)](name, tasks)


def check_form(form: str) -> str:
    """The form of a drawing. Raises InvalidInput."""
    if form not in _FORMS:
        raise InvalidInput("format", form, "is not known", f"use {', '.join(_FORMS)}")
    return form


def levels(tasks: Sequence[DrawnTask]) -> list[list[DrawnTask]]:
    """The tasks by their longest way from a task that comes after none."""
    depths = dict[str, int]()
    found = list[list[DrawnTask]]()
    for task in tasks:
        depth = max((depths[name] + 1 for name in task.after), default=0)
        depths[task.name] = depth
        if depth == len(found):
            found.append([])
        found[depth].append(task)
    return found


def _job(words: Mapping[str, Any]) -> str:
    if words.get("pipeline") is not None:
        return f"{PIPELINE}{words['pipeline']}"
    return f"{MAP}{words['job']}" if words.get("map") is not None else str(words["job"])


# Text.


def as_text(name: str, tasks: Sequence[DrawnTask], width: int = WIDTH) -> str:
    """The levels from top to bottom, numbered: a task comes after tasks of levels above it.

    What a task comes after stands beside its name, or below it where that leaves too little room.
    """
    rows = [(number, task) for number, level in enumerate(levels(tasks), 1) for task in level]
    margin = len(str(rows[-1][0])) + 2 if rows else 0
    column = margin + max((len(task.name) for task in tasks), default=0) + 2
    status = max((len(task.status) for task in tasks), default=0)
    beside = column + (status + 2 if status else 0)
    lines, last = [in_one_line(name)], 0
    for number, task in rows:
        left = f"{'' if number == last else number}".ljust(margin) + task.name
        last = number
        if width - beside >= _LEAST:
            left = f"{left.ljust(column)}{task.status}"
            lines += _wrapped(left.rstrip(), beside, _about(task), width)
        else:
            below = "; ".join(filter(None, [task.status, _about(task)]))
            lines += [left, *_wrapped("", margin + 4, below, width)]
    return "\n".join(lines)


def _about(task: DrawnTask) -> str:
    shown = ", ".join(task.after[:_NAMED])
    more = f" and {len(task.after) - _NAMED} more" if len(task.after) > _NAMED else ""
    return in_one_line("; ".join([*([f"after {shown}{more}"] if shown else []), *task.terms]))


def _wrapped(left: str, column: int, about: str, width: int) -> Iterator[str]:
    """``about`` behind ``left`` from a column on, in as many lines as it takes."""
    for text in textwrap.wrap(about, width - column, break_on_hyphens=False) or ([""] if left else []):
        yield f"{left.ljust(column)}{text}".rstrip()
        left = ""


# Languages of graphs. Nodes have numbers as names, since a task may be called as a word of the language.


def as_dot(name: str, tasks: Sequence[DrawnTask]) -> str:
    """The graph in the language of Graphviz. Edges into a join that lets a task before it fail or be skipped are dashed."""
    lines = [
        f'digraph "{_for_dot(name)}" {{',
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="sans-serif"];',
    ]
    for node, task in _nodes(tasks):
        fill, line = _FILLS[task.state_class]
        colours = "" if task.run is None else f', fillcolor="{fill}", color="{line}", class="{task.state_class}"'
        label = "\\n".join(map(_for_dot, _label(task)))
        lines.append(f'  {node} [label="{label}"{colours}];')
    lines += (
        f"  {one} -> {node}{' [style=dashed]' if task.join != _ALL else ''};" for one, node, task in _edges(tasks)
    )
    return "\n".join([*lines, "}"])


def as_mermaid(name: str, tasks: Sequence[DrawnTask]) -> str:
    """The graph as a flowchart of Mermaid, with the states as classes. Edges are dotted as in ``as_dot`` they are dashed."""
    lines = ["---", f"title: {_for_yaml(name)}", "---", "flowchart LR"]
    for node, task in _nodes(tasks):
        label = "<br/>".join(map(_for_mermaid, _label(task)))
        lines.append(f'  {node}["{label}"]' + ("" if task.run is None else f":::{task.state_class}"))
    lines += (f"  {one} {'-.->' if task.join != _ALL else '-->'} {node}" for one, node, task in _edges(tasks))
    if any(task.run is not None for task in tasks):
        lines += (f"  classDef {kind} fill:{fill},stroke:{line},color:#000000" for kind, (fill, line) in _FILLS.items())
    return "\n".join(lines)


def _nodes(tasks: Sequence[DrawnTask]) -> Iterator[tuple[str, DrawnTask]]:
    return ((f"t{number}", task) for number, task in enumerate(tasks, 1))


def _edges(tasks: Sequence[DrawnTask]) -> Iterator[tuple[str, str, DrawnTask]]:
    nodes = {task.name: node for node, task in _nodes(tasks)}
    return ((nodes[before], nodes[task.name], task) for task in tasks for before in task.after)


def _label(task: DrawnTask) -> list[str]:
    return [task.name, *task.terms, *([task.status] if task.status else [])]


def _for_dot(text: str) -> str:
    return in_one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def _for_yaml(text: str) -> str:
    return '"' + in_one_line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _for_mermaid(text: str) -> str:
    """Every character that Mermaid, Markdown or HTML reads as more than itself, by its number."""
    return "".join(each if each.isalnum() or each in " .,:_-()[]=/" else f"#{ord(each)};" for each in in_one_line(text))


_FORMS: Mapping[str, Callable[[str, Sequence[DrawnTask]], str]] = {
    "text": as_text,
    "dot": as_dot,
    "mermaid": as_mermaid,
}
FORMS = (*_FORMS,)
