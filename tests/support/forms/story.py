"""A story: one installation in the local cloud is brought to hold one of everything."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from quarterjack import Retry, Scheduler, Tenants
from quarterjack.aws import BatchBackoff
from quarterjack.daemon.worker_record import RecordKeeper, catalogue_of
from quarterjack.domain.message import Wait
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.policies import Priority
from quarterjack.domain.tenants.limits import TenantLimits
from quarterjack.domain.tenants.profile import Grant, TenantProfile, TenantState
from quarterjack.fires.claim import message_of
from quarterjack.fires.flow.wait_queue import change_cap, enqueue, put_queue_timer
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.follow import StreamFollower
from quarterjack.historian.progress import (
    ShardPosition,
    StreamGap,
    StreamPosition,
    set_aside,
    write_gap,
    write_position,
)
from quarterjack.owner.app_versions import register
from quarterjack.services import connect
from quarterjack.settings import Settings
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits
from quarterjack.state.tenants.quota import QuotaCount
from quarterjack.state.worker_record import JobNames, WorkerIdentity, WorkerKind
from quarterjack.stores.tables import TABLES
from quarterjack.testing import ManualClock
from quarterjack.testing.process import Hand, make_worker
from quarterjack.ticker.tick import tick
from quarterjack.undertaker.bury import bury_one

from tests.support.forms.jobs import jobs
from tests.support.forms.kept import as_text, shape
from tests.support.forms.waiting import begin_to_wait
from tests.support.open_breakers import open_breaker
from tests.support.released import LINE

START = datetime(2036, 5, 4, 12, 0, tzinfo=UTC)  # what expires by it must not expire under a test
PROFILE = TenantProfile(
    tenant="beta",
    state=TenantState.SUSPENDED,
    jobs=("report.*",),
    grants=(Grant(to="app:alice@acme", can=("operator",), jobs=("report.*",)),),
    queue="bulk",
    limits=TenantLimits(
        runs_per_second=0.5,
        runs_burst=2,
        schedules=10,
        fires_per_hour=1_000,
        waiting_runs=100,
        kept_bytes=10**9,
        concurrent_runs=5,
        concurrency_strict=1,
        job_caps={"work": 1},
        highest_priority=Priority.HIGH,
    ),
    description="Acme Ltd.",
    suspension_reason="unpaid",
    created_at=1,
    updated_at=2,
)


class Story:
    """An installation, and what happens in it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock, self.jobs = ManualClock(START), jobs()
        self.services = connect(settings, backoff=BatchBackoff(wait=lambda seconds: None))
        self.owner = Scheduler("acme", settings=settings, jobs=self.jobs, services=self.services, clock=self.clock)
        self.bodies: dict[str, str] = {}

    def tell(self) -> dict[str, list[Any]]:
        """Let it happen; all items by table, and a message of each shape."""
        owner = self.owner
        for version in ("1", "2"):
            register(version, 0.5, self.services, self.clock())
        owner.create_schedule(
            "daily",
            "work",
            "*/5 * * * *",
            timezone="Europe/Berlin",
            payload={"n": 1},
            description="text",
            tags={"team": "a"},
            retry=Retry(max_attempts=3),
            overlap="buffer_one",
            client_token="t1",
        )
        owner.update_schedule("daily", expression="*/2 * * * *")
        owner.create_schedule(
            "stops",
            "work",
            "0 18 * * *",
            priority="high",
            expect_success_within=7_200.0,
            alert_if_running_longer_than=600.0,
        )
        owner.create_schedule("watched", "work", "0 18 * * *", must_end_by="20:00")
        owner.pause_schedule("stops", reason="why", until=START + timedelta(days=30))
        owner.create_schedule("late", "work", "* * * * *", catch_up="latest", catch_up_window=60)
        owner.trigger("daily", idempotency_key="k1")
        owner.trigger("watched", idempotency_key="k3")
        owner.submit("fails", {"text": "x" * 500})
        owner.submit("work", idempotency_key="k2", timeout=60, deadline=3_600, tags={"customer": "42"})
        owner.submit("vanishes")
        owner.submit("work", delay=90_000, priority="low")
        begin_to_wait(owner, self.jobs)
        self.live(minutes=4)
        begin = START + timedelta(minutes=1)
        owner.backfill(
            "late", begin, begin + timedelta(minutes=1), dry_run=False, concurrency=1, current=True, tags={"a": "b"}
        )
        self.clock.advance(timedelta(minutes=30))
        self.live(minutes=1)
        owner.skip_next("daily")
        owner.freeze(START + timedelta(days=1), reason="quiet")
        self.services.tenants.put(PROFILE, expected=0)
        limits = TenantProfile(tenant="delta", limits=PROFILE.limits)
        self.services.tenants.put(limits, expected=0)
        limited = Scheduler("delta", jobs=self.jobs, services=self.services, clock=self.clock)
        limited.create_schedule("counted", "work", "0 18 * * *")
        waiting = limited.submit("work", delay=90_000)
        usage, part = self.services.usage, QuotaCount(in_use=1, cursor="payloads/delta/runs/delta%2F~x/0")
        usage.take_bytes("delta", 1, 10**9, self.clock(), lambda quota: part)
        self.enqueue(waiting.id)
        open_breaker("delta", "work", self.services, self.clock())
        Tenants(services=self.services, clock=self.clock).reset_breaker("delta", "work")
        Tenants(services=self.services, clock=self.clock).erase("gamma", "gamma", budget=0)
        self.follow()
        return self.items() | {"messages": list(self.bodies.values())}

    def enqueue(self, run_id: str) -> None:
        """A process has the permit of a cap, another run of the wait queue was sent for, and one is in it."""
        cap, now = ConcurrencyCap(tenant="delta", job="work", most=1), self.clock()
        permits = CapPermits(held={f"worker~{now}": (1, now)}, sent={"delta/~other#once": now}, has_queue=True)
        change_cap(cap, lambda _: permits, self.services, lambda: 0)
        run = self.services.ledger.read(parse_run_id(run_id))
        message = None if run is None else message_of(run, self.services)
        assert message is not None
        enqueue(cap, [(message, "m-1")], self.services, self.clock)
        put_queue_timer(cap, self.services, now, now)
        self.note([message.having_waited(Wait.PERMIT).having_waited(Wait.BREAKER).encode()])

    def live(self, minutes: int) -> None:
        for _ in range(minutes):
            tick(self.services, clock=self.clock, holder="ticker")
            self.clock.advance(timedelta(minutes=1))
            self.work()

    def follow(self) -> None:
        """What a historian keeps: pages of the history, its position, a change that it set aside, and a gap."""
        now, (shard, *_) = self.clock(), self.services.stream.shards()
        at = ShardPosition(after="1", at=now)
        write_position(StreamPosition(stream="s", caught_up=now, shards={shard.id: at}), 0, self.services)
        change = self.services.stream.read(shard.id, None).changes[0]
        set_aside(change, "pages", ValueError("odd"), HistorianContext(services=self.services, now=now, batch="b"))
        write_gap(StreamGap(since=now, until=now), self.services)
        follower = StreamFollower(self.services, self.clock)
        while follower.poll().has_more:
            pass

    def work(self) -> None:
        worker = make_worker(self.services, self.jobs, self.clock, wait=lambda s: None)
        queue, receive = self.services.work, self.services.work.receive

        def noted(**asked: Any) -> Any:
            found = receive(**asked)
            self.note(delivery.body for delivery in found)
            return found

        queue.receive = noted  # type: ignore[method-assign]
        catalogue = catalogue_of(self.services, self.jobs)
        keeper = RecordKeeper(self.services, WorkerKind.PROCESS, self.identity, self.clock, catalogue)
        keeper.begin(worker.heartbeat, name="w")
        hand = Hand(worker=worker, together=True)
        while hand.work():
            worker.heartbeat.beat(self.clock())
        keeper.end()
        queue.receive = receive  # type: ignore[method-assign]
        for letter in self.services.dead.receive(most=10, wait=0):
            self.note([letter.body])
            bury_one(letter, self.services, self.clock)
            self.services.dead.delete(letter.receipt)

    def identity(self, now: int) -> WorkerIdentity:
        """A worker that has said all that it can say."""
        return WorkerIdentity(
            name="w",
            kind=WorkerKind.PROCESS,
            host="h",
            version=LINE,
            app_version="1",
            queue="default",
            concurrency=1,
            jobs=JobNames.of(["work"]),
            started_at=now,
        )

    def note(self, bodies: Any) -> None:
        """One body of each shape."""
        for body in bodies:
            self.bodies.setdefault(json.dumps(shape(json.loads(body))), body)

    def items(self) -> dict[str, list[Any]]:
        """Every item of every table."""
        client = self.client()
        return {
            table.suffix: sorted(
                map(as_text, client.scan(TableName=self.settings.table(table.suffix))["Items"]),
                key=lambda item: json.dumps(item, sort_keys=True),
            )
            for table in TABLES
        }

    def client(self) -> Any:
        return boto3.client("dynamodb", endpoint_url=self.settings.endpoint, region_name=self.settings.region)
