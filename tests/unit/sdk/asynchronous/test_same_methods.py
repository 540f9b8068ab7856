"""``AsyncScheduler`` has the methods of ``Scheduler``, with their signatures, for a program and for a type checker."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type, get_type_hints

import pytest
import quarterjack
from quarterjack import AsyncScheduler, Context, Page, Run, RunTransition, Schedule, Scheduler
from quarterjack.errors import InvalidInput
from quarterjack.sdk.asynchronous.scheduler import SchedulerArguments
from quarterjack.testing import Memory

from tests.support.scenes.world import START, World

NOT_AWAITED = {
    "acting_as",
    "archive",
    "of",
    "strictly",
    "tenant",
    "with_caller",
    "with_tenant",
}  # what waits for nothing, or is iterated
OWN = {"aclose", "of", "tenant"}


def members(kind: type) -> dict[str, Any]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


def test_the_two_have_the_same_methods() -> None:
    assert set(members(AsyncScheduler)) == set(members(Scheduler)) | OWN


@pytest.mark.parametrize("name", sorted(members(Scheduler)))
def test_a_method_has_the_same_signature_and_says_the_same(name: str) -> None:
    method, original = members(AsyncScheduler)[name], members(Scheduler)[name]
    assert inspect.signature(method) == inspect.signature(original)
    same = inspect.getdoc(original)
    assert inspect.getdoc(method) == same or f"See ``Scheduler.{name}``" in str(inspect.getdoc(method))


@pytest.mark.parametrize("name", sorted(set(members(AsyncScheduler)) - NOT_AWAITED))
def test_a_method_is_awaited(name: str) -> None:
    assert inspect.iscoroutinefunction(members(AsyncScheduler)[name])


def test_it_is_made_from_the_same_arguments() -> None:
    own, original = (dict(inspect.signature(kind).parameters) for kind in (AsyncScheduler, Scheduler))
    threads = own.pop("threads")
    assert threads.default == 16
    assert list(own.values()) == list(original.values())
    hints = get_type_hints(Scheduler.__init__)
    assert get_type_hints(SchedulerArguments) == {name: hints[name] for name in original if name != "tenant"}


@dataclass
class Invoice:
    customer: str


def send(ctx: Context, payload: Invoice) -> None:
    """A job with a typed payload."""


async def types(scheduler: AsyncScheduler) -> None:
    """Never called: mypy reads it."""
    assert_type(await scheduler.submit("note", 1, delay=5), Run)
    assert_type(await scheduler.create_schedule("s", "note", "0 9 * * *", timeout=5), Schedule)
    assert_type(await scheduler.list_schedules(), Page)
    assert_type(scheduler.archive(since=START), AsyncIterator[RunTransition])
    assert_type(scheduler.acting_as("ada"), AsyncScheduler)
    await scheduler.submit("note", dealy=5)  # type: ignore[call-arg]
    await scheduler.create_schedule("s", "note", "0 9 * * *", timeout="long")  # type: ignore[arg-type]
    await scheduler.create_schedule("s", "note", "0 9 * * *", catch_up="lates")  # type: ignore[arg-type]
    await scheduler.submit(send, Invoice("Ada"), delay=5)
    await scheduler.submit(send, 5)  # type: ignore[arg-type]
    _ = scheduler.get_run("r").state  # type: ignore[attr-defined]


def test_a_scheduler_loads_nothing_of_it() -> None:
    program = "from quarterjack import Scheduler; import sys; print(*sys.modules)"
    place = str(Path(str(quarterjack.__file__)).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONPATH": place}
    )
    modules = set(done.stdout.split())
    assert "quarterjack.sdk.scheduler" in modules
    assert not {name for name in modules if name.startswith("quarterjack.sdk.asynchronous")}
    assert "asyncio.base_events" not in modules, "it loads ssl"


@pytest.mark.parametrize("threads", [0, -1, 1_001, 2.5, True, "8", None])
def test_a_wrong_number_of_threads_is_refused(threads: Any) -> None:
    world = World()
    with pytest.raises(InvalidInput, match=r"threads=.*use 1 to 1,000") as problem:
        AsyncScheduler("acme", services=world.services, threads=threads)
    assert problem.value.field == "threads"
    with pytest.raises(InvalidInput, match="threads"):
        AsyncScheduler.of(world.scheduler, threads=threads)


def test_wrong_arguments_are_refused_as_by_the_other() -> None:
    world = World()
    with pytest.raises(InvalidInput, match="tenant"):
        AsyncScheduler("no/tenant", services=Memory(world.clock).connect())
