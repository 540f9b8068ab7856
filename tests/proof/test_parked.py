"""Jobs that wait amid crashes, stalls, throttling and lost answers: each wait is answered once, none is missed, every run ends."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from quarterjack import SignalReceipt
from quarterjack.testing.process import Hand

from tests.support import simulate
from tests.support.parts import in_rotation
from tests.support.scenes.world import World

SEEDS = tuple(range(4))
MANY, PARTS = 1_600, 8


def counts(seed: int) -> Counter[str]:
    """What happened in a history, after it was judged."""
    return simulate.counts_of(seed, "parked")


@in_rotation(of=6)
def test_every_wait_is_answered_once() -> None:
    seen = sum(map(counts, SEEDS), Counter[str]())
    assert seen["parks"] > 50 * len(SEEDS)
    assert seen["wakes"] > 10 * len(SEEDS)
    assert min(seen["maps"], seen["windows full"]) > 5 * len(SEEDS)
    assert min(seen["signals accepted"], seen["signals answered"], seen["cancelled parked"]) > 0


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_every_wait_is_answered_once_in_many_histories(part: int) -> None:
    assert sum(counts(seed)["parks"] for seed in range(part, MANY, PARTS)) >= 200_000 // PARTS


RACES = 1_000


@pytest.mark.check
def test_signals_and_parks_race_and_each_is_answered_once() -> None:
    """Two workers and two senders in threads of their own: a signal comes before, while and after its run parks."""
    world, told = World(), dict[tuple[str, int], SignalReceipt]()
    world.jobs.job("asks")(lambda ctx, payload: ctx.wait_for("go", timeout=3_600))
    runs = [world.scheduler.submit("asks").id for _ in range(RACES)]
    over = threading.Event()

    def works(name: str) -> None:
        hand = Hand(worker=world.worker(name=name))
        while not over.is_set():
            hand.work()

    def sends(number: int) -> None:
        sender = world.owner()
        for run_id in runs:
            told[run_id, number] = sender.signal(run_id, "go", number)

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(works, name) for name in ("w1", "w2")]
        senders = [pool.submit(sends, number) for number in (1, 2)]
        for sender in senders:
            sender.result()
        over.set()
        for worker in workers:
            worker.result()
    world.live(120)
    ended = {str(run.ref): run for run in world.memory.runs()}
    assert {ended[run_id].state for run_id in runs} == {"SUCCEEDED"}
    for run_id in runs:
        receipts = [told[run_id, number] for number in (1, 2)]
        assert sorted(receipt.outcome for receipt in receipts) == ["accepted", "answered"]
        assert {str(receipt.payload) for receipt in receipts} == {ended[run_id].result}
    assert sum(ended[run_id].slices for run_id in runs) > 0, "no signal came while its run was parked"
