"""What the SDK refuses, it refuses at the call: the field, the value and the remedy named, and nothing written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from quarterjack import Registry, Retry, RunState, Scheduler
from quarterjack.arguments import MAX_PAYLOAD
from quarterjack.errors import ExpressionError, InvalidInput, JobError, NotFound

from tests.support.scenes.world import Faults, World, at

Call = Callable[[Scheduler], object]

NAIVE = datetime(2026, 5, 4, 12, 0)  # noqa: DTZ001 (that is the point)
HALF = "\ud83d"  # half a surrogate pair: no text that a table takes
LOOP: list[Any] = []
LOOP.append(LOOP)


def create(**changes: Any) -> Call:
    given: dict[str, Any] = {"name": "new", "job": "note", "expression": "* * * * *"}
    return lambda owner: owner.create_schedule(**(given | changes))


def update(**changes: Any) -> Call:
    return lambda owner: owner.update_schedule("s", **changes)


def submit(**changes: Any) -> Call:
    given: dict[str, Any] = {"job": "note"}
    return lambda owner: owner.submit(**(given | changes))


BAD_NAMES: list[Any] = ["", "a b", "a#b", "a~b", "ä", "x" * 201, None, 7, b"x", "a\n", "a\x00"]
BAD_JSON: list[Any] = [{1, 2}, object(), float("nan"), float("inf"), b"x", {"x": NAIVE}, {(1, 2): 3}, LOOP]
LARGE = "x" * (MAX_PAYLOAD + 1)
BAD_RETRIES: list[Any] = [3, {"max_attempts": 3}, "often"]
BAD_SECONDS: list[Any] = [-1, float("nan"), float("inf"), True, "10", 15 * 86_400]

REFUSED: list[tuple[Call, str]] = [
    *((create(name=name), "name") for name in BAD_NAMES),
    *((create(job=job), "job") for job in [*BAD_NAMES, "nowhere", "Note"]),
    *(
        (create(expression=text), "expression")
        for text in ("", "* * * *", "61 * * * *", "rate(0 minutes)", "at(never)")
    ),
    (create(expression="at(2020-01-01T00:00:00)"), "expression"),
    (create(expression="0 0 30 2 *"), "expression"),
    *((create(timezone=name), "timezone") for name in ("", "Mars/Olympus", "localtime", "../etc/passwd", "CEST")),
    *((create(payload=payload), "payload") for payload in [*BAD_JSON, LARGE, "日" * (MAX_PAYLOAD // 3)]),
    *((create(description=text), "description") for text in (None, 7, "x" * 1_001, HALF)),
    *((create(tags=tags), "tags") for tags in (7, ["a"], {"": "x"}, {"a": 1}, {1: "a"}, {"a": "x" * 201}, {"a": HALF})),
    (create(tags={str(number): "" for number in range(51)}), "tags"),
    *((create(delivery=word), "delivery") for word in ("", "exactly", "AT_MOST_ONCE", 7)),
    *((create(start=word), "start") for word in ("", "soon", 7)),
    *((create(retry=retry), "retry") for retry in BAD_RETRIES),
    *((create(timeout=seconds), "timeout") for seconds in BAD_SECONDS),
    *((create(deadline=seconds), "deadline") for seconds in BAD_SECONDS),
    *((update(job=job), "job") for job in ("", "nowhere", 7)),
    (update(expression="61 * * * *"), "expression"),
    (update(timezone="Mars/Olympus"), "timezone"),
    *((update(payload=payload), "payload") for payload in [*BAD_JSON, LARGE]),
    (update(description=HALF), "description"),
    (update(tags={"a": 1}), "tags"),
    (update(delivery="exactly"), "delivery"),
    (update(retry=3), "retry"),
    *((submit(job=job), "job") for job in [*BAD_NAMES, "nowhere"]),
    *((submit(payload=payload), "payload") for payload in [*BAD_JSON, LARGE]),
    *((submit(run_at=moment), "run_at") for moment in (NAIVE, "tomorrow", 7, at(0).date(), at(200 * 366 * 86_400))),
    (submit(run_at=at(5), delay=5), "delay"),
    *((submit(delay=delay), "delay") for delay in (-1, timedelta(seconds=-1), float("nan"), "5", True, 10**300)),
    *((submit(idempotency_key=key), "idempotency_key") for key in BAD_NAMES if key is not None),
    *((submit(retry=retry), "retry") for retry in BAD_RETRIES),
    (submit(start="soon"), "start"),
    (lambda owner: owner.pause_schedule("a b"), "name"),
    (lambda owner: owner.pause_schedule("s", reason="x" * 1_001), "reason"),
    (lambda owner: owner.pause_schedule("s", reason=HALF), "reason"),
    (lambda owner: owner.resume_schedule("a b"), "name"),
    (lambda owner: owner.delete_schedule("a b"), "name"),
    (lambda owner: owner.get_schedule("a b"), "name"),
    *(
        ((lambda owner, run_id=run_id: owner.get_run(run_id)), "run_id")
        for run_id in ("", "x", "acme/s", "acme/s#", "#1", "acme/s#1#2", "acme/a b#1", None, 7)
    ),
    *(((lambda owner, n=n: owner.list_schedules(limit=n)), "limit") for n in (0, -1, 1_001, True, "5", 2.5)),
    (lambda owner: owner.list_schedules(state="SLEEPING"), "state"),  # type: ignore[arg-type]
    *(((lambda owner, p=p: owner.list_schedules(prefix=p)), "prefix") for p in (7, None, "a b", "x" * 201)),
    *(((lambda owner, c=c: owner.list_schedules(cursor=c)), "cursor") for c in (7, "a b", "x" * 201)),
    (lambda owner: owner.list_schedules(prefix="b", cursor="a"), "cursor"),
    *(
        ((lambda owner, t=t: owner.list_schedules(tag=t)), "tag")
        for t in (7, (), ("a", 1), ("a", "b", "c"), HALF, "x" * 201)
    ),
    *(((lambda owner, f=f: owner.list_schedules(failing=f)), "failing") for f in (1, 0, "yes")),
    (lambda owner: owner.list_schedules(job="a b"), "job"),
    (lambda owner: owner.list_schedules(managed_by=""), "managed_by"),
    *(((lambda owner, n=n: owner.preview("s", n)), "count") for n in (0, 1_001, "5")),
    (lambda owner: owner.upsert_schedule("s", "note", "* * * * *", managed_by="a b"), "managed_by"),
    *(((lambda owner, n=n: owner.list_runs("s", limit=n)), "limit") for n in (0, 1_001)),
    (lambda owner: owner.list_runs("s", after=NAIVE), "after"),
    (lambda owner: owner.list_runs("s", before=NAIVE), "before"),
    *(((lambda owner, c=c: owner.list_runs("s", cursor=c)), "cursor") for c in ("x", "", 7)),
    (lambda owner: owner.list_runs("a b"), "name"),
]


@pytest.mark.parametrize(("call", "field"), REFUSED, ids=[f"{i}-{field}" for i, (_, field) in enumerate(REFUSED)])
def test_bad_input_is_refused_by_name_and_nothing_is_written(call: Call, field: str) -> None:
    world, faults = World(), Faults()
    world.scheduler.create_schedule("s", "note", "0 18 * * *")
    with pytest.raises(InvalidInput) as refused:
        call(world.owner(faults))
    assert refused.value.field == field
    text = str(refused.value)
    assert text.startswith(f"{field}=")
    assert "; " in text, "a remedy"
    assert len(text) < 500, "a value is shown in short"
    assert faults.count("PutItem", "UpdateItem", "TransactWriteItems", "BatchWriteItem", "SendMessageBatch") == 0
    assert faults.count("PutObject") == 0


@pytest.mark.parametrize("tenant", [name for name in BAD_NAMES if name is not None] + ["a/b", "x" * 65, "a:b", "a@b"])
def test_a_tenant_has_its_alphabet(tenant: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^tenant=.*use 1 to 64"):
        Scheduler(tenant, services=World().process())


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "team:report@daily/2026", "x" * 200])
def test_a_good_name_is_taken(name: str) -> None:
    world = World()
    assert world.scheduler.create_schedule(name, "note", "0 18 * * *").name == name
    assert world.scheduler.get_schedule(name).name == name
    assert world.scheduler.submit("note", idempotency_key=name).id == f"acme/~{name}#once"


@pytest.mark.parametrize(
    "payload",
    [
        None,
        0,
        -1.5,
        "",
        "text \u2028 \U0001f600",
        [],
        {},
        {"a": [1, {"b": None}], "ä": True},
        "x" * 60_000,
        "x" * (MAX_PAYLOAD - 2),
        "日" * ((MAX_PAYLOAD - 2) // 3),
        "\ufffe\uffff\x7f",
        2**70,
        (1, 2),
    ],
)
def test_whatever_json_can_say_arrives_as_it_was(payload: Any) -> None:
    world, seen = World(), []
    world.jobs.job("see")(lambda ctx, given: seen.append(given))
    world.scheduler.submit("see", payload)
    world.scheduler.create_schedule("s", "see", "at(2026-05-04T12:00:01)", payload=payload)
    world.wait(1)
    world.work()
    expected = list(payload) if isinstance(payload, tuple) else payload
    assert seen == [expected, expected]
    assert world.scheduler.get_schedule("s").payload == expected


def test_an_unknown_job_is_told_with_its_neighbours() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'note'"):
        World().scheduler.submit("nota")


def test_jobs_that_only_workers_know_may_be_named() -> None:
    owner = Scheduler("acme", jobs=Registry(), services=World().process())
    assert owner.submit("elsewhere").job == "elsewhere"
    with pytest.raises(InvalidInput):
        owner.submit("else where")


def test_an_expression_says_where_it_is_wrong() -> None:
    with pytest.raises(ExpressionError) as refused:
        World().scheduler.create_schedule("s", "note", "0 9 * * 1-9")
    assert refused.value.position == 8


def test_a_job_of_another_tenant_is_not_there() -> None:
    world = World()
    other = Scheduler("other", jobs=world.jobs, services=world.process(), clock=world.clock)
    mine = world.scheduler.submit("note")
    world.scheduler.create_schedule("s", "note", "0 18 * * *")
    for call in (
        lambda: other.get_run(mine.id),
        lambda: other.cancel_run(mine.id),
        lambda: other.get_schedule("s"),
        lambda: other.pause_schedule("s"),
        lambda: other.delete_schedule("s"),
        lambda: other.list_runs("s"),
    ):
        with pytest.raises(NotFound, match="'other'"):
            call()
    assert other.list_schedules().items == []


def test_a_second_job_of_a_name_is_refused() -> None:
    world = World()
    with pytest.raises(JobError, match="'note' is declared twice"):
        world.jobs.job("note")(lambda ctx, payload: None)


@pytest.mark.parametrize("attempts", [0, -1, 1_001, True, 2.0, "3", None])
def test_a_retry_has_whole_attempts(attempts: Any) -> None:
    with pytest.raises(InvalidInput, match="max_attempts"):
        Retry(max_attempts=attempts)


@pytest.mark.parametrize("payload", [HALF, {"name": HALF}, {HALF: 1}, ["fine", [HALF]]])
def test_a_payload_with_half_a_character_is_refused(payload: object) -> None:
    """Neither a terminal nor an exported file could show it: one such schedule would stop the export of all."""
    world = World()
    with pytest.raises(InvalidInput, match=r"payload=.*has half of a surrogate pair"):
        world.scheduler.submit("note", payload)
    with pytest.raises(InvalidInput, match=r"payload=.*has half of a surrogate pair"):
        world.scheduler.create_schedule("s", "note", "@daily", payload=payload)
    assert world.scheduler.list_schedules().items == []


@pytest.mark.parametrize("payload", ["\ud83d\ude00", "\\ud83d", "\U0001f600"])
def test_whole_characters_and_backslashes_are_accepted(payload: str) -> None:
    assert World().scheduler.submit("note", payload).state is RunState.QUEUED
