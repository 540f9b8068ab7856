"""Middleware as it is declared: functions around jobs, in a list, the first one outermost. ``worker.middleware`` calls them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

from quarterjack.domain.job import Context, Job
from quarterjack.domain.names import is_builtin
from quarterjack.errors import JobError


class CallNext(Protocol):
    """Calls the rest of the list with a payload, at last the job; gives the result, in an async middleware after ``await``."""

    def __call__(self, payload: Any, /) -> Any: ...


class Middleware(Protocol):
    """A plain or async function, or an object, that is called around jobs. It returns the result."""

    def __call__(self, ctx: Context, payload: Any, call_next: CallNext, /) -> Any: ...


def bare(function: Any) -> Any:
    """The function inside a method, a class method or a decorator that uses ``functools.wraps``."""
    return inspect.unwrap(getattr(function, "__func__", function))


def place_of(function: object) -> str:
    """Where a function is declared, dotted."""
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def name_of(layer: Middleware) -> str:
    """Where a middleware is declared, dotted; of an object its class."""
    return place_of(layer if hasattr(layer, "__qualname__") else type(layer))


def checked(layers: Sequence[Middleware], about: str) -> tuple[Middleware, ...]:
    """The middleware of a list. Raises JobError, which begins with ``about``, for what cannot be called as one."""
    if callable(layers):
        raise JobError(f"{about}: middleware={name_of(layers)} is no list; write middleware=[...]")
    for layer in layers:
        if inspect.isgeneratorfunction(layer) or inspect.isasyncgenfunction(layer):
            raise JobError(
                f"{about}: middleware {name_of(layer)} is a generator; call call_next(payload) in place of yield"
            )
        try:
            inspect.signature(layer).bind(object(), object(), object())
        except (TypeError, ValueError) as error:
            raise JobError(
                f"{about}: middleware {name_of(layer)} cannot be called with (ctx, payload, call_next): {error}"
            ) from None
    return tuple(layers)


def added(known: Sequence[Middleware], layer: Middleware) -> tuple[Middleware, ...]:
    """A list with one more at its end; one of a module that is imported again takes the place of its forerunner."""
    place = name_of(layer)
    places = [] if "<locals>" in place else [name_of(each) for each in known if inspect.isfunction(each)]
    if not inspect.isfunction(layer) or place not in places:
        return (*known, layer)
    return tuple(layer if inspect.isfunction(each) and name_of(each) == place else each for each in known)


def layers_of(job: Job, around: Sequence[Middleware]) -> tuple[Middleware, ...]:
    """All middleware of a job: that of its registry (``around``), then its own. None is around a job of the scheduler itself."""
    return () if is_builtin(job.name) else (*around, *job.middleware)
