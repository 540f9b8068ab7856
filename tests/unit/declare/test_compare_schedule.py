"""``compare_schedule`` says of one schedule what an upsert would change, and ``keep_payload`` leaves its payload alone."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.apply.plan import ApplyAction
from quarterjack.declare import declaration
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.testing import Harness

from tests.support.api import NOON, greeting_jobs


@pytest.fixture
def scheduler() -> Scheduler:
    made = Harness(greeting_jobs(), at=NOON).scheduler
    made.create_schedule("a", "greet", "0 * * * *", payload={"to": "Ada"}, timeout=30.0)
    return made


def declared(**words: Any) -> Any:
    return declaration(
        place="test", **{"name": "a", "job": "greet", "expression": "0 * * * *", "timeout": 30.0, **words}
    )


def test_it_tells_what_an_upsert_would_change_and_writes_nothing(scheduler: Scheduler) -> None:
    change = scheduler.compare_schedule(declared(payload={"to": "Bob"}, overlap="skip"))
    assert change.act is ApplyAction.UPDATE
    assert dict(change.fields) == {"payload": ({"to": "Ada"}, {"to": "Bob"}), "overlap": (None, "skip")}
    assert scheduler.get_schedule("a").revision == change.revision == 1
    assert scheduler.compare_schedule(declared(payload={"to": "Ada"})).act is ApplyAction.UNCHANGED
    assert scheduler.compare_schedule(declared(name="b")).act is ApplyAction.CREATE


def test_the_owner_is_not_compared(scheduler: Scheduler) -> None:
    scheduler.upsert_schedule("a", "greet", "0 * * * *", payload={"to": "Ada"}, timeout=30.0, managed_by="acme")
    assert scheduler.compare_schedule(declared(payload={"to": "Ada"})).act is ApplyAction.UNCHANGED


def test_a_queue_that_does_not_exist_is_refused(scheduler: Scheduler) -> None:
    change = scheduler.compare_schedule(declared(queue="nowhere"))
    assert change.act is ApplyAction.REFUSED
    assert "nowhere" in change.why


def test_a_kept_payload_is_neither_compared_nor_changed(scheduler: Scheduler) -> None:
    assert scheduler.compare_schedule(declared(), keep_payload=True).act is ApplyAction.UNCHANGED
    done = scheduler.upsert_schedule("a", "greet", "5 * * * *", keep_payload=True)
    assert done.change == "updated"
    found = scheduler.get_schedule("a")
    assert (found.payload, found.expression) == ({"to": "Ada"}, "5 * * * *")
    assert "timeout" not in found.definition


def test_there_is_no_payload_to_keep_of_a_schedule_that_does_not_exist(scheduler: Scheduler) -> None:
    with pytest.raises(NotFound, match="no payload to keep"):
        scheduler.upsert_schedule("b", "greet", "5 * * * *", keep_payload=True)
    with pytest.raises(InvalidInput, match="keep_payload"):
        scheduler.upsert_schedule("a", "greet", "5 * * * *", payload={"to": "x"}, keep_payload=True)
