"""A forked child waits for no lock that a thread of its parent held: it has no such thread, and nobody would release it."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack.concurrency.pools import RequestPool, RequestStats, ThreadCache
from quarterjack.owner.catalogue import KnownNames
from quarterjack.s3.payloads import BucketPayloads
from quarterjack.sqs.named_queue import NamedQueue

from tests.support.scenes.world import World

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
LONG = 30.0  # seconds


def in_a_child(act: Callable[[], object]) -> None:
    """Run it in a forked child, which is ended if it waits for ever."""
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            act()
            os._exit(0)
        except BaseException:  # noqa: BLE001 (the child ends here)
            traceback.print_exc()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the child failed, or waited for ever"


@contextmanager
def beside(body: Callable[[Callable[[], object]], object]) -> Iterator[None]:
    """``body`` in another thread, which is where it calls what it is given until the end of the block."""
    there, over = threading.Event(), threading.Event()

    def stay() -> None:
        there.set()
        assert over.wait(LONG)

    thread = threading.Thread(target=body, args=(stay,))
    thread.start()
    assert there.wait(LONG)
    try:
        yield
    finally:
        over.set()
        thread.join(LONG)


def queue() -> NamedQueue:
    client: Any = SimpleNamespace(call=lambda operation, **_: {"QueueUrl": "http://queue"})
    return NamedQueue(client, "work")


def payloads() -> BucketPayloads:
    client: Any = SimpleNamespace(call=lambda operation, **_: {})
    return BucketPayloads(lambda: client, "bucket")


def start(threads: ThreadCache) -> None:
    ran = threading.Event()
    threads.start("one", ran.set)
    assert ran.wait(LONG)


CASES: list[tuple[Callable[[], Any], str, Callable[[Any], object]]] = [
    (RequestStats, "_lock", lambda stats: stats.record_wait(1.0)),
    (RequestPool, "_room", lambda pool: pool.call(lambda part: (part, 0), 1)),
    (ThreadCache, "_lock", start),
    (queue, "_lock", lambda queue: queue.url),
    (payloads, "_lock", lambda payloads: payloads.put("acme/s", "{}")),
    (lambda: KnownNames(World().services, lambda: 1), "_reading", lambda names: names.of("note")),
]


@pytest.mark.parametrize(
    ("make", "lock", "act"), CASES, ids=["stats", "pool", "threads", "queue", "payloads", "catalogue"]
)
def test_a_lock_that_another_thread_holds(make: Callable[[], Any], lock: str, act: Callable[[Any], object]) -> None:
    holder = make()

    def hold(stay: Callable[[], object]) -> None:
        with getattr(holder, lock):
            stay()

    with beside(hold):
        in_a_child(lambda: act(holder))
    act(holder)


def test_requests_that_are_under_way_in_other_threads_take_no_room() -> None:
    pool = RequestPool(1)

    def request(stay: Callable[[], object]) -> None:
        pool.call(lambda part: (stay(), 0), 1)

    with beside(request):
        in_a_child(lambda: pool.call(lambda part: (part, 0), 2))


def test_a_catalogue_that_another_thread_reads_is_read_by_the_child() -> None:
    """Otherwise the child would take it for read, and every job for unknown, for a minute."""
    world = World()
    names = KnownNames(world.services, world.clock)
    names._read_at = world.clock()  # as while a thread of the parent reads it

    def look() -> None:
        assert names._read_at is None
        names.of("note")
        assert names._read_at is not None

    in_a_child(look)
