"""Each verdict, asked of the harness: what became of a fire or a run, why, and which evidence says so."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from quarterjack import Answer, Cause, Context, Registry, Retry, Scheduler, Verdict
from quarterjack.domain.job_catalogue import PublishedJob, sets_of
from quarterjack.domain.names import RunRef, parse_run_id
from quarterjack.domain.tenants.profile import TenantProfile
from quarterjack.domain.times import to_ms
from quarterjack.errors import Conflict, InvalidInput, NotFound, Unavailable, UnknownJobWarning
from quarterjack.fires.backpressure import KEY, OWNER
from quarterjack.fires.flow.wait_queue import change_cap
from quarterjack.owner.catalogue import CataloguePublisher
from quarterjack.ready_jobs.command import command_job
from quarterjack.state.backpressure import HoldLog, QueueHolds
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.stores.records import Record
from quarterjack.stores.tables import AUDIT, RUNS
from quarterjack.testing import Detail, Harness, Hook
from quarterjack.ticker.tick import tick
from quarterjack.timing import Rule

from tests.support.open_breakers import open_breaker

MORNING = datetime(2026, 5, 4, 8, tzinfo=UTC)


def at(clock: str, day: int = 4) -> datetime:
    return datetime.fromisoformat(f"2026-05-{day:02}T{clock}+00:00")


@dataclass
class Stage:
    """An installation in memory, with jobs that do as they are told."""

    def __post_init__(self) -> None:
        self.jobs = Registry()
        self.jobs.job("ok")(lambda ctx, payload: None)
        self.jobs.job("bad", retry=Retry(max_attempts=2, base=60.0, jitter=0.0))(self._bad)
        self.jobs.job("long")(self._long)
        self.jobs.job("asks", retry=Retry(max_attempts=5, base=600.0, jitter=0.0))(self._bad)
        self.jobs.job("stumbles", retry=Retry(max_attempts=5, base=660.0, jitter=0.0))(self._stumble)
        self.harness = Harness(self.jobs, at=MORNING, tenant="acme")
        self.scheduler, self.memory = self.harness.scheduler.acting_as("ada"), self.harness.memory
        self.meanwhile: Callable[[Context], object] = lambda ctx: None

    def _bad(self, ctx: Context, payload: object) -> None:
        raise ValueError("boom")

    def _stumble(self, ctx: Context, payload: object) -> None:
        if ctx.attempt == 1 and ctx.scheduled_at.minute == 10:
            raise ValueError("boom")

    def _long(self, ctx: Context, payload: object) -> None:
        self.meanwhile(ctx)
        self.harness.clock.advance(timedelta(minutes=25))

    def create(self, expression: str = "*/10 * * * *", job: str = "ok", **more: object) -> None:
        self.scheduler.create_schedule("s", job, expression, **more)  # type: ignore[arg-type]

    def pass_time(self, minutes: float) -> None:
        self.harness.advance(minutes=minutes)

    def sleep(self, minutes: float) -> None:
        """Nobody ticks and nobody works for some minutes."""
        self.harness.clock.advance(timedelta(minutes=minutes))

    def why(self, clock: str, day: int = 4) -> Answer:
        return self.scheduler.why("s", at(clock, day))

    def row(self, ref: RunRef, **changes: object) -> None:
        """Change attributes of a run's row, as a process would that does not exist here."""
        row = self.memory.row(ref)
        assert row is not None
        self.memory.put_row(ref, row | changes)

    def ref(self, clock: str) -> RunRef:
        return RunRef("acme/s", f"{to_ms(at(clock), 'at'):015d}")


Story = Callable[[Stage], Answer]


# No such fire.


def unmatched(stage: Stage) -> Answer:
    stage.create()
    return stage.why("08:05")


def skipped_by_the_clocks(stage: Stage) -> Answer:
    stage.create("30 2 * * *", timezone="Europe/Berlin")
    stage.harness.run_until(datetime(2026, 10, 26, tzinfo=UTC))
    return stage.scheduler.why("s", datetime(2026, 10, 25, 1, 30, tzinfo=UTC))


def on_a_holiday(stage: Stage) -> Answer:
    stage.create(Rule(expression="0 9 * * *", calendar="DE-BY"))  # type: ignore[arg-type]
    return stage.why("09:00", 14)


def excluded(stage: Stage) -> Answer:
    stage.create(Rule(expression="0 9 * * *", exclude=("weekends",)))  # type: ignore[arg-type]
    return stage.why("09:00", 9)


def after_the_last(stage: Stage) -> Answer:
    stage.create(Rule(expression="0 9 * * *", max_fires=1))  # type: ignore[arg-type]
    stage.harness.run_until(at("12:00", 5))
    return stage.why("09:00", 5)


def spread(stage: Stage) -> Answer:
    stage.create(Rule(expression="0 9 * * *", window=600))  # type: ignore[arg-type]
    return stage.why("09:00")


# Not then.


def before_it_existed(stage: Stage) -> Answer:
    stage.create()
    return stage.why("07:50")


def paused(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(12)
    stage.scheduler.pause_schedule("s", reason="the shop moves", until=at("12:00"))
    stage.pass_time(20)
    return stage.why("08:20")


def paused_and_resumed(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(12)
    stage.scheduler.pause_schedule("s")
    stage.pass_time(3)
    stage.scheduler.update_schedule("s", description="moved", expression="*/5 * * * *")
    stage.pass_time(17)
    stage.scheduler.resume_schedule("s")
    stage.pass_time(20)
    return stage.why("08:20")


def deleted(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(12)
    stage.scheduler.delete_schedule("s")
    return stage.why("08:20")


def paused_then_deleted(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(12)
    stage.scheduler.pause_schedule("s")
    stage.pass_time(12)
    stage.scheduler.delete_schedule("s")
    return stage.why("08:30")


def paused_before_it_was_deleted(stage: Stage) -> Answer:
    paused_then_deleted(stage)
    return stage.why("08:20")


def deleted_twice(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(12)
    stage.scheduler.delete_schedule("s", drain=True)
    stage.pass_time(12)
    stage.scheduler.delete_schedule("s")
    return stage.why("08:20")


def deleted_and_created_anew(stage: Stage) -> Answer:
    paused_then_deleted(stage)
    stage.pass_time(12)
    stage.create()
    return stage.why("08:30")


def cancelled_by_whom(stage: Stage) -> Answer:
    stage.create(job="stumbles", overlap="cancel_other")
    stage.pass_time(25)
    return stage.why("08:10")


def deleted_with_drain(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(12)
    stage.scheduler.delete_schedule("s", drain=True)
    return stage.why("08:20")


def no_longer_there(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(12)
    stage.scheduler.update_schedule("s", expression="0 * * * *")
    stage.pass_time(20)
    return stage.why("08:20")


def not_there_yet(stage: Stage) -> Answer:
    stage.create("0 * * * *")
    stage.pass_time(30)
    stage.scheduler.update_schedule("s", expression="*/10 * * * *")
    return stage.why("08:20")


def taken_back_by_a_change(stage: Stage) -> Answer:
    stage.create("*/2 * * * *")
    stage.pass_time(1)
    stage.scheduler.update_schedule("s", expression="0 * * * *")
    return stage.why("08:02")


def taken_back_with_drain(stage: Stage) -> Answer:
    stage.create("*/2 * * * *")
    stage.pass_time(1)
    stage.scheduler.delete_schedule("s", drain=True)
    stage.scheduler.delete_schedule("s")
    return stage.why("08:02")


def taken_back_by_a_pause(stage: Stage) -> Answer:
    stage.create("*/2 * * * *")
    stage.pass_time(1)
    stage.scheduler.pause_schedule("s")
    return stage.why("08:02")


def long_ago(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(12)
    stage.scheduler.pause_schedule("s")
    stage.harness.clock.advance(timedelta(days=100))
    stage.memory.expire()
    return stage.why("08:10")


def never_claimed(stage: Stage) -> Answer:
    stage.create()
    stage.harness.clock.advance(timedelta(days=100))
    return stage.why("08:10")


# To come.


def about_to_be_taken_over(stage: Stage) -> Answer:
    stage.create("*/2 * * * *")
    stage.pass_time(1)
    stage.scheduler.update_schedule("s", payload={"n": 2})
    stage.row(stage.ref("08:02"), rev=1)  # the ticker has not come to it
    return stage.why("08:02")


def to_come(stage: Stage) -> Answer:
    stage.create()
    return stage.why("08:40")


def to_come_and_claimed(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(8)
    return stage.why("08:10")


def to_come_in_a_freeze(stage: Stage) -> Answer:
    stage.create()
    stage.scheduler.freeze(at("10:00"), reason="we move the database")
    return stage.why("08:40")


def to_come_without_an_entry(stage: Stage) -> Answer:
    stage.create()
    stage.memory.connect().agenda.remove(stage.memory.entries())
    return stage.why("08:40")


# Due.


def not_claimed(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(2)
    stage.sleep(15)
    return stage.why("08:10")


def held_back(stage: Stage) -> Answer:
    answer = not_claimed(stage)
    assert answer.causes == (Cause.TICKER,)
    held = HoldLog(queues={None: QueueHolds().begun(to_ms(at("08:05"), "at"), "depth", 60_000, None)})
    stage.memory.connect().records.write(Record(owner=OWNER, key=KEY, version=1, body=held.body()))
    return stage.why("08:10")


def quarantined(stage: Stage) -> Answer:
    stage.create()
    agenda, (entry,) = stage.memory.connect().agenda, stage.memory.entries()
    agenda.quarantine(entry, reason="it failed", now=stage.harness.clock())
    agenda.remove([entry])
    stage.sleep(15)
    return stage.why("08:10")


def row_removed(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(12)
    stage.memory._tables[RUNS].delete(*stage.ref("08:10"))
    return stage.why("08:10")


def waits_for_a_worker(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(8)
    stage.sleep(10)
    return stage.why("08:10")


def frozen(stage: Stage) -> Answer:
    stage.create()
    stage.scheduler.freeze(at("10:00"), reason="we move the database")
    stage.pass_time(25)
    return stage.why("08:10")


def waits_for_its_turn(stage: Stage) -> Answer:
    stage.create(job="stumbles", overlap="buffer_all")
    stage.pass_time(20.5)
    return stage.why("08:20")


# Under way.


def running(stage: Stage) -> Answer:
    stage.create(job="long")
    seen: list[Answer] = []
    stage.meanwhile = lambda ctx: seen.append(stage.why("08:10"))
    stage.pass_time(11)
    return seen[0]


def vanished(stage: Stage) -> Answer:
    stage.create(job="long")
    seen: list[Answer] = []

    def ask(ctx: Context) -> None:
        lease = to_ms(at("08:11"), "at")
        stage.row(parse_run_id(ctx.run_id), lease_until=lease)
        stage.harness.clock.advance(timedelta(seconds=15))
        stage.row(parse_run_id(ctx.run_id), lease_until=stage.harness.clock() - 15_000)
        seen.append(stage.why("08:10"))

    stage.meanwhile = ask
    stage.pass_time(11)
    return seen[0]


def waits_for_the_next_attempt(stage: Stage) -> Answer:
    stage.create(job="asks")
    stage.pass_time(12)
    return stage.why("08:10")


# Ended.


def in_time(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(12)
    return stage.why("08:10")


def after_an_outage(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(2)
    stage.sleep(25)
    stage.pass_time(1)
    return stage.why("08:10")


def to_come_while_suspended(stage: Stage) -> Answer:
    stage.create("0 9 * * *")
    stage.harness.tenants.suspend("acme", reason="unpaid")
    return stage.why("09:00")


def held_by_its_breaker(stage: Stage) -> Answer:
    stage.harness.tenants.set("acme", limits={"breaker_percent": 90})
    stage.create()
    stage.pass_time(9.5)
    open_breaker("acme", "ok", stage.memory.connect(), stage.harness.clock())
    stage.pass_time(0.8)
    return stage.why("08:10")


def waits_in_line(stage: Stage) -> Answer:
    """Another process has the only slot."""
    stage.harness.tenants.set("acme", limits={"concurrent_runs": 1})
    stage.create()
    stage.pass_time(9.5)
    cap, services, clock = ConcurrencyCap(tenant="acme", job="*", most=1), stage.memory.connect(), stage.harness.clock
    change_cap(cap, lambda permits: permits.taken("another", 0, [("r", False)], 1, clock())[0], services, clock)
    stage.pass_time(0.8)
    return stage.why("08:10")


def suspended(stage: Stage) -> Answer:
    stage.create()
    stage.harness.tenants.suspend("acme", reason="unpaid")
    stage.pass_time(25)
    return stage.why("08:10")


def after_a_suspension(stage: Stage) -> Answer:
    stage.create()
    stage.harness.tenants.acting_as("boss").suspend("acme", reason="unpaid")
    stage.pass_time(120)
    stage.harness.tenants.acting_as("boss").resume("acme")
    stage.pass_time(10)
    return stage.why("08:10")


def after_a_long_suspension(stage: Stage) -> Answer:
    """The line of its begin is a week old: that of its end tells it."""
    stage.create("10 8 11 5 *")
    stage.harness.tenants.suspend("acme")
    stage.pass_time(7 * 24 * 60)
    stage.pass_time(120)
    stage.harness.tenants.acting_as("boss").resume("acme")
    stage.pass_time(10)
    return stage.why("08:10", 11)


def waiting_after_a_suspension(stage: Stage) -> Answer:
    """No worker has come since."""
    stage.create()
    stage.harness.tenants.suspend("acme")
    stage.pass_time(60)
    stage.harness.tenants.acting_as("boss").resume("acme")
    return stage.why("08:10")


def after_a_freeze(stage: Stage) -> Answer:
    stage.create()
    stage.scheduler.freeze(at("08:30"))
    stage.pass_time(40)
    return stage.why("08:10")


def after_a_thaw(stage: Stage) -> Answer:
    """The freeze began before the fire was due, and its record is overwritten."""
    stage.scheduler.freeze(at("20:00"), reason="we move")
    stage.create()
    stage.pass_time(120)
    stage.scheduler.acting_as("bob").thaw()
    stage.pass_time(10)
    return stage.why("08:10")


def after_a_thaw_of_a_long_freeze(stage: Stage) -> Answer:
    """The line of the freeze is a week old: that of the thaw tells it."""
    stage.scheduler.freeze(at("20:00", 20))
    stage.pass_time(7 * 24 * 60)
    stage.create()
    stage.pass_time(120)
    stage.scheduler.thaw()
    stage.pass_time(10)
    return stage.why("08:10", 11)


def after_a_freeze_in_place_of_another(stage: Stage) -> Answer:
    """The later one began when the run had started."""
    stage.scheduler.freeze(at("08:30"), reason="first")
    stage.create()
    stage.pass_time(120)
    stage.scheduler.freeze(at("12:00"), reason="second")
    return stage.why("08:10")


def waiting_after_a_thaw(stage: Stage) -> Answer:
    """No worker has come since the thaw."""
    stage.scheduler.freeze(at("20:00"))
    stage.create()
    stage.pass_time(60)
    stage.scheduler.thaw()
    return stage.why("08:10")


def after_another_run(stage: Stage) -> Answer:
    stage.create(job="stumbles", overlap="buffer_all")
    stage.pass_time(50)
    return stage.why("08:20")


def after_a_held_queue(stage: Stage) -> Answer:
    held_back(stage)
    services = stage.memory.connect()
    held = QueueHolds().begun(to_ms(at("08:05"), "at"), "depth", 60_000, None).ended(to_ms(at("08:17"), "at"))
    services.records.write(Record(owner=OWNER, key=KEY, version=2, body=HoldLog(queues={None: held}).body()))
    stage.pass_time(1)
    return stage.why("08:10")


def failed_for_good(stage: Stage) -> Answer:
    stage.create(job="bad")
    stage.pass_time(15)
    return stage.why("08:10")


def failed_and_redriven(stage: Stage) -> Answer:
    failed_for_good(stage)
    stage.scheduler.redrive(job="bad")
    return stage.why("08:10")


def of_an_unknown_job(stage: Stage) -> Answer:
    stage.scheduler = stage.scheduler.strictly(strict=False)
    with pytest.warns(UnknownJobWarning, match="unheard"):
        stage.create(job="unheard")
    stage.pass_time(30)
    return stage.why("08:10")


def allow(stage: Stage, *jobs: str) -> None:
    """Let the tenant run these jobs and no others, from now on."""
    store = stage.memory.connect().tenants
    present = store.profile("acme")
    assert store.put(TenantProfile(tenant="acme", jobs=jobs), expected=0 if present is None else present.version)
    stage.harness.clock.advance(timedelta(seconds=6))  # for so long a process goes by what it has read


def of_a_job_that_was_taken_away(stage: Stage) -> Answer:
    stage.create()
    allow(stage, "other")
    stage.pass_time(12)
    return stage.why("08:10")


def of_a_job_that_was_given_back(stage: Stage) -> Answer:
    of_a_job_that_was_taken_away(stage)
    allow(stage, "o*")
    stage.pass_time(1)
    return stage.why("08:10")


def to_come_without_its_job(stage: Stage) -> Answer:
    stage.create()
    allow(stage, "other")
    return stage.why("08:10")


def waits_without_its_job(stage: Stage) -> Answer:
    stage.create()
    stage.scheduler.freeze(at("10:00"))
    stage.pass_time(12)
    allow(stage, "other")
    return stage.why("08:10")


def to_come_of_a_command(stage: Stage) -> Answer:
    command_job("command", registry=stage.jobs)
    published = [PublishedJob.of(job) for job in stage.jobs]
    CataloguePublisher(stage.memory.connect(), lambda now: [*sets_of(published, None, now)]).publish(
        stage.harness.clock()
    )
    stage.create(job="command", payload="true")
    allow(stage, "*")
    return stage.why("08:10")


def cancelled(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(8)
    stage.scheduler.cancel_run(str(stage.ref("08:10")))
    stage.pass_time(8)
    return stage.why("08:10")


def too_late(stage: Stage) -> Answer:
    stage.create(deadline=60)
    stage.pass_time(8)
    stage.sleep(10)
    stage.pass_time(1)
    return stage.why("08:10")


def missed(stage: Stage) -> Answer:
    stage.create(catch_up="latest")
    stage.pass_time(2)
    stage.sleep(40)
    stage.pass_time(1)
    return stage.why("08:10")


def missed_in_a_pause(stage: Stage) -> Answer:
    stage.create(catch_up="none", automatic_backfill=True)
    stage.pass_time(7)
    stage.scheduler.pause_schedule("s")
    stage.sleep(35)
    stage.scheduler.resume_schedule("s")
    stage.pass_time(5)
    return stage.why("08:10")


def backfilled_after_an_outage(stage: Stage) -> Answer:
    stage.create(automatic_backfill=True, catch_up_window=60)
    stage.pass_time(12)
    stage.sleep(120)
    stage.pass_time(5)
    return stage.why("09:30")


def skipped_by_its_owner(stage: Stage) -> Answer:
    stage.create()
    stage.scheduler.skip_next("s")
    return stage.why("08:10")


def overlapped(stage: Stage) -> Answer:
    stage.create(job="stumbles", overlap="skip")
    stage.pass_time(30)
    return stage.why("08:20")


def shadowed(stage: Stage) -> Answer:
    stage.create(shadow=True)
    stage.pass_time(12)
    return stage.why("08:10")


def filled_in(stage: Stage) -> Answer:
    stage.create()
    stage.pass_time(5)
    stage.scheduler.pause_schedule("s")
    stage.pass_time(20)
    stage.scheduler.resume_schedule("s")
    stage.scheduler.backfill("s", at("08:06"), at("08:16"), dry_run=False)
    stage.pass_time(5)
    return stage.why("08:10")


STORIES: dict[Story, tuple[Verdict, tuple[Cause, ...], str]] = {
    unmatched: (
        Verdict.NO_FIRE,
        (Cause.EXPRESSION,),
        "there is none before it, and the next one is 2026-05-04 08:10:00Z",
    ),
    skipped_by_the_clocks: (Verdict.NO_FIRE, (Cause.CLOCK_CHANGE,), "The fire of 2026-10-25 00:30:00Z stands for it."),
    on_a_holiday: (Verdict.NO_FIRE, (Cause.HOLIDAY,), "Ascension Day"),
    excluded: (Verdict.NO_FIRE, (Cause.EXCLUSION,), "the next one is 2026-05-11 09:00:00Z"),
    after_the_last: (Verdict.NO_FIRE, (Cause.BOUNDS,), "there is none after it"),
    spread: (Verdict.NO_FIRE, (Cause.SPREAD,), "window=600 moves each fire later"),
    before_it_existed: (Verdict.NOT_CREATED, (Cause.NOT_CREATED,), "it was created by app:ada at 2026-05-04 08:00:00Z"),
    paused: (Verdict.PAUSED, (Cause.PAUSE,), "The reason of the pause: the shop moves"),
    paused_and_resumed: (Verdict.PAUSED, (Cause.PAUSE,), "at 2026-05-04 08:12:00Z until 2026-05-04 08:32:00Z"),
    deleted: (Verdict.DELETED, (Cause.DELETION,), "The schedule was deleted at 2026-05-04 08:12:00Z; it still is."),
    paused_then_deleted: (
        Verdict.DELETED,
        (Cause.DELETION,),
        "The schedule was deleted by app:ada at 2026-05-04 08:24:00Z",
    ),
    paused_before_it_was_deleted: (
        Verdict.PAUSED,
        (Cause.PAUSE,),
        "paused at 2026-05-04 08:12:00Z, and deleted by app:ada at 2026-05-04 08:24:00Z.",
    ),
    deleted_twice: (Verdict.DELETED, (Cause.DELETION,), "The delete of 2026-05-04 08:12:00Z was by app:ada"),
    deleted_and_created_anew: (Verdict.DELETED, (Cause.DELETION,), "The pause of 2026-05-04 08:12:00Z was by app:ada"),
    cancelled_by_whom: (
        Verdict.CANCELLED,
        (Cause.FAILURE,),
        "Whether cancel_run was called for it, or a later run took its place (overlap=cancel_other), is not recorded.",
    ),
    deleted_with_drain: (Verdict.DELETED, (Cause.DELETION,), "deleted"),
    no_longer_there: (Verdict.CHANGED, (Cause.CHANGE, Cause.EXPRESSION), "Revision 1 would have had a fire"),
    not_there_yet: (Verdict.CHANGED, (Cause.CHANGE, Cause.EXPRESSION), "only since revision 2 began"),
    taken_back_by_a_change: (Verdict.CHANGED, (Cause.CHANGE,), "Revision 2 replaced revision 1"),
    taken_back_by_a_pause: (Verdict.PAUSED, (Cause.PAUSE,), "before it had started, because its schedule was paused"),
    taken_back_with_drain: (Verdict.DELETED, (Cause.DELETION,), "because its schedule was deleted with drain"),
    long_ago: (Verdict.GONE, (Cause.RETENTION,), "Rows leave the ledger 90 d after their end"),
    never_claimed: (Verdict.GONE, (Cause.RETENTION,), "Rows leave the ledger 90 d after their end"),
    about_to_be_taken_over: (Verdict.UPCOMING, (), "It is to come, in 1 min"),
    to_come: (Verdict.UPCOMING, (), "still to come, in 40 min"),
    to_come_and_claimed: (Verdict.UPCOMING, (), "It was claimed at"),
    to_come_in_a_freeze: (Verdict.UPCOMING, (Cause.FREEZE,), "we move the database"),
    to_come_without_an_entry: (Verdict.UPCOMING, (Cause.CHAIN_MISSING,), "no entry in the agenda"),
    not_claimed: (Verdict.NOT_CLAIMED, (Cause.TICKER,), "for 7 min: the ticker is behind"),
    held_back: (
        Verdict.NOT_CLAIMED,
        (Cause.HELD_QUEUE, Cause.TICKER),
        "since 2026-05-04 08:05:00Z, because of 60,000 messages",
    ),
    quarantined: (Verdict.NOT_CLAIMED, (Cause.QUARANTINE,), "moved aside"),
    row_removed: (Verdict.UNKNOWN, (), "its chain is past it"),
    waits_for_a_worker: (Verdict.WAITING, (Cause.QUEUE,), "no worker has leased it"),
    frozen: (Verdict.WAITING, (Cause.FREEZE,), "frozen until 2026-05-04 10:00:00Z by app:ada (we move the database)"),
    waits_for_its_turn: (Verdict.WAITING, (Cause.OVERLAP,), "waits for the run of 2026-05-04T08:10:00Z to end"),
    running: (Verdict.RUNNING, (), "Attempt 1 of 3 began on worker at 2026-05-04 08:10:00Z and goes on"),
    vanished: (Verdict.VANISHED, (Cause.VANISHED,), "last heard of at 2026-05-04 08:09:00Z"),
    waits_for_the_next_attempt: (Verdict.WAITING, (Cause.RETRY, Cause.FAILURE), "set for 2026-05-04 08:20:00Z"),
    in_time: (Verdict.RAN, (), "started in time, at 2026-05-04 08:10:00Z"),
    after_an_outage: (Verdict.RAN_LATE, (Cause.TICKER,), "It was claimed 17 min late"),
    after_a_thaw: (
        Verdict.RAN_LATE,
        (Cause.FREEZE,),
        "frozen by app:ada from 2026-05-04 08:00:00Z until 2026-05-04 10:00:00Z, when app:bob thawed it (we move)",
    ),
    after_a_thaw_of_a_long_freeze: (
        Verdict.RAN_LATE,
        (Cause.FREEZE,),
        "frozen from 2026-05-04 08:00:00Z until 2026-05-11 10:00:00Z, when app:ada thawed it",
    ),
    after_a_freeze_in_place_of_another: (Verdict.RAN_LATE, (Cause.FREEZE,), "until 2026-05-04 08:30:00Z (first)"),
    waiting_after_a_thaw: (Verdict.WAITING, (Cause.FREEZE,), "when app:ada thawed it"),
    after_a_freeze: (Verdict.RAN_LATE, (Cause.FREEZE,), "from 2026-05-04 08:00:00Z until 2026-05-04 08:30:00Z"),
    to_come_while_suspended: (Verdict.UPCOMING, (Cause.SUSPENSION,), "suspended (unpaid)"),
    held_by_its_breaker: (
        Verdict.WAITING,
        (Cause.BREAKER,),
        "The circuit breaker of job ok is open since",
    ),
    waits_in_line: (
        Verdict.WAITING,
        (Cause.CONCURRENCY,),
        "It is in the wait queue of a concurrency cap: of all jobs, the tenant may have 1 run at a time, and 1 permit is in use",
    ),
    suspended: (Verdict.WAITING, (Cause.SUSPENSION,), "suspended (unpaid): nothing of it starts until it is resumed"),
    after_a_suspension: (
        Verdict.RAN_LATE,
        (Cause.SUSPENSION,),
        "suspended by app:boss from 2026-05-04 08:00:00Z until 2026-05-04 10:00:00Z, when app:boss resumed it (unpaid)",
    ),
    after_a_long_suspension: (
        Verdict.RAN_LATE,
        (Cause.SUSPENSION,),
        "suspended until 2026-05-11 10:00:00Z, when app:boss resumed it",
    ),
    waiting_after_a_suspension: (Verdict.WAITING, (Cause.SUSPENSION,), "when app:boss resumed it"),
    after_another_run: (
        Verdict.RAN_LATE,
        (Cause.OVERLAP,),
        "It waited for its turn from 2026-05-04 08:20:00Z on: overlap=buffer_all lets one run go at a time, and the run",
    ),
    after_a_held_queue: (Verdict.RAN_LATE, (Cause.HELD_QUEUE,), "from 2026-05-04 08:05:00Z until 2026-05-04 08:17:00Z"),
    failed_for_good: (Verdict.DEAD, (Cause.FAILURE,), "failed after 0.0 s with ValueError: boom. It was the last."),
    failed_and_redriven: (Verdict.DEAD, (Cause.FAILURE,), "as acme/~redrive-"),
    of_an_unknown_job: (Verdict.DEAD, (Cause.UNKNOWN_JOB,), "no worker knew job 'unheard' for 15 minutes"),
    of_a_job_that_was_taken_away: (
        Verdict.DEAD,
        (Cause.NOT_GRANTED,),
        "its tenant might not run job 'ok'. Its last error was JobNotGranted: tenant 'acme' may not run job 'ok'; ask an operator",
    ),
    of_a_job_that_was_given_back: (
        Verdict.DEAD,
        (Cause.NOT_GRANTED,),
        "By now the tenant may run job 'ok': `quarterjack",
    ),
    to_come_without_its_job: (Verdict.UPCOMING, (Cause.NOT_GRANTED,), "As things stand it will be DEAD once a worker"),
    waits_without_its_job: (Verdict.WAITING, (Cause.NOT_GRANTED, Cause.FREEZE), "for it. [profile of tenant acme]"),
    to_come_of_a_command: (Verdict.UPCOMING, (Cause.NOT_GRANTED,), "a pattern such as * does not give it"),
    cancelled: (
        Verdict.CANCELLED,
        (Cause.OWNER,),
        "before it had started, and it ended at 2026-05-04 08:08:00Z. cancel_run was called for it.",
    ),
    too_late: (Verdict.EXPIRED, (Cause.DEADLINE, Cause.QUEUE), "Its deadline passed before an attempt could start"),
    missed: (Verdict.MISSED, (Cause.CATCH_UP, Cause.TICKER), "one of the 3 between 2026-05-04 08:10:00Z"),
    missed_in_a_pause: (Verdict.MISSED, (Cause.CATCH_UP, Cause.PAUSE), "with automatic_backfill"),
    backfilled_after_an_outage: (
        Verdict.RAN_LATE,
        (Cause.TICKER,),
        "It was backfilled after an outage from 2026-05-04 08:20:00Z to 2026-05-04 10:12:00Z",
    ),
    skipped_by_its_owner: (Verdict.SKIPPED, (Cause.OWNER,), "it was the next fire when skip_next was called"),
    overlapped: (Verdict.OVERLAPPED, (Cause.OVERLAP,), "still goes"),
    shadowed: (Verdict.SHADOWED, (Cause.SHADOW,), "its job was not started"),
    filled_in: (Verdict.RAN, (Cause.BACKFILL,), "late on purpose"),
}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_each_verdict(story: Story) -> None:
    verdict, causes, words = STORIES[story]
    answer = story(Stage())
    assert (answer.verdict, answer.causes) == (verdict, causes), str(answer)
    assert words in str(answer)
    assert all(sentence.source and sentence.text.strip() == sentence.text for sentence in answer.sentences)


def test_the_last_error_of_a_dead_run_is_a_sentence_of_its_own() -> None:
    assert "Its last error was ValueError: boom." in str(failed_for_good(Stage()))


# Which fire or run is meant.


def test_a_fire_is_found_by_its_second() -> None:
    stage = Stage()
    stage.harness.clock.advance(timedelta(milliseconds=123))
    stage.create("rate(7 seconds)")
    stage.pass_time(1)
    answer = stage.why("08:00:07")
    assert answer.verdict is Verdict.RAN
    assert answer.at == at("08:00:07") + timedelta(milliseconds=123)
    assert stage.scheduler.why("s", at("08:00:07") + timedelta(milliseconds=5)).verdict is Verdict.NO_FIRE
    assert stage.why("08:02:06").verdict is Verdict.UPCOMING


def test_a_run_is_asked_about_by_its_id() -> None:
    stage = Stage()
    stage.create()
    one_off, trigger = stage.scheduler.submit("bad"), stage.scheduler.trigger("s")
    stage.pass_time(12)
    assert stage.scheduler.why_run(str(stage.ref("08:10"))) == stage.why("08:10")
    assert stage.scheduler.why_run(str(stage.ref("08:05"))).verdict is Verdict.NO_FIRE
    answer = stage.scheduler.why_run(one_off.id)
    assert (answer.verdict, answer.schedule, answer.run_id) == (Verdict.DEAD, None, one_off.id)
    assert stage.scheduler.why_run(trigger.id).verdict is Verdict.RAN


def test_the_row_of_a_gap_is_explained() -> None:
    stage = Stage()
    missed(stage)
    (gap,) = (run for run in stage.memory.runs() if run.skipped_until is not None)
    assert stage.scheduler.why_run(str(gap.ref)).verdict is Verdict.MISSED


def test_who_asks_about_nothing_is_told_so() -> None:
    stage = Stage()
    stage.create()
    with pytest.raises(NotFound, match="has no such run"):
        stage.scheduler.why_run("other/s#000000000000001")
    with pytest.raises(NotFound, match="has no such run"):
        stage.scheduler.why_run("acme/~nothing#once")
    with pytest.raises(NotFound, match="has no such run"):
        stage.scheduler.why_run("acme/s#000000000000001~trigger-1")
    with pytest.raises(NotFound, match="did you mean 's'"):
        stage.scheduler.why("ss", MORNING)
    with pytest.raises(InvalidInput, match="has no time zone"):
        stage.scheduler.why("s", MORNING.replace(tzinfo=None))


# What is read.


class Counting(Hook):
    """Counts requests, and fails those of some verbs."""

    def __init__(self, *failing: str) -> None:
        self.failing, self.verbs = failing, list[str]()

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        self.verbs.append(detail.verb)
        if detail.verb in self.failing:
            raise Unavailable("injected")
        return ()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_an_answer_takes_few_reads(story: Story) -> None:
    stage = Stage()
    answer = story(stage)
    hook = Counting()
    scheduler = Scheduler("acme", services=stage.memory.connect(hook), clock=stage.harness.clock)
    assert answer.at is not None
    scheduler.why("s", answer.at)
    assert len(hook.verbs) <= (32 if answer.verdict is Verdict.WAITING else 16), hook.verbs


def test_what_could_not_be_read_is_said() -> None:
    stage = Stage()
    failed_and_redriven(stage)
    hook = Counting("beside", "revisions")
    scheduler = Scheduler("acme", services=stage.memory.connect(hook), clock=stage.harness.clock)
    answer = scheduler.why("s", at("08:10"))
    assert answer.verdict is Verdict.DEAD
    assert "The attempts could not be read: " in str(answer)
    assert "The freeze could not be read: " in str(answer)


class Meddling(Hook):
    """Somebody changes the schedule whenever its history has been read."""

    def __init__(self, stage: Stage, times: int) -> None:
        self.stage, self.times = stage, times

    def after_call(self, operation: str, detail: Detail) -> None:
        if detail.verb == "history" and self.times:
            self.times -= 1
            self.stage.scheduler.pause_schedule("s", reason=f"time {self.times}", until=at(f"12:{self.times:02}"))
            self.stage.harness.clock.advance(timedelta(minutes=10))


def test_a_schedule_that_changes_meanwhile_is_read_again() -> None:
    stage = Stage()
    stage.create()
    stage.pass_time(12)
    services = stage.memory.connect(Meddling(stage, 1))
    scheduler = Scheduler("acme", services=services, clock=stage.harness.clock)
    assert scheduler.why("s", at("08:20")).verdict is Verdict.PAUSED
    services = stage.memory.connect(Meddling(stage, 9))
    scheduler = Scheduler("acme", services=services, clock=stage.harness.clock)
    with pytest.raises(Conflict, match="others changed it 5 times"):
        scheduler.why("s", at("08:40"))


@pytest.mark.parametrize(
    ("story", "doubt"),
    [
        (deleted_twice, "or deleted twice, is not recorded"),
        (deleted_and_created_anew, "it was deleted, and no revision says when"),
        (deleted, "Who did it is not in the evidence"),
        (paused, "Who did it is not in the evidence"),
    ],
)
def test_without_audit_entries_some_things_are_not_known(story: Story, doubt: str) -> None:
    stage = Stage()
    answer = story(stage)
    assert doubt not in str(answer)
    for partition, key, _ in list(stage.memory._tables[AUDIT]):
        stage.memory._tables[AUDIT].delete(partition, key)
    head = stage.memory.heads()[0]
    stage.memory.put_head(replace(head, actor=None))
    assert answer.at is not None
    less = stage.scheduler.why("s", answer.at)
    assert doubt in str(less)
    assert less.verdict in (answer.verdict, Verdict.PAUSED)


def test_a_reason_is_told() -> None:
    stage = Stage()
    stage.create()
    stage.scheduler.acting_as("bob", reason="INC-123").pause_schedule("s")
    stage.pass_time(20)
    assert "was by app:bob, as iam:" in str(stage.why("08:10"))
    assert "by way of sdk. The reason given: INC-123" in str(stage.why("08:10"))


class Ticking(Hook):
    """A ticker claims the fire after the first request with this verb."""

    def __init__(self, stage: Stage, verb: str) -> None:
        self.stage, self.verb, self.ticked = stage, verb, False

    def after_call(self, operation: str, detail: Detail) -> None:
        if detail.verb == self.verb and not self.ticked:
            self.ticked = True
            tick(self.stage.memory.connect(), clock=self.stage.harness.clock, holder="another")


@pytest.mark.parametrize("verb", ["head", "history", "page", "look", "due"])
def test_a_fire_that_is_claimed_meanwhile_is_not_missed(verb: str) -> None:
    stage = Stage()
    not_claimed(stage)
    hook = Ticking(stage, verb)
    answer = Scheduler("acme", services=stage.memory.connect(hook), clock=stage.harness.clock).why("s", at("08:10"))
    assert hook.ticked
    assert answer.verdict in (Verdict.WAITING, Verdict.NOT_CLAIMED)


def test_every_verdict_has_its_story() -> None:
    told = {verdict for verdict, _, _ in STORIES.values()}
    # A worker must crash: see the simulator's histories; runs that park: see test_parked.py.
    assert set(Verdict) - told == {Verdict.LOST, Verdict.PARKED}


@pytest.mark.parametrize("story", [after_a_thaw, after_a_thaw_of_a_long_freeze, after_a_freeze_in_place_of_another])
def test_a_freeze_that_is_over_is_told_from_its_line_of_the_audit(story: Story) -> None:
    stage = Stage()
    answer = story(stage)
    (said,) = [one for one in answer.sentences if one.cause is Cause.FREEZE]
    ids = {line.id for line in stage.memory.audit_entries() if str(line.act) in ("freeze", "thaw")}
    assert said.source.removeprefix("audit entry ") in ids
    assert "no worker leased it" not in str(answer)
