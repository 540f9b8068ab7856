"""``minutehand apply`` and ``export`` as one types them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from minutehand import jobs as jobs_module

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud

FILE = """
managed_by: acme.files
schedules:
  nightly:
    job: reports.nightly
    expression: "30 2 * * *"
    timezone: Europe/Berlin
  weekly:
    job: reports.weekly
    expression: "@weekly"
    payload: {region: eu}
"""
PACKAGE = """
from minutehand import job, schedule

@schedule("0 9 * * MON-FRI", timezone="Europe/Paris", name="morning")
@job("acme.report")
def report(ctx, payload):
    pass

@schedule("0 10 * * *", name="orphan")
def orphan(ctx, payload):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a file and a package; what the package registers is forgotten after the test."""
    (tmp_path / "schedules.yaml").write_text(FILE)
    (tmp_path / "acme_declared.py").write_text(PACKAGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(jobs_module.default_registry, "_jobs", {})
    monkeypatch.setattr(jobs_module.default_registry, "_declarations", [])
    monkeypatch.delitem(sys.modules, "acme_declared", raising=False)
    return tmp_path


def lines(text: str) -> list[str]:
    return dedent(text).strip().splitlines()


def test_a_file_is_shown_applied_changed_and_pruned(said: Say, folder: Path) -> None:
    done = said("apply", "schedules.yaml", "--dry-run")
    assert done.code == 0
    assert done.out.splitlines() == [
        "+ create  nightly  reports.nightly  30 2 * * *  Europe/Berlin",
        "+ create  weekly  reports.weekly  @weekly  UTC",
    ]
    assert "acme.files: 2 create" in done.err
    assert said("--json", "schedules", "list").json == []
    assert "2 done, 0 failed" in said("apply", "schedules.yaml").err
    assert "acme.files: 2 unchanged" in said("apply", "schedules.yaml", "--prune", "--yes").err

    changed = FILE.replace("30 2", "45 2").replace("{region: eu}", "{region: us}").partition("  weekly")[0]
    (folder / "schedules.yaml").write_text(changed)
    done = said("apply", "schedules.yaml", "--dry-run")
    assert done.out.splitlines() == [
        "~ update  nightly  reports.nightly",
        '    expression: "30 2 * * *" → "45 2 * * *"',
        "- prune (with --prune)  weekly  reports.weekly",
    ]
    done = said("apply", "schedules.yaml", "--prune")
    assert done.code == 8
    assert "Delete 1 schedule" in done.err
    assert said("--json", "schedules", "get", "nightly").json[0]["expression"] == "30 2 * * *", (
        "nothing before the question"
    )
    assert said("apply", "schedules.yaml", "--prune", "--yes").code == 0
    assert [one["name"] for one in said("--json", "schedules", "list").json] == ["nightly"]


def test_a_package_is_applied_and_an_unregistered_job_is_named(said: Say, folder: Path) -> None:
    done = said("apply", "acme_declared")
    assert done.code == 1
    assert "+ create  morning  acme.report  0 9 * * MON-FRI  Europe/Paris" in done.out
    assert "! refused  orphan  acme_declared.orphan has a schedule, but is not registered as a job" in done.out
    assert "1 done, 0 failed" in done.err
    assert said("--json", "schedules", "get", "morning").json[0]["managed_by"] == "acme_declared"


def test_what_is_exported_is_applied_without_a_change(said: Say, folder: Path) -> None:
    said("apply", "schedules.yaml")
    said("schedules", "create", "by-hand", "j", "0 1 * * *", "--payload", '{"on": "on"}')
    assert said("export", "--output", "all.yaml").code == 0
    done = said("export")
    assert done.out == (folder / "all.yaml").read_text()
    found = [json.loads(line) for line in said("--json", "apply", "all.yaml", "--dry-run").out.splitlines()]
    assert [(one["managed_by"], one["name"], one["act"]) for one in found] == [
        (None, "by-hand", "unchanged"),
        ("acme.files", "nightly", "unchanged"),
        ("acme.files", "weekly", "unchanged"),
    ]


def test_a_file_may_come_from_standard_input_and_its_jobs_be_checked(
    said: Say, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(FILE.replace("reports.weekly", "acme.report")))
    done = said("apply", "-", "--jobs", "acme_declared", "--dry-run")
    assert done.code == 1
    assert "! refused  nightly  job='reports.nightly': is not registered in this process" in done.out
    assert "+ create  weekly  acme.report" in done.out


@pytest.mark.parametrize("source", ["no.such.package", "missing.yaml", "json"])
def test_a_source_that_cannot_be_read_is_refused(said: Say, folder: Path, source: str) -> None:
    done = said("apply", source)
    assert done.code == 1
    assert source in done.err


def test_an_error_in_a_file_names_its_line(said: Say, folder: Path) -> None:
    (folder / "schedules.yaml").write_text(FILE.replace("30 2 * * *", "30 25 * * *"))
    assert "schedules.yaml:6: schedules.nightly.expression='30 25 * * *'" in said("apply", "schedules.yaml").err


def test_the_schema_is_printed(said: Say) -> None:
    done = said("schema")
    assert json.loads(done.out) == said("--json", "schema").json[0]
