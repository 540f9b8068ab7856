"""The archive: what a batch stores, and what is read of it."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack import Scheduler, errors
from quarterjack.domain.history.archive_objects import INBOX, hour_prefix, keys_between, object_key
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.history.transition_line import TransitionKind
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND, from_ms
from quarterjack.historian.archive import BUSY, ArchiveFilter, archive, archive_found, read_archive
from quarterjack.testing import ManualClock
from quarterjack.testing.memory.calls import Detail, Hook
from quarterjack.testing.memory.installation import Memory

from tests.support.builders import NOON, a_one_off, a_run
from tests.support.transitions import context_of, heartbeat, in_batches, life

ALL = ArchiveFilter(since=0, until=NOON + 1000 * DAY)


@pytest.fixture
def memory() -> Memory:
    return Memory(ManualClock(from_ms(NOON)))


def scheduler_of(memory: Memory, tenant: str = "acme", *, at: int = NOON) -> Scheduler:
    return Scheduler(tenant, services=memory.connect(), clock=ManualClock(from_ms(at)))


def store(memory: Memory, changes: Sequence[RunChange], batch: str = "shard-1") -> None:
    archive(changes, context_of(memory.connect(), batch))


def kinds(found: Any) -> list[str]:
    return [str(each.kind) for each in found]


def busy(run: RunRow, count: int = BUSY, *, sequence: int = 1_000) -> list[RunChange]:
    """So many transitions of a run within a second."""
    leased = life(run, sequence=sequence)[1]
    return [replace(leased, sequence=sequence + number) for number in range(count)]


def test_small_tenants_share_an_object_of_the_inbox(memory: Memory) -> None:
    runs = [a_run(NOON, owner=f"{tenant}/report") for tenant in ("acme", "beta")]
    store(memory, [change for run in runs for change in life(run)])
    ((key, content),) = memory.archived.items()
    assert key.startswith(f"{INBOX}{NOON - 90 * SECOND:015d}-{NOON + 5 * SECOND:015d}-shard-1-")
    assert key.endswith(".jsonl.gz")
    first = json.loads(gzip.decompress(content).splitlines()[0])
    assert first["run"].startswith("acme/report#")
    assert set(first) >= {"sequence", "at", "kind", "after", "revision", "fence", "attempt", "due", "job", "schedule"}


def test_a_busy_tenant_has_an_object_for_each_hour(memory: Memory) -> None:
    later = a_run(NOON + HOUR)
    store(memory, [*busy(a_run()), *busy(later, sequence=5_000), *life(a_run(owner="beta/report"))])
    day = f"{from_ms(NOON):%Y-%m-%d}"
    hours = [f"{from_ms(NOON + later):%H}" for later in (0, HOUR)]
    parts = sorted(key.partition("-shard-1-")[0] for key in memory.archived if not key.startswith(INBOX))
    assert parts == [f"archive/tenant=acme/day={day}/{hour}" for hour in hours]
    assert len(memory.archived) == 3
    assert len(list(read_archive(memory.connect().archive, "acme", ALL))) == 2 * BUSY


def test_a_repeated_delivery_overwrites_itself(memory: Memory) -> None:
    changes = life()
    store(memory, changes)
    before = dict(memory.archived)
    store(memory, changes)
    assert memory.archived == before


def test_half_a_batch_takes_nothing_from_the_whole(memory: Memory) -> None:
    """A stream delivers a batch in halves after a failure, the first of which has the name of the whole."""
    changes = life()
    store(memory, changes)
    store(memory, changes[:1])
    assert kinds(read_archive(memory.connect().archive, "acme", ALL)) == ["claimed", "leased", "succeeded"]


def test_a_batch_without_a_transition_stores_nothing(memory: Memory) -> None:
    store(memory, [heartbeat(life()[1], sequence=7)])
    assert memory.archived == {}


def test_without_a_bucket_the_archive_is_off(memory: Memory) -> None:
    services = memory.connect()
    services.archive.is_on = False  # type: ignore[misc]
    archive(life(), context_of(services))
    assert memory.archived == {}
    scheduler = Scheduler("acme", services=services, clock=ManualClock(from_ms(NOON + 1)))
    with pytest.raises(errors.Misconfigured, match=r"QUARTERJACK_BUCKET is not set.*set it to"):
        scheduler.archive(since=from_ms(NOON))


def test_a_bucket_that_does_not_answer_fails_the_batch() -> None:
    class Down(Hook):
        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            if operation == "PutObject":
                raise errors.Unavailable("PutObject: SlowDown")
            return ()

    memory = Memory(ManualClock(from_ms(NOON)))
    with pytest.raises(errors.Unavailable):
        archive(life(), context_of(memory.connect(Down())))


@given(
    st.lists(st.integers(0, 3 * HOUR // MINUTE), min_size=1, max_size=8, unique=True),
    st.integers(1, 7),
    st.integers(0, 2**32),
)
def test_what_was_delivered_is_read_once_and_in_order(minutes: list[int], most: int, seed: int) -> None:
    """However often batches, halves of them, and in which order."""
    memory = Memory(ManualClock(from_ms(NOON)))
    chance = random.Random(seed)
    changes = [
        change
        for place, minute in enumerate(minutes)
        for change in life(a_run(NOON + minute * MINUTE), sequence=1 + 10 * place, lasts=chance.randrange(90 * MINUTE))
    ]
    changes.sort(key=lambda change: change.sequence)
    batches = list(in_batches(changes, most))
    halves = [(f"{name}", part[: len(part) // 2 + 1]) for name, part in batches if chance.random() < 0.5]
    again = [batch for batch in batches if chance.random() < 0.5]
    delivered = [*batches, *halves, *again]
    chance.shuffle(delivered)
    for name, part in delivered:
        store(memory, part, name)
    lines = list(read_archive(memory.connect().archive, "acme", ALL))
    assert [line.order for line in lines] == sorted({line.order for line in lines})
    assert {(line.ref, line.sequence) for line in lines} == {(change.ref, change.sequence) for change in changes}
    middle = NOON + HOUR
    early = list(read_archive(memory.connect().archive, "acme", ArchiveFilter(since=0, until=middle)))
    late = list(read_archive(memory.connect().archive, "acme", ArchiveFilter(since=middle, until=NOON + DAY)))
    assert early + late == lines


def test_an_object_that_is_garbage_hides_no_other(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    store(memory, life())
    for key, content in list(memory.archived.items()):
        for folder in (hour_prefix("acme", NOON), key.partition("shard-1")[0]):
            memory.archived[f"{folder}broken"] = content[: len(content) // 2]
            memory.archived[f"{folder}foreign"] = b"no gzip"
            memory.archived[f"{folder}later"] = gzip.compress(b'{"tenant":"acme","later":1}\n')
        memory.archived[f"{INBOX}foreign"] = b"no gzip"
        memory.archived[f"{INBOX}{0:015d}-{NOON + DAY:015d}-foreign"] = b"no gzip"
    assert kinds(read_archive(memory.connect().archive, "acme", ALL)) == ["claimed", "leased", "succeeded"]
    assert {record.message for record in caplog.records} == {"archive.object_unreadable", "archive.line_unreadable"}


def test_only_the_hours_of_the_range_are_read(memory: Memory) -> None:
    for hour in range(4):
        store(memory, life(a_run(NOON + hour * HOUR + 10 * MINUTE), sequence=10 * hour), f"b{hour}")
        store(memory, busy(a_run(NOON + hour * HOUR)), f"c{hour}")
    asked: list[Any] = []

    class Watch(Hook):
        def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
            if operation == "GetObject":
                asked.extend(detail.items)
            return ()

    start = NOON // HOUR * HOUR + HOUR
    wanted = ArchiveFilter(since=start, until=start + HOUR)
    found = list(read_archive(memory.connect(Watch()).archive, "acme", wanted))
    assert len(found) == 3 + BUSY
    assert len(asked) == 2


def test_the_bounds_of_a_range_meet_its_hours_only() -> None:
    hour = NOON // HOUR * HOUR
    key = object_key("acme", hour + 5 * MINUTE, "b", b"")
    assert all(first < key < last for first, last in [keys_between("acme", hour, hour + 1)])
    assert not keys_between("acme", hour - HOUR, hour)[1] > key
    assert not keys_between("acme", hour + HOUR, hour + 2 * HOUR)[0] < key


@pytest.mark.parametrize("batch", ["../../payloads", "shard/1#2", "x" * 3_000, "ü", ""])
def test_no_batch_leaves_the_folder_of_its_tenant(batch: str) -> None:
    key = object_key("acme", NOON, batch, b"")
    assert key.startswith("archive/tenant=acme/day=")
    assert key.count("/") == 3
    assert len(key) < 400


# The SDK.


def test_the_archive_is_filtered(memory: Memory) -> None:
    dead: dict[str, Any] = {"state": RunState.DEAD, "reason": "failed"}
    store(memory, life(**dead))
    store(memory, life(a_run(NOON, owner="acme/other", job="other"), sequence=10), "b")
    store(memory, life(a_one_off("one"), sequence=20), "c")
    store(memory, life(a_run(NOON, owner="beta/report"), sequence=30), "d")
    scheduler = scheduler_of(memory)
    since = from_ms(NOON - HOUR)
    assert len(list(scheduler.archive(since=since))) == 9
    assert len(list(scheduler.archive(since=since, schedule="other"))) == 3
    assert len(list(scheduler.archive(since=since, job="report"))) == 6
    (end,) = scheduler.archive(since=since, kind="dead")
    assert (end.after, end.reason, end.schedule, end.at) == (RunState.DEAD, "failed", "report", from_ms(NOON + 5_000))
    run_id = str(a_one_off("one").ref)
    assert kinds(scheduler.archive(since=since, run_id=run_id)) == ["submitted", "leased", "succeeded"]
    assert kinds(scheduler.archive(since=since, until=from_ms(NOON), run_id=run_id)) == ["submitted"]
    assert len(list(scheduler_of(memory, "beta").archive(since=since))) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "exploded"}, "kind='exploded': is not a kind of transition; use one of claimed"),
        ({"kind": 7}, "kind=7: is not a kind"),
        ({"schedule": "#"}, "schedule='#'"),
        ({"job": ""}, "job=''"),
        ({"run_id": "x"}, "run_id='x': is not the id of a run"),
        ({"until": from_ms(NOON - 2 * HOUR)}, "until=.*: is not after since"),
        ({"since": from_ms(NOON + 2 * DAY)}, "since=.*: lies ahead"),
    ],
)
def test_bad_arguments_are_refused(memory: Memory, given: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message) as refused:
        scheduler_of(memory).archive(**({"since": from_ms(NOON - HOUR)} | given))
    assert refused.value.remedy


def put(memory: Memory, run: Any) -> None:
    memory.connect().ledger.claim([run])


def test_the_transitions_of_a_run_are_read_from_its_claim_to_its_end(memory: Memory) -> None:
    run = a_run(NOON + 10 * MINUTE, created_at=NOON)
    put(memory, run)
    store(memory, life(run), "a")
    store(memory, life(a_run(NOON + 10 * MINUTE, owner="acme/other"), sequence=50), "b")
    found = scheduler_of(memory, at=NOON + HOUR).transitions(str(run.ref))
    assert kinds(found) == ["claimed", "leased", "succeeded"]
    assert found[0].at == from_ms(NOON)
    assert found[1].worker == "w1"
    assert [each.sequence for each in found] == [f"{number:040d}" for number in (1, 2, 3)]


def test_a_run_that_was_taken_over_has_its_first_claim_too(memory: Memory) -> None:
    run = a_run(NOON, created_at=NOON + 2 * MINUTE, revision=2)
    put(memory, run)
    first = life(a_run(NOON, created_at=NOON - 14 * MINUTE))[0]
    over = RunChange(ref=run.ref, sequence=2, at=NOON + 2 * MINUTE, old=first.new, new=run)
    store(memory, [first, over])
    assert kinds(scheduler_of(memory, at=NOON + 3 * MINUTE).transitions(str(run.ref))) == ["claimed", "taken_over"]


def test_a_run_of_nobody_has_no_transitions(memory: Memory) -> None:
    with pytest.raises(errors.NotFound):
        scheduler_of(memory).transitions(str(fire_ref("beta/report", NOON)))


def test_an_old_transition_outlives_its_run(memory: Memory) -> None:
    store(memory, life())
    long_after = scheduler_of(memory, at=NOON + 300 * DAY)
    found = list(long_after.archive(since=from_ms(NOON) - timedelta(days=1), run_id=str(a_run().ref)))
    assert found[-1].kind == TransitionKind.SUCCEEDED
    assert found[-1].ended_at == from_ms(NOON + 5 * SECOND)


def test_a_run_that_the_stream_did_not_bring_is_archived_as_it_was_found(memory: Memory) -> None:
    services = memory.connect()
    ended, skipped = life()[-1].new, a_run(NOON + MINUTE, state=RunState.SKIPPED, ended_at=NOON + MINUTE)
    waiting = a_one_off("later", due=NOON + DAY, created_at=NOON)
    assert ended is not None
    for _ in range(2):
        archive_found([ended, skipped, waiting], services)
    assert len(memory.archived) == 1
    lines = list(read_archive(services.archive, "acme", ALL))
    assert [line.kind for line in lines] == [TransitionKind.REBUILT] * 3
    assert {(line.ref, line.before, line.after) for line in lines} == {
        (run.ref, None, run.state) for run in (ended, skipped, waiting)
    }
    assert lines[-1].at == NOON + MINUTE
    old = [a_run(NOON - days * DAY, state=RunState.SKIPPED, ended_at=NOON - days * DAY) for days in range(3, 90)]
    archive_found(old, services)
    assert len(list(read_archive(services.archive, "acme", ALL))) == 3 + len(old)
    store(memory, life(), "later")
    assert len(list(read_archive(services.archive, "acme", ALL))) == 6 + len(old), (
        "what the stream brings later is there, too"
    )
