"""A payload that is annotated with a class is checked at every door, and arrives as what it is annotated with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, Field
from quarterjack import Context, Redact, Registry, Retry, RunState, Scheduler, schedule
from quarterjack.declare import declaration
from quarterjack.errors import InvalidInput
from quarterjack.owner.catalogue import KnownNames
from quarterjack.owner.job_terms import PayloadChecks
from quarterjack.ready_jobs.command import command_job
from quarterjack.ready_jobs.http import http_job
from quarterjack.testing import Harness
from quarterjack.testing.memory.installation import Memory

NIGHT = "0 3 * * *"


@dataclass
class Item:
    sku: str
    qty: int = 1


@dataclass
class Order:
    id: str
    items: list[Item] = field(default_factory=list)
    day: date | None = None
    iban: str = ""


class Page(TypedDict):
    url: str
    depth: NotRequired[int]
    headers: NotRequired[list[Header]]


class Header(TypedDict):
    name: str


class Letter(BaseModel):
    to: str
    copies: int = Field(default=1, gt=0)
    sent: datetime | None = None


class Point(NamedTuple):
    x: int
    y: int = 0


class Shop:
    """Jobs of all kinds, and what they were given."""

    def __init__(self) -> None:
        self.jobs, self.got = Registry(), list[Any]()
        retry = Retry(max_attempts=3, base=1.0)

        @self.jobs.job("place", retry=retry, redact=Redact(fields=("iban",)))
        def place(ctx: Context, payload: Order) -> None:
            self.got.append(payload)

        @self.jobs.job("fetch")
        def fetch(ctx: Context, payload: Page) -> None:
            self.got.append(payload)

        @self.jobs.job("post")
        async def post(ctx: Context, payload: Letter) -> None:
            self.got.append(payload)

        @self.jobs.job("plot")
        def plot(ctx: Context, payload: list[Point] | None) -> None:
            self.got.append(payload)

        @self.jobs.job("plain")
        def plain(ctx: Context, payload: dict[str, Any]) -> None:
            self.got.append(payload)

        self.place, self.fetch, self.post, self.plot, self.plain = place, fetch, post, plot, plain
        self.harness = Harness(self.jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
        self.scheduler = self.harness.scheduler
        self.unaware = Scheduler(  # an application that does not have the jobs
            jobs=Registry(), services=self.harness.memory.connect(), clock=self.harness.clock
        )
        nothing = KnownNames(
            Memory(self.harness.clock).connect(), self.harness.clock
        )  # and cannot read what workers publish
        self.unaware._sources = replace(self.unaware._sources, payloads=PayloadChecks(Registry(), nothing))


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_the_function_gets_what_it_is_annotated_with(shop: Shop) -> None:
    order = Order("1", [Item("a", 2)], date(2026, 1, 2))
    shop.scheduler.submit(shop.place, order)
    shop.scheduler.submit("place", {"id": "2", "items": [{"sku": "b"}]})
    shop.scheduler.submit(shop.fetch, Page(url="u", headers=[Header(name="n")]))
    letter = Letter(to="Ada", sent=datetime(2026, 1, 1, tzinfo=UTC))
    shop.scheduler.submit(shop.post, letter)
    shop.scheduler.submit(shop.plot, [Point(1), Point(2, 3)])
    shop.scheduler.submit(shop.plot)
    shop.scheduler.submit(shop.plain, {"at": 1})
    assert all(run.state is RunState.SUCCEEDED for run in shop.harness.advance())
    assert sorted(shop.got, key=repr) == sorted(
        [
            order,
            Order("2", [Item("b", 1)]),
            {"url": "u", "headers": [{"name": "n"}]},
            letter,
            [Point(1), Point(2, 3)],
            None,
            {"at": 1},
        ],
        key=repr,
    )


def test_what_is_stored_is_json(shop: Shop) -> None:
    run = shop.scheduler.submit(shop.place, Order("1", [Item("a")], date(2026, 1, 2)))
    stored = {"id": "1", "items": [{"sku": "a", "qty": 1}], "day": "2026-01-02", "iban": ""}
    assert shop.scheduler.get_run(run.id).payload == stored
    shop.scheduler.create_schedule("s", shop.place, NIGHT, payload=Order("2"))
    assert shop.scheduler.get_schedule("s").payload == {"id": "2", "items": [], "day": None, "iban": ""}
    shop.scheduler.update_schedule("s", payload=Order("3", day=date(2026, 1, 2)))
    assert shop.scheduler.get_schedule("s").payload == {"id": "3", "items": [], "day": "2026-01-02", "iban": ""}


BAD = {"id": "1", "items": [{"sku": "a", "qty": "two"}]}
GOOD = {"id": "1", "items": [{"sku": "a", "qty": 2}]}
OLD = {"id": "1", "items": [{"sku": "a"}], "day": "yesterday"}  # written before the day was a date


def dead(shop: Shop, payload: Any) -> str:
    """The id of a run that failed for its payload."""
    run = shop.unaware.submit("place", payload)
    shop.harness.advance()
    assert shop.scheduler.get_run(run.id).state is RunState.DEAD
    return run.id


def scheduled(shop: Shop, payload: Any) -> Scheduler:
    shop.unaware.create_schedule("s", "place", NIGHT, payload=payload)
    shop.harness.advance(days=3)
    return shop.scheduler


def backfilled(shop: Shop, **words: Any) -> object:
    end = shop.harness.clock.now()
    return shop.scheduler.backfill("s", end.replace(day=end.day - 2), end, allow_repeat=True, **words)


NEW: dict[str, Callable[[Shop], object]] = {
    "submit": lambda shop: shop.scheduler.submit("place", BAD),
    "submit a function": lambda shop: shop.scheduler.submit(shop.place, BAD),  # type: ignore[arg-type]
    "submit an instance": lambda shop: shop.scheduler.submit(shop.place, Order("1", [Item("a", "two")])),  # type: ignore[arg-type]
    "create": lambda shop: shop.scheduler.create_schedule("new", "place", NIGHT, payload=BAD),
    "upsert": lambda shop: shop.scheduler.upsert_schedule("new", shop.place, NIGHT, payload=BAD),  # type: ignore[arg-type]
    "update": lambda shop: scheduled(shop, GOOD).update_schedule("s", payload=BAD),
    "trigger": lambda shop: scheduled(shop, GOOD).trigger("s", payload=BAD),
    "replay": lambda shop: shop.scheduler.replay_run(dead(shop, OLD), payload=BAD),
    "redrive": lambda shop: shop.scheduler.redrive(dead(shop, OLD), payload=BAD),
    "redrive of a job": lambda shop: [dead(shop, OLD), shop.scheduler.redrive(job=shop.place, payload=BAD)],
    "backfill": lambda shop: [scheduled(shop, GOOD), backfilled(shop, payload=BAD)],
    "backfill, in earnest": lambda shop: [scheduled(shop, GOOD), backfilled(shop, payload=BAD, dry_run=False)],
}


@pytest.mark.parametrize("door", NEW)
def test_a_new_payload_is_checked_at_every_door(shop: Shop, door: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        NEW[door](shop)
    assert str(refused.value) == "payload.items.0.qty='two': does not fit 'place'; give a valid integer"
    assert (refused.value.field, refused.value.value) == ("payload.items.0.qty", "two")
    waiting = [run for run in shop.harness.runs() if run.state is RunState.QUEUED and run.schedule is None]
    assert waiting == []


STORED: dict[str, Callable[[Shop], object]] = {
    "trigger": lambda shop: scheduled(shop, OLD).trigger("s"),
    "replay": lambda shop: shop.scheduler.replay_run(dead(shop, OLD)),
    "redrive": lambda shop: shop.scheduler.redrive(dead(shop, OLD)),
    "backfill": lambda shop: [scheduled(shop, OLD), backfilled(shop)],
    "update of the job": lambda shop: [
        shop.scheduler.create_schedule("s", "plain", NIGHT, payload=OLD),
        shop.scheduler.update_schedule("s", job=shop.place),
    ],
}


@pytest.mark.parametrize("door", STORED)
def test_an_old_payload_is_checked_where_it_is_used_again(shop: Shop, door: str) -> None:
    with pytest.raises(InvalidInput, match=r"payload\.day='yesterday': does not fit 'place'; give a valid date"):
        STORED[door](shop)


def test_a_redrive_of_many_says_which_do_not_fit(shop: Shop) -> None:
    run = dead(shop, OLD)
    done = shop.scheduler.redrive(job="place")
    assert (list(done.runs), list(done.failed)) == ([], [run])
    assert "payload.day" in done.failed[run]


def test_a_bulk_trigger_says_which_do_not_fit(shop: Shop) -> None:
    shop.scheduler.create_schedule("a", shop.place, NIGHT, payload=Order("1"))
    shop.scheduler.create_schedule("b", "plain", NIGHT)
    done = shop.scheduler.bulk("trigger", prefix="", state="ACTIVE", payload={"qty": 1})
    assert list(done.done) == ["b"]
    assert done.failed["a"] == "payload.id=<missing>: 'place' needs it (wrong, too: payload.qty); add it"


def test_an_old_payload_that_fits_goes_again(shop: Shop) -> None:
    """Fields that the class does not have any more are passed over, as the worker does."""
    run = shop.unaware.submit("place", {"id": "1", "color": "red"})
    shop.harness.advance()
    shop.scheduler.replay_run(run.id)
    scheduled(shop, {"id": "1", "color": "red"}).trigger("s")
    shop.harness.advance()
    assert shop.got == [Order("1")] * 6
    with pytest.raises(InvalidInput, match=r"payload\.color='red': 'place' has no such field; leave it out"):
        shop.scheduler.replay_run(run.id, payload={"id": "1", "color": "red"})


def test_declared_schedules_are_checked_when_they_are_applied(shop: Shop) -> None:
    found = declaration(place="here", name="s", job="place", expression=NIGHT, payload=BAD)
    (change,) = shop.scheduler.compare_declared([found], managed_by="here").changes
    assert change.act == "refused"
    assert "payload.items.0.qty='two'" in change.why


def test_a_decorator_takes_an_instance() -> None:
    jobs = Registry()

    @schedule(NIGHT, payload=Order("1", day=date(2026, 1, 1)), registry=jobs)
    @jobs.job("place")
    def place(ctx: Context, payload: Order) -> None:
        pass

    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
    plan = harness.scheduler.compare_declared(jobs.declared(), managed_by="here")
    assert harness.scheduler.carry_out(plan).done == 1
    assert harness.scheduler.get_schedule("place").payload["day"] == "2026-01-01"


def test_the_worker_fails_for_good_what_does_not_fit(shop: Shop) -> None:
    run = shop.unaware.submit("place", {"id": 1, "iban": "DE02120300000000202051", "items": [{}]})
    shop.harness.advance()
    found = shop.scheduler.get_run(run.id)
    assert (found.state, found.reason, found.attempt, found.error_type) == (
        RunState.DEAD,
        "failed for good",
        1,
        "InvalidInput",
    )
    expected = "payload.id=1: does not fit 'place' (wrong, too: payload.items.0.sku); give a valid string"
    assert found.error == expected
    assert shop.got == []


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (None, "payload=None: does not fit 'place'; give an object"),
        ({}, "payload.id=<missing>: 'place' needs it; add it"),
        ({"id": "1", "items": [{}]}, "payload.items.0.sku=<missing>: 'place' needs it; add it"),
        ({"id": "1", "itmes": []}, "payload.itmes=[]: 'place' has no such field; leave it out, or correct its name"),
        (
            {"id": "1", "iban": 12345678},
            "payload.iban=[redacted]: does not fit 'place'; give a valid string",
        ),
        (
            {"id": {"password": "hunter22"}},
            "payload.id={'password': [redacted]}: does not fit 'place'; give a valid string",
        ),
    ],
)
def test_a_refusal_names_field_value_and_remedy(shop: Shop, payload: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        shop.scheduler.submit("place", payload)
    assert str(refused.value) == said
    assert "hunter22" not in repr(refused.value.value)
    assert refused.value.__cause__ is None


def test_text_is_no_number_but_where_a_model_says_so(shop: Shop) -> None:
    with pytest.raises(InvalidInput, match=r"payload\.depth='3'"):
        shop.scheduler.submit("fetch", {"url": "u", "depth": "3"})
    shop.scheduler.submit("post", {"to": "Ada", "copies": "3"})
    shop.harness.advance()
    assert shop.got == [Letter(to="Ada", copies=3)]
    with pytest.raises(InvalidInput, match=r"payload\.copies=0: does not fit 'post'; give a value greater than 0"):
        shop.scheduler.submit("post", {"to": "Ada", "copies": 0})


def test_a_check_gets_the_converted_payload() -> None:
    jobs, seen = Registry(), list[Any]()

    @jobs.job("place", check=seen.append)
    def place(ctx: Context, payload: Order) -> None:
        pass

    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
    harness.scheduler.submit(place, Order("1"))
    assert seen == [Order("1")]


# The function in place of the name.


def test_wherever_a_job_is_named_its_function_will_do(shop: Shop) -> None:
    owner = shop.scheduler
    run = owner.submit(shop.place, Order("1"))
    owner.create_schedule("s", shop.place, NIGHT, payload=Order("1"))
    owner.update_schedule("s", job=shop.post, payload=Letter(to="Ada"))
    assert owner.get_schedule("s").job == "post"
    assert [found.name for found in owner.list_schedules(job=shop.post).items] == ["s"]
    assert owner.list_schedules(job=shop.place).items == []
    shop.harness.advance()
    assert [found.id for found in owner.list_runs(job=shop.place).items] == [run.id]
    assert owner.list_dead(job=shop.place).items == []
    assert owner.redrive(job=shop.place, dry_run=True).runs == []
    assert owner.purge(job=shop.place) == 0
    assert [found.job for found in owner.stats(job=shop.place)] == ["place"]
    assert owner.bulk("pause", job=shop.post).count == 1
    assert owner.workers(job=shop.place).items == []


@pytest.mark.parametrize("call", ["submit", "create", "list"])
def test_a_function_that_is_no_job_is_refused(shop: Shop, call: str) -> None:
    def stranger(ctx: Context, payload: Any) -> None:
        pass

    calls: dict[str, Callable[[], object]] = {
        "submit": lambda: shop.scheduler.submit(stranger),
        "create": lambda: shop.scheduler.create_schedule("s", stranger, NIGHT),
        "list": lambda: shop.scheduler.list_schedules(job=stranger),
    }
    with pytest.raises(
        InvalidInput, match=r"stranger.*is not registered as a job in this process; decorate it with @job"
    ):
        calls[call]()


def test_a_function_with_two_names_is_not_guessed(shop: Shop) -> None:
    shop.jobs.job("also")(shop.plain)
    with pytest.raises(InvalidInput, match="is registered as also and plain; pass one of these names"):
        shop.scheduler.submit(shop.plain, {})


def test_ready_jobs_are_functions_too() -> None:
    jobs = Registry()
    command = command_job("command", registry=jobs)
    call = http_job("call", url="https://example.com", registry=jobs)
    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
    run = harness.scheduler.submit(command, {"argv": ["true"]}, delay=3600)
    assert (run.job, harness.scheduler.create_schedule("s", call, NIGHT, payload={}).job) == ("command", "call")
    (done,) = harness.advance(hours=1)
    assert done.state is RunState.SUCCEEDED


def test_a_class_method_is_a_function_too() -> None:
    jobs = Registry()

    class Mailer:
        @jobs.job("mail")
        @classmethod
        def mail(cls, ctx: Context, payload: Letter) -> str:
            return payload.to

    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
    harness.scheduler.submit(Mailer.mail, Letter(to="Ada"))
    assert [run.state for run in harness.advance()] == ["SUCCEEDED"]


@dataclass
class Narrow:
    x: int


@dataclass
class Wide:
    x: int
    y: int | None = None


@pytest.mark.parametrize(
    ("annotation", "payload", "got"),
    [
        (Narrow | dict[str, Any], {"x": 1, "y": 2}, {"x": 1, "y": 2}),
        (Narrow | dict[str, Any], {"x": 1}, Narrow(1)),
        (list[Narrow | dict[str, Any]], [{"x": 1, "y": 2}, {"x": 1}], [{"x": 1, "y": 2}, Narrow(1)]),
        (Annotated[Narrow | Wide, Field(union_mode="left_to_right")], {"x": 1, "y": 2}, Wide(1, 2)),
    ],
)
def test_the_worker_takes_the_member_of_a_union_that_the_door_took(annotation: Any, payload: Any, got: Any) -> None:
    jobs, seen = Registry(), list[Any]()

    def take(ctx: Context, payload: Any) -> None:
        seen.append(payload)

    take.__annotations__["payload"] = annotation
    jobs.job("take")(take)
    harness = Harness(jobs, at=datetime(2036, 5, 4, tzinfo=UTC))
    harness.scheduler.submit("take", payload)
    harness.advance(seconds=1)
    assert seen == [got], "no field is lost on the way"


def test_a_function_that_is_two_jobs_is_refused_by_the_name_that_was_called() -> None:
    jobs = Registry()

    def take(ctx: Context, payload: Narrow) -> None: ...

    for name in ("one", "two"):
        jobs.job(name)(take)
    scheduler = Harness(jobs, at=datetime(2036, 5, 4, tzinfo=UTC)).scheduler
    for name in ("one", "two"):
        with pytest.raises(InvalidInput, match=f"does not fit '{name}'"):
            scheduler.submit(name, {"x": "text"})
