"""A slice of what `make proof` plays for as long as it is told; and the simulator itself: seeds repeat, findings shrink."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter

import pytest
from quarterjack.errors import QuarterjackError
from quarterjack.fires.backpressure import read_hold_log

from tests.support import simulate
from tests.support.histories import simulator
from tests.support.histories.history import History
from tests.support.histories.pressed import Pressed
from tests.support.histories.purged import Purged
from tests.support.histories.rich import Rich
from tests.support.histories.shrink import shrink
from tests.support.histories.simulator import HOSTILE, NONE, ROUGH, WILD, Process, Stage, Stuck
from tests.support.parts import in_parts, in_rotation

KNOWN = (0, 1, 2, 3, 4, 20, 21, 22, 43, 64, 68, 107)  # of all kinds
PARTS = 6  # `make test` plays one, `make check` all


@in_parts(PARTS)
def test_a_history_breaks_no_promise(part: int) -> None:
    for seed in KNOWN[part::PARTS]:
        assert executions_of(seed) > 0
    today = itertools.count(int(time.time()))  # in a brief history nothing may be due: then the next one is played
    assert any(executions_of(seed) > 0 for seed in itertools.islice(today, 5))


def executions_of(seed: int) -> int:
    found = simulate.play(seed)
    assert found.violations == [], f"python -m tests.support.simulate --only {seed}"
    assert found.calls > 100
    return found.executions


def test_a_seed_is_a_history_with_everything_in_it() -> None:
    one, other = Rich(9, HOSTILE), Rich(9, HOSTILE)
    assert one.judged() == other.judged() == []
    assert one.stage.struck == other.stage.struck
    assert list(one.seen.leases) == list(other.seen.leases)
    kinds = {kind for kind, _ in one.stage.struck}
    assert kinds >= {"fail", "lose", "throttle", "repeat", "delay", "crash before", "paced", "act create", "act pause"}


def test_a_script_of_all_strikes_is_the_same_history() -> None:
    whole, again = Rich(6, WILD), Rich(6, WILD)
    whole.judged()
    again.stage.script = frozenset(whole.stage.struck)
    again.judged()
    assert (again.stage.struck, again.stage.calls) == (whole.stage.struck, whole.stage.calls)


@in_rotation(of=6)
def test_pressed_histories_hold_their_queue_back_and_lose_nothing() -> None:
    spells = 0
    for seed, faults in ((1, ROUGH), (1, WILD), (8, NONE), (1, HOSTILE)):
        history = Pressed(seed, faults)
        assert history.judged() == []
        spells += len(read_hold_log(history.stage.memory.connect()).of(None).periods)
    assert spells >= 3


@in_rotation(of=6)
def test_after_a_purge_the_ledger_alone_brings_everything_back() -> None:
    counts = Counter[str]()
    for seed, faults in ((1, HOSTILE), (2, ROUGH), (3, WILD), (4, NONE)):
        history = Purged(seed, faults)
        assert history.judged() == []
        counts += history.stage.counts
    assert counts["purged messages"] > 20
    assert counts["sent again"] > 20


def while_it_goes_on(stage: Stage) -> None:
    while stage.step():
        pass


def test_who_waits_for_a_lock_that_another_holds_over_a_call_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "LIMIT", 0.2)
    stage, lock = Stage(1, 0, NONE), threading.Lock()

    def body(_: Process) -> None:
        with lock:
            stage.yield_until(0)

    for _ in range(2):
        stage.process("worker", body)
    with pytest.raises(Stuck, match=r"worker-\d does not hand the baton back"):
        while_it_goes_on(stage)


class Toy(History):
    """It breaks if two certain faults strike, out of a hundred."""

    def judged(self) -> list[str]:
        struck = {number for number in range(1, 101) if self.stage.strikes("fail", 90 * self.stage.faults.fail)}
        return [f"broken: {sorted(struck)[:1]}"] if {17, 60} <= struck else []


def test_what_breaks_is_shrunk_to_what_is_needed() -> None:
    found = shrink(lambda: Toy(1, ROUGH))
    assert found is not None
    assert found.strikes == [("fail", 17), ("fail", 60)]
    assert found.violations == ["broken: [17]"]
    assert shrink(lambda: Toy(1, NONE)) is None, "nothing broke"


def test_a_defect_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("in the flow")

    monkeypatch.setattr("tests.support.histories.history.tick", broken)
    (found,) = simulate.play(1).violations
    assert "ZeroDivisionError" in found
    assert not issubclass(ZeroDivisionError, QuarterjackError)
