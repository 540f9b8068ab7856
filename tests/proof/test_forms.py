"""Releases side by side: what one writes the other reads, leaves or passes over, and never loses or mangles."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import boto3
import pytest
from quarterjack import Scheduler
from quarterjack.auditor.audit import audit
from quarterjack.aws import BatchBackoff
from quarterjack.domain.message import MESSAGE_SCHEMA, SCHEMA, decode, decode_letter
from quarterjack.domain.run import WAITING, RunState
from quarterjack.domain.times import from_ms
from quarterjack.dynamodb.items import to_row
from quarterjack.errors import TooNew
from quarterjack.fires.context import FAR
from quarterjack.fires.flow.wait_queue import read_permits
from quarterjack.local.cloud import LocalCloud
from quarterjack.ports.queues import RawMessage
from quarterjack.services import connect
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.stores.records import record_of
from quarterjack.stores.rows import run_of
from quarterjack.stores.tenants.schedule_counts import count_of
from quarterjack.testing import ManualClock
from quarterjack.testing.cloud import fresh_settings
from quarterjack.testing.process import Hand, make_worker
from quarterjack.ticker.tick import TickReport, tick
from quarterjack.undertaker.bury import bury_one

from tests.support import forms
from tests.support.released import LINE

pytestmark = pytest.mark.cloud
LATER: dict[str, Any] = {"later": {"N": "1.5"}, "later_text": {"S": "x"}, "later_map": {"M": {"a": {"L": []}}}}
NEWER = {"v": {"N": str(SCHEMA + 1)}}


class Installation:
    """The local cloud, with items and messages as some release wrote them."""

    def __init__(self, cloud: LocalCloud, kept: dict[str, list[Any]]) -> None:
        self.settings = fresh_settings(cloud)
        self.clock = ManualClock(forms.START + timedelta(minutes=36))
        self.services = connect(self.settings, backoff=BatchBackoff(wait=lambda seconds: None))
        self.owner = Scheduler(
            "acme", settings=self.settings, jobs=forms.jobs(), services=self.services, clock=self.clock
        )
        self.raw = forms.Story(self.settings).client()
        for table in ("schedules", "revisions", "agenda", "runs", "history"):
            for item in kept[table]:
                own = {"tables": {"S": self.settings.prefix}} if "tables" in item else {}  # else they count as restored
                self.put(table, item | own)

    def put(self, table: str, item: dict[str, Any]) -> None:
        self.raw.put_item(TableName=self.settings.table(table), Item=forms.as_stored(item))

    def items(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.raw.scan(TableName=self.settings.table(table))["Items"]
        return found

    def send(self, bodies: list[str]) -> None:
        sqs = boto3.client("sqs", endpoint_url=self.settings.endpoint, region_name=self.settings.region)
        url = sqs.get_queue_url(QueueName=f"{self.settings.prefix}-work")["QueueUrl"]
        for body in bodies:
            sqs.send_message(QueueUrl=url, MessageBody=body)

    def live(self, minutes: int) -> list[TickReport]:
        reports = []
        for _ in range(minutes):
            reports.append(tick(self.services, clock=self.clock, holder="ticker"))
            self.clock.advance(timedelta(minutes=1))
            worker = make_worker(self.services, forms.jobs(), self.clock, wait=lambda s: None)
            while Hand(worker=worker, together=True).work():
                worker.deletions.flush()
        return reports


@pytest.fixture(params=forms.releases())
def kept(request: pytest.FixtureRequest) -> dict[str, list[Any]]:
    return forms.kept(request.param)


@pytest.fixture
def there(local_cloud: LocalCloud, kept: dict[str, list[Any]]) -> Installation:
    return Installation(local_cloud, kept)


def with_extras(items: list[Any]) -> list[Any]:
    return [item | LATER for item in items]


def of_later(kept: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """What a later release writes that only adds."""
    bodies = [json.dumps({**json.loads(body), "later": [1]}) for body in kept["messages"]]
    return {name: bodies if name == "messages" else with_extras(items) for name, items in kept.items()}


# What the present code writes.


def test_this_release_writes_the_forms_that_are_kept_of_it(local_cloud: LocalCloud) -> None:
    """A form that differs: can the older release read it, or leave it? Then ``python -m tests.support.forms --write``."""
    written = forms.Story(fresh_settings(local_cloud)).tell()
    known = forms.kept(LINE)
    for name, items in written.items():
        assert forms.shapes(items) == forms.shapes(known[name]), name


# What an earlier release wrote.


def test_every_item_of_a_release_is_read(there: Installation, kept: dict[str, list[Any]]) -> None:
    schedules, agenda = there.services.schedules, there.services.agenda
    assert len(list(schedules.scan_heads("", limit=1_000)[0])) == len(kept["schedules"])
    keys = [(item["owner"]["S"], int(item["number"]["N"])) for item in kept["revisions"]]
    answer = schedules.revisions(keys)
    assert len(answer.found) + len(answer.frozen) == len(keys)
    assert answer.broken == {}
    pages = [agenda.due(shard, upto=FAR, after=None, limit=1_000) for shard in range(agenda.layout().shards)]
    assert [key for page in pages for key in page.broken] == []
    cap = ConcurrencyCap(tenant="delta", job="work", most=1)
    (lined,) = agenda.due(cap.wait_queue, upto=FAR, after=None, limit=1_000).entries
    assert (lined.run.tenant, lined.shard) == ("delta", cap.wait_queue)
    assert sum(len(page.entries) for page in pages) == len(kept["agenda"]) - 2, "all but the config and the line's"
    assert read_permits(cap, there.services).sent
    rows = [to_row(item) for item in kept["runs"]]
    assert all(run_of(row) for row in rows if "state" in row and "rev" in row)
    assert all(record_of(row).version for row in rows if "body" in row)
    assert {row["key"] for row in rows if str(row["owner"]).endswith("/~limits")} == {
        "~rate~runs",
        "~schedules",
        "~waiting_runs",
        "~kept_bytes",
    }, "of tenant delta"
    assert there.services.usage.count("delta") == next(count_of(row) for row in rows if row["key"] == "~schedules")
    assert there.owner.list_dead(since=forms.START, include_redriven=True).items
    for run in there.owner.list_runs("daily").items:
        assert there.owner.get_run(run.id).id == run.id
    assert there.owner.list_backfills("late")
    assert there.owner.describe_schedule("stops").revisions
    over = (RunState.SUCCEEDED, RunState.DEAD)
    found = there.owner.list_runs(state=over, since=forms.START, limit=1_000).items
    assert {run.id for run in found} == {
        str(run_of(row).ref) for row in rows if row.get("state") in over and "rev" in row
    }
    assert {job.name for job in there.owner.jobs()} == set(forms.jobs().names())


def test_every_message_of_a_release_is_read(kept: dict[str, list[Any]]) -> None:
    for body in kept["messages"]:
        letter = decode_letter(body)
        message = decode(body if letter is None else letter.body)
        assert decode(message.encode()) == message


@pytest.mark.parametrize("later", [False, True], ids=["as it was", "as a later release adds to it"])
def test_what_was_in_flight_goes_on(local_cloud: LocalCloud, kept: dict[str, list[Any]], later: bool) -> None:
    """Rows, entries and messages of the other release, half way through everything; then this one takes over."""
    there = Installation(local_cloud, of_later(kept) if later else kept)
    there.owner.thaw()
    bodies = [body for body in (of_later(kept) if later else kept)["messages"] if "letter" not in json.loads(body)]
    there.send(bodies)
    began = there.clock()
    reports = there.live(4)
    assert sum(report.handled.agenda.failed + report.unavailable for report in reports) == 0
    report = audit(there.services, clock=there.clock, segments=0)
    assert (report.failed, report.rearmed, report.unclaimed) == (0, 0, 0)
    assert there.owner.list_runs("daily", after=from_ms(began)).items, "its chain goes on"
    runs = [there.services.ledger.read(decode(body).run) for body in bodies]
    waiting = [run for run in runs if run is not None and run.state in WAITING and run.not_before < began]
    assert waiting == [], "what was on its way has come"


def test_what_a_later_release_added_survives_our_writes(local_cloud: LocalCloud, kept: dict[str, list[Any]]) -> None:
    there = Installation(local_cloud, of_later(kept))
    there.owner.thaw()
    there.live(3)
    there.owner.update_schedule("daily", description="other")
    there.owner.pause_schedule("late")
    there.owner.resume_schedule("stops")
    for head in there.items("schedules"):
        assert LATER.items() <= head.items(), head["name"]
    for revision in there.items("revisions"):
        key = {name: revision[name] for name in ("owner", "number")}
        if any(key.items() <= item.items() for item in kept["revisions"]) and revision["number"]["N"] != "0":
            assert LATER.items() <= revision.items(), "closed, and as it was"
    there_now = {(row["owner"]["S"], row["key"]["S"]): row for row in there.items("runs")}
    for item in kept["runs"]:
        row = there_now.get((item["owner"]["S"], item["key"]["S"]))
        if row is not None and "version" not in row:  # records are read and written whole, by their version
            assert LATER.items() <= row.items(), row["key"]


def test_a_message_is_sent_on_with_what_a_later_release_added(kept: dict[str, list[Any]]) -> None:
    for body in of_later(kept)["messages"]:
        if "letter" not in json.loads(body):
            assert json.loads(decode(body).encode())["later"] == [1]


# What only a later release can read.


@pytest.mark.parametrize("table", ["revisions", "agenda", "runs", "schedules"])
def test_items_of_a_later_schema_are_left_and_stop_nothing(
    local_cloud: LocalCloud, kept: dict[str, list[Any]], table: str
) -> None:
    """All of schedule ``late`` that lies in one table is of a later schema; ``daily`` goes on, and of ``late`` nothing is touched."""
    items = [item | NEWER if "acme/late" in json.dumps(item) or item.get("name") == {"S": "late"} else item
             for item in kept[table]]  # fmt: skip
    there = Installation(local_cloud, kept | {table: items})
    there.owner.thaw()
    good = there.owner.submit("work")
    began = there.clock()
    reports = there.live(12)
    assert sum(report.handled.agenda.quarantined + report.handled.agenda.failed for report in reports) == 0, (
        "it is nobody's failure"
    )
    assert there.owner.list_runs("daily", after=from_ms(began)).items, "its chain goes on"
    assert there.owner.get_run(good.id).state is RunState.SUCCEEDED
    audit(there.services, clock=there.clock, segments=1)
    now = {json.dumps(item, sort_keys=True) for item in there.items(table)}
    newer = [json.dumps(item, sort_keys=True) for item in items if "v" in item]
    assert newer
    assert [item for item in newer if item not in now] == [], "as the later release left it"


def test_the_undertaker_leaves_a_letter_of_a_later_schema(there: Installation, kept: dict[str, list[Any]]) -> None:
    """It used to drop it as unreadable: the run would have waited for the auditor, and its failure would never have been listed."""
    (letter,) = [json.loads(body) for body in kept["messages"] if "letter" in json.loads(body)]
    newer_message = json.dumps(json.loads(letter["body"]) | {"v": MESSAGE_SCHEMA + 1})
    for body in (
        json.dumps(letter | {"letter": SCHEMA + 1}),
        json.dumps(letter | {"body": newer_message}),
        newer_message,
    ):
        with pytest.raises(TooNew, match="this release reads"):
            bury_one(RawMessage(body=body, receipt="r", receives=1, id="m"), there.services, there.clock)
