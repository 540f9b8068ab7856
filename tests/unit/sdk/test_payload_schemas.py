"""A job's JSON Schema holds at every door, for callers that have the job and for those that know its name only, and at the worker."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from random import uniform
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel
from quarterjack import Context, Redact, Registry, Retry, RunState, Scheduler
from quarterjack.daemon.worker_record import job_sets
from quarterjack.declare import declaration
from quarterjack.domain.job_catalogue import PublishedJob, sets_of
from quarterjack.errors import InvalidInput, JobError, UnknownJobWarning
from quarterjack.extras import install_remedy
from quarterjack.owner import job_terms
from quarterjack.owner.catalogue import CataloguePublisher
from quarterjack.payload_types import schema as engine
from quarterjack.payload_types.schema import PayloadSchema
from quarterjack.testing import Harness

from tests.support.payload_schemas import SCHEMAS, payloads
from tests.support.scenes.world import Faults, fails

NIGHT = "0 3 * * *"
ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string"},
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"qty": {"type": "integer", "minimum": 1}}},
        },
        "pin": {"type": "string", "writeOnly": True, "minLength": 6},
    },
}
STRICTER = ORDER | {"required": ["id", "day"]}
GOOD, BAD = {"id": "1", "items": [{"qty": 2}]}, {"id": "1", "items": [{"qty": "two"}]}
REFUSAL = "payload.items.0.qty='two': does not fit the schema of 'place'; give an integer"
OUTGROWN = r"payload\.day=<missing>: 'place' needs it; add it"


class Shop:
    """A job with a schema, an application that has it, and one that knows its name only."""

    def __init__(self, schema: dict[str, Any] = ORDER, **words: Any) -> None:
        self.jobs, self.got = Registry(), list[Any]()

        @self.jobs.job("place", schema=schema, retry=Retry(max_attempts=3, base=1.0), **words)
        def place(ctx: Context, payload: Any) -> None:
            self.got.append(payload)

        self.jobs.job("plain")(lambda ctx, payload: None)
        self.harness = Harness(self.jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
        self.unaware = self.application()
        self.callers = {"has the job": self.harness.scheduler, "knows its name": self.unaware}

    def application(self, faults: Faults | None = None, **words: Any) -> Scheduler:
        services = self.harness.memory.connect() if faults is None else self.harness.memory.connect(faults)
        return Scheduler(jobs=Registry(), services=services, clock=self.harness.clock, **words)

    def publish(self) -> None:
        """As a worker does that starts now."""
        CataloguePublisher(self.harness.memory.connect(), lambda now: job_sets(self.jobs, now)).publish(
            self.harness.clock()
        )

    def change(self, schema: dict[str, Any] | None, *, publish: bool = True) -> object:
        """Deploy the job with another schema, and let a minute pass."""
        self.harness.advance(seconds=1)  # of two that came at the same instant neither is the newer one
        made = None if schema is None else PayloadSchema(schema)
        self.jobs._jobs["place"] = replace(self.jobs._jobs["place"], schema=made)
        if publish:
            self.publish()
        return self.harness.advance(minutes=1)


@pytest.fixture
def shop() -> Shop:
    return Shop()


def dead(shop: Shop) -> str:
    """The id of a run that failed for its payload."""
    run = shop.unaware.submit("place", GOOD, delay=30)
    shop.change(STRICTER)
    assert shop.unaware.get_run(run.id).state is RunState.DEAD
    return run.id


def old_schedule(shop: Shop) -> object:
    """A schedule with a payload that has not fitted since the job was deployed anew."""
    shop.unaware.create_schedule("s", "place", NIGHT, payload=GOOD)
    shop.harness.advance(days=3)
    shop.change(STRICTER)
    return shop


def backfill(shop: Shop, caller: Scheduler, **words: Any) -> object:
    end = shop.harness.clock.now()
    return caller.backfill("s", end.replace(day=end.day - 2), end, allow_repeat=True, **words)


def scheduled(shop: Shop) -> object:
    shop.unaware.create_schedule("s", "place", NIGHT, payload=GOOD)
    shop.harness.advance(days=3)
    return shop


Door = Callable[[Shop, Scheduler], object]
NEW: dict[str, Door] = {
    "submit": lambda shop, caller: caller.submit("place", BAD),
    "create": lambda shop, caller: caller.create_schedule("new", "place", NIGHT, payload=BAD),
    "upsert": lambda shop, caller: caller.upsert_schedule("new", "place", NIGHT, payload=BAD),
    "update": lambda shop, caller: [scheduled(shop), caller.update_schedule("s", payload=BAD)],
    "trigger": lambda shop, caller: [scheduled(shop), caller.trigger("s", payload=BAD)],
    "replay": lambda shop, caller: caller.replay_run(dead(shop), payload=BAD | {"day": 1}),
    "redrive": lambda shop, caller: caller.redrive(dead(shop), payload=BAD | {"day": 1}),
    "redrive of a job": lambda shop, caller: [dead(shop), caller.redrive(job="place", payload=BAD | {"day": 1})],
    "backfill": lambda shop, caller: [scheduled(shop), backfill(shop, caller, payload=BAD)],
    "backfill, in earnest": lambda shop, caller: [scheduled(shop), backfill(shop, caller, payload=BAD, dry_run=False)],
}
STORED: dict[str, Door] = {
    "trigger": lambda shop, caller: [old_schedule(shop), caller.trigger("s")],
    "update": lambda shop, caller: [old_schedule(shop), caller.update_schedule("s", expression="0 4 * * *")],
    "replay": lambda shop, caller: caller.replay_run(dead(shop)),
    "redrive": lambda shop, caller: caller.redrive(dead(shop)),
    "backfill": lambda shop, caller: [old_schedule(shop), backfill(shop, caller)],
    "update of the job": lambda shop, caller: [
        caller.create_schedule("s", "plain", NIGHT, payload=GOOD),
        shop.change(STRICTER),
        caller.update_schedule("s", job="place"),
    ],
}
CALLERS = ("has the job", "knows its name")


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("door", NEW)
def test_a_new_payload_is_checked_at_every_door(shop: Shop, door: str, caller: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        NEW[door](shop, shop.callers[caller])
    assert str(refused.value) == REFUSAL
    assert (refused.value.field, refused.value.value) == ("payload.items.0.qty", "two")
    assert [run for run in shop.harness.runs() if run.state is RunState.QUEUED and run.schedule is None] == []


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("door", STORED)
def test_a_payload_that_no_longer_fits_is_refused_where_it_is_used_again(shop: Shop, door: str, caller: str) -> None:
    with pytest.raises(InvalidInput, match=OUTGROWN):
        STORED[door](shop, shop.callers[caller])


@pytest.mark.parametrize("caller", CALLERS)
def test_what_fits_passes_every_door(shop: Shop, caller: str) -> None:
    owner = shop.callers[caller]
    run = owner.submit("place", GOOD)
    owner.create_schedule("s", "place", NIGHT, payload=GOOD)
    owner.upsert_schedule("s", "place", NIGHT, payload=GOOD | {"id": "2"})
    owner.update_schedule("s", payload=GOOD)
    owner.trigger("s")
    owner.trigger("s", payload=GOOD)
    shop.harness.advance(days=3)
    owner.replay_run(run.id)
    assert owner.bulk("trigger", job="place", payload=GOOD).count == 1
    backfill(shop, owner, dry_run=False, payload=GOOD, current=True)
    shop.harness.advance(hours=1)
    assert {run.state for run in shop.harness.runs() if run.job == "place"} <= {RunState.SUCCEEDED, RunState.QUEUED}
    assert len(shop.got) >= 8


@pytest.mark.parametrize("caller", CALLERS)
def test_one_request_for_many_says_which_do_not_fit(shop: Shop, caller: str) -> None:
    owner = shop.callers[caller]
    run = dead(shop)
    owner.create_schedule("b", "plain", NIGHT)
    owner.create_schedule("s", "place", NIGHT, payload=GOOD | {"day": 1})
    assert "payload.day=<missing>" in owner.redrive(job="place").failed[run]
    done = owner.bulk("trigger", state="ACTIVE", payload={"day": 1})
    assert (list(done.done), list(done.failed)) == (["b"], ["s"])
    assert done.failed["s"] == "payload.id=<missing>: 'place' needs it; add it"
    found = declaration(place="here", name="d", job="place", expression=NIGHT, payload=BAD | {"day": 1})
    (change,) = owner.compare_declared([found], managed_by="here").changes
    assert (change.act, change.why) == ("refused", REFUSAL)


def test_a_schedule_can_be_described_paused_and_deleted_though_its_payload_no_longer_fits(shop: Shop) -> None:
    old_schedule(shop)
    shop.unaware.update_schedule("s", description="old", tags={"a": "b"})
    shop.unaware.pause_schedule("s")
    shop.unaware.resume_schedule("s")
    shop.unaware.update_schedule("s", payload=GOOD | {"day": 1}, expression="0 5 * * *")
    shop.unaware.delete_schedule("s")


# At the worker.


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_payload_that_no_longer_fits_is_a_failure_for_good_that_says_where(isolation: str) -> None:
    shop = Shop(isolation=isolation)
    shop.unaware.create_schedule("s", "place", NIGHT, payload=GOOD)
    run = shop.unaware.submit("place", GOOD | {"pin": "12345678"}, delay=30)
    shop.change({"properties": {"pin": {"maxLength": 3, "writeOnly": True}}}, publish=False)
    found = shop.unaware.get_run(run.id)
    assert (found.state, found.reason, found.attempt, found.error_type) == (
        RunState.DEAD,
        "failed for good",
        1,
        "InvalidInput",
    )
    assert (
        found.error == "payload.pin=[redacted]: does not fit the schema of 'place'; give a text of at most 3 characters"
    )
    shop.change(STRICTER)
    (fired,) = [run for run in shop.harness.advance(days=1) if run.schedule == "s"]
    assert fired.error == "payload.day=<missing>: 'place' needs it; add it"
    assert shop.got == []


@dataclass
class Order:
    n: int


def test_a_type_and_a_schema_hold_both() -> None:
    jobs, got = Registry(), list[Any]()

    @jobs.job("place", schema={"properties": {"n": {"maximum": 3}}})
    def place(ctx: Context, payload: Order) -> None:
        got.append(payload)

    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
    harness.scheduler.submit("place", {"n": 3})
    with pytest.raises(InvalidInput, match=r"payload\.n=4: .*; give a value of at most 3"):
        harness.scheduler.submit("place", {"n": 4})
    with pytest.raises(InvalidInput, match=r"payload\.n='3'"):
        harness.scheduler.submit("place", {"n": "3"})
    harness.advance()
    assert got == [Order(3)]


# A typed payload, whose schema is published, too.


@dataclass
class Line:
    sku: str
    qty: int = 1


@dataclass
class Basket:
    id: str
    lines: list[Line] = field(default_factory=list)
    day: date | None = None


class Letter(BaseModel):
    to: str
    copies: int = 1


class Typed(Shop):
    def __init__(self) -> None:
        super().__init__()
        self.jobs.job("buy")(self.buy)
        self.jobs.job("post")(self.post)
        self.harness.advance(seconds=1)
        self.publish()

    def buy(self, ctx: Context, payload: Basket) -> None:
        self.got.append(payload)

    def post(self, ctx: Context, payload: Letter) -> None:
        self.got.append(payload)


@pytest.mark.parametrize(
    ("job", "payload", "field"),
    [
        ("buy", {"id": "1", "lines": [{"sku": "a", "qty": 2}], "day": "2026-12-24"}, None),
        ("buy", {"id": "1", "lines": [{"sku": "a", "qty": "two"}]}, "payload.lines.0.qty"),
        ("buy", {"id": 1}, "payload.id"),
        ("buy", {"lines": []}, "payload.id"),
        ("buy", {"id": "1", "lnes": []}, "payload.lnes"),
        ("buy", {"id": "1", "lines": [{"sku": "a", "color": "red"}]}, "payload.lines.0.color"),
        ("buy", None, "payload"),
        ("post", {"to": "Ada", "copies": "3", "color": "red"}, None),
        ("post", {"copies": 3}, "payload.to"),
        ("post", {"to": ["Ada"]}, "payload.to"),
    ],
)
def test_who_knows_the_name_only_is_refused_as_who_has_the_job(job: str, payload: Any, field: str | None) -> None:
    shop = Typed()
    for owner in shop.callers.values():
        if field is None:
            owner.submit(job, payload)
            continue
        with pytest.raises(InvalidInput) as refused:
            owner.create_schedule("s", job, NIGHT, payload=payload)
        assert refused.value.field == field
    shop.harness.advance()
    assert len(shop.got) == (2 if field is None else 0)


@pytest.mark.parametrize("caller", CALLERS)
def test_a_stored_payload_may_have_fields_that_the_type_has_no_more(caller: str) -> None:
    shop = Typed()
    owner, old = shop.callers[caller], {"id": "1", "color": "red"}
    shop.unaware.create_schedule("s", "plain", NIGHT, payload=old)
    owner.update_schedule("s", job="buy")
    run = owner.trigger("s")
    shop.harness.advance()
    owner.replay_run(run.id)
    shop.harness.advance()
    assert shop.got == [Basket("1")] * 2
    with pytest.raises(InvalidInput, match=r"payload\.color='red': 'buy' has no such field"):
        owner.replay_run(run.id, payload=old)


# A caller that knows the name only.


def test_a_new_schema_counts_after_a_minute_and_costs_a_query_a_minute(shop: Shop) -> None:
    faults = Faults()
    owner = shop.application(faults)
    for _ in range(180):
        owner.submit("place", GOOD)
        shop.harness.advance(seconds=1)
    assert faults.verbs().count("records") == 3
    shop.jobs._jobs["place"] = replace(shop.jobs._jobs["place"], schema=PayloadSchema(STRICTER))
    shop.publish()
    shop.harness.advance(minutes=1)
    with pytest.raises(InvalidInput, match=OUTGROWN):
        owner.submit("place", GOOD)
    shop.change(None)
    owner.submit("place", BAD)


def test_a_trigger_reads_the_payload_only_if_there_is_a_schema(shop: Shop) -> None:
    shop.unaware.create_schedule("s", "place", NIGHT, payload=GOOD)
    shop.unaware.create_schedule("p", "plain", NIGHT, payload=GOOD)
    faults = Faults()
    owner = shop.application(faults)
    owner.trigger("p")
    plain, faults.calls[:] = len(faults.calls) - faults.verbs().count("records"), []
    owner.trigger("s")
    assert len(faults.calls) <= plain + 1


def test_a_catalogue_that_cannot_be_read_leaves_it_to_the_worker(shop: Shop) -> None:
    faults = Faults().at("records", before=fails, times=None)
    run = shop.application(faults).submit("place", BAD)
    shop.harness.advance()
    assert shop.unaware.get_run(run.id).error == REFUSAL


def test_one_that_could_be_read_before_still_counts(shop: Shop) -> None:
    faults = Faults()
    owner = shop.application(faults)
    owner.submit("place", GOOD)
    faults.at("records", before=fails, times=None)
    shop.harness.advance(minutes=5)
    with pytest.raises(InvalidInput):
        owner.submit("place", BAD)


def test_without_the_engine_the_worker_decides_and_that_is_said_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_terms, "is_engine_installed", lambda: False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs = [shop.unaware.submit("place", BAD) for _ in range(3)]
        shop.unaware.acting_as("alice").submit("place", BAD)
    (said,) = caught
    assert said.category is UnknownJobWarning
    assert "job='place': payloads are checked by its worker only, because jsonschema-rs is not installed here" in str(
        said.message
    )
    assert install_remedy("typed") in str(said.message)
    shop.harness.advance()
    assert {shop.unaware.get_run(run.id).error for run in runs} == {REFUSAL}


def test_a_job_with_a_schema_is_refused_without_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "is_engine_installed", lambda: False)
    with pytest.raises(
        JobError, match=r"^job='place': its schema needs jsonschema-rs, which is not installed; pip install"
    ):
        Registry().job("place", schema={})


@pytest.mark.parametrize(
    "foreign", [{"$ref": "http://127.0.0.1:9/x"}, {"pattern": "(a)\\1"}, {"later": 1}, 7, {"type": 5}]
)
def test_a_published_schema_that_this_release_cannot_use_is_left_to_the_worker(shop: Shop, foreign: Any) -> None:
    one = PublishedJob(name="foreign", schema=foreign)
    CataloguePublisher(shop.harness.memory.connect(), lambda now: [*sets_of([one], None, now)]).publish(
        shop.harness.clock()
    )
    shop.harness.advance(minutes=1)
    for _ in range(2):
        shop.unaware.submit("foreign", BAD)


def test_a_caller_is_not_shown_what_the_job_would_mask() -> None:
    """Which fields a job masks is not published: so a caller that has not got the job is shown no value at all."""
    shop = Shop(redact=Redact(fields=("items",)))
    for owner in shop.callers.values():
        with pytest.raises(InvalidInput) as refused:
            owner.submit("place", {"id": "1", "items": [{"qty": "secret two"}]})
        assert str(refused.value).startswith("payload.items.0.qty=[redacted]: ")
        assert "secret two" not in repr(vars(refused.value))


def test_the_listed_job_shows_its_schema(shop: Shop) -> None:
    shown = {job.name: job.payload_schema for job in shop.unaware.jobs()}
    assert shown == {"place": ORDER, "plain": None}


# Notices.


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("field", ["on_failure", "on_recovery"])
def test_a_job_that_cannot_take_a_notice_is_told_before_the_first_incident(shop: Shop, caller: str, field: Any) -> None:
    options: Any = {field: "job:place"}
    said = rf"{field}='job:place': this job does not take notices \(payload\.id=<missing>: 'place' needs it; add it\); name a job"
    owner = shop.callers[caller].strictly(strict=False)
    with pytest.warns(UnknownJobWarning, match=said):
        owner.create_schedule("s", "plain", NIGHT, **options)
    with pytest.raises(InvalidInput, match=said):
        owner.strictly().create_schedule("t", "plain", NIGHT, **options)


def test_a_job_that_can_take_one_is_accepted() -> None:
    notice = {
        "type": "object",
        "required": ["kind", "tenant", "schedule", "at"],
        "properties": {"at": {"format": "date-time"}},
    }
    shop = Shop(notice)
    for number, owner in enumerate(shop.callers.values()):
        owner.create_schedule(f"s{number}", "plain", NIGHT, on_failure="job:place", on_recovery="job:place")


# Fifty schemas at the doors.


@pytest.mark.parametrize("name", SCHEMAS)
def test_fifty_schemas_at_the_doors_and_at_the_worker(name: str) -> None:
    """Whoever calls, by whichever door: refused or run as the schema says; and old schedules under the new schema, too."""
    fitted, shop = PayloadSchema(SCHEMAS[name]), Shop({})
    drawn = list(payloads(SCHEMAS[name], seed=7 + len(name), count=10))
    for number, payload in enumerate(drawn):
        shop.unaware.create_schedule(f"old-{number}", "place", "32 8 * * *", payload=payload)
    shop.change(SCHEMAS[name])
    ended = {run.schedule: run for run in shop.harness.advance(minutes=2)}
    end = shop.harness.clock.now()
    for number, payload in enumerate(drawn):
        run = ended[f"old-{number}"]
        assert run.state is (RunState.SUCCEEDED if fitted.fits(payload) else RunState.DEAD), payload
        assert run.attempt == 1
        for caller in shop.callers.values():
            doors: dict[str, Callable[[], object]] = {
                "submit": partial(caller.submit, "place", payload),
                "create": partial(caller.create_schedule, uuid4().hex, "place", NIGHT, payload=payload),
                "upsert": partial(caller.upsert_schedule, "s", "place", NIGHT, payload=payload),
                "update": partial(caller.update_schedule, f"old-{number}", timeout=uniform(1, 9)),
                "trigger": partial(caller.trigger, f"old-{number}"),
                "trigger, new": partial(caller.trigger, "old-0", payload=payload),
                "replay": partial(caller.replay_run, run.id),
                "replay, new": partial(caller.replay_run, ended["old-0"].id, payload=payload),
                "backfill": partial(caller.backfill, f"old-{number}", end - timedelta(days=1), end, current=True),
            }
            if run.state is RunState.DEAD:
                doors["redrive"] = partial(caller.redrive, run.id)
            for door, enter in doors.items():
                assert refused_field(enter).startswith("payload") != fitted.fits(payload), (door, payload)


def refused_field(enter: Callable[[], object]) -> str:
    """What is refused; empty: nothing."""
    try:
        enter()
    except InvalidInput as problem:
        return problem.field
    return ""
