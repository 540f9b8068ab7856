"""A dump of an installation with everything in it, loaded into an empty one, answers every question as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from quarterjack.errors import TooNew
from quarterjack.stores.tables import REVISIONS, SCHEDULES, TableDefinition
from quarterjack.testing import Harness

from tests.support.scenes.moving import START, TENANT, create, dumped, furnish, installation


def told(value: Any, leave: frozenset[str] = frozenset()) -> Any:
    """A view as plain values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: told(getattr(value, f.name), leave) for f in fields(value) if f.init and f.name not in leave}
    if isinstance(value, dict):
        return {key: told(each, leave) for key, each in value.items()}
    return [told(each, leave) for each in value] if isinstance(value, (list, tuple)) else value


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Harness, Harness, Path]:
    """Where it was, where it is, and the file."""
    there, here = installation(), installation()
    furnish(there)
    here.advance(hours=2, minutes=1)
    file = dumped(there, tmp_path_factory.mktemp("moved") / "all.jsonl")
    done = here.tenants.load(file, start=there.clock.now())
    assert (done.written, done.refused, done.problems) == (True, {}, [])
    assert done.created["schedule"] == 12
    return there, here, file


VERSIONS = frozenset({"version", "created_at", "updated_at"})
# Changes are counted anew, and an incident begins anew.
SCHEDULE = frozenset({"version", "updated_at", "actor", "failing", "failed_at", "failed_run", "incident"})
READS: dict[str, tuple[Callable[[Harness], Any], frozenset[str]]] = {
    "profiles": (lambda one: one.tenants.list(), VERSIONS),
    "schedules": (lambda one: one.scheduler.list_schedules(limit=100).items, SCHEDULE),
    "schedules of another": (lambda one: one.scheduler.with_tenant("globex").list_schedules().items, SCHEDULE),
    "declarations": (lambda one: one.scheduler.export_declared(), frozenset()),
    "pipelines": (lambda one: one.scheduler.list_pipelines().items, SCHEDULE),
    "freeze": (lambda one: one.scheduler.with_tenant("globex").frozen(), frozenset({"created_at", "actor"})),
    "versions": (lambda one: one.scheduler.list_application_versions(), frozenset()),
    "runs that have ended": (
        lambda one: one.scheduler.list_runs(state=["SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED"], limit=1_000).items,
        frozenset(),
    ),
    "failed runs of a job": (lambda one: one.scheduler.list_runs(job="fail", failed=True).items, frozenset()),
    "runs by tag": (lambda one: one.scheduler.list_runs(tag="team", limit=1_000).items, frozenset()),
    "archive": (lambda one: list(one.scheduler.archive(since=START - timedelta(days=1))), frozenset()),
    "preview": (
        lambda one: {
            each.name: one.scheduler.preview(each.name, count=20)
            for each in one.scheduler.list_schedules(state="ACTIVE").items
        },
        frozenset(),
    ),
    "forecast": (lambda one: one.scheduler.forecast(), frozenset()),
    "jobs": (lambda one: [job.name for job in one.scheduler.jobs()], frozenset()),
}


@pytest.mark.parametrize("name", READS)
def test_every_answer_is_as_it_was(moved: tuple[Harness, Harness, Path], name: str) -> None:
    there, here, _ = moved
    read, leave = READS[name]
    before, after = told(read(there), leave), told(read(here), leave)
    assert before, "nothing is compared"
    assert after == before


def test_each_payload_and_each_word_is_as_it_was(moved: tuple[Harness, Harness, Path]) -> None:
    there, here, _ = moved
    for one in there.scheduler.list_schedules(limit=100).items:
        before, after = (
            told(each.scheduler.describe_schedule(one.name).definition, SCHEDULE) for each in (there, here)
        )
        assert after == before
    assert len(json.dumps(here.scheduler.export_declared()[None]["large"]["payload"])) > 120_000


def test_a_second_load_finds_everything(moved: tuple[Harness, Harness, Path]) -> None:
    there, here, file = moved
    rows = here.memory.heads(), here.memory.entries(), here.tenants.list()
    again = here.tenants.load(file, start=there.clock.now())
    assert (again.started, again.refused, set(again.created)) == ({}, {}, {"run", "transition"})
    assert (here.memory.heads(), here.memory.entries(), here.tenants.list()) == rows
    assert told(READS["archive"][0](here)) == told(READS["archive"][0](there))
    ended = READS["runs that have ended"][0]
    assert told(ended(here)) == told(ended(there))


def test_a_dump_has_one_line_an_item_and_says_what_it_has(moved: tuple[Harness, Harness, Path]) -> None:
    _, _, file = moved
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {name: lines[0][name] for name in ("format", "version")} == {"format": "quarterjack-dump", "version": 1}
    assert lines[-1]["item"] == "end"
    kinds = [line["item"] for line in lines[1:-1]]
    assert {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)} == lines[-1]["counts"]
    assert {"application-version", "queue", "tenant", "freeze", "schedule", "run", "transition"} == set(kinds)
    assert not [line for line in lines if line.get("name") == "gone"]


def test_keys_and_secrets_are_in_no_dump(tmp_path: Path) -> None:
    there = installation()
    create(there.scheduler)
    there.set_secret("token", "swordfish")
    key = there.tenants.create_key(TENANT, "crm", ["submit"])
    text = dumped(there, tmp_path / "a").read_text()
    secret = key.text.rpartition("_")[2]
    assert "swordfish" not in text
    assert "crm" not in text
    assert secret not in text


def test_a_dump_of_one_tenant_has_nothing_of_another(moved: tuple[Harness, Harness, Path], tmp_path: Path) -> None:
    there, _, _ = moved
    lines = [json.loads(line) for line in dumped(there, tmp_path / "a", TENANT).read_text().splitlines()]
    assert {line["tenant"] for line in lines if "tenant" in line} == {TENANT}
    assert not [line for line in lines if line.get("item") in ("queue", "application-version")]


def test_both_acts_have_their_audit_entries(moved: tuple[Harness, Harness, Path]) -> None:
    there, here, _ = moved
    dumps = [row["object"] for row in there.memory.audit_rows() if row.get("act") == "dump"]
    loads = [row for row in here.memory.audit_rows() if row.get("act") == "load"]
    assert "~installation" in dumps
    assert {row["object"] for row in loads} > {"~installation", "acme/minutely", "globex/nightly"}
    assert here.scheduler.audit(act="load", schedule="minutely").items


@pytest.mark.parametrize("tenant", [None, TENANT])
@pytest.mark.parametrize(
    ("table", "key"), [(SCHEDULES, (TENANT, "large")), (REVISIONS, (f"{TENANT}/large", 1))], ids=["head", "revision"]
)
def test_a_dump_leaves_no_schedule_out(
    table: TableDefinition, key: tuple[str, str | int], tenant: str | None, tmp_path: Path
) -> None:
    there = installation()
    create(there.scheduler)
    rows = there.memory._tables[table]
    row = rows.get(*key)
    assert row is not None
    rows.put(*key, row | {"v": 2})
    with pytest.raises(TooNew, match=f"{TENANT}/large"):
        dumped(there, tmp_path / "all.jsonl", tenant)


def test_the_end_of_the_schedules_names_those_that_go_on() -> None:
    there = installation()
    create(there.scheduler)
    rows = there.memory._tables[SCHEDULES]
    row = rows.get(TENANT, "large")
    assert row is not None
    rows.put(TENANT, "large", row | {"v": 2})
    ended = there.tenants.end_schedules(TENANT, START + timedelta(hours=1))
    assert list(ended.failed) == ["large"]
    assert "this release reads up to 1" in ended.failed["large"]
