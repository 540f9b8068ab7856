"""A batch is delivered to every consumer; what fails is halved, and a change that cannot be handled stops no other."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from quarterjack.domain.history.run_change import RunChange
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.historian import deliver as delivery
from quarterjack.historian.deliver import MOST_ASIDE, batch_name, deliver
from quarterjack.historian.progress import changes_set_aside
from quarterjack.ports.services import Services
from quarterjack.testing import ManualClock, Memory

from tests.support.builders import NOON, a_run
from tests.support.consumers import Consumer

CLOCK = ManualClock(datetime(2036, 5, 14, tzinfo=UTC))


@pytest.fixture
def services() -> Services:
    return Memory(CLOCK).connect()


def changes(count: int) -> list[RunChange]:
    runs = [a_run(NOON + number) for number in range(count)]
    return [
        RunChange(ref=run.ref, sequence=n + 1, at=CLOCK() - 1_000 * n, old=None, new=run) for n, run in enumerate(runs)
    ]


def consumers(monkeypatch: pytest.MonkeyPatch, *given: Consumer) -> None:
    monkeypatch.setattr(delivery, "CONSUMERS", given)


def refuses(*numbers: int) -> Consumer:
    return Consumer(lambda change: ValueError(f"change {change.sequence}") if change.sequence in numbers else None)


def test_each_consumer_gets_the_batch_once_under_its_name(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, one, other = changes(5), Consumer(), Consumer()
    consumers(monkeypatch, one, other)
    report = deliver(batch, services, CLOCK(), unreadable=2)
    assert one.batches == other.batches == [(batch_name(batch), [1, 2, 3, 4, 5])]
    assert (report.batches, report.changes, report.set_aside, report.unreadable) == (1, 5, 0, 2)
    assert report.delay == 4_000  # of the oldest change
    assert batch_name(batch) == batch_name(changes(9)), "the same when more is delivered with it"
    assert batch_name(batch) != batch_name(batch[1:])


def test_nothing_is_delivered_of_nothing(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    consumers(monkeypatch, never := Consumer())
    assert deliver([], services, CLOCK(), unreadable=1).unreadable == 1
    assert never.batches == []


@pytest.mark.parametrize("bad", range(1, 9))
def test_one_bad_change_is_set_aside_for_its_consumer_alone(
    services: Services, monkeypatch: pytest.MonkeyPatch, bad: int
) -> None:
    consumers(monkeypatch, picky := refuses(bad), plain := Consumer())
    assert deliver(changes(8), services, CLOCK()).set_aside == 1
    assert picky.handled == [number for number in range(1, 9) if number != bad]
    assert plain.handled == list(range(1, 9))
    (aside,) = changes_set_aside(services)
    assert aside["sequence"] == str(bad)
    assert aside["run"] == str(changes(8)[bad - 1].ref)
    assert (aside["consumer"], aside["error"]) == ("consumers", f"ValueError('change {bad}')")


def test_a_half_has_the_name_of_its_first_change(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = changes(4)
    consumers(monkeypatch, picky := refuses(2))
    deliver(batch, services, CLOCK())
    assert picky.batches == [(batch_name(part), [each.sequence for each in part]) for part in (batch[:1], batch[2:])]


@pytest.mark.parametrize("problem", [Unavailable("no answer"), Misconfigured("no bucket")])
def test_a_service_that_fails_stops_the_batch_and_nothing_is_set_aside(
    services: Services, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    consumers(monkeypatch, first := Consumer(), Consumer(lambda change: problem), last := Consumer())
    with pytest.raises(type(problem)):
        deliver(changes(3), services, CLOCK())
    assert (first.handled, last.handled) == ([1, 2, 3], [])
    assert list(changes_set_aside(services)) == []


def test_a_consumer_that_refuses_everything_stops_the_batch(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers(monkeypatch, refuses(*range(100)))
    with pytest.raises(ValueError, match="change 11"):
        deliver(changes(40), services, CLOCK())
    assert len(list(changes_set_aside(services))) == MOST_ASIDE


def test_the_same_batch_again_sets_the_same_changes_aside(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    consumers(monkeypatch, refuses(2))
    for later in (0, 60_000):
        assert deliver(changes(3), services, CLOCK() + later).set_aside == 1
    assert len(list(changes_set_aside(services))) == 1
