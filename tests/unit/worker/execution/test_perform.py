"""One attempt in a thread: whatever the job does, it ends, and the process goes on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from quarterjack import PROGRAMMING_ERRORS, Context, Registry, Retry, RunState, Scheduler
from quarterjack.errors import InvalidInput, Permanent, RetryAfter, UnexpectedStatus
from quarterjack.worker.execution.perform import MESSAGE, TRACEBACK

from tests.support.scenes.threads import Threads
from tests.support.scenes.world import World

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # 3.12: a process with threads forks


class Gone(BaseException):
    """What some libraries raise past every ``except Exception``."""


class NotFoundError(Exception):
    """As HTTP clients raise it."""

    status_code = 404


class BusyError(Exception):
    status_code = 429


class Mute(Exception):
    """It cannot say what it is."""

    def __str__(self) -> str:
        raise TypeError("not even that")


def raises(problem: BaseException) -> Callable[[Context, Any], None]:
    def job(ctx: Context, payload: Any) -> None:
        raise problem

    return job


def end_of(function: Callable[[Context, Any], Any], **options: Any) -> Any:
    """The run, after one attempt."""
    threads = Threads()
    threads.began.set()
    threads.world.jobs.job("j", **options)(function)
    run = threads.start("j")
    threads.end()
    assert not threads.abandoned
    return threads.look(run)


@pytest.mark.parametrize(
    ("problem", "kind", "code"),
    [
        (SystemExit(3), "SystemExit", "3"),
        (SystemExit(), "SystemExit", None),
        (KeyboardInterrupt(), "KeyboardInterrupt", None),
        (Gone("away"), "Gone", None),
        (Mute(), "Mute", None),
        (BusyError("later"), "BusyError", "429"),
    ],
)
def test_whatever_it_raises_is_its_failure(problem: BaseException, kind: str, code: str | None) -> None:
    run = end_of(raises(problem))
    assert (run.state, run.error_type, run.error_code) == (RunState.RETRYING, kind, code)
    assert "in job" in run.failed_attempts[0].traceback


def test_sys_exit_ends_the_attempt_and_not_the_worker() -> None:
    assert end_of(lambda ctx, payload: sys.exit("bad arguments")).error == "bad arguments"


def test_what_is_kept_of_an_error_is_bounded() -> None:
    (attempt,) = end_of(raises(ValueError("x" * 100_000))).failed_attempts
    assert (len(attempt.error), len(attempt.traceback)) == (MESSAGE, TRACEBACK)


def test_a_cause_is_told_with_its_error() -> None:
    def job(ctx: Context, payload: Any) -> None:
        try:
            raise KeyError("cause")
        except KeyError as problem:
            raise ValueError("effect") from problem

    assert "KeyError: 'cause'" in end_of(job).failed_attempts[0].traceback


@pytest.mark.parametrize(
    ("problem", "retry", "state"),
    [
        (Permanent("no"), Retry(), RunState.DEAD),
        (KeyError("k"), Retry(never_on=(LookupError,)), RunState.DEAD),
        (KeyError("k"), Retry(retry_on=(OSError,)), RunState.DEAD),
        (TimeoutError(), Retry(retry_on=(OSError,)), RunState.RETRYING),
        (NotFoundError(), Retry(), RunState.DEAD),
        (NotFoundError(), Retry(by_status=False), RunState.RETRYING),
        (NotFoundError(), Retry(always_on=(NotFoundError,)), RunState.RETRYING),
        (NotFoundError(), Retry(retry_on=(NotFoundError,)), RunState.RETRYING),
        (json.JSONDecodeError("half a reply", "{", 1), Retry(), RunState.RETRYING),
        (json.JSONDecodeError("half a reply", "{", 1), Retry(never_on=PROGRAMMING_ERRORS), RunState.DEAD),
        (
            json.JSONDecodeError("half a reply", "{", 1),
            Retry(never_on=PROGRAMMING_ERRORS, always_on=(json.JSONDecodeError,)),
            RunState.RETRYING,
        ),
        (TypeError(), Retry(never_on=PROGRAMMING_ERRORS), RunState.DEAD),
        (ConnectionError(), Retry(never_on=PROGRAMMING_ERRORS), RunState.RETRYING),
        (Permanent("no"), Retry(always_on=(Permanent,)), RunState.DEAD),
        (UnexpectedStatus(404, "one of again=", permanent=False), Retry(), RunState.RETRYING),
        (InvalidInput("payload: url", "x", "is none", "give one"), Retry(), RunState.DEAD),
        (InvalidInput("payload: url", "x", "is none", "give one"), Retry(retry_on=(ValueError,)), RunState.DEAD),
        (InvalidInput("payload", "x", "is none", "give one"), Retry(always_on=(InvalidInput,)), RunState.RETRYING),
        (InvalidInput("name", "x", "is none", "give one"), Retry(), RunState.RETRYING),
    ],
)
def test_classes_decide_whether_it_is_tried_again(problem: Exception, retry: Retry, state: RunState) -> None:
    assert end_of(raises(problem), retry=retry).state is state


def test_a_payload_that_a_job_passes_on_and_its_check_refuses_is_permanent() -> None:
    def known(payload: Any) -> None:
        raise ValueError("no such printer")

    others = Registry()
    others.job("print", check=known)(lambda ctx, payload: None)

    def job(ctx: Context, payload: Any) -> None:
        Scheduler("acme", jobs=others, services=World().services).submit("print", {"printer": "moon"})

    run = end_of(job)
    assert (run.state, run.error_type) == (RunState.DEAD, "InvalidInput")
    assert "no such printer" in run.error


def test_the_job_may_say_when() -> None:
    run = end_of(raises(RetryAfter(1234)), retry=Retry(base=1))
    assert (run.not_before - run.due).total_seconds() == 1234


def test_a_fork_of_the_job_is_not_heard() -> None:
    """The copy has the job's thread and no other: it returns, and nobody is there to settle what it returned."""
    pids: list[int] = []

    def job(ctx: Context, payload: Any) -> str:
        pid = os.fork()
        if pid == 0:
            return "copy"
        pids.append(pid)
        return f"copy ended with {os.waitpid(pid, 0)[1]}"

    assert end_of(job).result == "copy ended with 0"
    assert pids


def test_jobs_in_threads_stay_threads_where_isolation_has_no_meaning() -> None:
    """On Lambda and in the test harness ``isolation="process"`` falls back to a thread."""
    registry, here = Registry(), []
    registry.job("isolated", isolation="process")(lambda ctx, payload: here.append(os.getpid()))
    threads = Threads()
    threads.world.jobs.add(next(iter(registry)))
    threads.began.set()
    run = threads.start("isolated")
    threads.end()
    assert (threads.look(run).state, here) == (RunState.SUCCEEDED, [os.getpid()])
    assert threads.worker.isolated is None
