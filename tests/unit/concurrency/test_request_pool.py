"""Requests side by side: as many as may be, never more; in the order of the parts; and fewer while the service throttles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count, pairwise

import pytest
from quarterjack.aws.http_connection import HttpResponse
from quarterjack.concurrency.pools import RequestPool, RequestStats, ThreadCache
from quarterjack.testing import Crash
from quarterjack.ticker.fan_out import FanOutConfig
from quarterjack.ticker.tick import tick

from bench.stub import StubbedCloud
from bench.tick import CASES, MINUTE, cloud_of, stubbed

PATIENCE = 10.0  # seconds until a thread that waits for others gives up


def echo(part: int) -> tuple[int, int]:
    return part, 0


def throttled(part: int) -> tuple[int, int]:
    return part, 1


def test_as_many_requests_are_under_way_as_the_pool_allows_and_no_more() -> None:
    together = threading.Barrier(4, timeout=PATIENCE)
    lock, now, most = threading.Lock(), 0, 0

    def ask(part: int) -> tuple[int, int]:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        together.wait()  # breaks, and the test with it, unless four are here at once
        with lock:
            now -= 1
        return part * part, 0

    assert RequestPool(4).map(ask, range(40)) == [part * part for part in range(40)], "in the order of the parts"
    assert most == 4


def test_two_threads_share_the_pool() -> None:
    pool, lock, now, most = RequestPool(3), threading.Lock(), 0, 0
    met = threading.Barrier(3, timeout=PATIENCE)

    def ask(part: int) -> tuple[int, int]:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        met.wait()
        with lock:
            now -= 1
        return part, 0

    threads = [threading.Thread(target=pool.map, args=(ask, range(9))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert most == 3


def test_a_pool_of_one_sends_in_the_calling_thread() -> None:
    names: list[str] = []

    def ask(part: int) -> tuple[None, int]:
        names.append(threading.current_thread().name)
        return None, 0

    RequestPool(1).map(ask, range(3))
    RequestPool(8).map(ask, [0])
    assert set(names) == {threading.current_thread().name}


@pytest.mark.parametrize("pool", [1, 4])
@pytest.mark.parametrize("problem", [ValueError("odd"), Crash()])
def test_a_failure_is_raised_once_nothing_is_under_way_and_ends_the_call(pool: int, problem: BaseException) -> None:
    asked, ended, lock = [], [], threading.Lock()

    def ask(part: int) -> tuple[int, int]:
        with lock:
            asked.append(part)
        try:
            if part == 5:
                raise problem
            return part, 0
        finally:
            with lock:
                ended.append(part)

    with pytest.raises(type(problem)):
        RequestPool(pool).map(ask, range(1_000))
    assert sorted(asked) == sorted(ended)
    assert len(asked) < 1_000


# Help.


class Counted(ThreadCache):
    """Counts the threads that were asked to help."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def start(self, name: str, body: Callable[..., object], *arguments: object) -> None:
        self.asked += 1
        super().start(name, body, *arguments)


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    monkeypatch.setattr("quarterjack.concurrency.pools._helpers", counted)
    return counted


class Few(ThreadCache):
    """A machine on which no more than so many threads can be started."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self._left = left

    def start(self, name: str, body: Callable[..., object], *arguments: object) -> None:
        if not self._left:
            raise RuntimeError("can't start new thread")
        self._left -= 1
        super().start(name, body, *arguments)


@pytest.mark.parametrize("threads", [0, 2])
def test_where_no_more_threads_can_be_had_those_that_are_there_do_it(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterjack.concurrency.pools._helpers", Few(threads))
    together = threading.Barrier(threads + 1, timeout=PATIENCE)
    ended: list[int] = []

    def ask(part: int) -> tuple[int, int]:
        together.wait()  # all of them are at it
        ended.append(part)
        return part, 0

    parts = range(6 * (threads + 1))
    assert RequestPool(8).map(ask, parts) == list(parts)
    assert sorted(ended) == list(parts), "nothing is under way when the call returns"


def answers(stats: RequestStats, waits: list[float]) -> Callable[[int], tuple[int, int]]:
    """A service for whose answer to each part the client waited so long."""

    def ask(part: int) -> tuple[int, int]:
        stats.record_wait(waits[part])
        return part, 0

    return ask


def test_nobody_helps_with_what_is_not_waited_for(helpers: Counted) -> None:
    stats = RequestStats()
    pool = RequestPool(8, stats=stats)
    for _ in range(3):
        assert pool.map(answers(stats, [0.0005] * 20), range(20)) == list(range(20))
    assert helpers.asked == 0


def test_the_first_answer_decides_for_the_rest_of_a_call_and_what_is_known_for_the_next(helpers: Counted) -> None:
    stats = RequestStats()
    pool = RequestPool(4, stats=stats)
    pool.map(answers(stats, [0.005] * 20), range(20))
    assert helpers.asked == 3, "once a call"
    others = RequestPool(4, stats=stats)  # of another table: answers of one process are alike
    others.map(answers(stats, [0.005] * 3), range(3))
    assert helpers.asked == 5, "no more than there are parts"
    pool.map(answers(stats, [0.005]), range(1))
    RequestPool(1, stats=stats).map(answers(stats, [0.005] * 9), range(9))
    assert helpers.asked == 5


def test_help_comes_in_the_middle_of_a_call_once_most_answers_take_long(helpers: Counted) -> None:
    stats, asked_by = RequestStats(), []
    ask = answers(stats, [0.0, 0.0, 0.005, 0.005, 0.005, 0.005, 0.005])

    def noted(part: int) -> tuple[int, int]:
        asked_by.append(helpers.asked)
        return ask(part)

    assert RequestPool(8, stats=stats).map(noted, range(7)) == list(range(7))
    assert asked_by[:5] == [0] * 5
    assert helpers.asked == 1, "two are left: the thread that asks does one of them"


def test_one_odd_answer_changes_nothing_and_a_changed_service_is_noticed(helpers: Counted) -> None:
    stats = RequestStats()
    ask = answers(stats, [0.0, 3.0])
    for part in (0, 0, 0, 1, 0):
        ask(part)
        assert not stats.is_blocking
    changes = []
    for part in [*[1] * 1_000, *[0] * 1_000]:
        ask(part)
        changes.append(stats.is_blocking)
    slow, fast = changes[:1_000], changes[1_000:]
    assert (slow.index(True), fast.index(False)) == (3, 7)
    assert all(slow[3:])
    assert not any(fast[7:])


@pytest.mark.parametrize(("waited", "expected"), [(0.0, False), (0.005, True)])
def test_a_tick_gets_help_with_requests_and_shards_only_where_it_waits(
    waited: float, expected: bool, helpers: Counted
) -> None:
    cloud = cloud_of(CASES[0], 400)
    stats = RequestStats()
    services = stubbed(cloud, requests=8, stats=stats)
    for client in (services.ledger._tables.client, services.work._client):  # type: ignore[attr-defined]
        client._waited = lambda _: stats.record_wait(waited)
    now, spread = CASES[0].due - MINUTE, FanOutConfig(threads=4, stats=stats)
    report = tick(services, clock=lambda: now, holder="helped", budget=10**9, spread=spread)
    assert report.handled.messages.sent == 400
    assert bool(helpers.asked) is expected


# Pace.


def test_throttled_items_halve_what_is_under_way_and_clean_answers_raise_it_again() -> None:
    stats = RequestStats()
    pool = RequestPool(8, stats=stats)
    pool.call(throttled, 0)
    assert pool.size == 4
    pool.call(throttled, 0)
    assert (pool.size, stats.throttled) == (2, 2)
    sizes = []
    for _ in range(60):
        pool.call(echo, 0)
        sizes.append(pool.size)
    assert sizes == sorted(sizes)
    assert sizes[0] == pytest.approx(2.5)
    assert sizes[-1] == 8, "and no further"


def test_answers_to_what_was_sent_before_the_last_slowing_down_slow_no_further() -> None:
    pool, together = RequestPool(4), threading.Barrier(4, timeout=PATIENCE)

    def ask(part: int) -> tuple[int, int]:
        together.wait()
        return part, 1

    pool.map(ask, range(4))
    assert pool.size == 2


def test_below_one_each_request_waits_first_and_never_for_long() -> None:
    waits: list[float] = []
    pool = RequestPool(2, wait=waits.append)
    for _ in range(10):
        pool.call(throttled, 0)
    assert waits[:4] == pytest.approx([0.02, 0.06, 0.14, 0.3])
    assert max(waits) == pytest.approx(0.3)
    for _ in range(40):
        pool.call(echo, 0)
    assert pool.size == 2
    asked = len(waits)
    pool.call(echo, 0)
    assert len(waits) == asked


def test_a_table_that_takes_half_is_asked_for_no_more_than_that_in_the_end() -> None:
    """A table that takes one request at a time, of four pool."""
    lock, under_way, refused = threading.Lock(), 0, []
    gates = [threading.Event() for _ in range(400)]

    def ask(part: int) -> tuple[int, int]:
        nonlocal under_way
        with lock:
            under_way += 1
            over = under_way > 1
        gates[part].wait(0.001)
        with lock:
            under_way -= 1
        refused.append(over)
        return part, int(over)

    pool = RequestPool(4, wait=lambda seconds: None)
    pool.map(ask, range(400))
    assert sum(refused[200:]) < 100, "a few: it tries now and then whether there is more"


# The stages of the protocol.


class Watched(StubbedCloud):
    """Notes which operation began or ended. The first two batches of messages wait for each other."""

    seen: list[tuple[str, str]]
    batches: Iterator[int]
    met: threading.Barrier

    def post(self, headers: Mapping[str, str], body: bytes, seconds: float) -> HttpResponse:
        operation = headers["x-amz-target"].partition(".")[2]
        self.seen.append((operation, "began"))
        if operation == "SendMessageBatch" and next(self.batches) < self.met.parties:
            with suppress(threading.BrokenBarrierError):  # they come one after the other
                self.met.wait(PATIENCE)
        response = super().post(headers, body, seconds)
        self.seen.append((operation, "ended"))
        return response


def watched(made: StubbedCloud) -> Watched:
    made.__class__ = Watched
    found: Watched = made  # type: ignore[assignment]
    found.seen, found.batches, found.met = [], count(), threading.Barrier(2)
    return found


def places(seen: list[tuple[str, str]], wanted: Callable[[tuple[str, str]], bool]) -> list[int]:
    return [place for place, event in enumerate(seen) if wanted(event)]


def test_no_stage_begins_before_the_last_request_of_the_one_before_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.tick.SHARDS", 1)
    cloud = watched(cloud_of(CASES[0], 400, latency=0.005))
    report = tick(stubbed(cloud, requests=8), clock=lambda: CASES[0].due - MINUTE, holder="watched", budget=10**9)
    assert report.handled.messages.sent == 400
    stages = ["BatchGetItem", "BatchExecuteStatement", "SendMessageBatch", "BatchWriteItem"]
    for earlier, later in pairwise(stages):
        last = max(places(cloud.seen, lambda event: event == (earlier, "ended")))  # noqa: B023
        first = min(places(cloud.seen, lambda event: event == (later, "began")))  # noqa: B023
        assert last < first, f"{later} before the last {earlier} was answered"
    writes = [event for name, event in cloud.seen if name == "BatchWriteItem"]
    puts = writes[:32]
    assert puts.count("began") == puts.count("ended") == 16, "no entry goes while a next one is on its way"
    sends = [event for name, event in cloud.seen if name == "SendMessageBatch"]
    assert sends[:2] == ["began", "began"], "side by side"
