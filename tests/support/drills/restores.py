"""Drill of a restore: each table goes back to another second amid a load, and the operator reconciles them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime

from quarterjack import Scheduler
from quarterjack.aws import Client
from quarterjack.local.processes import parse
from quarterjack.settings import Settings
from quarterjack.stores.tables import STREAM, TABLES

from tests.support.chaos.books import Books
from tests.support.chaos.evidence import witness
from tests.support.drills.siege import Drill, Siege

_BETWEEN = 1.2  # seconds from the copy of one table to that of the next
_LOST = 6.0  # seconds of load after the last copy
_QUIET = 4.0  # seconds without anything to read, after which the historian has read all
_STAYS = ("chaos.once", "chaos.steps")  # jobs that an owner does not start a second time once they have begun


def _restored(siege: Siege) -> Settings:
    return replace(siege.settings, tables=f"{siege.settings.prefix}2")


def _begin(siege: Siege) -> None:
    siege.environ["historian"] = siege.environ["historian"] | {
        "AWS_ENDPOINT_URL": siege.cloud.endpoint
    }  # it puts objects


def _restore_tables(siege: Siege) -> None:
    """Each table as it is at another second, under another name. Then the load goes on, which those tables do not know."""
    siege.owners.stop()  # nobody repeats what owners have changed since
    client, after = Client("dynamodb", siege.settings), _restored(siege)
    siege.type(
        "aws dynamodb restore-table-to-point-in-time --source-table-name quarterjack-TABLE --target-table-name quarterjack2-TABLE"
    )
    for table in TABLES:
        name = after.table(table.suffix)
        source = siege.settings.table(table.suffix)
        client.call(
            "restore_table_to_point_in_time", SourceTableName=source, TargetTableName=name, UseLatestRestorableTime=True
        )
        if table.stream:
            client.call("update_table", TableName=name, StreamSpecification=STREAM)
        siege.go_on(_BETWEEN)
    siege.go_on(_LOST)
    siege.submit("chaos.note", 40)


def _reconcile(siege: Siege) -> None:
    """The steps of the page."""
    names = [name for name in siege.troupe.names if name != "historian"]
    for name in names:
        siege.stop(name)
    siege.type(
        "aws lambda put-function-concurrency --function-name quarterjack-worker --reserved-concurrent-executions 0"
    )
    siege.wait_for(lambda: _silent(siege))
    siege.stop("historian")
    stopped, point = time.time(), f"{datetime.fromtimestamp(siege.acted_at, UTC):%Y-%m-%dT%H:%M:%SZ}"
    siege.settings = _restored(siege)
    siege.books = Books(siege.settings)
    planned = siege.quarterjack("restore", "plan", "--point", point, "--json").splitlines()
    siege.quarterjack("restore", "run", "--point", point, "--yes")
    kinds = [json.loads(line)["kind"] for line in planned]
    assert {"end-run", "hold-run", "begin-schedule"} <= set(kinds), (
        f"too little was torn to show anything: {set(kinds)}"
    )
    for name in siege.troupe.names:
        siege.environ[name] = siege.environ[name] | {"QUARTERJACK_TABLES": str(siege.settings.tables)}
    siege.owners.move_to(Scheduler(settings=siege.settings))
    siege.type("cdk deploy -c tables=quarterjack2 --import-existing-resources")
    siege.start_again(*siege.workers)
    for name in siege.troupe.names:
        siege.troupe.start_again(name)
    _decide(siege)
    again = [json.loads(line)["target"] for line in planned if '"lose-run"' in line]
    siege.owners.submit_again(again)
    siege.say(f"{len(kinds)} steps: { ({kind: kinds.count(kind) for kind in sorted(set(kinds))}) }")
    siege.go_on(siege.drill.after)
    assert not siege.quarterjack("restore", "undecided", "--json").strip()
    _check_starts(siege, stopped)


def _silent(siege: Siege) -> bool:
    """Whether the historian has found nothing to read for a while."""
    lines = (siege.folder / "historian.log").read_bytes().splitlines()
    last = next(
        (line for line in map(parse, reversed(lines)) if line is not None and line["event"] == "historian.done"), None
    )
    assert last is not None, "the historian has read nothing"
    return time.time() - datetime.fromisoformat(last["time"]).timestamp() > _QUIET


def _decide(siege: Siege) -> None:
    """The owner looks at the effects: what has begun and must not repeat, or has ended, is skipped. All else is fired."""
    seen = {(line["run"], line["what"]) for line in witness(siege.folder / "witness.jsonl")}
    waiting = [json.loads(line) for line in siege.quarterjack("restore", "undecided", "--json").splitlines()]
    owner = Scheduler(settings=siege.settings)
    siege.type("quarterjack runs retry RUN")
    siege.type("quarterjack runs cancel RUN")
    for run in waiting:
        ran = (run["target"], "end") in seen or ((run["target"], "start") in seen and run["kind"] in _STAYS)
        if ran:
            owner.cancel_run(run["target"])
        else:
            owner.retry_run(run["target"])
            siege.owners.accepted.hastened.add(run["target"])


def _check_starts(siege: Siege, stopped: float) -> None:
    """Nothing that had ended before the restore starts after it."""
    lines = witness(siege.folder / "witness.jsonl")
    ended = {line["run"] for line in lines if line["what"] == "end" and line["at"] < stopped}
    for line in lines:
        if line["what"] == "start" and line["at"] > stopped and line["run"] in ended:
            siege.journal.refuse(f"double: {line['run']} had ended and started again after the restore")


RESTORED = Drill(
    name="tables restored",
    done=f"Each of the {len(TABLES)} tables is restored to another second amid the load, and the installation goes on with them after "
    f"{_LOST:.0f} s that they do not know.",
    runbook="how-to/restore",
    prepare=_begin,
    act=_restore_tables,
    procedure=_reconcile,
    plan=lambda plan: replace(plan, historian=True),
    explains=frozenset({"asked to end", "gave it back"}),
)
