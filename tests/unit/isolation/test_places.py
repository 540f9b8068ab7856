"""Which jobs a process of its own can find, and what a worker says of the others before it starts."""

from __future__ import annotations

import functools
import types

import pytest
from quarterjack import CallNext, Context, Registry
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.domain.job import Job
from quarterjack.domain.policies import Isolation, Policies
from quarterjack.errors import JobError
from quarterjack.isolation import check_isolated
from quarterjack.isolation.preload import JobAddress, modules_of
from quarterjack.jobs import default_registry
from quarterjack.services import system_clock
from quarterjack.testing import Memory

from tests.support.scenes import isolated_work as work

APART = Policies(isolation=Isolation.PROCESS)


def top_level(ctx: Context, payload: object) -> None:
    """Found by its name."""


class Methods:
    @staticmethod
    def inner(ctx: Context, payload: object) -> None:
        """Found by its dotted name."""


@functools.wraps(top_level)
def hidden(ctx: Context, payload: object) -> None:
    """Says that it is another."""


def refusal(function: object) -> str:
    with pytest.raises(JobError) as caught:
        check_isolated([Job(name="j", function=function, policies=APART)])  # type: ignore[arg-type]
    return str(caught.value)


def test_functions_of_modules_are_found() -> None:
    check_isolated([Job(name="j", function=function, policies=APART) for function in (top_level, Methods.inner)])
    check_isolated(work.registry)
    assert JobAddress("add", work.__name__, "add").find().function is work.add


def test_a_job_in_a_thread_may_be_anything() -> None:
    check_isolated([Job(name="j", function=lambda ctx, payload: None)])


def test_a_decorator_around_a_job_hides_its_name_but_not_from_the_registry() -> None:
    job = Job(name="tests.hidden", function=hidden, policies=APART)
    assert "is another function by now" in refusal(hidden)
    default_registry.add(job)
    check_isolated([job])


def test_what_exists_only_in_this_process_is_refused_by_name_and_with_a_remedy() -> None:
    said = refusal(lambda ctx, payload: None)
    assert said.startswith("job='j' has isolation='process', but tests.unit.isolation.test_places.")
    assert "<locals>.<lambda> exists only in this process" in said
    assert said.endswith("or leave isolation='thread'")


def test_what_has_no_name_is_refused() -> None:
    assert "is not a function with a name of its own" in refusal(functools.partial(top_level))


def test_the_program_that_was_started_is_no_module() -> None:
    main = types.FunctionType(top_level.__code__, {"__name__": "__main__"}, "main")
    main.__module__ = "__main__"
    assert "declared in the program that was started" in refusal(main)


def test_a_worker_process_does_not_start_with_a_job_that_cannot_be_isolated() -> None:
    jobs = Registry()
    jobs.job("mine", isolation="process")(lambda ctx, payload: None)
    with pytest.raises(JobError, match="job='mine' has isolation='process'"):
        WorkerProcess(Memory(system_clock).connect(), jobs)


def far_away(ctx: Context, payload: object, call_next: CallNext) -> object:
    return call_next(payload)


def test_the_modules_of_middleware_are_imported_once_for_all_attempts() -> None:
    jobs = Registry()
    jobs.add(Job(name="thread", function=top_level))
    assert modules_of(jobs) == []
    jobs.add(Job(name="apart", function=work.add, policies=APART))
    assert modules_of(jobs) == [work.__name__]
    jobs.middleware(far_away)
    jobs.middleware(work.Added(1))  # an object: where it is declared is not known
    assert modules_of(jobs) == sorted([work.__name__, __name__])
