"""Jobs: the ``@job`` decorator and the registry of jobs, queues and declared schedules."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from quarterjack.domain.job import Job, JobFunction
from quarterjack.domain.names import check_flag, check_name, check_seconds, is_builtin, word
from quarterjack.domain.options import Options, changed
from quarterjack.domain.policies import (
    DeliveryWord,
    Isolation,
    IsolationWord,
    Policies,
    PriorityWord,
    Retry,
    StartWord,
    overrides,
)
from quarterjack.domain.policies.flow import Flow
from quarterjack.domain.queue import BATCH, MOST_SECONDS, check_queue, declared_name
from quarterjack.domain.queue import Queue as DeclaredQueue
from quarterjack.domain.redaction import USUAL, Redact, check_redact
from quarterjack.domain.tenants.app_versions import is_pinned
from quarterjack.errors import InvalidInput, JobError
from quarterjack.middlewares import Middleware, added, bare, checked, place_of
from quarterjack.payload_types import payload_type_of, schema_of, signature_of
from quarterjack.values import replace

if TYPE_CHECKING:  # a module that only declares jobs must not import schedules
    from quarterjack.domain.schedule import Declaration

_F = TypeVar("_F", bound=Callable[..., object])
_M = TypeVar("_M", bound=Middleware)
VersionWord = Literal["any", "assigned"]


class Registry:
    """The jobs of a process, by name.

    >>> registry = Registry()
    >>> @registry.job("reports.daily")
    ... def daily(ctx, payload):
    ...     return None
    >>> registry.names()
    ['reports.daily']
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._declarations: list[Declaration] = []
        self._queues: dict[str, DeclaredQueue] = {}
        self.around: tuple[Middleware, ...] = ()  # of all its jobs, in the order of ``middleware``

    def job(
        self,
        name: str,
        *,
        delivery: DeliveryWord | None = None,
        start: StartWord | None = None,
        priority: PriorityWord | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        flow: Flow | None = None,
        cancel_grace: float = 30.0,
        isolation: IsolationWord = "thread",
        queue: str | None = None,
        schema: Mapping[str, Any] | None = None,
        check: Callable[[Any], object] | None = None,
        redact: Redact = USUAL,
        by_name: bool = False,
        version: VersionWord | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> Callable[[_F], _F]:
        """Register the decorated function ``(ctx, payload)``, plain or async, as a job. The function is returned unchanged.

        ``delivery`` is "at_least_once" (default), "exactly_once" or "at_most_once", ``start`` "prompt" (default, 0-1 s late) or
        "exact" (milliseconds late), ``priority`` "normal" (default), "high" or "low" in a queue that has lanes, ``retry`` a Retry,
        ``flow`` a Flow: limits by key. In seconds: ``timeout`` of one attempt; ``deadline`` after the due time, when no attempt starts
        any more; ``cancel_grace``, the time that a cancelled job has to end. ``isolation="process"`` runs it in a separate process on
        worker processes. ``queue`` names the declared Queue of its runs, unless their schedule or submission names another.
        What ``payload`` is annotated with, if it is more than JSON's own types, is checked where a payload enters, and what the
        function gets (a dataclass, TypedDict, Pydantic model …). ``schema`` is a JSON Schema (2020-12) that each payload has to fit,
        where it enters and on the worker. Both need the extra ``typed``. ``check`` is called with each new payload; if it raises
        ValueError, the payload is refused. ``redact`` says what of the payload no error in ledger, logs and notices repeats, beside
        passwords, tokens and the like. ``by_name=True`` is for a job that does whatever its payload says: where the jobs of a tenant
        are limited, only its full name allows it. With ``version="assigned"`` a run starts only on workers of its application version,
        with "any" on all; None: as QUARTERJACK_RUN_ON says. ``middleware`` are functions ``(ctx, payload, call_next)`` around it, the first
        one outermost. Raises InvalidInput, JobError (a second job of that name).

        >>> from dataclasses import dataclass
        >>> from quarterjack import Registry
        >>> jobs = Registry()
        >>> @dataclass
        ... class Letter:
        ...     to: str
        ...     copies: int = 1
        >>> @jobs.job("letters.print")
        ... def print_letter(ctx, payload: Letter):
        ...     return payload.copies
        """
        check_name(name, "job")
        if is_builtin(name):
            remedy = "give it another name; a pipeline of it runs tasks"
            raise InvalidInput("job", name, "is the name of a job of the scheduler itself", remedy)
        limits: Any = {"timeout": timeout, "deadline": deadline, "flow": flow}
        given = overrides(delivery=delivery, start=start, priority=priority, retry=retry, **limits)
        grace = check_seconds("cancel_grace", cancel_grace)
        fitted = None if schema is None else schema_of(name, schema)
        policies = replace(
            Policies().overridden(given),
            cancel_grace=30.0 if grace is None else grace,
            isolation=word(Isolation, "isolation", isolation),
            redact=check_redact(redact) if fitted is None else fitted.masking(check_redact(redact)),
        )
        named = None if queue is None else declared_name(check_queue(queue))
        known: dict[str, Any] = {"name": name, "policies": policies, "queue": named, "check": check, "schema": fitted}
        known["by_name"] = check_flag("by_name", by_name)
        known["middleware"] = checked(middleware, f"job={name!r}")
        known["pinned"] = None if version is None else is_pinned("version", version)
        around = sys._getframe(1)  # noqa: SLF001 (an annotation may name a class of the function around it)
        names = None if around.f_locals is around.f_globals else dict(around.f_locals)

        def add(function: JobFunction) -> None:
            self.add(Job(function=function, **known), names)

        def register(function: _F) -> _F:
            given: Any = function  # a method of a class may be wrapped
            if isinstance(given, classmethod):
                return cast("_F", _ClassJob(given.__func__, add))
            add(given.__func__ if isinstance(given, staticmethod) else given)
            return function

        return register

    def middleware(self, function: _M) -> _M:
        """Call the decorated function ``(ctx, payload, call_next)`` around all jobs, outside of their own middleware. Raises JobError.

        The first one that is declared is outermost. ``call_next(payload)`` calls the next one, at last the job, and returns its result.
        """
        (layer,) = checked([function], "middleware")
        self.around = added(self.around, layer)
        return function

    def add(self, job: Job, names: Mapping[str, Any] | None = None) -> None:
        """Register a job. ``names`` are those that its annotations may use beside its module's.

        Raises JobError if its name is taken, it cannot be called with (ctx, payload), or its payload is typed without Pydantic.
        """
        function, place = job.function, place_of(job.function)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            problem = "is a generator, whose code a call does not run; return instead of yield"
            raise JobError(f"job={job.name!r}: {place} {problem}")
        try:
            signature_of(function).bind(object(), object())
        except (TypeError, ValueError) as error:
            raise JobError(f"job={job.name!r}: {place} cannot be called with (ctx, payload): {error}") from None
        known = self._jobs.get(job.name)
        # A module that is imported again declares the same job again.
        if known is not None and (place_of(known.function) != place or "<locals>" in place):
            raise JobError(
                f"job={job.name!r} is declared twice, in {place_of(known.function)} and {place}; rename one of them"
            )
        kind = payload_type_of(function, job.name, names)
        self._jobs[job.name] = job if kind is None else replace(job, payload_type=kind)

    def name_of(self, function: object) -> str:
        """The name under which a function is registered as a job. Raises InvalidInput unless it is registered once."""
        names = sorted(job.name for job in self._jobs.values() if job.function is function)
        if not names:  # a method is another object each time, and a decorator may be around it
            wanted = bare(function)
            names = sorted(job.name for job in self._jobs.values() if bare(job.function) is wanted)
        if len(names) == 1:
            return names[0]
        if names:
            raise InvalidInput("job", function, f"is registered as {' and '.join(names)}", "pass one of these names")
        remedy = 'decorate it with @job("name"), and import its module first; or pass the name of a job'
        raise InvalidInput("job", function, "is not registered as a job in this process", remedy)

    def get(self, name: str) -> Job | None:
        """The job of that name, or None."""
        known = self._jobs.get(name)
        if known is None and is_builtin(name):
            from quarterjack.domain.pipelines.builtin import builtin_job  # noqa: PLC0415 (who has no pipeline does not load it)

            return builtin_job(name)
        return known

    def queue(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        memory: int = 512,
        timeout: int = MOST_SECONDS,
        batch: int = BATCH,
        stripes: int = 1,
        priorities: bool = False,
        pollers: int | None = None,
        most_pollers: int | None = None,
        provisioned_concurrency: int = 0,
        container: bool = False,
        spread: int = 0,
        on_failure: str | None = None,
        on_recovery: str | None = None,
    ) -> DeclaredQueue:
        """Declare a queue: the stack and the local cloud create it with its own worker; jobs and schedules name it.

        ``concurrency``: runs at the same time, in all of the stack's functions together, or in each worker process (2 to 1000).
        ``memory`` (MB) and ``timeout`` (seconds, at most 900) are those of its functions; one invocation takes up to ``batch`` runs
        (1 to 10). ``stripes`` (1 to 100) is the number of its SQS queues, each with up to 120,000 messages in flight; instead of
        ``concurrency``, each has ``pollers`` (2 to 200) provisioned pollers, at most ``most_pollers`` (2,000).
        ``provisioned_concurrency`` functions are always started, so that no run waits for a cold start.
        With ``priorities=True`` it has lanes for high and low runs, each with as many SQS queues; without, all priorities are alike in it.
        With ``container=True`` the stack creates no function: run ``quarterjack worker --queue NAME``.
        ``spread`` (seconds, by up to which fires are delayed), ``on_failure`` and ``on_recovery`` are defaults of the schedules of this
        queue. A name is 1 to 32 of ``a-z 0-9 -``.
        Raises InvalidInput, or JobError if a queue of that name is declared differently.
        """
        notices = changed(Options(), {"on_failure": on_failure, "on_recovery": on_recovery})
        made = DeclaredQueue(
            name=name,
            concurrency=concurrency,
            memory=memory,
            timeout=timeout,
            batch=batch,
            stripes=stripes,
            priorities=priorities,
            pollers=pollers,
            most_pollers=most_pollers,
            provisioned_concurrency=provisioned_concurrency,
            container=container,
            spread=spread,
            on_failure=notices.on_failure,
            on_recovery=notices.on_recovery,
        )
        if self._queues.setdefault(name, made) != made:
            raise JobError(f"queue={name!r} is declared twice, and not alike; declare it once, in one module")
        return made

    def queues(self) -> list[DeclaredQueue]:
        """The declared queues, in order of name."""
        return [self._queues[name] for name in sorted(self._queues)]

    def find_queue(self, name: str | None) -> DeclaredQueue | None:
        """The declared queue of that name, or None."""
        return None if name is None else self._queues.get(name)

    def declare(self, declaration: Declaration) -> None:
        """Record a schedule that is declared in code. Raises InvalidInput if its name is taken."""
        # A module that is imported again replaces its declarations; a line may declare several pipelines.
        kept = [d for d in self._declarations if d.place != declaration.place or not declaration.is_again(d)]
        for other in kept:
            if other.name == declaration.name and (other.name or other.function is declaration.function):
                raise InvalidInput(
                    f"{declaration.place}: name",
                    declaration.name,
                    f"is that of another schedule, on {other.place}",
                    "give each a name of its own, name=...",
                )
        self._declarations = [*kept, declaration]

    def declared(self) -> list[Declaration]:
        """The schedules that are declared in code, in order of declaration."""
        return list(self._declarations)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def __len__(self) -> int:
        return len(self._jobs)


default_registry = Registry()
job = default_registry.job
Queue = default_registry.queue
middleware = default_registry.middleware


class _ClassJob(classmethod):  # type: ignore[type-arg]  # classmethod is not generic at run time
    """A class method that is registered when its class has been created, because it must be bound to the class."""

    def __init__(self, function: Callable[..., Any], add: Callable[[JobFunction], None]) -> None:
        super().__init__(function)
        self._add = add

    def __set_name__(self, owner: type, name: str) -> None:
        self._add(getattr(owner, name))
