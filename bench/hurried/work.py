"""Jobs that take their process along at random points, and say what they did in files that the scheduler knows nothing of."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from quarterjack import Context, Retry, job

POINTS = ("start", "before the effect", "after the effect", "after the record", "end", "any time")
STEPS = ("a", "b")
EXIT = 99  # of a crashed worker
OFTEN = Retry(max_attempts=100, base=0.1, cap=0.5)


@job("hurried.crash", delivery="exactly_once", retry=OFTEN)
def crash(ctx: Context, payload: dict[str, Any]) -> dict[str, str]:
    """Two steps, each with an effect that repeats and one that its key makes harmless; in some attempts a crash."""
    witness = Witness(ctx, payload)
    witness.say("start")
    witness.may_die("start")
    done = {}
    for step in STEPS:
        done[step] = ctx.step(step, lambda step=step: witness.effect(step))  # type: ignore[misc]  # mypy and defaults
        witness.say("recorded", step=step, token=done[step])
        witness.may_die("after the record")
    witness.may_die("end")
    return done


@job("hurried.crash-once", delivery="at_most_once")
def crash_once(ctx: Context, payload: dict[str, Any]) -> None:
    witness = Witness(ctx, payload)
    witness.say("start")
    witness.may_die("start")
    witness.effect(STEPS[0])
    witness.may_die("end")
    witness.say("end")


@job("hurried.hold", retry=OFTEN)
def hold(ctx: Context, payload: dict[str, Any]) -> int:
    """At its first attempt hold the interpreter, so that no heartbeat of this process gets through."""
    say(payload, ctx, "start")
    if ctx.attempt == 1:
        ctypes.PyDLL(None).usleep(int(payload["seconds"] * 1e6))
    say(payload, ctx, "end")
    return ctx.attempt


@job("hurried.hold-apart", isolation="process", retry=OFTEN)
def hold_apart(ctx: Context, payload: dict[str, Any]) -> int:
    return hold(ctx, payload)


@job("hurried.die-apart", isolation="process", retry=OFTEN)
def die_apart(ctx: Context, payload: dict[str, Any]) -> int:
    say(payload, ctx, "start")
    if ctx.attempt < 3:
        os._exit(EXIT)
    return ctx.attempt


@job("hurried.deaf", timeout=1.0, retry=OFTEN)
def deaf(ctx: Context, payload: dict[str, Any]) -> int:
    """At its first attempt never come back, so that its thread is abandoned."""
    say(payload, ctx, "start")
    if ctx.attempt == 1:
        threading.Event().wait()
    return os.getpid()


@job("hurried.wait")
def wait(ctx: Context, payload: dict[str, Any]) -> None:
    """Say when the cancellation is seen."""
    say(payload, ctx, "start")
    while not ctx.cancelled:
        time.sleep(0.01)
    say(payload, ctx, "cancelled")
    ctx.raise_if_cancelled()


@job("hurried.sleep", retry=OFTEN)
def sleep(ctx: Context, payload: dict[str, Any]) -> None:
    """Take long, whoever has it."""
    say(payload, ctx, "start")
    time.sleep(payload["seconds"])


@job("hurried.spell", retry=OFTEN)
def spell(ctx: Context, payload: dict[str, Any]) -> None:
    """Say from when to when it ran."""
    say(payload, ctx, "begin")
    time.sleep(payload["seconds"])
    say(payload, ctx, "end")


@job("hurried.gated", retry=OFTEN)
def gated(ctx: Context, payload: dict[str, Any]) -> None:
    """Take until a file is there."""
    say(payload, ctx, "begin")
    while not Path(payload["gate"]).exists():
        time.sleep(0.02)
    say(payload, ctx, "end")


class Witness:
    """What one attempt does in the world outside, and where it crashes."""

    def __init__(self, ctx: Context, payload: dict[str, Any]) -> None:
        self._ctx, self._payload = ctx, payload
        self._chance = random.Random(f"{payload['seed']} {ctx.run_id} {ctx.attempt}")
        crashes = self._chance.random() < payload["p"]
        self._point = self._chance.choice(POINTS) if crashes else None
        self._skip = self._chance.randrange(len(STEPS))  # crash at the first or at the second step
        if self._point == "any time":
            threading.Timer(self._chance.uniform(0, payload["length"] * 3), os._exit, (EXIT,)).start()

    def say(self, what: str, **more: Any) -> None:
        say(self._payload, self._ctx, what, **more)

    def may_die(self, point: str) -> None:
        """Crash here if this attempt is to."""
        time.sleep(self._chance.uniform(0, self._payload["length"]))
        if self._point == point:
            if point in ("start", "end") or not self._skip:
                os._exit(EXIT)
            self._skip -= 1

    def effect(self, step: str) -> str:
        """A token of its own each time it happens; and once for all attempts where the downstream knows the key."""
        self.may_die("before the effect")
        token = uuid.uuid4().hex
        self.say("effect", step=step, token=token)
        key = f"{self._ctx.idempotency_key}-{step}".replace("/", "_")
        with contextlib.suppress(FileExistsError):
            Path(self._payload["keyed"], key).touch(exist_ok=False)
            self.say("keyed", step=step)
        self.may_die("after the effect")
        return token


def say(payload: dict[str, Any], ctx: Context, what: str, **more: Any) -> None:
    """One line of the witness file, in one write."""
    line = {"what": what, "run": ctx.run_id, "attempt": ctx.attempt, "at": time.time(), "pid": os.getpid(), **more}
    with open(payload["to"], "ab", buffering=0) as file:  # noqa: PTH123 (unbuffered)
        file.write(json.dumps(line).encode() + b"\n")
