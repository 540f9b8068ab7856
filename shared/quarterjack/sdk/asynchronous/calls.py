"""From a method of ``Scheduler`` to one that is awaited: the call goes to a thread, its signature stays.

A type checker takes the signature, overloads included, from the method itself, so nothing is written twice.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from quarterjack.concurrency.forks import PerProcess
from quarterjack.sdk.known_jobs import awaited_here
from quarterjack.sdk.scheduler import Scheduler

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_P = ParamSpec("_P")
_R = TypeVar("_R")
_MOST = 500  # items of an iterator that one hop to a thread brings
_LONG = 0.02  # seconds after which a hop returns with the items that it has


def _loop() -> AbstractEventLoop:
    from asyncio import get_running_loop  # noqa: PLC0415 (it loads ssl; who awaits has it)

    return get_running_loop()


class CallThreads:
    """At most ``most`` threads, made when calls need them. A forked child makes its own."""

    def __init__(self, most: int) -> None:
        self._pool = PerProcess(lambda: ThreadPoolExecutor(most, thread_name_prefix="quarterjack-async"))
        self._is_closed = False

    async def run(self, call: Callable[[], _R]) -> _R:
        """The result of ``call`` in a thread, with the context variables of the caller. Raises what it raises.

        If the await is cancelled, a call that waits for a thread is dropped, and one that has begun goes on without a listener.
        """
        if self._is_closed:
            raise RuntimeError("this AsyncScheduler is closed: make another one, or leave its `async with` block later")
        return await _loop().run_in_executor(self._pool.value, copy_context().run, call)

    async def close(self) -> None:
        """Take no more calls, and return when those that were made have ended."""
        self._is_closed = True
        await _loop().run_in_executor(None, self._pool.value.shutdown)


class AsyncBase:
    """What the methods need."""

    def __init__(self, scheduler: Scheduler, threads: CallThreads) -> None:
        self._scheduler, self._threads = scheduler, threads

    async def _run(self, method: str, *args: Any, **kwargs: Any) -> Any:
        with awaited_here():
            return await self._threads.run(partial(getattr(self._scheduler, method), *args, **kwargs))

    async def _run_stoppable(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A call of many writes: if its await is cancelled, it ends after those that are under way."""
        stop = threading.Event()
        try:
            return await self._run(method, *args, **{**kwargs, "stop": stop})
        except BaseException:  # cancelled, or ended by an error
            stop.set()
            raise


def awaited(
    method: Callable[Concatenate[Scheduler, _P], _R],
) -> Callable[Concatenate[AsyncBase, _P], Coroutine[Any, Any, _R]]:
    """A method with the same arguments, which is awaited."""
    name, stoppable = method.__name__, "stop" in inspect.signature(method).parameters

    @wraps(method)
    async def call(self: AsyncBase, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        run = self._run_stoppable if stoppable and kwargs.get("stop") is None else self._run
        result: _R = await run(name, *args, **kwargs)
        return result

    return call


def with_arguments_of(
    original: Callable[..., None],
) -> Callable[[Callable[_P, None]], Callable[_P, None]]:
    """A constructor that passes its ``**given`` on to ``original`` shows that one's parameters in their place, before its own."""

    def shown(method: Callable[_P, None]) -> Callable[_P, None]:
        signature, passed = inspect.signature(method), dict(inspect.signature(original).parameters)
        own = {name: one for name, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD}
        shown_as = signature.replace(parameters=[*(passed | own).values()])
        vars(method).update(__signature__=shown_as, passes_on_to=original)  # for ``help`` and for the reference
        return method

    return shown


def iterated(
    method: Callable[Concatenate[Scheduler, _P], Iterator[_R]],
) -> Callable[Concatenate[AsyncBase, _P], AsyncIterator[_R]]:
    """A method with the same arguments for ``async for``; its errors are raised by the iteration."""

    @wraps(method)
    async def items(self: AsyncBase, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncIterator[_R]:
        source: Iterator[_R] = await self._run(method.__name__, *args, **kwargs)
        is_over = False
        while not is_over:
            some, is_over, problem = await self._threads.run(partial(_some, source))
            for item in some:
                yield item
            if problem is not None:
                raise problem

    return items


def _some(source: Iterator[_R]) -> tuple[list[_R], bool, Exception | None]:
    """The next items, those that come at once, one at least; whether they are the last; and the error after them."""
    found, end = list[_R](), time.monotonic() + _LONG
    try:
        for item in source:
            found.append(item)
            if len(found) == _MOST or time.monotonic() >= end:
                return found, False, None
    except Exception as problem:  # noqa: BLE001 (the items before it come first)
        return found, True, problem
    return found, True, None
