"""What wakes parked runs, over every engine: the first signal of a name stays, and the ends of children add up."""

from __future__ import annotations

from quarterjack.domain.names import RunRef
from quarterjack.ports.services import Services
from quarterjack.stores.waits import SignalRow

from tests.support.builders import NOON, a_run

PARENT = a_run().ref
YES = SignalRow(payload='{"ok":true}', at=NOON, actor="app:ada")
LATE = SignalRow(payload=None, at=NOON + 1)


def test_the_first_signal_of_a_name_stays(services: Services) -> None:
    assert services.waits.signal(PARENT, "a") is None
    assert services.waits.put_signal(PARENT, "a", YES)
    assert not services.waits.put_signal(PARENT, "a", LATE)
    assert services.waits.signal(PARENT, "a") == YES
    assert services.waits.put_signal(PARENT, "b", LATE)
    assert services.waits.signal(PARENT, "b") == LATE


def test_the_ends_of_children_add_up(services: Services) -> None:
    assert services.waits.ended(PARENT, [1, 100, 101]) == set()
    for number in (1, 101, 101):
        services.waits.mark_ended(PARENT, number, NOON)
    assert services.waits.ended(PARENT, range(1, 1_000)) == {1, 101}
    assert services.waits.ended(PARENT, [2, 101]) == {101}
    other = RunRef(PARENT.owner, f"{PARENT.key}9")
    assert services.waits.ended(other, [1]) == set()


def test_what_lies_beside_a_run_is_none_of_its_siblings_to_a_job(services: Services) -> None:
    services.waits.put_signal(PARENT, "a", YES)
    services.waits.mark_ended(PARENT, 1, NOON)
    beside = services.siblings.read(PARENT)
    assert (beside.steps, beside.checkpoint, beside.attempts) == ({}, None, ())
