"""A large installation in memory, made quickly: schedules are copies of one, and a schedule's runs are made when they are first read.

The history has every run that ended, as the historian writes and folds it: small pages for the last hours, folded ones before. Runs of
the ledger and of the history are not the same ones, except that both fail as often.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from quarterjack import Registry, Scheduler
from quarterjack.domain.audit import AuditAct, AuditEntryRow
from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.job_catalogue import PublishedJob, sets_of
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import Failure, RunRow, RunState
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.tenants.caller import Via
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.historian.pages import write_pages
from quarterjack.owner.app_versions import register
from quarterjack.owner.catalogue import CataloguePublisher
from quarterjack.payload_types import payload_fit, payload_schema
from quarterjack.stores.agenda import entry_put
from quarterjack.stores.audit import audit_row
from quarterjack.stores.dead_index import dead_put
from quarterjack.stores.rows import present, run_row
from quarterjack.stores.schedule_rows import head_row, revision_row
from quarterjack.stores.tables import AUDIT, REVISIONS, RUNS, SCHEDULES, Row, TableDefinition
from quarterjack.testing import ManualClock
from quarterjack.testing.memory.stream import StreamedTable

from bench.console.read_units import CountedMemory

TENANT, JOBS, TEAMS = "acme", 20, 20
VERSION = "1.0"  # application version that is registered
FAILING = 0.02  # of the runs, and of the schedules
PERIODS = (MINUTE, 5 * MINUTE, HOUR, DAY)  # ms between the fires of a schedule
KEPT = (1_000, 300, 100, 30)  # runs of it in the ledger
_ERRORS = ("ValueError", "TimeoutError", "ConnectionError")
_FRESH = 2 * HOUR  # ms: of these the history has the small pages of a historian that follows closely


@dataclass(frozen=True, kw_only=True)
class LedgerSize:
    """How much there is."""

    schedules: int = 10_000
    runs: int = 1_000_000  # that ended, in the history
    days: int = 7  # in which they did
    dead: int = 20_000  # runs in the index of dead runs
    audit_entries: int = 20_000


class LazyRuns(StreamedTable):
    """The table of runs: those of a copied schedule are made when they are asked for."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.owners: dict[str, int] = {}  # numbers of schedules by owner, whose runs were not made yet

    def get(self, partition: str, key: Any) -> Row | None:
        self._fill(partition)
        return super().get(partition, key)

    def page(self, partition: str, first: Any, last: Any, **how: Any) -> Any:
        self._fill(partition)
        return super().page(partition, first, last, **how)

    def _fill(self, owner: str) -> None:
        number = self.owners.pop(owner, None)
        for run in () if number is None else runs_of(owner, number, self._clock()):
            super().put(owner, run.ref.key, present(run_row(run)))


def runs_of(owner: str, number: int, now: int) -> Iterator[RunRow]:
    """The last runs of a schedule."""
    random, period = Random(number), PERIODS[number % len(PERIODS)]
    last = now // period * period
    for back in range(KEPT[number % len(PERIODS)]):
        yield ended_run(random, owner, number, last - back * period)


def ended_run(random: Random, owner: str, number: int, due: int) -> RunRow:
    """A run that succeeded, or failed for good."""
    start = due + random.randrange(50, 900)
    run = RunRow(
        ref=fire_ref(owner, due),
        state=RunState.SUCCEEDED,
        revision=1,
        job=f"jobs.job_{number % JOBS}",
        due=due,
        not_before=due,
        created_at=due - random.randrange(60, 180) * SECOND,
        started_at=start,
        leased_at=start,
        ended_at=start + int(random.lognormvariate(6, 1)),
        attempt=1,
        max_attempts=3,
        fence=1,
        worker="worker-1.eu-west-1.compute.internal/4711",
    )
    if random.random() >= FAILING:
        return run
    failure = Failure(kind=random.choice(_ERRORS), message="the other side did not answer within its time")
    return replace(run, state=RunState.DEAD, attempt=3, failure=failure, reason="attempts exhausted")


@dataclass
class LargeLedger:
    """The installation, its clock and an owner's scheduler. ``sample`` has an id of each kind for addresses."""

    size: LedgerSize
    clock: ManualClock
    memory: CountedMemory
    scheduler: Scheduler
    sample: Mapping[str, str]
    seconds: Mapping[str, float] = field(default_factory=dict)  # that making it took, by part


def large_ledger(size: LedgerSize) -> LargeLedger:
    """Make it. Its clock stands at 12:34:56 of tomorrow's UTC day."""
    noon = datetime.now(UTC).replace(hour=12, minute=34, second=56, microsecond=0) + timedelta(days=1)
    clock = ManualClock(noon)
    memory = CountedMemory(clock)
    runs = memory.replace_runs(LazyRuns(clock))
    scheduler = Scheduler(TENANT, services=memory.connect(), clock=clock, actor="bench@acme")
    made = _Maker(size, clock, memory, runs, scheduler)
    seconds = {name: _timed(getattr(made, name)) for name in ("schedules", "pipeline", "history", "dead", "audit")}
    register(VERSION, 1.0, memory.connect(), clock())
    memory.reads.reset()
    return LargeLedger(size, clock, memory, scheduler, made.sample, seconds)


def _timed(action: Any) -> float:
    began = time.perf_counter()
    action()
    return round(time.perf_counter() - began, 1)


@dataclass
class _Maker:
    size: LedgerSize
    clock: ManualClock
    memory: CountedMemory
    runs: LazyRuns
    scheduler: Scheduler
    sample: dict[str, str] = field(default_factory=dict)

    def _put(self, table: TableDefinition, row: Row) -> None:
        partition, key = table.key_of(row).values()
        self.memory.table(table).put(partition, key, present(row))

    def schedules(self) -> None:
        """One schedule of each job and period is created, all others are copies of these."""
        registry = Registry()
        for number in range(JOBS):
            registry.job(f"jobs.job_{number}")(lambda ctx, payload: None)
        services = self.memory.connect()
        published = [PublishedJob.of(job, payload_schema(job), payload_fit(job)) for job in registry]
        CataloguePublisher(services, lambda now: [*sets_of(published, None, now)]).publish(self.clock())
        expressions = ("* * * * *", "*/5 * * * *", "17 * * * *", "30 2 * * *")
        models = []
        for kind, expression in enumerate(expressions):
            name = f"model/{kind}"
            self.scheduler.create_schedule(
                name, f"jobs.job_{kind}", expression, timezone="Europe/Berlin", payload={"to": "Ada"}
            )
            owner = f"{TENANT}/{name}"
            head = next(one for one in self.memory.heads() if one.name == name)
            entry = next(one for one in self.memory.entries() if one.id == f"{owner}#1")
            models.append((head, self.memory.revisions(owner)[0], entry))
        chance = Random(1)
        for number in range(self.size.schedules):
            head, revision, entry = models[number % len(models)]
            name, job = f"team-{number % TEAMS:02}/schedule-{number:05}", f"jobs.job_{number % JOBS}"
            fails = chance.random() < FAILING
            head = replace(
                head,
                name=name,
                job=job,
                tags={"team": f"{number % TEAMS}", "env": "prod"},
                state=ScheduleState.PAUSED if number % 50 == 7 else ScheduleState.ACTIVE,
                failing=1 if fails else 0,
                failed_at=self.clock() - HOUR if fails else None,
            )
            definition = replace(revision.definition, job=job)
            self._put(SCHEDULES, head_row(head))
            self._put(REVISIONS, revision_row(replace(revision, name=name, definition=definition)))
            write = entry_put(replace(entry, id=f"{head.owner}#1"))
            self._put(write.table, dict(write.row))
            self.runs.owners[head.owner] = number
        self.sample |= {"name": name, "job": job, "run": str(next(runs_of(head.owner, number, self.clock())).ref)}

    def pipeline(self) -> None:
        """One pipeline with as many runs as a page counts, which have not begun."""
        name, tasks = "model/pipeline", {f"task_{number}": {"job": f"jobs.job_{number}"} for number in range(JOBS)}
        self.scheduler.create_schedule(name, f"pipeline:{name}", "manual", tasks=tasks)
        for _ in range(20):
            self.scheduler.trigger(name)
        self.sample["pipeline"] = name

    def history(self) -> None:
        """Ended runs, appended as a historian does: batches of 5 s in the last hours, of 5 minutes before."""
        now, services = self.clock(), self.memory.connect()
        begin, random = now - self.size.days * DAY, Random(2)
        step = (now - begin) / max(self.size.runs, 1)
        batch: list[RunChange] = []
        for count in range(self.size.runs):
            end, number = int(begin + count * step), random.randrange(self.size.schedules)
            owner = f"{TENANT}/team-{number % TEAMS:02}/schedule-{number:05}"
            run = ended_run(random, owner, number, end // SECOND * SECOND)
            run = replace(run, ended_at=max(end, run.started_at or 0))
            before = replace(run, state=RunState.RUNNING, ended_at=None, failure=None)
            change = RunChange(ref=run.ref, sequence=10**20 + count, at=end // SECOND * SECOND, old=before, new=run)
            width = 5 * SECOND if end > now - _FRESH else 5 * MINUTE
            if batch and change.at >= batch[0].at // width * width + width:
                write_pages(batch, HistorianContext(services=services, now=batch[-1].at + SECOND, batch="b"))
                batch = []
            batch.append(change)
        if batch:
            write_pages(batch, HistorianContext(services=services, now=now, batch="b"))
        compact_pages(services, clock=self.clock, budget=DAY)

    def dead(self) -> None:
        """The index of runs that failed for good."""
        count, random, now = self.size.dead, Random(3), self.clock()
        for number in range(count):
            end = now - number * self.size.days * DAY // max(count, 1) - SECOND
            of = random.randrange(self.size.schedules)
            owner = f"{TENANT}/team-{of % TEAMS:02}/schedule-{of:05}"
            dead = DeadRunRow(
                run=fire_ref(owner, end // MINUTE * MINUTE),
                job=f"jobs.job_{of % JOBS}",
                ended_at=end,
                fence=3,
                attempts=3,
                reason="attempts exhausted",
                error_type=_ERRORS[number % len(_ERRORS)],
                error="the other side did not answer within its time",
            )
            self._put(RUNS, dict(dead_put(dead, now + 90 * DAY).row))

    def audit(self) -> None:
        """Who did what, evenly over the days."""
        now = self.clock()
        for number in range(self.size.audit_entries):
            at = now - number * self.size.days * DAY // max(self.size.audit_entries, 1)
            line = AuditEntryRow(
                tenant=TENANT,
                at=at,
                id=f"{number:032x}",
                call=f"{number // 3:032x}",
                act=AuditAct.PAUSE if number % 2 else AuditAct.RESUME,
                target=f"{TENANT}/team-{number % TEAMS:02}/schedule-{number % self.size.schedules:05}",
                actor=f"app:person-{number % 30}@acme",
                identity="iam:arn:aws:iam::000000000000:user/application",
                via=Via.CONSOLE,
                before=1,
                after=2,
                reason="maintenance of the warehouse",
                salt=f"{number:032x}",
            )
            self._put(AUDIT, audit_row(line))
