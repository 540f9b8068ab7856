"""Poison in queues and tables: it stops no other. A good schedule and a good one-off beside it run, and every process survives."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from quarterjack.auditor.audit import audit
from quarterjack.domain.message import DeadLetter, encode_letter
from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.run import RunState
from quarterjack.domain.times import MINUTE
from quarterjack.errors import QuarterjackError, Unreadable
from quarterjack.testing.process import Hand
from quarterjack.undertaker.bury import bury_one

from tests.support.parts import in_parts
from tests.support.scenes.world import NOON, World

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(
        ["", "x", "UTC", "Mars/X", "\ud800", "9" * 300, "acme/s#1", "acme/~k#once", -1, 10**15, 10**40, 1e308]
    ),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["v", "retry", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = ["v", "run", "job", "due", "start", "rev", "not_before", "payload", "payload_ref", "tz", "policies", "fence"]
FIELDS += ["trace", "returned", "unknown_since", "queue", "missed", "backfill", "later"]
CHANGES = st.dictionaries(st.sampled_from(FIELDS), JSON, min_size=1, max_size=3)
GARBAGE = st.text(max_size=40) | JSON.map(json.dumps) | st.just("[" * 100_000)
ATTRIBUTES = [
    "state",
    "rev",
    "job",
    "due",
    "not_before",
    "created_at",
    "fence",
    "attempt",
    "max_attempts",
    "lease_until",
]
ATTRIBUTES += [
    "payload",
    "payload_ref",
    "overrides",
    "progress",
    "error_type",
    "error",
    "backfill",
    "queue",
    "v",
    "later",
]
ROWS = st.dictionaries(
    st.sampled_from(ATTRIBUTES),
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["QUEUED", "RUNNING", "DREAMING", [], {}, 1.5]),
    max_size=6,
)
PARTS = 3  # `make test` plays one, `make check` all
BRIEF = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
)
LONG = settings(BRIEF, max_examples=3_000, derandomize=False)


class Beside(World):
    """A good schedule and a good one-off, due in a minute, and a run whose message and row can be spoilt."""

    def begin(self) -> None:
        self.scheduler.create_schedule("s", "note", "* * * * *")
        self.good = self.scheduler.submit("note", delay=60).id
        self.spoilt = RunRef(
            f"acme/~{self.scheduler.submit('note', idempotency_key='spoilt').id.partition('~')[2][:-5]}", "once"
        )

    def body(self) -> dict[str, Any]:
        (message,) = [message for message in self.memory.messages() if message.run == self.spoilt]
        return dict(json.loads(message.encode()))

    def state(self, ref: RunRef) -> Any:
        return (self.memory.row(ref) or {}).get("state")

    def check(self) -> None:
        """Three minutes later the good ones have run, each once, and the auditor has nothing to say of them."""
        for _ in range(3):
            self.tick()
            self.wait(60)
            hand = Hand(worker=self.worker(), together=True)
            for _ in range(20):
                hand.work()
            self.bury()
        assert self.state(RunRef(*self.good.split("#"))) == RunState.SUCCEEDED
        mine = [start for start in self.started if start.run_id.startswith("acme/s#")]
        assert [start.attempt for start in mine] == [1, 1, 1]
        assert {self.state(fire_ref("acme/s", NOON + i * MINUTE)) for i in (1, 2, 3)} == {RunState.SUCCEEDED}
        audit(self.services, clock=self.clock, segments=1)

    def bury(self) -> None:
        for letter in self.services.dead.receive(most=10, wait=0):
            try:
                bury_one(letter, self.services, self.clock)
            except QuarterjackError:
                continue  # the undertaker says so, and the letter stays
            self.services.dead.delete(letter.receipt)


def spoil_messages(bodies: list[Any]) -> None:
    there = Beside()
    there.begin()
    good = there.body()
    for body in bodies:
        text = body if isinstance(body, str) else json.dumps(good | body)
        there.memory.work.put(text)
        there.memory.dead.put(text)
        there.memory.dead.put(encode_letter(DeadLetter(body=text, reason="spoilt")))
        there.memory.dead.put(json.dumps({"letter": 1, "body": body, "verdict": body}))
    there.check()


def spoil_rows(rows: list[dict[str, Any]], kinds: list[str]) -> None:
    there = Beside()
    there.begin()
    present = there.memory.row(there.spoilt) or {}
    key = {"owner": there.spoilt.owner, "key": there.spoilt.key}
    for number, row in enumerate(rows):
        there.memory.put_row(there.spoilt, {n: v for n, v in (present | row).items() if v is not None} | key)
        beyond = RunRef("acme/s", f"{NOON + (7 + number) * 3_600_000:015d}")
        there.memory.put_row(beyond, row | {"owner": beyond.owner, "key": beyond.key})
        for kind in kinds:
            there.memory.put_row(RunRef("acme/s", kind), row | {"owner": "acme/s", "key": kind})
    there.memory.put_item(0, f"{NOON:015d}#chain#garbage", object())
    there.check()
    for call in (there.scheduler.list_runs, there.scheduler.describe_schedule, there.scheduler.list_backfills):
        call("s")
    with_error = [there.scheduler.get_run, there.scheduler.cancel_run, there.scheduler.retry_run]
    for asked in with_error:
        try:
            asked(str(there.spoilt))
        except QuarterjackError as problem:
            check_kind(problem)


def check_kind(problem: QuarterjackError) -> None:
    assert type(problem) is not QuarterjackError


BODIES = st.lists(CHANGES | GARBAGE, min_size=1, max_size=5)
SPOILT = st.lists(ROWS, min_size=1, max_size=4)
KINDS = st.lists(st.sampled_from(["~backfill~x", "~backfill~y", "~trigger~x"]), max_size=2)


@in_parts(PARTS)
def test_poisoned_messages_stop_no_other(part: int) -> None:
    seed(part)(BRIEF(given(BODIES)(spoil_messages)))()


@in_parts(PARTS)
def test_poisoned_rows_stop_no_other(part: int) -> None:
    seed(part)(BRIEF(given(SPOILT, KINDS)(spoil_rows)))()


@pytest.mark.proof
@LONG
@given(BODIES)
def test_many_poisoned_messages(bodies: list[Any]) -> None:
    spoil_messages(bodies)


@pytest.mark.proof
@LONG
@given(SPOILT, KINDS)
def test_many_poisoned_rows(rows: list[dict[str, Any]], kinds: list[str]) -> None:
    spoil_rows(rows, kinds)


def test_a_run_in_a_state_of_a_later_release_costs_its_neighbours_no_attempt() -> None:
    """It used to hide the answer about all leases of its batch: taken, and unknown to the worker, they cost an attempt each."""
    there = Beside()
    there.begin()
    others = [there.scheduler.submit("note").id for _ in range(5)]
    there.memory.put_row(there.spoilt, (there.memory.row(there.spoilt) or {}) | {"state": "DREAMING"})
    Hand(worker=there.worker(), together=True).work()
    assert sorted(start.run_id for start in there.started) == sorted(others)
    assert {there.state(RunRef(*other.split("#"))) for other in others} == {RunState.SUCCEEDED}


def test_an_odd_run_is_said_to_be_odd() -> None:
    there = Beside()
    there.begin()
    there.memory.put_row(there.spoilt, {"owner": there.spoilt.owner, "key": "once", "state": "QUEUED"})
    with pytest.raises(Unreadable, match="cannot be read"):
        there.scheduler.get_run(str(there.spoilt))
    there.wait(timedelta(minutes=1).total_seconds())
