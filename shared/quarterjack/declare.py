"""Schedules in code: the ``@schedule`` decorator records a declaration; ``quarterjack apply`` creates or updates the schedule.

The name of the job is looked up only when it is needed, because ``@schedule`` may be above or below ``@job``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from quarterjack.arguments import MAX_DESCRIPTION, checked_tags, checked_text, payload_text, rule_of
from quarterjack.domain.names import check_name
from quarterjack.domain.options import Options, OptionWords, changed
from quarterjack.domain.policies import DeliveryWord, PriorityWord, Retry, StartWord, split_words
from quarterjack.domain.policies.flow import Flow
from quarterjack.domain.schedule import Declaration
from quarterjack.errors import InvalidInput, JobError
from quarterjack.jobs import Registry, default_registry
from quarterjack.middlewares import bare, place_of
from quarterjack.timing import Rule

_F = TypeVar("_F", bound=Callable[..., object])


def schedule(
    expression: str | Sequence[str] | Rule,
    *,
    name: str | None = None,
    timezone: str | None = None,
    payload: Any = None,
    description: str = "",
    tags: Mapping[str, str] | None = None,
    delivery: DeliveryWord | None = None,
    start: StartWord | None = None,
    priority: PriorityWord | None = None,
    retry: Retry | None = None,
    timeout: float | None = None,
    deadline: float | None = None,
    flow: Flow | None = None,
    registry: Registry = default_registry,
    **options: Unpack[OptionWords],
) -> Callable[[_F], _F]:
    """Declare a schedule of the decorated job; ``quarterjack apply`` creates or updates it. The function is returned unchanged.

    Use it above or below ``@job`` (for a class method, both above ``@classmethod``). A function may have several, each with its
    own ``name``; the default is the job's name. The other arguments are those of ``Scheduler.create_schedule``.
    Raises InvalidInput (ExpressionError for expression and zone), which names function and field, when the module is imported.

    >>> from quarterjack import Registry, schedule
    >>> jobs = Registry()
    >>> @schedule("0 9 * * MON-FRI", timezone="Europe/Paris", payload={"region": "eu"}, registry=jobs)
    ... @jobs.job("reports.daily")
    ... def daily(ctx, payload):
    ...     return payload["region"]
    >>> [found.rule.expression for found in jobs.declared()]
    ['0 9 * * MON-FRI']
    """

    def note(function: _F) -> _F:
        place = place_of(function)
        try:
            found = declaration(
                place=place,
                function=bare(function),
                name=name,
                expression=expression,
                timezone=timezone,
                payload=payload,
                description=description,
                tags=tags,
                delivery=delivery,
                start=start,
                priority=priority,
                retry=retry,
                timeout=timeout,
                deadline=deadline,
                flow=flow,
                **options,
            )
        except InvalidInput as error:
            raise error.about(f"{place}: {error.field}") from None
        registry.declare(found)
        return function

    return note


def declaration(
    *,
    place: str,
    expression: Any,
    name: str | None = None,
    job: str | None = None,
    function: Callable[..., Any] | None = None,
    timezone: str | None = None,
    payload: Any = None,
    description: str = "",
    tags: Mapping[str, str] | None = None,
    paused: bool | None = None,
    **words: Any,
) -> Declaration:
    """A declaration from a user's arguments. Raises InvalidInput, and TypeError for an unknown option."""
    if paused is not None and not isinstance(paused, bool):
        raise InvalidInput("paused", paused, "is neither true nor false", "use true, false, or leave it out")
    policies, options = split_words(words)
    return Declaration(
        place=place,
        function=function,
        name=None if name is None else check_name(name),
        job=None if job is None else check_name(job, "job"),
        rule=rule_of(expression, timezone),
        payload=payload_text(payload),
        description=checked_text("description", description, MAX_DESCRIPTION),
        tags=checked_tags({} if tags is None else tags),
        overrides=policies,
        options=changed(Options(), options),
        paused=paused,
    )


def job_of(found: Declaration, registry: Registry) -> str:
    """The name of a declaration's job. Raises JobError unless its function is registered as exactly one job."""
    if found.job is not None:
        return found.job
    names = sorted(job.name for job in registry if bare(job.function) is found.function)
    if len(names) == 1:
        return names[0]
    what = f"is registered as {', '.join(names)}" if names else "is not registered as a job"
    remedy = "schedule a function with one name" if names else 'decorate it with @job("name") as well'
    raise JobError(f"{found.place} has a schedule, but {what}; {remedy}")
