"""A thousand random acts under a hundred faults: every act has its entry, and no entry is without its act."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.auditor.log_closing import close_days
from quarterjack.domain.audit import AuditAct, AuditEntryRow, digest_of
from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError, Unavailable
from quarterjack.state.backfill import RECORD, BackfillState
from quarterjack.stores.tables import AUDIT, RUNS, Row
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.testing.memory.tables import MemoryTables

from tests.support.histories.acts import kind, told
from tests.support.scenes.world import NOON, World, at

ACTS = 1_000
FAULTS = 100
FLOW: dict[str, Any] = {
    "a": {"job": "note"},
    "b": {"job": "bad", "after": ["a"]},  # for a while it waits for its next attempt
    "c": {"job": "note", "after": ["b"], "join": "done"},
}
NAMES = [f"s{number}" for number in range(6)]
EXPRESSIONS = ("rate(90 seconds)", "rate(5 minutes)", "0 0 * * *", "0 0 1 1 *")


@dataclass
class Chance(Hook):
    """Requests of an owner's process that fail, are throttled, lose their response, or at which the process dies."""

    random: random.Random
    likely: float = 0.0
    made: Counter[str] = field(default_factory=Counter)
    _after: str = ""

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if operation not in ("TransactWriteItems", "PutItem", "UpdateItem", "BatchWriteItem"):
            return ()
        kind = self.random.choices(("crash", "fail", "throttle", "lose", "die", ""), self._weights())[0]
        self._after = kind if kind in ("lose", "die") else ""
        if kind:
            self.made[kind] += 1
        if kind == "crash":
            raise Crash
        if kind == "fail":
            raise Unavailable("injected")
        return range(len(detail.items)) if kind == "throttle" else ()

    def after_call(self, operation: str, detail: Detail) -> None:
        kind, self._after = self._after, ""
        if kind == "die":
            raise Crash
        if kind == "lose":
            raise Unavailable("injected: the response is lost")

    def _weights(self) -> list[float]:
        return [self.likely] * 5 + [1 - 5 * self.likely]


@dataclass
class Witness:
    """Sees every write that is applied to the tables, and whether the entries beside it are those of its act."""

    acts: Counter[tuple[str, str]] = field(default_factory=Counter)  # by act and object, as the rows tell them
    entries: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def saw(self, before: dict[Any, Row | None], writes: Any, tables: MemoryTables) -> None:
        """One request that took effect."""
        acts, entries = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for write in writes:
            key = (write.table.suffix, *write.key.values())
            old, new = before[key], tables._stored(write.table, write.key)
            if write.table is AUDIT and write.kind == "put" and "digest" in write.row and "act" in write.row:
                entries[str(write.row["act"]), str(write.row["object"])] += 1
                if old is not None:
                    self.problems.append(f"an entry was written twice: {key}")
            elif (act := told(write.table, write.key, old, new)) is not None:
                if act[0] == "cancel" and len(writes) == 1 and old and is_backfill_cancelled(old, tables):
                    continue  # taken back with its backfill, whose cancellation has the entry
                acts[act] += 1
        acts = Counter(dict.fromkeys(acts, 1))  # a purge removes many rows
        if Counter({(kind(act), where): 1 for act, where in entries}) != Counter(
            {(kind(act), where): 1 for act, where in acts}
        ):
            self.problems.append(f"acts {dict(acts)} with entries {dict(entries)}")
        self.acts += acts
        self.entries += entries


def is_backfill_cancelled(run: Row, tables: MemoryTables) -> bool:
    """Whether a run is of a backfill that was cancelled before."""
    if "backfill" not in run:
        return False
    row = tables._stored(RUNS, {"owner": run["owner"], "key": f"{RECORD}{run['backfill']}"})
    return row is not None and json.loads(row["body"])["state"] == BackfillState.CANCELLED


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> Witness:
    seen = Witness()
    apply, real = MemoryTables._apply, MemoryTables._commit_rows

    def one(self: MemoryTables, write: Any) -> Any:
        key = (write.table.suffix, *write.key.values())
        before = {key: self._stored(write.table, write.key)}
        answer = apply(self, write)
        if answer[0] and not transacting:
            seen.saw(before, [write], self)
        return answer

    transacting: list[bool] = []

    def many(self: MemoryTables, writes: Any, items: Any) -> frozenset[int]:
        before = {(w.table.suffix, *w.key.values()): self._stored(w.table, w.key) for w in writes}
        transacting.append(True)
        try:
            refused = real(self, writes, items)
        finally:
            transacting.pop()
        if not refused:
            seen.saw(before, writes, self)
        return refused

    monkeypatch.setattr(MemoryTables, "_apply", one)
    monkeypatch.setattr(MemoryTables, "_commit_rows", many)
    return seen


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.check)])
def test_a_thousand_acts_under_a_hundred_faults(seed: int, witness: Witness) -> None:
    world, chance = World(), random.Random(seed)
    hook = Chance(chance)
    results = Counter[str]()
    world.scheduler.upsert_schedule("flow", "pipeline:flow", "rate(50 minutes)", tasks=FLOW)
    for number in range(ACTS):
        hook.likely = 0.0
        if number % 40 == 39:
            world.live(chance.choice((5, 45, 90)))
            close_days(world.process(), clock=world.clock)
        if number % 100 == 99:
            world.clock.advance(timedelta(hours=chance.choice((1, 9))))
            world.live(5)
        hook.likely = 0.024 if sum(hook.made.values()) < FAULTS else 0.0
        owner = world.owner(hook).acting_as(f"u{number % 3}")
        try:
            act_once(owner, world, chance)
        except Crash:
            results["crashed"] += 1
        except Unavailable:
            results["unanswered"] += 1
        except QuarterjackError as problem:
            results[type(problem).__name__] += 1
        else:
            results["done"] += 1
    hook.likely = 0.0
    assert witness.problems[:5] == []
    assert sum(hook.made.values()) >= FAULTS
    assert set(hook.made) == {"crash", "fail", "throttle", "lose", "die"}
    assert results["done"] > ACTS * 0.4, (
        results
    )  # about half: the ids of runs, and so whom acts meet, are new each time
    assert witness.entries.total() > ACTS / 4
    missing = set(AuditAct) - {AuditAct(act) for act, _ in witness.entries}
    elsewhere = {"complete", "retire", "deny", "grant", "revoke", "resend", "restore", "reassign", "dump", "load"} | {
        act for act in AuditAct if act.endswith(("-tenant", "-key", "-secret", "-breaker", "-version"))
    }
    of_flow = {act for act, where in witness.entries if "/flow#" in where}
    assert {"skip", "replay", "trigger"} <= of_flow, of_flow
    assert missing <= elsewhere, f"never tried: {missing}"
    check_rows(world, witness)


def check_rows(world: World, witness: Witness) -> None:
    """The table has exactly the entries that were seen, whole, and verifies."""
    entries: list[AuditEntryRow] = world.memory.audit_entries()
    assert Counter((str(entry.act), entry.target) for entry in entries) == witness.entries
    assert all(digest_of(row) == row["digest"] for row in world.memory.audit_rows() if "act" in row)
    world.clock.advance(timedelta(hours=26))
    close_days(world.process(), clock=world.clock)
    verdict = world.scheduler.verify_audit(since=at(0))
    assert verdict.problems == []
    assert verdict.entries == len(entries)


def act_once(owner: Scheduler, world: World, chance: random.Random) -> object:
    """One random act of an owner."""
    name, other = chance.choice(NAMES), chance.choice(EXPRESSIONS)
    there = world.memory.runs()[-200:]
    runs = [str(run.ref) for run in there]
    run = chance.choice(runs) if runs else "acme/~none#once"
    failed = [str(run.ref) for run in there if run.state in ("DEAD", "LOST", "EXPIRED")]
    waiting = [str(run.ref) for run in there if run.state == "RETRYING"]
    going = [str(run.ref) for run in there if not run.is_terminal]
    one_offs = [str(run.ref) for run in there if run.ref.is_one_off and run.state == "QUEUED"]
    backfills = [(name, each) for name in NAMES for each in world.scheduler.list_backfills(name)]
    open_ones = [(name, str(each.id)) for name, each in backfills if each.state in ("RUNNING", "PAUSED")]
    flows = [str(run.ref) for run in there if run.job == "pipeline:flow"]
    flow = chance.choice(flows) if flows else "acme/~none#once"
    which = chance.choice(open_ones) if open_ones else (name, "none")
    token = chance.choice([None, None, f"t{chance.randrange(20)}"])
    job = chance.choice(("note", "bad"))
    soon = at((world.clock() - NOON) / SECOND + chance.choice((30, 3_000)))
    past = at((world.clock() - NOON) / SECOND - 400), at((world.clock() - NOON) / SECOND - 200)
    acts: list[Any] = [
        lambda: owner.create_schedule(name, job, other, client_token=token, pause_on_failure=3),
        lambda: owner.create_schedule(name, job, other),
        lambda: owner.upsert_schedule(name, job, other, pause_on_failure=3),
        lambda: owner.update_schedule(name, expression=other, client_token=token),
        lambda: owner.update_schedule(name, description=str(chance.randrange(3))),
        lambda: owner.pause_schedule(name, reason="n", client_token=token),
        lambda: owner.pause_schedule(name, until=soon),
        lambda: owner.resume_schedule(name, client_token=token),
        lambda: owner.resume_schedule(name),
        lambda: owner.skip_next(name, client_token=token),
        lambda: owner.trigger(name, idempotency_key=token, payload={"a": "x" * chance.choice((1, 2_000))}),
        lambda: owner.submit(job, idempotency_key=token),
        *[lambda: owner.submit(job, delay=100)] * 2,
        lambda: owner.cancel_run(run),
        lambda: owner.cancel_runs(name, between=(past[0], soon)),
        lambda: owner.retry_run(chance.choice(waiting) if waiting else run),
        lambda: owner.reschedule(chance.choice(one_offs) if one_offs else run, at=soon),
        lambda: owner.requeue(chance.choice(one_offs) if one_offs else run, priority=chance.choice(("high", "low"))),
        lambda: owner.signal(chance.choice(going) if going else run, "go", chance.randrange(3)),
        lambda: owner.signal_link(
            chance.choice(going) if going else run, "go", to="ada@acme", base="https://q.example"
        ),
        *[lambda: owner.revoke_link(run, owner.signal_link(run, "go", to="ada", base="https://jobs.example.com").id)]
        * 3,
        lambda: owner.replay_run(run, idempotency_key=token),
        *[lambda: owner.trigger("flow")] * 3,
        lambda: owner.skip_task(flow, chance.choice("bc")),
        lambda: owner.retry_pipeline(flow, skip=chance.choice(([], ["b"])), idempotency_key=token),
        lambda: owner.redrive(chance.choice(failed) if failed else run),
        lambda: owner.redrive(job="bad", since=past[0], limit=3, rate=1_000.0),
        lambda: owner.backfill(name, *past, current=True, concurrency=2, dry_run=False, client_token=token),
        *[lambda: owner.pause_backfill(*which), lambda: owner.resume_backfill(*which)]
        * 7,  # most find none that is open
        lambda: owner.cancel_backfill(*which),
        lambda: owner.bulk("retag", prefix="s", tags={"a": str(chance.randrange(3))}),
    ]
    if chance.random() < 0.12:
        acts = [
            lambda: owner.freeze(soon, reason="n"),
            owner.thaw,
            lambda: owner.purge(job="bad"),
            lambda: owner.delete_schedule(name),
            lambda: owner.bulk("pause", prefix="s1"),
        ]
    return chance.choice(acts)()
