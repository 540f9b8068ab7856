"""A historian that is killed again and again: ``kill -9`` of a real process while runs flow, and at the end nothing is missing."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from quarterjack import Settings
from quarterjack.daemon.roles import run_historian
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.run import FAILED
from quarterjack.errors import QuarterjackError
from quarterjack.services import connect, system_clock

from tests.support.histories.projections import Projections
from tests.support.installation.scene import UNDERTAKER, Scene, ticker, until, worker

pytestmark = [pytest.mark.proof, pytest.mark.cloud]

KILLS = int(os.environ.get("KILLS", "50"))


def follow(settings: Settings) -> None:
    """A historian, as ``quarterjack historian`` runs it."""
    run_historian(settings, stop=threading.Event(), period=0.2)


def test_pages_and_archive_are_the_ledger_after_fifty_kills_of_the_historian(scene: Scene) -> None:
    dice = random.Random(15)
    scene.start(worker("worker-1"), worker("worker-2"), ticker(period=5), UNDERTAKER)
    stop = threading.Event()
    owner = threading.Thread(target=act, args=(scene, stop, random.Random(16)))
    owner.start()
    children = multiprocessing.get_context("forkserver")
    children.set_forkserver_preload([__name__])
    kills = in_work = 0
    while kills < KILLS:
        historian = children.Process(target=follow, args=(scene.settings,))
        historian.start()
        assert historian.pid is not None
        historian.join(dice.uniform(0.3, 2.5))
        in_work += historian.exitcode is None
        os.kill(historian.pid, signal.SIGKILL)
        historian.join()
        kills += 1
    stop.set()
    owner.join()
    assert in_work == KILLS, "each was killed while it ran"
    scheduler = scene.scheduler
    for schedule in scheduler.list_schedules().items:
        scheduler.pause_schedule(schedule.name)
    assert until(lambda: is_at_rest(scene.settings), 300, look=1.0), scene.logs()
    last = children.Process(target=follow, args=(scene.settings,))
    last.start()
    try:
        until(lambda: not differences(scene.settings), 60, look=3.0)
    finally:
        last.kill()
        last.join()
    assert differences(scene.settings)[:10] == []
    changes = list(all_changes(scene.settings))
    runs = {change.ref for change in changes}
    print(f"{kills} kills; {len(runs):,} runs, {len(changes):,} changes")  # noqa: T201 (figures to report)
    assert len(runs) > 4 * KILLS


def act(scene: Scene, stop: threading.Event, dice: random.Random) -> None:
    """Schedules, one-offs that succeed, fail for good, wait or are cancelled, until told to stop."""
    scheduler, to = scene.scheduler, scene.to
    for number in range(8):
        scheduler.create_schedule(f"s{number}", "test.note", f"rate({1 + number % 4} seconds)", payload={"to": to})
    while not stop.wait(0.2):
        with suppress(QuarterjackError):
            match dice.randrange(8):
                case 0:
                    scheduler.submit("test.fail", {"to": to, "failures": dice.choice([1, 5])})
                case 1:
                    scheduler.cancel_run(scheduler.submit("test.note", {"to": to}, delay=30).id)
                case 2:
                    scheduler.update_schedule(f"s{dice.randrange(8)}", payload={"to": to, "said": dice.random()})
                case 3:
                    scheduler.trigger(f"s{dice.randrange(8)}")
                case _:
                    scheduler.submit("test.note", {"to": to}, delay=dice.choice([0, 0, 1, 60]))


def is_at_rest(settings: Settings) -> bool:
    """Whether every run has ended, and those that failed are recorded."""
    runs = {change.ref: change.new for change in sorted(all_changes(settings), key=lambda change: change.sequence)}
    return all(run.is_terminal and (run.buried_at or run.state not in FAILED) for run in runs.values() if run)


def differences(settings: Settings) -> list[str]:
    """What pages and archive say otherwise than the stream, which still has everything."""
    changes = sorted(all_changes(settings), key=lambda change: (change.ref, change.sequence))
    services = connect(settings)
    ledger = services.ledger.look(list({change.ref for change in changes}), whole=True).found.values()
    return Projections(changes, services, system_clock()).violations(list(ledger))


def all_changes(settings: Settings) -> Iterator[RunChange]:
    stream = connect(settings).stream
    for shard in stream.shards():
        after, more = None, True
        while more:
            page = stream.read(shard.id, after)
            yield from page.changes
            after, more = page.position or after, page.has_more
