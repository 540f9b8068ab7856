"""``quarterjack move``: a tenant goes from one installation to another by its commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from quarterjack.cli.app import app
from quarterjack.cli.shell import Shell
from quarterjack.testing import Harness
from typer.testing import CliRunner

from tests.support.scenes.moving import START, TENANT, create, installation, together


@contextmanager
def at(here: Harness) -> Iterator[None]:
    """The command line acts there."""
    with (
        patch.object(Shell, "tenants", property(lambda shell: here.tenants)),
        patch.object(Shell, "scheduler", property(lambda shell: here.scheduler)),
    ):
        yield


def run(here: Harness, *words: Any) -> Any:
    with at(here):
        return CliRunner().invoke(app, ["--tenant", TENANT, *map(str, words)])


@pytest.fixture
def there() -> Harness:
    made = installation()
    create(made.scheduler)
    made.advance(minutes=5)
    return made


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_a_tenant_moves_by_three_commands(there: Harness, tmp_path: Path, suffix: str) -> None:
    here, file, border = installation(), tmp_path / f"acme{suffix}", START + timedelta(minutes=20)
    here.advance(minutes=5)
    dumped = run(there, "move", "dump", file)
    assert dumped.exit_code == 0, dumped.output
    assert "lines in" in dumped.output
    assert file.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [file]
    tried = run(here, "move", "load", file, "--start", border.isoformat(), "--dry-run")
    assert "would be created: 11 schedule" in tried.output
    assert here.memory.heads() == []
    ended = run(there, "move", "end", "--at", border.isoformat())
    assert "9 schedules end at 2026-05-04 12:20:00Z" in ended.output
    assert "back does not resume by itself at 2026-05-04 21:00:00Z any more" in ended.output
    loaded = run(here, "move", "load", file, "--start", border.isoformat())
    assert "created: 11 schedule" in loaded.output
    together((there, here), minutes=30)
    last, first = (
        [each.due for each in one.runs() if each.schedule == "minutely" and each.attempt] for one in (there, here)
    )
    assert (max(last), min(first)) == (border, border + timedelta(minutes=1))
    undone = run(there, "move", "end", "--at", border.isoformat(), "--undo")
    assert "go on from 2026-05-04 12:20:00Z" in undone.output


def test_refused_lines_are_printed_and_the_exit_code_says_so(there: Harness, tmp_path: Path) -> None:
    file = tmp_path / "acme.jsonl"
    assert run(there, "move", "dump", file, "--no-history").exit_code == 0
    there.scheduler.update_schedule("minutely", payload={"n": 2})
    done = run(there, "move", "load", file)
    assert done.exit_code == 1
    assert "exists here with another definition: payload differ; make them equal" in done.output
    as_json = run(there, "--json", "move", "load", file, "--dry-run")
    said = json.loads(as_json.stdout)
    assert (said["written"], said["problems"][0]["field"], said["refused"]) == (False, "name", {"schedule": 1})


def test_a_file_that_is_there_is_not_overwritten_and_none_is_left_after_an_error(
    there: Harness, tmp_path: Path
) -> None:
    file = tmp_path / "acme.jsonl"
    file.write_text("mine")
    refused = run(there, "move", "dump", file)
    assert refused.exception is not None
    assert "exists already" in str(refused.exception)
    with patch.object(there.tenants, "dump", lambda *given, **options: (1 / 0 for _ in range(2))):
        failed = run(there, "move", "dump", file, "--force")
    assert isinstance(failed.exception, ZeroDivisionError)
    assert [*tmp_path.iterdir()] == [file]
    assert file.read_text() == "mine"


def test_all_tenants_are_dumped_with_the_installation(there: Harness, tmp_path: Path) -> None:
    there.scheduler.with_tenant("globex").create_schedule("a", "greet", "0 9 * * *")
    file = tmp_path / "all.jsonl"
    assert run(there, "move", "dump", file, "--all-tenants", "--since", "1h").exit_code == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {"acme", "globex"} == {line["tenant"] for line in lines if line.get("item") == "schedule"}
    assert "tenant" not in lines[0]
