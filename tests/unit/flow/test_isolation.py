"""What somebody can write who may send to the queue, or has the role of one tenant: nothing of another tenant is read or changed.

A tenant's role may write the rows of its own partitions as it likes, but no row of another's: ``infra/test_grants.py``. So each row here
is in the neighbour's partition and names what is the tenant's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from quarterjack import Context, Scheduler
from quarterjack.domain.history.dead_run import DeadRunRow, dead_owner
from quarterjack.domain.message import Message
from quarterjack.domain.names import RunRef, fire_ref, one_off_ref, parse_run_id
from quarterjack.domain.notice import Notice, NoticeKind, notice_key
from quarterjack.domain.payload import PAYLOADS, RESULTS
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.domain.times import DAY, MINUTE, to_ms
from quarterjack.errors import QuarterjackError
from quarterjack.state.backfill import RECORD, BackfillOrder, DefinitionSpan, StoredBackfill
from quarterjack.stores.dead_index import dead_put
from quarterjack.stores.records import Record
from quarterjack.stores.rows import present, run_row
from quarterjack.stores.tables import AGENDA, REVISIONS, RUNS

from tests.support.scenes.neighbours import MARK, START, VICTIM, Neighbours

B = "b"


def every_call(who: Scheduler, now: datetime) -> str:
    """What the neighbour is shown of everything that it has, and what it is told where that fails."""
    said: list[object] = []

    def ask(call: Callable[..., object], *given: Any, **more: Any) -> None:
        try:
            said.append(call(*given, **more))
        except QuarterjackError as problem:
            said.append(problem)

    for call in (who.list_schedules, who.list_runs, who.list_dead, who.audit, who.export_declared, who.list_running):
        ask(call)
    for name in ("s", "acme/s", "forged"):
        for about in (who.get_schedule, who.describe_schedule, who.list_backfills, who.list_runs, who.trigger):
            ask(about, name)
        ask(who.backfill, name, now - timedelta(hours=3), now, current=True)
    for run in _ids(who):
        for of_run in (
            who.get_run,
            who.run_logs,
            who.why_run,
            who.transitions,
            who.replay_run,
            who.redrive,
            who.retry_run,
        ):
            ask(of_run, run)
    ask(who.redrive, job="note")
    ask(who.purge, job="bad")
    return repr(said)


def _ids(who: Scheduler) -> list[str]:
    """Of all its runs, whatever a listing knows of them."""
    return [str(run.ref) for run in who.session.services.upkeep.runs(segment=0, segments=1, tenant=who.tenant)]


class Forger:
    """An installation with the tenant, and the neighbour with the role of its own."""

    def __init__(self) -> None:
        self.scene = Neighbours()
        self.who = self.scene.neighbour(B)
        self.scene.jobs.job("continue")(self._continue)
        self.seen: list[object] = []
        self.scene.harness.advance(minutes=1)
        self.before = self.scene.belongings()
        self.scene.started.clear()

    def _continue(self, ctx: Context, payload: object) -> None:
        self.seen.append(ctx.resume)

    def row(self, table: Any, row: dict[str, Any]) -> None:
        """Write a row of the neighbour's own."""
        partition, key = row[table.hash_key], row[table.range_key]
        assert str(partition).startswith((f"{B}/", f"{B}#"))
        self.scene.memory._tables[table].put(partition, key, present(row))

    def run(self, **changes: Any) -> RunRow:
        now = self.scene.clock()
        given: dict[str, Any] = {
            "ref": one_off_ref(B, "forged"),
            "state": RunState.QUEUED,
            "revision": 0,
            "job": "note",
        }
        given |= {"due": now, "not_before": now, "created_at": now, "payload": "1"}
        run = RunRow(**given | changes)
        self.row(RUNS, run_row(run) | ({"ended_at": now, "result_ref": run.result_ref} if run.is_terminal else {}))
        entry = AgendaEntry(shard=0, due=now, kind=EntryKind.RUN, id=str(run.ref), created_at=now)
        assert self.scene.services.agenda.put([entry])
        return run

    def entry(self, kind: EntryKind, identity: str, **changes: Any) -> None:
        entry = AgendaEntry(shard=0, due=self.scene.clock(), kind=kind, id=identity, **changes)
        assert self.scene.services.agenda.put([entry])

    def object(self, folder: str, part: str = "") -> str:
        return next(key for key in self.before if key.startswith(f"{folder}/{VICTIM}/") and part in key)

    def nothing_happened(self, *, hours: float = 2) -> None:
        """Let the installation live, and the neighbour look at everything; nothing is read, nothing changed."""
        self.scene.harness.advance(minutes=5)
        said = every_call(self.who, self.scene.clock.now())
        self.scene.harness.advance(hours=hours)
        said += every_call(self.who, self.scene.clock.now())
        after = self.scene.belongings()
        assert {key for key in self.before.keys() | after.keys() if self.before.get(key) != after.get(key)} == set()
        assert MARK not in said
        assert MARK not in repr(self.scene.started)
        assert MARK not in repr(self.seen)
        assert {run_id.partition("/")[0] for run_id, _ in self.scene.started} <= {B}
        stolen = [
            text for key, (text, _) in self.scene.memory._payloads.items() if key not in self.before and MARK in text
        ]
        assert stolen == [], "copied into an object of its own"


# Messages.


@pytest.mark.parametrize("seed", range(5))
def test_messages_about_any_run_of_the_tenant(seed: int) -> None:
    forger, random = Forger(), Random(seed)
    refs = [parse_run_id(one) for one in forger.scene.stolen["run_id"]]
    refs += [
        fire_ref(f"{VICTIM}/{name}", forger.scene.clock() - n * MINUTE) for n, name in enumerate(("s", "h", "gone"))
    ]
    refs += [RunRef(f"{B}/{VICTIM}/s", ref.key) for ref in refs] + [RunRef(f"{VICTIM}/~token", "once")]
    now = forger.scene.clock()
    for ref in refs:
        message = Message(
            run=ref,
            revision=random.choice([0, 1, 2, 3]),
            not_before=random.choice([0, now, now + MINUTE, 10**14]),
            fence=random.choice([0, 0, 1, 9]),
            backfill=random.choice([None, None, forger.scene.stolen["id"][0]]),
        )
        text = json.loads(message.encode()) | {
            "payload": "mine",
            "job": "note",
            "payload_ref": f"payloads/{B}/x",
            "tenant": B,
        }
        forger.scene.memory.work.put(json.dumps(text))
    forger.nothing_happened()


# Rows of its own that name what is the tenant's.


@pytest.mark.parametrize(("folder", "part"), [(PAYLOADS, "/runs/"), (PAYLOADS, "/schedules/"), (RESULTS, "")])
def test_a_run_whose_payload_is_the_tenants_object(folder: str, part: str) -> None:
    forger = Forger()
    forger.run(payload=None, payload_ref=forger.object(folder, part))
    forger.nothing_happened()


@pytest.mark.parametrize(("folder", "part"), [(PAYLOADS, "/schedules/"), (RESULTS, "")])
def test_an_ended_run_whose_payload_and_result_are_the_tenants_objects(folder: str, part: str) -> None:
    forger = Forger()
    key = forger.object(folder, part)
    forger.run(
        state=RunState.SUCCEEDED,
        payload=None,
        payload_ref=key,
        result_ref=key,
        replay_of=forger.scene.stolen["run_id"][0],
    )
    forger.run(ref=one_off_ref(B, "dead"), state=RunState.DEAD, payload=None, payload_ref=key, result_ref=key)
    forger.nothing_happened()


@pytest.mark.parametrize(("folder", "part"), [(PAYLOADS, "/runs/"), (PAYLOADS, "/schedules/"), (RESULTS, "")])
def test_a_schedule_whose_payload_is_the_tenants_object(folder: str, part: str) -> None:
    forger = Forger()
    row = forger.scene.memory._tables[REVISIONS].get(f"{B}/s", 1)
    assert row is not None
    forger.row(REVISIONS, {**row, "payload": None, "payload_ref": forger.object(folder, part)})
    forger.nothing_happened()


def test_a_checkpoint_in_the_tenants_object() -> None:
    forger = Forger()
    run = forger.run(job="continue", state=RunState.CONTINUED, slices=1, fence=1)
    beside = {"owner": run.ref.owner, "key": f"#{run.ref.key}#checkpoint#last", "text": f"@{forger.object(RESULTS)}"}
    forger.row(RUNS, beside)
    forger.nothing_happened()
    row = forger.scene.memory.row(run.ref)
    assert row is not None
    assert row["state"] in {"RETRYING", "DEAD"}, "the job had asked for it"


def test_a_line_of_a_dead_run_of_the_tenants() -> None:
    forger = Forger()
    dead = [run for run in forger.scene.memory.runs() if run.state is RunState.DEAD and run.ref.tenant == VICTIM]
    assert dead
    for run in dead:
        now = forger.scene.clock()
        line = DeadRunRow(run=run.ref, job="note", ended_at=now, fence=run.fence, attempts=1, reason="mine")
        row = {**dead_put(line, now + DAY).row, "owner": dead_owner(B, now // DAY)}
        forger.row(RUNS, row)
    assert forger.who.redrive(job="note").runs == []
    forger.nothing_happened()


def test_a_backfill_of_the_tenants_schedule() -> None:
    """Its record is in the neighbour's partition, and its entry in the agenda, where all tenants' are."""
    forger = Forger()
    services = forger.scene.services
    head = services.schedules.head(VICTIM, "s")
    assert head is not None
    begin, fire, end = (to_ms(START - timedelta(days=days), "at") for days in (130, 123.5, 100))
    one = StoredBackfill(
        id="mine",
        tenant=VICTIM,
        name="s",
        born=head.created_at,
        start=begin,
        end=end,
        order=BackfillOrder.OLDEST,
        concurrency=5,
        spans=(DefinitionSpan(head.revision, begin, end, begin),),
        total=1,
        first=fire,
        last=fire,
        created_at=forger.scene.clock(),
        payload='"mine"',
        allow_repeat=True,
    )
    assert services.records.write(Record(owner=f"{B}/s", key=f"{RECORD}mine", version=1, body=one.as_body()))
    forger.entry(EntryKind.BACKFILL, f"{B}/s#mine")
    forger.entry(EntryKind.BACKFILL, f"{VICTIM}/s#mine")
    forger.nothing_happened()
    for call in (
        forger.who.get_backfill,
        forger.who.resume_backfill,
        forger.who.cancel_backfill,
        forger.who.backfill_runs,
    ):
        with pytest.raises(QuarterjackError):
            call("s", "mine")
    forger.nothing_happened()


def theirs(forger: Forger) -> list[object]:
    """The events about the tenant."""
    return [event for event in forger.scene.harness.events if event["data"].get("tenant") == VICTIM]


@pytest.mark.parametrize("to", ["job:note", "arn:aws:sns:us-east-1:000000000000:acme"])
def test_a_notice_about_the_tenants_schedule(to: str) -> None:
    forger = Forger()
    notice = Notice(
        kind=NoticeKind.FAILURE,
        tenant=VICTIM,
        schedule="s",
        job="note",
        incident="1",
        began="2026-05-04T12:00:00+00:00",
        at="2026-05-04T12:00:00+00:00",
        count=1,
        text="mine",
    )
    body = {"to": to, "notice": notice.document()}
    published, told = len(forger.scene.memory.published), theirs(forger)
    assert forger.scene.services.records.write(Record(owner=f"{B}/s", key=notice_key("t"), version=1, body=body))
    forger.entry(EntryKind.NOTICE, f"{B}/s#t")
    forger.nothing_happened()
    assert len(forger.scene.memory.published) == published
    assert theirs(forger) == told


def test_a_client_token_that_remembers_the_tenants_schedule() -> None:
    forger = Forger()
    forger.who.pause_schedule("s", client_token="mine")
    services = forger.scene.services
    record = services.records.read(f"{B}/~token", "~token~mine")
    head = services.schedules.head(VICTIM, "h")
    assert record is not None
    assert head is not None
    known = {name: value for name, value in asdict(head).items() if value is not None and name != "tags"}
    forged = replace(record, version=record.version + 1, body={**record.body, "head": known})
    assert services.records.write(forged)
    with pytest.raises(QuarterjackError, match="it is about"):
        forger.who.pause_schedule("s", client_token="mine")
    forger.nothing_happened()


# Entries of the agenda: IAM cannot keep a tenant's role from writing any.


@pytest.mark.parametrize("kind", list(EntryKind))
def test_entries_about_everything_of_the_tenants(kind: EntryKind) -> None:
    """They let the ticker look. It finds nothing to do, and the tenant's own entries stay."""
    forger, now = Forger(), Forger().scene.clock()
    entries = {key for key in forger.before if key.startswith(AGENDA.suffix)}
    runs = forger.scene.stolen["run_id"]
    ids = [*(f"{VICTIM}/{name}#{n}" for name in ("s", "large", "hidden", "gone", "h") for n in (1, 2, 3)), *runs]
    ids += [f"{VICTIM}/{name}" for name in ("s", "hidden", "gone", "nobody")]
    ids += [f"{one}#token" for one in runs] + [f"{VICTIM}/h#{forger.scene.stolen['id'][0]}", f"{VICTIM}/s#x"]
    for identity in ids:
        forger.entry(kind, identity, after=now - DAY, created_at=now)
    forger.scene.harness.advance(minutes=15)
    after = forger.scene.belongings()
    assert entries <= after.keys()
    changed = {key for key in after if forger.before.get(key) != after[key] and not key.startswith(AGENDA.suffix)}
    assert {key for key in changed if "#~" not in key and "~turns" not in key} == set()
    assert {run_id.partition("/")[0] for run_id, _ in forger.scene.started} <= {B}
    assert MARK not in every_call(forger.who, forger.scene.clock.now())
