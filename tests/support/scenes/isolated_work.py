"""Jobs that run in processes of their own. They are told where to leave their traces by their payload."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarterjack import CallNext, Context, Registry, Retry
from quarterjack.errors import (
    Continue,
    InvalidInput,
    ItemRefused,
    LeaseLost,
    QuarterjackError,
    RunCancelled,
    Unavailable,
)
from quarterjack.jobs import default_registry

registry = Registry()
written = Registry()  # of modules that tests write
IMPORTED_BY = os.getpid()
SOON = Retry(max_attempts=3, base=1.0, jitter=0.0)


@registry.job("approve", isolation="process")
def approve(ctx: Context, payload: Any) -> dict[str, Any]:
    answer = ctx.wait_for("approval", timeout=3_600, schema={"required": ["ok"]})
    return {"answer": answer, "pid": os.getpid()}


class Added:
    """Adds to ``a``; an object, which has no name of its own."""

    def __init__(self, more: int) -> None:
        self._more = more

    def __call__(self, ctx: Context, payload: dict[str, int], call_next: CallNext) -> Any:
        return call_next({**payload, "a": payload["a"] * 10 + self._more})


def traced(ctx: Context, payload: dict[str, int], call_next: CallNext) -> dict[str, Any]:
    return {**call_next(payload), "traced_in": os.getpid()}


def refusing(ctx: Context, payload: Any, call_next: CallNext) -> Any:
    raise OSError("no session")


@registry.job("add-within", isolation="process", middleware=[traced])
def add_within(ctx: Context, payload: dict[str, int]) -> dict[str, Any]:
    return {"sum": payload["a"] + payload["b"], "pid": os.getpid()}


@default_registry.job("tests.add-layered", isolation="process", middleware=[Added(1), traced, Added(2)])
def add_layered(ctx: Context, payload: dict[str, int]) -> dict[str, Any]:
    return {"sum": payload["a"] + payload["b"], "pid": os.getpid()}


@registry.job("add-refused", isolation="process", retry=Retry(max_attempts=1), middleware=[refusing])
def add_refused(ctx: Context, payload: dict[str, int]) -> None: ...


@registry.job("add-lost", isolation="process", retry=Retry(max_attempts=1), middleware=[Added(1)])
def add_lost(ctx: Context, payload: dict[str, int]) -> None: ...


@registry.job("family", isolation="process")
def family(ctx: Context, payload: int) -> dict[str, Any]:
    children = [ctx.submit("add", {"a": number, "b": 1}, step=f"add-{number}") for number in range(payload)]
    return {"sums": [end["sum"] for end in ctx.gather(children)], "pid": os.getpid()}


@registry.job("crowd", isolation="process")
def crowd(ctx: Context, payload: int) -> dict[str, Any]:
    items = ({"a": number, "b": 1} for number in range(payload))
    return {"sums": [end["sum"] for end in ctx.map("add", items, at_a_time=2)], "pid": os.getpid()}


@registry.job("add", isolation="process")
def add(ctx: Context, payload: dict[str, int]) -> dict[str, Any]:
    return {"sum": payload["a"] + payload["b"], "pid": os.getpid(), "stdin": sys.stdin.read()}


@dataclass
class Sum:
    a: int
    b: int


@registry.job("add-typed", isolation="process")
def add_typed(ctx: Context, payload: Sum) -> dict[str, Any]:
    return {"sum": payload.a + payload.b, "pid": os.getpid()}


@registry.job("about", isolation="process")
async def about(ctx: Context, payload: Any) -> dict[str, Any]:
    return {
        "run_id": ctx.run_id,
        "key": ctx.idempotency_key,
        "tenant": ctx.tenant,
        "job": ctx.job,
        "schedule": ctx.schedule,
        "at": ctx.scheduled_at.isoformat(),
        "attempt": ctx.attempt,
        "remaining": ctx.remaining(),
        "cancelled": ctx.cancelled,
        "resume": ctx.resume,
    }


@registry.job("book", isolation="process", retry=SOON)
def book(ctx: Context, payload: dict[str, Any]) -> list[Any]:
    """Write one item, twice if told so; what came of it."""
    item: dict[str, Any] = {"id": {"S": payload["id"]}, "data": {"B": b"\x00\xff"}, "many": {"BS": [b"a", b"b"]}}
    put: dict[str, Any] = {"TableName": "orders", "Item": item, "ConditionExpression": "attribute_not_exists(id)"}
    try:
        written = ctx.transaction([{"Put": put}], result={"fence": ctx.fence})
    except (InvalidInput, ItemRefused, LeaseLost, Unavailable) as problem:
        return [type(problem).__name__, str(problem)]
    if payload.get("fails") and ctx.attempt == 1:
        raise ConnectionError
    return [ctx.fence, written]


@registry.job("look-around", isolation="process")
def look_around(ctx: Context, payload: str | None) -> dict[str, Any]:
    """What its process has, and where it comes from. ``payload`` is the name of a variable."""
    return {
        "pid": os.getpid(),
        "imported by": IMPORTED_BY,
        "variable": os.environ.get(payload or ""),
        "directory": str(Path.cwd()),
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "path": sys.path[-1],
        "terminates": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
        "threads": threading.active_count(),
        "aws": [name for name in sys.modules if name.partition(".")[0] in ("boto3", "botocore", "pynamodb")],
    }


@registry.job("fail", isolation="process", retry=Retry(max_attempts=3, base=1.0, never_on=(KeyError,)))
def fail(ctx: Context, payload: str) -> None:
    match payload:
        case "key":
            raise KeyError("k")
        case "exit":
            sys.exit(7)
        case "interrupt":
            raise KeyboardInterrupt
        case "cancelled":
            raise RunCancelled("I say so")
        case "lost":
            raise LeaseLost("I say so")
    raise ConnectionError("again")


@registry.job("die", isolation="process", retry=SOON)
def die(ctx: Context, payload: Any) -> None:
    if payload == "exit":
        os._exit(3)
    if payload == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    os.kill(os.getpid(), signal.SIGKILL)


@registry.job("steps", isolation="process", retry=SOON)
def steps(ctx: Context, payload: dict[str, Any]) -> Any:
    """Die in the first attempt after the second step; each effect leaves a line."""

    def effect(name: str) -> str:
        with Path(payload["to"]).open("a") as file:
            file.write(f"{name}\n")
        return f"{name} in attempt {ctx.attempt}"

    found = ctx.resume
    done = [ctx.step(name, lambda name=name: effect(name)) for name in ("a", "b")]  # type: ignore[misc]
    ctx.checkpoint({"after": "b", "attempt": ctx.attempt, "large": "x" * payload.get("large", 0)})
    ctx.progress(0.5, "half")
    if ctx.attempt == 1:
        os._exit(1)
    return {"found": found, "done": [*done, ctx.step("c", lambda: effect("c"))]}


@registry.job("refused", isolation="process")
def refused(ctx: Context, payload: str) -> dict[str, str]:
    attempts: dict[str, Callable[[], Any]] = {
        "step": lambda: ctx.step("s", object),
        "name": lambda: ctx.step("", int),
        "checkpoint": lambda: ctx.checkpoint({1, 2}),
        "huge": lambda: ctx.checkpoint("x" * 6_000_000),
        "progress": lambda: ctx.progress(7),
    }
    said = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except InvalidInput as problem:
            said[name] = str(problem)
    return said


@registry.job("unkept", isolation="process")
def unkept(ctx: Context, payload: str) -> object:
    return object()


@registry.job("unavailable", isolation="process")
def unavailable(ctx: Context, payload: str) -> list[str]:
    """What a job sees of the worker's troubles."""
    said = []
    for value in ("small", "x" * 70_000):
        try:
            ctx.checkpoint(value)
        except QuarterjackError as problem:
            said.append(f"{type(problem).__name__}: {problem}")
    return said


@registry.job("wait", isolation="process", timeout=60.0, cancel_grace=30.0, retry=SOON)
def wait(ctx: Context, payload: dict[str, Any]) -> None:
    """Say that it runs, then do as told until it is cancelled or killed."""
    how = payload["how"]
    ctx.progress(0.25, how)
    begin, go_on = MANNERS[how]
    begin(ctx)
    with Path(payload["to"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
    go_on(ctx, payload)


def fork_away(ctx: Context) -> None:
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)


def start_program(ctx: Context) -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def hold_interpreter(ctx: Context, payload: Any) -> None:
    ctypes.PyDLL(None).sleep(60)  # no other thread runs meanwhile


def ask(ctx: Context, payload: Any) -> None:
    while not ctx.cancelled:
        time.sleep(0.01)
    ctx.raise_if_cancelled()


def fail_when_cancelled(ctx: Context, payload: Any) -> None:
    try:
        ask(ctx, payload)
    except RunCancelled:
        raise OSError("interrupted") from None


def swallow(ctx: Context, payload: Any) -> None:
    while True:
        try:
            time.sleep(0.01)
            ctx.raise_if_cancelled()
        except RunCancelled:
            continue


def step_again(ctx: Context, payload: dict[str, Any]) -> None:
    while not Path(payload["to"]).with_name("go").exists():
        time.sleep(0.01)
    ctx.step("after", lambda: 2)


Manner = tuple[Callable[[Context], Any], Callable[[Context, Any], None]]
MANNERS: dict[str, Manner] = {
    "gil": (lambda ctx: None, hold_interpreter),
    "gil and fork": (fork_away, hold_interpreter),
    "fork": (fork_away, swallow),
    "program": (start_program, swallow),
    "asks": (lambda ctx: None, ask),
    "fails": (lambda ctx: None, fail_when_cancelled),
    "swallows": (lambda ctx: None, swallow),
    "steps": (lambda ctx: ctx.step("before", lambda: 1), step_again),
}


@registry.job("fork", isolation="process")
def fork(ctx: Context, payload: dict[str, Any]) -> str:
    """Fork; the copy tries to use ctx and then returns as if it were the job."""
    pid = os.fork()
    if pid == 0:
        try:
            ctx.step("copy", lambda: "copied")
        except QuarterjackError as problem:
            Path(payload["to"]).write_text(str(problem))
        return "copy"
    os.waitpid(pid, 0)
    return str(ctx.step("original", lambda: "original"))


@registry.job("threads", isolation="process")
def threads(ctx: Context, payload: Any) -> int:
    """Steps from several threads, and a thread that is left behind."""
    names = [f"s{number}" for number in range(20)]
    workers = [threading.Thread(target=ctx.step, args=(name, os.getpid)) for name in names]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    threading.Thread(target=threading.Event().wait).start()
    return len({ctx.step(name, lambda: 0) for name in names})


@registry.job("slice", isolation="process")
def slices(ctx: Context, payload: Any) -> Any:
    if ctx.resume is None:
        ctx.checkpoint("seen")
        raise Continue("enough")
    if payload == "stuck":
        raise Continue
    return ctx.resume


@registry.job("loud", isolation="process")
def loud(ctx: Context, payload: Any) -> None:
    ctx.logger.info("loud.said", extra={"word": payload})


@registry.job("thread")
def in_a_thread(ctx: Context, payload: Any) -> int:
    return os.getpid()


@registry.job("secretive", isolation="process", retry=Retry(max_attempts=1))
def secretive(ctx: Context, payload: Any) -> Any:
    """Look a secret up and let it out in the way that the payload says."""
    secret = ctx.secret(payload["name"])
    logging.getLogger("library").warning("sent %s", secret)
    match payload["how"]:
        case "return":
            return {"token": secret, "length": len(secret)}
        case "raise":
            raise ValueError(f"no login with {secret}")
        case "step":
            return ctx.step("login", lambda: f"Bearer {secret}")
        case "stage":
            ctx.progress(0.5, f"with {secret}")
            return ctx.step("wait", lambda: None)
    return os.getpid()


@registry.job("secretive-async", isolation="process", retry=Retry(max_attempts=1))
async def secretive_async(ctx: Context, payload: Any) -> int:
    return len(ctx.secret(payload))
