"""Pipelines in code: tasks, their order, and references to what earlier tasks returned. ``quarterjack apply`` publishes them.

>>> from quarterjack import Registry, pipeline
>>> jobs = Registry()
>>> with pipeline("nightly", "0 2 * * *", timezone="Europe/Berlin", registry=jobs) as p:
...     orders = p.task("orders.extract", payload={"day": p.fire.date})
...     stock = p.task("stock.extract")
...     report = p.task("report.build", after=[orders, stock], payload={"orders": orders.result})
...     mail = p.task("report.mail", after=[report], when=report.result["rows"] > 0)
>>> p.tasks["report.mail"]
{'job': 'report.mail', 'after': ['report.build'], 'when': 'report.build.result["rows"] > 0'}
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from quarterjack.declare import declaration
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import PIPELINE
from quarterjack.domain.options import OptionWords
from quarterjack.domain.payload import MAX_DEPTH
from quarterjack.domain.pipelines.handles import Condition, Fire, TaskHandle, Value
from quarterjack.domain.pipelines.reading import check_pipeline_name
from quarterjack.domain.policies import Retry, overrides
from quarterjack.domain.schedule import Declaration
from quarterjack.errors import InvalidInput
from quarterjack.jobs import Registry, default_registry
from quarterjack.timing import Rule

POLICIES = ("delivery", "start", "priority", "timeout", "deadline")  # of a task, beside retry


class Pipeline:
    """A pipeline that is declared: see ``pipeline``."""

    def __init__(self, name: str, registry: Registry, place: str, about: Mapping[str, Any]) -> None:
        self.name = check_pipeline_name(name)
        self.fire, self.payload = Fire(), Value("payload")
        self.tasks: dict[str, dict[str, Any]] = {}  # their words, by name
        self._registry, self._place, self._about = registry, place, about
        self._is_declared = False

    def task(
        self,
        job: JobRef,
        *,
        name: str | None = None,
        payload: Any = None,
        after: Sequence[TaskHandle] = (),
        join: str = "all",
        when: Condition | str | None = None,
        optional: bool = False,
        queue: str | None = None,
        retry: Retry | None = None,
        **policies: Any,
    ) -> TaskHandle:
        """A task that runs a job, given by its name or its function. Its own name is the job's, unless ``name`` is given.

        It starts when the tasks of ``after`` have ended as ``join`` says: "all" have succeeded, "any" has, "none_failed" (some may be
        skipped), or "done", however they ended. ``when`` skips it if it does not hold. A task that is ``optional`` may fail. ``payload``
        may hold references. ``policies`` are ``delivery``, ``start``, ``priority``, ``timeout`` and ``deadline`` (from its start on).
        Raises InvalidInput; what the tasks say together is checked when the pipeline is whole.
        """
        job_name, unknown = self._job(job), [word for word in policies if word not in POLICIES]
        if unknown:
            raise TypeError(
                f"unexpected keyword argument {unknown[0]!r} of a task; policies are retry, {', '.join(POLICIES)}"
            )
        words = {"job": job_name, "queue": queue, **overrides(retry=retry, **policies).as_dict()}
        return self._add(name or job_name, words, payload, after, join=join, when=when, optional=optional)

    def map(
        self,
        job: JobRef,
        *,
        over: Value | Sequence[Any],
        at_a_time: int = 100,
        name: str | None = None,
        after: Sequence[TaskHandle] = (),
        join: str = "all",
        when: Condition | str | None = None,
        optional: bool = False,
    ) -> TaskHandle:
        """A task that runs a job for each item of ``over``, at most ``at_a_time`` at a time; its result are theirs, in their order.

        It comes after the task whose result ``over`` is. Raises InvalidInput.
        """
        if not isinstance(over, (Value, list, tuple)):
            raise InvalidInput("over", over, "is no list", "give a list, or a reference to one: orders.result")
        items = str(over) if isinstance(over, Value) else [*over]
        job_name = self._job(job)
        words = {"job": job_name, "map": {"over": items, "at_a_time": at_a_time}}
        before = [*_handles(after), *self._owner_of(over, after)]
        return self._add(name or job_name, words, None, before, join=join, when=when, optional=optional)

    def pipeline(
        self,
        pipeline: str,
        *,
        name: str | None = None,
        payload: Any = None,
        after: Sequence[TaskHandle] = (),
        join: str = "all",
        when: Condition | str | None = None,
        optional: bool = False,
    ) -> TaskHandle:
        """A task that runs another pipeline, as it is defined when the task starts. Raises InvalidInput."""
        words = {"pipeline": check_pipeline_name(pipeline, "pipeline")}
        return self._add(name or pipeline, words, payload, after, join=join, when=when, optional=optional)

    @property
    def declaration(self) -> Declaration:
        """As a schedule is declared. Raises InvalidInput, which names the task and the word that is wrong."""
        about = {**self._about, "tasks": self.tasks}
        try:
            return declaration(place=self._place, name=self.name, job=f"{PIPELINE}{self.name}", **about)
        except InvalidInput as problem:
            raise problem.about(f"{self._place}: pipeline {self.name!r}: {problem.field}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, at: TracebackType | None
    ) -> None:
        if kind is None:
            self._registry.declare(self.declaration)
            self._is_declared = True

    def _add(
        self, name: str, words: Mapping[str, Any], payload: Any, after: Sequence[TaskHandle], **more: Any
    ) -> TaskHandle:
        if self._is_declared:
            raise InvalidInput(
                "name", name, f"comes after the block of pipeline {self.name!r}", "indent it into the block"
            )
        if name in self.tasks:
            raise InvalidInput("name", name, "is the name of another task of this pipeline", "give each a name, name=…")
        when = more.pop("when")
        if when is not None and not isinstance(when, (Condition, str)):
            raise InvalidInput("when", when, "is no condition", "compare a reference: when=report.result > 0")
        given = {
            **words,
            "payload": _payload(payload),
            "after": list(dict.fromkeys(handle.name for handle in _handles(after))),
            "when": when.text if isinstance(when, Condition) else when,
            **more,
        }
        order = ("job", "pipeline", "map", "payload", "after", "join", "when", "optional")
        kept = {word: given[word] for word in (*order, *(word for word in given if word not in order)) if word in given}
        defaults = {"after": [], "join": "all", "optional": False}
        self.tasks[name] = {
            word: value for word, value in kept.items() if value is not None and defaults.get(word) != value
        }
        return TaskHandle(name)

    def _job(self, job: JobRef) -> str:
        return job if isinstance(job, str) else self._registry.name_of(job)

    def _owner_of(self, over: Any, after: Sequence[TaskHandle]) -> list[TaskHandle]:
        """The task whose result is mapped, if it does not come before the map already."""
        if not isinstance(over, Value):
            return []
        text = over.text
        found = [name for name in self.tasks if text.startswith((f"{name}.result", f"{name}.state"))]
        above = {handle.name for handle in after}
        left = [*above]
        while left:
            before = self.tasks.get(left.pop(), {}).get("after", ())
            left += [name for name in before if name not in above]
            above |= set(before)
        return [TaskHandle(name) for name in found if name not in above]


def pipeline(
    name: str,
    expression: str | Sequence[str] | Rule = "manual",
    *,
    timezone: str | None = None,
    payload: Any = None,
    description: str = "",
    tags: Mapping[str, str] | None = None,
    deadline: float | None = None,
    registry: Registry = default_registry,
    **options: Unpack[OptionWords],
) -> Pipeline:
    """Declare a pipeline in a ``with`` block; ``quarterjack apply`` publishes it, and each change makes a revision.

    Without an ``expression`` it starts when it is triggered. With ``on_task_failure="halt"`` (default) no task starts after one has
    failed, with "continue" those go on that do not depend on it. ``deadline``: seconds after the due time; a run that has not ended then
    is EXPIRED. Otherwise as ``schedule``. Raises InvalidInput at the end of the block, with the place.
    """
    frame = sys._getframe(1)  # noqa: SLF001 (errors name the place of the declaration)
    place = f"{frame.f_globals.get('__name__', '?')}:{frame.f_lineno}"
    about = {
        "expression": expression,
        "timezone": timezone,
        "payload": payload,
        "description": description,
        "tags": tags,
        "deadline": deadline,
        **options,
    }
    return Pipeline(name, registry, place, about)


def _handles(after: Any) -> Sequence[TaskHandle]:
    """The tasks of ``after``. Raises InvalidInput."""
    if not isinstance(after, (list, tuple)) or not all(isinstance(one, TaskHandle) for one in after):
        raise InvalidInput(
            "after", after, "is no list of tasks", "pass what p.task(…) returned, in a list: after=[orders]"
        )
    return after


def _payload(value: Any) -> Any:
    """A payload with its references as text. Raises InvalidInput."""
    try:
        return _plain(value)
    except RecursionError:
        problem = f"has lists and dicts nested more than {MAX_DEPTH} levels deep"
        raise InvalidInput("payload", "…", problem, "flatten it") from None


def _plain(value: Any) -> Any:
    match value:
        case Value():
            return str(value)
        case TaskHandle():
            raise InvalidInput(
                "payload", value, "is a task, and no value", f"pass what it returned: {value.name}.result"
            )
        case Mapping():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
    return value
