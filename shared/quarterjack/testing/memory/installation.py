"""An installation in memory: every protocol of ``ports`` with the semantics of DynamoDB, SQS and S3, under a clock that you set.

    clock = ManualClock(datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
    memory = Memory(clock)
    ticker = memory.connect()                 # the services of one process
    worker = memory.connect(hook=MyFaults())  # those of another process; the hook sees each of its requests

It promises no more than AWS does: messages may come twice and in any order, single items of a batch may stay unanswered, a request may
take effect although its response is lost. Nothing is persistent, and nothing waits except in a hook or ``idle``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from quarterjack.concurrency.pools import RequestStats
from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.message import Message, decode
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import AgendaEntry, RunRow
from quarterjack.domain.schedule import Head, Revision
from quarterjack.domain.times import DAY, SECOND
from quarterjack.ports.services import Clock, Services
from quarterjack.sqs.routing import DEAD, WORK
from quarterjack.sqs.stripes import Stripe, Stripes, stripes_of
from quarterjack.state.backpressure import Limits
from quarterjack.stores.agenda import Agenda
from quarterjack.stores.audit import Audit, audit_entry_of
from quarterjack.stores.dead_index import DeadIndex
from quarterjack.stores.history.books import History
from quarterjack.stores.ledger import Ledger
from quarterjack.stores.records import Records
from quarterjack.stores.rows import entry_of, present, readable, run_of, shard_key
from quarterjack.stores.schedule_rows import head_of, head_row, revision_of, revision_row
from quarterjack.stores.schedules import ScheduleStore
from quarterjack.stores.siblings import Siblings
from quarterjack.stores.tables import AGENDA, AUDIT, REVISIONS, RUNS, SCHEDULES, TABLES, Row
from quarterjack.stores.tenants.api_keys import ApiKeyStore
from quarterjack.stores.tenants.erasures import ErasureStore
from quarterjack.stores.tenants.profiles import TenantStore
from quarterjack.stores.tenants.usage import TenantUsage
from quarterjack.stores.unique_keys import UniqueKeys
from quarterjack.stores.upkeep import Upkeep
from quarterjack.stores.waits import Waits
from quarterjack.testing.memory.buckets import MemoryArchive, MemoryPayloads, MemoryVersions, VersionedObjects
from quarterjack.testing.memory.calls import Calls, Hook, MemoryTable, ReadLatency, SlowReads
from quarterjack.testing.memory.peripherals import MemoryLog, MemoryNotices, MemoryRunLogs, MemorySecrets, Published
from quarterjack.testing.memory.queue_ports import Idle, MemoryDeadQueue, MemoryWorkQueue, Receiver
from quarterjack.testing.memory.queues import MemoryQueue
from quarterjack.testing.memory.stream import MemoryRunStream, StreamedTable, changes_since
from quarterjack.testing.memory.tables import Content, MemoryTables, commit_items, no_tables

IDENTITY = "iam:arn:aws:iam::000000000000:user/memory"  # of every process
RETENTION = 90 * DAY
SHARDS = 4
_UNLIMITED = Limits()
_UNSTRIPED: Mapping[str | None, int] = {}


class Memory:
    """An installation in memory. ``connect`` returns the services of one process; other methods read the tables for assertions.

    ``name`` is the prefix of its tables.
    ``retention`` in ms. ``queues`` are names of declared queues, ``stripes`` their numbers of stripes, ``prioritised`` those
    with lanes (None: the default queue); a low run counts as normal after ``low_age`` ms.
    A read takes ``read_latency_ms`` of a ``ManualClock``; assigning to the attribute of that name changes it for all processes.
    Above ``limits`` its tickers hold a queue back. With ``random`` messages come in any order. ``idle`` is called where a long poll
    would wait.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        name: str = "memory",
        retention: int = RETENTION,
        shards: int = SHARDS,
        queues: Iterable[str] = (),
        stripes: Mapping[str | None, int] = _UNSTRIPED,
        prioritised: Iterable[str | None] = (),
        low_age: int = DAY,
        limits: Limits = _UNLIMITED,
        random: Random | None = None,
        idle: Idle | None = None,
        read_latency_ms: int = 0,
    ) -> None:
        self.name, self._limits = name, limits
        self._clock, self._retention, self._shards, self._idle = clock, retention, shards, idle
        self._lock = threading.RLock()
        self._latency = ReadLatency(clock, self._lock, read_latency_ms)
        self._runs = StreamedTable(clock)
        self._tables: Content = {table: MemoryTable() for table in TABLES} | {RUNS: self._runs}
        self._payloads: dict[str, tuple[str, int]] = {}  # by their keys in the bucket; with the UTC ms of their storing
        self.archived = VersionedObjects()  # the archive's objects, by their keys
        self.dead = MemoryQueue(clock, visibility=DEAD.visibility, random=random)
        self._random = random
        self.published: list[Published] = []  # to topics, in order
        self.schedule_events = frozenset[str]()  # types that are published, for processes that connect from now on
        self.dynamodb: Any = None  # boto3's client of the tables to which jobs write in ``ctx.transaction``
        self.stream_shards = 1  # of the stream, for processes that connect from now on
        self._parameters: dict[str, tuple[str, int, int]] = {}  # the secrets of tenants
        self.log = MemoryLog(clock)
        self.stripes: dict[Stripe, MemoryQueue] = {}  # all work queues
        self._striped, self._prioritised, self._low_age = dict(stripes), set[str | None](), low_age
        laned = set(prioritised)
        for queue in (None, *queues):
            self.add_queue(queue, stripes=self._striped.get(queue, 1), priorities=queue in laned)

    @property
    def read_latency_ms(self) -> int:
        """How long each read takes: requests that only read tables, buckets, the stream, secrets, logs and the state of queues."""
        return self._latency.ms

    @read_latency_ms.setter
    def read_latency_ms(self, ms: int) -> None:
        self._latency.ms = ms

    @property
    def queues(self) -> dict[str | None, MemoryQueue]:
        """The first stripe of each work queue, by the name of the declared queue; None: the default one."""
        return {stripe.queue: found for stripe, found in self.stripes.items() if stripe == Stripe(stripe.queue)}

    @property
    def work(self) -> MemoryQueue:
        """The default work queue."""
        return self.stripes[Stripe(None)]

    def connect(
        self,
        hook: Hook | None = None,
        *,
        attempts: int = 2,
        rounds: int = 2,
        queue: str | None = None,
        stripes: Mapping[str | None, int] | None = None,
        prioritised: Iterable[str | None] | None = None,
        stats: RequestStats | None = None,
    ) -> Services:
        """The services of one process, which receives from ``queue`` (None: the default one).

        ``stripes`` are the numbers of stripes that it knows, ``prioritised`` the queues with lanes; None: the real ones. A failing
        request is sent ``attempts`` times, single items of a batch ``rounds`` times.
        """
        calls = Calls(
            SlowReads(self._latency, hook or Hook()), self._lock, attempts=attempts, rounds=rounds, stats=stats
        )
        tables, receiver = self._tables_of(calls), Receiver(calls, self._clock, self._idle)
        tenants = TenantStore(tables)
        return Services(
            schedules=ScheduleStore(tables, tenants),
            ledger=Ledger(tables, retention=self._retention),
            siblings=Siblings(tables, retention=self._retention),
            waits=Waits(tables, retention=self._retention),
            unique_keys=UniqueKeys(tables, retention=self._retention),
            agenda=Agenda(tables, shards=self._shards, clock=self._clock, name=self.name),
            work=MemoryWorkQueue(
                calls,
                self.stripes,
                receiver,
                stripes=Stripes(
                    numbers=self._striped if stripes is None else stripes,
                    prioritised=frozenset(self._prioritised if prioritised is None else prioritised),
                ),
                consumes=queue,
                low_age=self._low_age,
            ),
            dead=MemoryDeadQueue(calls, self.dead, receiver),
            dead_index=DeadIndex(tables),
            payloads=MemoryPayloads(calls, self._payloads, self._clock),
            records=Records(tables),
            upkeep=Upkeep(tables),
            history=History(tables, retention=self._retention),
            stream=MemoryRunStream(calls, self._runs, shards=self.stream_shards),
            archive=MemoryArchive(calls, self.archived),
            audit=Audit(tables),
            tenants=tenants,
            usage=TenantUsage(tables),
            erasures=ErasureStore(tables),
            objects=MemoryVersions(calls, self._payloads, self.archived, self._clock),
            api_keys=ApiKeyStore(tables),
            identity=lambda: IDENTITY,
            notices=MemoryNotices(calls, self.published),
            secrets=MemorySecrets(calls, self._parameters, self._clock),
            logs=MemoryRunLogs(calls, self.log),
            retention=self._retention,
            schedule_events=self.schedule_events,
            limits=self._limits,
        )

    def _tables_of(self, calls: Calls) -> MemoryTables:
        """The tables as one process sees them."""
        return MemoryTables(calls, self._tables, self._commit_items)

    def _commit_items(self, items: Sequence[Mapping[str, Any]]) -> frozenset[int]:
        return no_tables(items) if self.dynamodb is None else commit_items(self.dynamodb, items)

    # Reads without a request.

    def row(self, ref: RunRef) -> Row | None:
        """A run's row, attribute by attribute."""
        found = self._tables[RUNS].get(*ref)
        return None if found is None else dict(found)

    def runs(self, owner: str | None = None) -> list[RunRow]:
        """All runs, or an owner's, in order of time."""
        rows = [row for of, key, row in self._tables[RUNS] if owner in (None, of) and key[0] not in "#~"]
        return sorted((run_of(row) for row in rows), key=lambda run: (run.due, run.ref))

    def changes(self, after: int = 0) -> Sequence[RunChange]:
        """The changes of runs with sequence numbers beyond ``after``, in order, as far as the stream still has them (a day)."""
        return changes_since(self._runs, after)

    def heads(self) -> list[Head]:
        """All heads, deleted ones too."""
        return [head_of(row) for _, _, row in self._tables[SCHEDULES]]

    def revisions(self, owner: str) -> list[Revision]:
        """A schedule's revisions, oldest first."""
        rows = [row for of, _, row in self._tables[REVISIONS] if of == owner]
        return list(readable(rows, revision_of, "revision.unreadable"))

    def entries(self) -> list[AgendaEntry]:
        """The agenda in order of due time, without quarantined entries."""
        rows = (row for _, key, row in self._tables[AGENDA] if key[0].isdecimal())
        found = readable(rows, entry_of, "entry.unreadable")
        return sorted(found, key=lambda entry: entry.key)

    def messages(self, queue: str | None = None) -> list[Message]:
        """The messages in a work queue, hidden ones too."""
        return [decode(each.body) for of, found in self.stripes.items() if of.queue == queue for each in found]

    def audit_rows(self) -> list[Row]:
        """The table of the audit: entries, gates, closes; in order of their keys within a partition."""
        return [dict(row) for _, _, row in self._tables[AUDIT]]

    def audit_entries(self) -> list[AuditEntryRow]:
        """The entries of all tenants in order of time."""
        rows = [row for row in self.audit_rows() if "~" not in row["partition"]]
        return sorted((audit_entry_of(row) for row in rows), key=lambda entry: entry.key)

    # Writes without a request.

    def add_queue(self, name: str | None, *, stripes: int = 1, priorities: bool = False) -> MemoryQueue:
        """Create a declared queue, or further stripes and lanes of it, as a deployment does; returns its first stripe."""
        for stripe in stripes_of(name, stripes, priorities=priorities or name in self._prioritised):
            made = MemoryQueue(self._clock, visibility=WORK.visibility, dead=self.dead, random=self._random)
            self.stripes.setdefault(stripe, made)
        self._striped[name] = max(stripes, self._striped.get(name, 1))
        self._prioritised |= {name} if priorities else set()
        return self.stripes[Stripe(name)]

    def remove_queue(self, name: str) -> None:
        """Delete a declared queue with its messages, as a deployment does that no longer declares it."""
        for stripe in [each for each in self.stripes if each.queue == name]:
            del self.stripes[stripe]

    def put_row(self, ref: RunRef, row: Row) -> None:
        """Write a row of the ledger as it is, for instance as another release would."""
        self._tables[RUNS].put(*ref, dict(row))

    def remove_row(self, ref: RunRef) -> None:
        """Remove a row of the ledger."""
        self._tables[RUNS].delete(*ref)

    def put_item(self, shard: int, key: str, item: object) -> None:
        """Write an item into the agenda that is not an entry."""
        self._tables[AGENDA].put(shard_key(shard), key, {"shard": shard_key(shard), "entry": key, "item": item})

    def put_revision(self, owner: str, number: int, item: Revision | Exception) -> None:
        """Write a revision as it is; an Exception stands for an item that cannot be read."""
        row = revision_row(item) if isinstance(item, Revision) else {"shard": str(item), "until": str(item)}
        self._tables[REVISIONS].put(owner, number, present(row | {"owner": owner, "number": number}))

    def put_head(self, head: Head) -> None:
        """Write a head as it is."""
        self._tables[SCHEDULES].put(head.tenant, head.name, present(head_row(head)))

    def expire(self) -> int:
        """Delete the rows whose ``ttl`` has passed, as DynamoDB does within days; returns their number."""
        now, runs = self._clock() // SECOND, self._runs
        gone = [(of, key) for of, key, row in runs if row.get("ttl", now) < now]
        for of, key in gone:
            runs.delete(of, key, expired=True)
        return len(gone)
