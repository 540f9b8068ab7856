"""Pipelines in files: applied with differences by path, as a dry run, pruned, and exported and applied again without a change."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from quarterjack.cli.app import run

from tests.support.scenes.world import World

NIGHTLY = """\
managed_by: acme.reports
schedules:
  nightly:
    expression: "0 2 * * *"
    timezone: Europe/Berlin
    on_task_failure: continue
    tasks:
      orders: {job: note, payload: {day: "${fire.date}"}}
      stock: {job: note}
      report: {job: note, after: [orders, stock], when: 'orders.result != null'}
      items: {job: note, map: {over: [1, 2]}, after: [stock], optional: true}
"""
Said = Callable[..., str]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(at=datetime.now(UTC))
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", world.scheduler)
    monkeypatch.setattr("quarterjack.cli.schedules.apply.Scheduler", lambda **_: world.scheduler)
    return world


@pytest.fixture
def said(world: World, capsys: pytest.CaptureFixture[str]) -> Said:
    def answer(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(words) == code, capsys.readouterr()
        out, err = capsys.readouterr()
        return str(err if code else out)

    return answer


@pytest.fixture
def file(tmp_path: Path, said: Said) -> Path:
    """A file with a pipeline, which is applied."""
    place = tmp_path / "nightly.yaml"
    place.write_text(NIGHTLY, encoding="utf-8")
    assert said("apply", str(place), "--yes").startswith(
        "+ create  nightly  pipeline:nightly  0 2 * * *  Europe/Berlin"
    )
    return place


def change(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


def test_the_same_again_changes_nothing(world: World, file: Path, said: Said) -> None:
    assert "create" not in said("apply", str(file), "--yes")
    assert world.scheduler.get_schedule("nightly").revision == 1


def test_the_difference_has_the_path_of_the_task(world: World, file: Path, said: Said) -> None:
    change(file, "after: [orders, stock], when", "after: [orders], when")
    change(file, "stock: {job: note}", "stock: {job: note, priority: low}")
    lines = [line.strip() for line in said("apply", str(file), "--dry-run").splitlines()]
    assert '- tasks.report.after[1]: "stock"' in lines
    assert '+ tasks.stock.priority: "low"' in lines
    assert not any(line.startswith("tasks:") for line in lines)
    assert world.scheduler.get_schedule("nightly").revision == 1, "a dry run writes nothing"
    (planned, *_) = (json.loads(line) for line in said("apply", str(file), "--dry-run", "--json").splitlines())
    assert [one["path"] for one in planned["task_changes"]] == ["tasks.stock.priority", "tasks.report.after[1]"]
    said("apply", str(file), "--yes")
    assert world.scheduler.get_schedule("nightly").definition["tasks"]["report"]["after"] == ["orders"]
    assert world.scheduler.get_schedule("nightly").revision == 2


def test_what_is_wrong_is_refused_with_its_path(world: World, file: Path, said: Said) -> None:
    change(file, "after: [orders, stock]", "after: [orders, stocks]")
    assert "nightly.tasks.report.after[1]='stocks': is no task" in said("apply", str(file), "--yes", code=1)
    assert world.scheduler.get_schedule("nightly").revision == 1


def test_prune_deletes_a_pipeline_that_the_file_no_longer_has(world: World, file: Path, said: Said) -> None:
    change(file, "  nightly:", "  weekly:")
    assert "weekly" in said("apply", str(file), "--prune", "--yes")
    assert [one.name for one in world.scheduler.list_pipelines().items] == ["weekly"]


def test_an_export_is_applied_again_without_a_change(world: World, file: Path, said: Said, tmp_path: Path) -> None:
    exported = tmp_path / "all.yaml"
    said("export", "--output", str(exported))
    text = exported.read_text(encoding="utf-8")
    assert "tasks:" in text
    assert "job: pipeline:nightly" not in text, "it follows from the name"
    assert "update" not in said("apply", str(exported), "--yes")
    assert world.scheduler.get_schedule("nightly").revision == 1
