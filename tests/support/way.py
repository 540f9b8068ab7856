"""The way of a fire: which modules of ours run from the tick that reads the entry of its chain to the acknowledgement of its message.

    .venv/bin/python -m tests.support.way            # one fire of a plain schedule
    .venv/bin/python -m tests.support.way --full     # its tenant has limits and a circuit breaker, its runs take turns and permits

One fire goes through an installation in memory, with the tick, the pipeline and the executor of production. A module is on the way if one
of its functions runs there. Properties count, and constructors that ``dataclass`` writes: so a module of values counts as soon as one is
made. A module of constants and enumerations does not. The double in memory (``quarterjack.testing``) is left out, and with it the adapters
whose place it takes on AWS.

``FLOW`` are the rooms that the fire goes through; the others are called from there: decisions, vocabulary, stores.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from quarterjack import Tenants
from quarterjack.worker.context import Done
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.execution.executor import ThreadedExecutor
from quarterjack.worker.pipeline import start_batches

from tests.support.scenes.world import NOON, World

FLOW = ("ticker", "fires", "worker")
_OURS, _DOUBLE = "quarterjack.", ("quarterjack.testing", "quarterjack.dynamodb", "quarterjack.sqs")
_VALUES = "quarterjack.values"  # the methods of dataclasses, which the standard library generates elsewhere
_PATIENCE = 60  # seconds until the fire must have ended
LIMITS = {"concurrent_runs": 2, "concurrent_runs:note": 1, "breaker_percent": 50}


def way_of_a_fire(*, full: bool = False) -> Counter[str]:
    """Calls of functions by module, named without the package, of one fire that succeeds."""
    world, seen = World(), Counter[str]()
    if full:
        Tenants(services=world.services, clock=world.clock).set("acme", limits=LIMITS)
    world.scheduler.create_schedule("s", "note", "* * * * *", overlap="buffer_all" if full else "allow")
    world.reach(NOON)
    with _watched(seen):
        world.tick()
    world.wait(62)
    ended, done = threading.Event(), list[Done]()

    def report(some: Sequence[Done]) -> None:
        done.extend(some)
        ended.set()

    worker = replace(world.worker(), executor=ThreadedExecutor(), report=report)
    (delivery,) = world.services.work.receive(most=1, wait=0, visibility=HIDDEN)
    with _watched(seen):
        start_batches(worker, receive(worker, [delivery]))
        assert ended.wait(_PATIENCE)
    ((_, outcome),) = done
    assert outcome.gone, outcome
    return seen


def flow(modules: Iterator[str] | Counter[str]) -> list[str]:
    """The modules of the rooms that the fire goes through, in order of name."""
    return sorted(name for name in modules if name.partition(".")[0] in FLOW)


@contextmanager
def _watched(seen: Counter[str]) -> Iterator[None]:
    """Count the calls in this thread, and in those that start meanwhile."""

    def look(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "") if event == "call" else ""
        if name.startswith(_OURS) and name != _VALUES and not name.startswith(_DOUBLE):
            seen[name.removeprefix(_OURS)] += 1

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def main(arguments: Sequence[str] | None = None, say: Callable[[str], object] = print) -> None:
    parser = argparse.ArgumentParser(prog="way", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="With limits, a circuit breaker, turns and permits.")
    seen = way_of_a_fire(full=parser.parse_args(arguments).full)
    for name in sorted(seen):
        say(f"{seen[name]:>6}  {name}")
    say(f"{len(seen)} modules, {len(flow(seen))} of them in {', '.join(FLOW)}")


if __name__ == "__main__":
    main()
