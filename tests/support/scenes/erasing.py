"""An installation with two tenants that have everything which a tenant can have; and a search of all of it for what is left of one."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from quarterjack import Context, Registry, Retry, Scheduler
from quarterjack.auditor.log_closing import close_days
from quarterjack.domain.message import Message
from quarterjack.domain.tenants.caller import Caller
from quarterjack.domain.tenants.erasure import Erasure
from quarterjack.domain.times import DAY, HOUR, MINUTE, from_ms
from quarterjack.eraser.erase import advance, begin
from quarterjack.fires.context import FireContext
from quarterjack.fires.flow.wait_queue import change_cap, enqueue, put_queue_timer
from quarterjack.historian.archive import compact_archive
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.ports.services import Services
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits, SharedPermits
from quarterjack.state.worker_record import (
    KEY,
    RunAtHand,
    WorkerIdentity,
    WorkerKind,
    WorkerRow,
    owner_of,
    record_body,
)
from quarterjack.stores.history.pages import bytes_of
from quarterjack.stores.records import Record
from quarterjack.testing import Harness
from quarterjack.testing.memory.calls import MemoryTable
from quarterjack.testing.process import Hand, make_worker
from quarterjack.ticker.tick import tick

ERASED, NEIGHBOUR = "acme", "acme2"  # one begins as the other does
SECRET = "aCmEsEcReT"  # in every text of the erased tenant's
START = datetime(2026, 5, 4, 8, 30, tzinfo=UTC)
_LARGE = 70_000  # characters of a payload that goes to the bucket
_NAME = re.compile(rf"(?<![A-Za-z0-9._-]){ERASED}(?![A-Za-z0-9._-])")


@dataclass
class ErasingScene:
    """The installation, and what its processes do."""

    harness: Harness = field(init=False)
    jobs: Registry = field(default_factory=Registry)

    def __post_init__(self) -> None:
        self.jobs.job("note")(self._note)
        self.jobs.job("fail", retry=Retry(max_attempts=2, base=10, jitter=0))(self._fail)
        self.jobs.job("hang")(self._note)
        self.jobs.job("ask")(self._ask)
        self.harness = Harness(self.jobs, at=START, tenant=ERASED)
        self.clock, self.memory, self.services = self.harness.clock, self.harness.memory, self.harness._services

    @staticmethod
    def _note(ctx: Context, payload: Any) -> Any:
        ctx.step("first", lambda: payload)
        ctx.checkpoint(payload)
        return payload

    @staticmethod
    def _ask(ctx: Context, payload: Any) -> Any:
        mapped = [*ctx.map("note", [payload, payload * 100])]
        return [ctx.gather([ctx.submit("note", mapped, step="child")]), ctx.wait_for("answer"), ctx.wait_for("other")]

    @staticmethod
    def _fail(ctx: Context, payload: Any) -> None:
        raise ValueError(f"{ctx.run_id} {payload}")

    def scheduler(self, tenant: str, services: Services | None = None) -> Scheduler:
        return Scheduler(tenant, jobs=self.jobs, services=services or self.services, clock=self.clock)

    def context(self, services: Services | None = None) -> FireContext:
        return FireContext(services=services or self.services, clock=self.clock, caller=Caller(reason="INC-7"))

    # What tenants have.

    def furnish(self, *, hours: int = 1) -> None:
        """Let both tenants have schedules, runs of every kind, dead ones, payloads, records, history, archive and audit."""
        for tenant in (ERASED, NEIGHBOUR):
            self._furnish(tenant)
        self.harness.advance(hours=hours)
        for tenant in (ERASED, NEIGHBOUR):
            scheduler = self.scheduler(tenant)
            scheduler.delete_schedule("gone")
            scheduler.pause_schedule("paused", reason=SECRET if tenant == ERASED else "why not")
            scheduler.redrive(scheduler.list_dead().items[0].id)
        self._furnish_installation()
        compact_archive(self.services.archive, clock=self.clock, budget=MINUTE)
        compact_pages(self.services, clock=self.clock, budget=MINUTE)
        self.leave_work()

    def _furnish(self, tenant: str) -> None:
        scheduler, text = self.scheduler(tenant), SECRET if tenant == ERASED else "nothing"
        scheduler.create_schedule("s", "note", "*/5 * * * *", payload={"x": text}, tags={"of": text}, client_token="t")
        for name in ("gone", "paused"):
            scheduler.create_schedule(name, "note", "*/20 * * * *", payload=text * (_LARGE // len(text)))
        scheduler.create_schedule("f", "fail", "*/30 * * * *", payload=text, description=text)
        for name in ("crm-token", "hook"):
            self.services.secrets.put(tenant, name, text)
        scheduler.submit("note", text * 100)
        scheduler.submit("note", text * (_LARGE // len(text)))
        scheduler.submit("note", text, run_at=from_ms(self.clock() + 300 * DAY))
        scheduler.signal(scheduler.submit("ask", text).id, "answer", text)  # it parks for the other one
        scheduler.trigger("s", payload=text * (_LARGE // len(text)))
        scheduler.freeze(self.clock.now() + timedelta(minutes=1), reason=text)
        scheduler.thaw()
        waiting = next(run for run in self.memory.runs() if run.ref.tenant == tenant)
        cap = ConcurrencyCap(tenant=tenant, job="note", most=1)
        enqueue(cap, [(Message(run=waiting.ref, revision=0, not_before=0), "m")], self.services, self.clock)
        put_queue_timer(cap, self.services, self.clock() + 300 * DAY, self.clock())
        change_cap(cap, lambda permits: replace(permits, held={"w": (1, self.clock())}), self.services, self.clock)
        scheduler.backfill("s", self.clock.now() - timedelta(hours=1), self.clock.now(), dry_run=False)

    def _furnish_installation(self) -> None:
        """Records of the whole installation that name runs of both tenants."""
        runs = [next(run for run in self.memory.runs() if run.ref.tenant == tenant) for tenant in (ERASED, NEIGHBOUR)]
        at_hand = [RunAtHand(ref=run.ref, job=run.job, fence=1, started_at=run.due) for run in runs]
        identity = WorkerIdentity(name="w", kind=WorkerKind.PROCESS, host="h", version="1", started_at=self.clock())
        worker = WorkerRow(identity=identity, seen_at=self.clock(), at_hand=2, runs=tuple(at_hand))
        bodies = {(owner_of("w"), f"{KEY}w"): record_body(worker)}
        for number, run in enumerate(runs):
            aside = {"run": str(run.ref), "sequence": "1", "consumer": "pages", "error": "x", "at": self.clock()}
            bodies["~quarterjack/~historian", f"~aside~{number}~pages"] = aside
        bodies["~quarterjack/~audit", "~progress"] = {"step": 1, "after": f"{ERASED}/s", "removing": ""}
        permits = CapPermits(held={"w~1": (1, self.clock())}, sent={str(run.ref): self.clock() for run in runs})
        bodies["~quarterjack/~permits", "~note"] = SharedPermits({"note": permits}).body()
        for (owner, key), body in bodies.items():
            assert self.services.records.write(Record(owner=owner, key=key, version=1, body=body))

    def leave_work(self) -> None:
        """Leave something to do to every role: entries that are due, messages, dead letters, changes of the stream."""
        self.clock.advance(timedelta(minutes=2))
        tick(self.services, clock=self.clock, holder="ticker")
        self.clock.advance(timedelta(minutes=4))
        self.work(self.memory.connect())
        tick(self.services, clock=self.clock, holder="ticker")
        self.clock.advance(timedelta(minutes=2, seconds=30))

    def work(self, services: Services) -> None:
        """Let a worker go through the queue once."""
        worker = make_worker(
            services, self.jobs, self.clock, wait=lambda seconds: None, chance=Random(1), name="worker-2"
        )
        while Hand(worker=worker).work():
            pass

    def close_day(self) -> None:
        """Let the day end, and the auditor close it."""
        self.clock.reach(self.clock() // DAY * DAY + DAY + 2 * HOUR)
        assert close_days(self.services, clock=self.clock).closed

    # The erasure.

    def erase(self, services: Services | None = None) -> Erasure:
        """Erase the tenant to the end; time passes as it must."""
        context = self.context(services)
        erasure = begin(ERASED, context)
        while not erasure.is_certified:
            self.clock.reach(max(erasure.next_at, self.clock()))
            erasure = advance(erasure, context, until=self.clock())
        return erasure

    def first_pass(self) -> Erasure:
        """Begin an erasure and let it come as far as it can within fifteen minutes: for so long a function may stand still."""
        erasure, end = begin(ERASED, self.context()), self.clock() + 15 * MINUTE
        while self.clock() < end:
            self.clock.advance(timedelta(minutes=1))
            erasure = advance(erasure, self.context(), until=self.clock() + MINUTE)
        return erasure

    # What is there.

    def snapshot(self) -> Callable[[], None]:
        """Remember the content; the result brings it back."""
        tables = {table: list(content) for table, content in self.memory._tables.items()}
        texts, objects, at = dict(self.memory._payloads), dict(self.memory.archived), self.clock()
        secrets = dict(self.memory._parameters)
        queues = {queue: [each.body for each in queue] for queue in (self.memory.dead, *self.memory.stripes.values())}
        changes = deque(self.memory._runs._changes)

        def restore() -> None:
            for table, rows in tables.items():
                content = self.memory._tables[table]
                content._partitions.clear()
                for partition, key, row in rows:
                    MemoryTable.put(content, partition, key, row)
            self.memory._payloads.clear()
            self.memory._payloads.update(texts)
            self.memory._parameters.clear()
            self.memory._parameters.update(secrets)
            dict.clear(self.memory.archived)
            dict.update(self.memory.archived, objects)
            self.memory._runs._changes = deque(changes)
            for queue, bodies in queues.items():
                for each in queue:
                    queue._forget(each)
                for body in bodies:
                    queue.put(body)
            self.clock._ms = at

        return restore

    def content(self) -> dict[str, str]:
        """All rows and objects as text, by their places."""
        return dict(self._content())

    def _content(self) -> Iterator[tuple[str, str]]:
        for table, rows in self.memory._tables.items():
            for partition, key, row in rows:
                yield f"{table.suffix} {partition} {key}", _text_of_row(row)
        for key, (text, _) in self.memory._payloads.items():
            yield f"bucket {key}", text
        for name, (value, _, _) in self.memory._parameters.items():
            yield f"secret {name}", value
        for key, content in self.memory.archived.items():
            yield f"archive {key}", gzip.decompress(content).decode()

    def left(self) -> list[str]:
        """The places that say anything of the erased tenant beyond what the certificate names."""
        return [
            place
            for place, text in self.content().items()
            if SECRET in text or (_NAME.search(f"{place} {text}") and not _is_certified(place, text))
        ]

    def of_others(self) -> dict[str, str]:
        """What says nothing of the erased tenant."""
        return {
            place: text
            for place, text in self.content().items()
            if not _NAME.search(f"{place} {text}")
            and not place.startswith(("archive archive/inbox", "runs ~quarterjack"))
        }

    def archived_lines(self, tenant: str) -> list[str]:
        """The lines of a tenant in the archive and its inbox, each once."""
        texts = (text for place, text in self.content().items() if place.startswith("archive archive/"))
        lines = {line for text in texts for line in text.splitlines()}
        return sorted(line for line in lines if json.loads(line)["tenant"] == tenant)


def _text_of_row(row: dict[str, Any]) -> str:
    texts = {name: value for name, value in row.items() if name not in ("body", "pages", "bodies")}
    parts = [json.dumps(texts, sort_keys=True, default=str)]
    parts += [_opened(row[name]) for name in ("body", "pages", "bodies") if name in row]
    return " ".join(parts)


def _opened(value: Any) -> str:
    if isinstance(value, str) and value.startswith("{"):
        return value
    raw = bytes_of(value)
    for first in (1, 0):
        try:
            return zlib.decompress(raw[first:]).decode()
        except zlib.error:
            continue
    return raw.hex()


def _is_certified(place: str, text: str) -> bool:
    """Whether the certificate names it."""
    table, _, rest = place.partition(" ")
    if table == "tenants":
        return rest.split(" ")[-1] in ("#profile", "#erasure", ERASED)
    if table == "archive":
        return rest.startswith((f"erasures/{ERASED}/", f"audit/{ERASED}/"))
    if table != "audit":
        return False
    row = json.loads(text)
    is_digest = set(row) == {"partition", "key", "digest", "erased"}
    return is_digest or row.get("act") == "erase-tenant" or rest.startswith((f"{ERASED}#~", "~days#"))
