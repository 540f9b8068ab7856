"""Files that were made by hand, that are foreign, damaged, or in conflict with what is here: told by line, and nothing half-written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Grant, Tenants
from quarterjack.errors import Forbidden, InvalidInput
from quarterjack.testing import Harness

from tests.support.scenes.moving import START, TENANT, create, dumped, installation
from tests.support.scenes.world import Faults

HEADER = {"format": "quarterjack-dump", "version": 1}
DAILY = {"item": "schedule", "tenant": TENANT, "name": "daily", "job": "greet", "expression": "0 9 * * *"}


def written(path: Path, *items: Any, header: Any = None, end: bool = True) -> Path:
    lines = [HEADER if header is None else header, *items, *([{"item": "end"}] if end else [])]
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def here() -> Harness:
    return installation()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "dump.jsonl"


def rows(here: Harness) -> list[str]:
    """Everything that is stored."""
    tables = here.memory._tables
    return sorted(f"{table}{row}" for table in tables for row in map(repr, tables[table]))


def test_a_file_by_hand_is_loaded(here: Harness, file: Path) -> None:
    pipeline = {"item": "schedule", "tenant": TENANT, "name": "line", "expression": "0 * * * *"}
    hand = written(
        file,
        {"item": "tenant", "tenant": "globex", "limits": {"schedules": 5}, "jobs": ["greet"]},
        DAILY | {"payload": {"a": 1}, "tags": {"x": "y"}, "retry": {"max_attempts": 5}},
        "",
        pipeline | {"tasks": {"a": {"job": "greet"}, "b": {"job": "greet", "after": ["a"]}}},
        DAILY | {"name": "jittered", "rule": {"jitter": 600}},
        {"item": "run", "run": "acme/daily#001777885200000", "job": "greet", "state": "SUCCEEDED"}
        | {"due": "2026-05-04T09:00:00Z", "ended_at": "2026-05-04T09:00:05Z", "tenant": TENANT},
    )
    done = here.tenants.load(hand, start=START)
    assert (done.problems, done.created) == ([], {"tenant": 1, "schedule": 3, "run": 1})
    assert here.scheduler.get_schedule("daily").state == "ACTIVE"
    here.advance(hours=24)
    assert {run.schedule for run in here.runs() if run.schedule} == {"daily", "jittered", "line"}
    assert here.scheduler.list_runs(until=START).items[0].id == "acme/daily#001777885200000"
    assert here.tenants.get("globex").limits == {"schedules": 5}


def test_a_compressed_file_is_read(here: Harness, tmp_path: Path) -> None:
    create(here.scheduler)
    plain = dumped(here, tmp_path / "a.jsonl").read_bytes()
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(plain))
    assert installation().tenants.load(packed).created["schedule"] == 11
    packed.write_bytes(gzip.compress(plain)[:-200])
    with pytest.raises(InvalidInput, match=r"file=.*cannot be read"):
        installation().tenants.load(packed)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"schedules": {}}, "line 1=.*is not the header of a dump; take a file that"),
        ("managed_by: acme", "line 1=.*is not the header of a dump"),
        (HEADER | {"version": 2, "release": "9.0"}, "line 1: version=2: is later than 1.*9.0"),
        (HEADER | {"version": "1"}, "line 1: version='1': is not the number of a format"),
    ],
)
def test_a_foreign_file_is_refused(here: Harness, file: Path, header: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        here.tenants.load(written(file, header=header))


def test_a_file_that_was_cut_off_is_refused_before_anything_is_written(here: Harness, file: Path) -> None:
    before = rows(here)
    with pytest.raises(InvalidInput, match="has no last line with the item end: it was cut off"):
        here.tenants.load(written(file, DAILY, end=False))
    with pytest.raises(InvalidInput, match=r"file='/nowhere': cannot be read"):
        here.tenants.load("/nowhere")
    assert rows(here) == before


BAD: dict[str, tuple[Any, str, str]] = {  # the line; field and remedy of its problem
    "no JSON": ('{"item": "schedule"', "line", "one JSON object a line"),
    "a key twice": ('{"item": "queue", "name": "a", "name": "b"}', "line", "one JSON object"),
    "no item": ({"tenant": TENANT}, "item", "use one of application-version, queue, tenant"),
    "a list": ("[1]", "item", "use one of"),
    "an unknown word": (DAILY | {"expresion": "x"}, "expresion", "did you mean 'expression'"),
    "no job": ({k: v for k, v in DAILY.items() if k != "job"}, "job", "write the name of a job"),
    "a bad expression": (DAILY | {"expression": "0 25 * * *"}, "expression", ""),
    "a bad zone": (DAILY | {"timezone": "Mars"}, "timezone", ""),
    "a bad time": (DAILY | {"ended_at": "yesterday"}, "ended_at", "write e.g. 2026-12-24T18:00:00.000Z"),
    "a bad state": (DAILY | {"state": "SLEEPING"}, "state", "use one of ACTIVE"),
    "a deleted one": (DAILY | {"state": "DELETED"}, "state", "leave the line out"),
    "a bad tenant": (DAILY | {"tenant": "a/b"}, "tenant", ""),
    "no name": (DAILY | {"name": None}, "name", "write a text"),
    "a bad policy": (DAILY | {"timeout": -1}, "timeout", "use 0.001"),
    "a bad rule state": (DAILY | {"rule_state": {"sed": 1}}, "rule_state.sed", "seed"),
    "a bad pending": (DAILY | {"rule_state": {"pending": 3}}, "rule_state.pending", "leave it out"),
    "a payload too large": (DAILY | {"payload": "x" * 300_000}, "payload", ""),
    "an unknown queue": (DAILY | {"queue": "fast"}, "queue", "declare it here, and deploy first"),
    "an unknown queue of a task": (
        DAILY | {"job": "pipeline:daily", "tasks": {"a": {"job": "greet", "queue": "fast"}}},
        "tasks.a.queue",
        "declare it here",
    ),
    "a job that is not granted": (DAILY | {"tenant": "limited"}, "job", "tenants set limited --add-job greet"),
    "an erased tenant": ({"item": "tenant", "tenant": "x", "state": "ERASED"}, "state", "leave the line out"),
    "a bad limit": ({"item": "tenant", "tenant": "x", "limits": {"runs": 1}}, "limits", ""),
    "a bad grant": (
        {"item": "tenant", "tenant": "x", "grants": [{"to": "alice", "can": ["x"]}]},
        "to",
        "begin it with",
    ),
    "no list of grants": ({"item": "tenant", "tenant": "x", "grants": [3]}, "grants", "write a list of objects"),
    "a tier without profile": ({"item": "tenant", "tenant": "x", "tier": "gold"}, "tier", "create '~gold' first"),
    "a running run": ({"item": "run", "run": "acme/a#1", "state": "RUNNING"}, "state", "use CANCELLED"),
    "no run": ({"item": "run", "run": "acme", "state": "DEAD"}, "run_id", ""),
    "no transition": ({"item": "transition", "run": "acme/a#1"}, "run", "as the archive has it"),
    "a number for a text": (DAILY | {"managed_by": 3}, "managed_by", "write a text"),
    "truth for a number": (DAILY | {"revision": True}, "revision", "write a whole number"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_told_and_nothing_is_written(here: Harness, file: Path, name: str) -> None:
    line, field, remedy = BAD[name]
    here.tenants.create("limited", jobs=["fail"])
    before = rows(here)
    bad = written(file, DAILY | {"name": "good"}, line)
    done = here.tenants.load(bad)
    assert [(one.line, one.field) for one in done.problems] == [(3, field)]
    assert remedy in done.problems[0].remedy
    assert (done.written, rows(here)) == (False, before)
    rest = here.tenants.load(bad, skip=True)
    assert (rest.written, rest.created, sum(rest.refused.values())) == (True, {"schedule": 1}, 1)
    assert [one.line for one in rest.problems] == [3]
    assert here.scheduler.get_schedule("good").state == "PAUSED"


def test_what_is_here_with_another_content_is_in_the_way(here: Harness, file: Path) -> None:
    here.scheduler.create_schedule("daily", "greet", "0 9 * * *", payload=1, tags={"a": "b"})
    here.tenants.create(TENANT, description="mine")
    here.scheduler.freeze(START.replace(hour=20), reason="here")
    found = written(
        file,
        {"item": "tenant", "tenant": TENANT, "description": "theirs"},
        {"item": "freeze", "tenant": TENANT, "until": "2026-05-05T00:00:00Z"},
        DAILY | {"payload": True},
        DAILY | {"payload": 1, "tags": {"a": "b"}},
    )
    before = rows(here)
    done = here.tenants.load(found, dry_run=True)
    assert [(one.line, one.field) for one in done.problems] == [(2, "tenant"), (3, "tenant"), (4, "name")]
    assert "description differ" in done.problems[0].problem
    assert "payload, tags differ" in done.problems[2].problem
    assert (done.unchanged, rows(here)) == ({"schedule": 1}, before)


def test_a_name_that_was_deleted_here_after_the_start_is_in_the_way(here: Harness, file: Path) -> None:
    here.scheduler.create_schedule("daily", "greet", "0 9 * * *")
    here.advance(hours=1)
    here.scheduler.delete_schedule("daily")
    done = here.tenants.load(written(file, DAILY), start=START)
    assert [one.field for one in done.problems] == ["name"]
    assert "start from 2026-05-04T13:00:00.000Z on" in done.problems[0].remedy
    after = here.tenants.load(file, start=here.clock.now())
    assert (after.created, here.scheduler.get_schedule("daily").revision) == ({"schedule": 1}, 2)


def test_a_job_that_no_worker_has_published_is_a_warning_or_refused(here: Harness, file: Path) -> None:
    unknown = written(file, DAILY | {"job": "elsewhere"}, DAILY | {"job": "elsewhere", "name": "b"})
    text = "job='elsewhere': no worker of this installation has published it"
    assert here.tenants.load(unknown, dry_run=True).warnings == {text: 2}
    assert here.tenants.load(unknown, strict=True).refused == {"schedule": 2}


def test_lines_of_another_tenant_are_refused_in_the_dump_of_one(here: Harness, file: Path) -> None:
    done = here.tenants.load(written(file, DAILY, DAILY | {"tenant": "globex"}, header=HEADER | {"tenant": TENANT}))
    assert [(one.line, one.field, one.value) for one in done.problems] == [(3, "tenant", "globex")]


def test_one_name_twice_is_told_when_it_is_written(here: Harness, file: Path) -> None:
    done = here.tenants.load(written(file, DAILY, DAILY | {"payload": 2}))
    assert (done.created, done.refused) == ({"schedule": 1}, {"schedule": 1})
    assert here.scheduler.describe_schedule("daily").schedule.revision == 1


def test_grants_that_would_lock_out_who_loads_them_are_refused(here: Harness, file: Path) -> None:
    grants = [{"to": "iam:arn:aws:iam::1:role/x", "can": ["admin"]}]
    locked = written(file, {"item": "tenant", "tenant": "~installation", "grants": grants})
    done = here.tenants.load(locked)
    assert [(one.field, one.line) for one in done.problems] == [("grants", 2)]
    assert here.tenants.load(locked, grants=False).created == {"tenant": 1}
    assert here.tenants.load(locked, grants=False).unchanged == {"tenant": 1}
    here.tenants.create_key(TENANT, "k", "viewer")  # nobody is locked out


def test_versions_of_an_installation_that_has_its_own_stay(here: Harness, file: Path) -> None:
    line = {"item": "application-version", "name": "1.0", "id": "a", "timestamp": "2026-05-04T09:00:00Z"}
    here.deploy("2.0")
    done = here.tenants.load(written(file, line))
    assert list(done.warnings) == [
        "this installation has application versions of its own: those of the dump are left out"
    ]
    assert [each.version_name for each in here.scheduler.list_application_versions()] == ["2.0"]


def test_a_tenant_that_the_caller_may_not_dump_ends_the_dump(here: Harness) -> None:
    create(here.scheduler)
    here.tenants.grant("~installation", "iam:*", "admin")
    here.tenants.grant(TENANT, "iam:*", "admin")
    owner = Tenants(services=here.memory.connect(), clock=here.clock, actor="bob")
    here.tenants.grant("~installation", "app:bob", ["read-tenant"])
    with pytest.raises(Forbidden):
        owner.dump()
    assert Grant(to="app:bob", can=("read-tenant",)) in here.tenants.get("~installation").grants


def test_a_dump_reads_as_its_reader_advances(here: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.moving.dump._HEADS", 10)
    for number in range(35):
        here.scheduler.create_schedule(f"s{number:02d}", "greet", "0 9 * * *")
    faults = Faults()
    lines = Tenants(services=here.memory.connect(faults), clock=here.clock).dump(TENANT)
    pages = [faults.verbs().count("page") for _ in lines]
    assert pages[:2] == [0, 1]
    assert [pages[at] for at in (10, 11, 21, 31)] == [1, 2, 3, 4]
