"""Middleware of an attempt: each calls the next one, and the last calls the job.

    before ─► before ─► job ─► after ─► after        an exception goes the way of "after"

An error that leaves a middleware, and did not come from within it, is its own: the attempt fails by it, and says whose it is. A job
without middleware is called as it is.
"""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from quarterjack.domain.job import Context, Job
from quarterjack.domain.run import Failure
from quarterjack.errors import JobError
from quarterjack.middlewares import Middleware, layers_of, name_of
from quarterjack.values import replace

_BEFORE, _AFTER, _FAILED = "before the job", "after the job", "on the failure of the job"


class JobCall:
    """One call of a job, through the middleware of its registry (``around``) and then its own."""

    def __init__(self, job: Job, around: Sequence[Middleware]) -> None:
        self._job, self._layers = job, layers_of(job, around)
        self._blamed: tuple[BaseException, str] | None = (
            None  # the last error that a middleware raised, and whose it is
        )

    def enter(self, context: Context, payload: Any) -> Any:
        """Call the first of them, in place of the job's function."""
        return self._from(0, context, payload)

    def blamed(self, problem: BaseException, failure: Failure) -> Failure:
        """The failure that an error makes, which says so if a middleware raised it."""
        if self._blamed is None or self._blamed[0] is not problem:
            return failure
        return replace(failure, message=f"{self._blamed[1]}: {failure.message}")

    def blame(self, problem: BaseException, layer: Middleware, phase: str) -> None:
        """An error is this middleware's own."""
        self._blamed = problem, f"middleware {name_of(layer)}, {phase}"

    def _from(self, place: int, context: Context, payload: Any) -> Any:
        if place == len(self._layers):
            return self._job.function(context, payload)
        layer = self._layers[place]
        passage = _Passage(layer, lambda given: self._from(place + 1, context, given))
        called = passage.called_async if _is_async(layer) else passage.called
        return called(self, context, payload)


class _Passage:
    """The passage of one call through one middleware."""

    def __init__(self, layer: Middleware, inner: Callable[[Any], Any]) -> None:
        self._layer, self._inner = layer, inner
        self._phase = _BEFORE
        self._passed: BaseException | None = None  # what came from within

    def called(self, call: JobCall, context: Context, payload: Any) -> Any:
        with self._blaming(call):
            return self._layer(context, payload, self._next)

    async def called_async(self, call: JobCall, context: Context, payload: Any) -> Any:
        with self._blaming(call):
            return await self._layer(context, payload, self._next_async)

    def _next(self, payload: Any) -> Any:
        with self._within():
            return _awaited(self._inner(payload), self._layer)

    async def _next_async(self, payload: Any) -> Any:
        with self._within():
            result = self._inner(payload)
            return await result if inspect.isawaitable(result) else result

    @contextmanager
    def _blaming(self, call: JobCall) -> Iterator[None]:
        try:
            yield
        except BaseException as problem:
            if problem is not self._passed:
                call.blame(problem, self._layer, self._phase)
            raise

    @contextmanager
    def _within(self) -> Iterator[None]:
        if self._phase is not _BEFORE:
            remedy = "call it once, and leave repetitions to the job's retry policy"
            raise JobError(f"call_next was called a second time; {remedy}")
        self._phase = _AFTER
        try:
            yield
        except BaseException as problem:
            self._phase, self._passed = _FAILED, problem
            raise


def _is_async(layer: Middleware) -> bool:
    """Whether it is an async function, or an object with such a ``__call__``."""
    called: Any = type(layer).__call__
    return inspect.iscoroutinefunction(layer) or inspect.iscoroutinefunction(called)


def _awaited(result: Any, layer: Middleware) -> Any:
    """A result; an awaitable one is run to its end in this thread, for this middleware. Raises JobError within an event loop."""
    if result is None or not inspect.isawaitable(result):
        return result
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_coroutine(result))
    if inspect.iscoroutine(result):
        result.close()
    raise JobError(
        f"middleware {name_of(layer)} is not async, and stands between an async one and async code; make it async, or put it first"
    )


async def _coroutine(result: Any) -> Any:
    return await result


def found_again(names: Sequence[str], known: Sequence[Middleware], job: str) -> tuple[Middleware, ...]:
    """The middleware of these names in another process, which has ``known`` or can import it. Raises JobError."""
    left, found = list(known), list[Middleware]()
    for name in names:
        layer = next((each for each in left if name_of(each) == name), None)
        if layer is None:
            found.append(_imported(name, job))
        else:
            left.remove(layer)
            found.append(layer)
    return tuple(found)


def _imported(name: str, job: str) -> Middleware:
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        found = None
    if inspect.isfunction(found):
        layer: Middleware = found
        return layer
    remedy = "import the module that declares it in the job's module"
    raise JobError(f"job={job!r}: the process of its attempt does not know middleware {name}; {remedy}")
