"""Deaths of all kinds, and processes that die at a chosen call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from quarterjack import DeadRun, Registry, Retry, Run
from quarterjack.domain.message import DeadLetter, encode_letter
from quarterjack.domain.names import RunRef, parse_run_id
from quarterjack.domain.run import RunRow
from quarterjack.fires.claim import one_off_message
from quarterjack.ports.services import Services
from quarterjack.sqs.routing import DEAD
from quarterjack.state.lease import LEASE, SKEW, die, lease
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.testing.process import bury_all
from quarterjack.undertaker.bury import RETURNS

from tests.support.scenes.world import World


class DiesAt(Hook):
    """The process dies at its call of that number (from 0): before it, or after it took effect."""

    def __init__(self, number: int, *, after: bool) -> None:
        self._number, self._after, self._calls = number, after, -1

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        self._calls += 1
        if self._calls == self._number and not self._after:
            raise Crash
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        if self._calls == self._number and self._after:
            raise Crash


def crash_everywhere(act: Callable[[Hook, Callable[[], None]], None]) -> int:
    """Let ``act`` meet a crash before and after each of its calls, in a world of its own each time; how many there were.

    It is given the hook and what to call if it got to its end without crashing.
    """
    crashes = 0
    for after in (False, True):
        for number in itertools.count():
            survived: list[bool] = []
            act(DiesAt(number, after=after), lambda survived=survived: survived.append(True))  # type: ignore[misc]
            if survived:
                break
            crashes += 1
    return crashes


def a_world() -> World:
    """With a job that fails at once for good, and one that does what it is told."""
    world = World()
    world.jobs.job("hopeless", retry=Retry(max_attempts=1))(_hopeless)
    return world


def _hopeless(ctx: object, payload: object) -> None:
    raise KeyError("gone")


def healed(world: World) -> Registry:
    """The jobs of the next release, in which nothing fails."""
    fixed = Registry()
    for name in ("hopeless", "bad", "note"):
        fixed.job(name)(world.note)
    return fixed


def die_of_failure(world: World, job: str = "hopeless", **given: object) -> Run:
    """A one-off fails for good; its letter lies in the dead-letter queue."""
    run = world.scheduler.submit(job, **given)  # type: ignore[arg-type]
    world.work()
    assert len(world.memory.dead) > 0
    return run


def die_before_settling(world: World) -> Run:
    """The worker sent its verdict and vanished: the run is RUNNING, and its letter lies in the dead-letter queue."""
    run, ref = _leased(world)
    message = one_off_message(_read(world.services, ref))
    letter = DeadLetter(body=message.encode(), reason="failed", fence=1, error_type="KeyError", error="'gone'")
    world.memory.dead.put(encode_letter(letter))
    return run


def die_of_poison(world: World) -> Run:
    """SQS moved a message that nobody settled, for the last time; no attempt of its run is left."""
    run, ref = _leased(world)
    world.wait((LEASE + 2 * SKEW) / 1000)
    message = replace(one_off_message(_read(world.services, ref)), returned=RETURNS)
    world.memory.dead.put(message.encode())
    return run


def die_settled(world: World) -> Run:
    """The worker settled the run as DEAD an hour ago, and its letter comes only now."""
    run = die_before_settling(world)
    ref = parse_run_id(run.id)
    now = world.clock()
    to = die(fence=1, now=now, expires=now + world.retention, reason="failed", failure=None)
    assert world.services.ledger.move(ref, to).applied
    world.wait(3600)
    return run


def _leased(world: World) -> tuple[Run, RunRef]:
    """A one-off whose only attempt has begun, its message gone from the work queue."""
    run = world.scheduler.submit("hopeless")
    ref = parse_run_id(run.id)
    for delivery in world.services.work.receive(most=1, wait=0, visibility=30):
        world.services.work.delete(delivery.receipt)
    to = lease(revision=0, now=world.clock(), token="t", worker="w", max_attempts=1, steal=True)
    assert world.services.ledger.move(ref, to).applied
    return run, ref


def _read(services: Services, ref: RunRef) -> RunRow:
    found = services.ledger.read(ref)
    assert found is not None
    return found


def bury_again(world: World) -> int:
    """The next undertaker, once letters that were at hand have become visible again."""
    world.wait(DEAD.visibility)
    return bury_all(world.services, world.clock)


def listed(world: World, **filters: object) -> list[DeadRun]:
    return list(world.scheduler.list_dead(**filters).items)  # type: ignore[arg-type]


def pages(world: World, limit: int, **filters: object) -> Iterator[list[DeadRun]]:
    """Page after page."""
    cursor: str | None = None
    while True:
        page = world.scheduler.list_dead(limit=limit, cursor=cursor, **filters)  # type: ignore[arg-type]
        yield list(page.items)
        cursor = page.cursor
        if cursor is None:
            return
