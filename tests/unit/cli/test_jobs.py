"""``quarterjack jobs list``, and what the command line says of a job that no worker knows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from quarterjack import Registry, Settings
from quarterjack import jobs as jobs_module
from quarterjack.clock import system_clock
from quarterjack.daemon.worker_record import catalogue_of
from quarterjack.services import connect

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud

FILE = """
managed_by: acme.files
schedules:
  nightly: {job: reports.dialy, expression: "30 2 * * *"}
  weekly: {job: reports.daily, expression: "@weekly"}
"""


@pytest.fixture
def published(local_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A worker has started that knows two jobs; the command line has none."""
    monkeypatch.setattr(jobs_module.default_registry, "_jobs", {})
    jobs = Registry()
    jobs.job("reports.daily", timeout=600)(lambda ctx, payload: None)
    jobs.job("mail.send", delivery="at_most_once")(lambda ctx, payload: None)
    publisher = catalogue_of(connect(local_settings), jobs)
    assert publisher is not None
    publisher.publish(system_clock())
    return local_settings


def test_nothing_is_known_before_a_worker_has_started(said: Say) -> None:
    listed = said("jobs", "list")
    assert listed.code == 0
    assert "no worker has published its jobs yet" in listed.err
    submitted = said("submit", "anything")
    assert (submitted.code, submitted.err) == (0, "")


def test_the_jobs_with_queue_and_policies(said: Say, published: Settings) -> None:
    lines = said("jobs", "list").out.splitlines()
    assert lines[0].split() == ["name", "queue", "delivery", "attempts", "timeout", "version", "last", "seen"]
    assert lines[1].split()[:4] == ["mail.send", "default", "at_most_once", "1"]
    assert lines[2].split()[:6] == ["reports.daily", "default", "at_least_once", "3", "10", "min"]
    assert [line.split()[0] for line in said("jobs", "list", "mail").out.splitlines()[1:]] == ["mail.send"]
    (shown,) = said("--json", "jobs", "list", "reports.").json
    assert (shown["name"], shown["timeout"], shown["retry"]["max_attempts"]) == ("reports.daily", 600.0, 3)
    assert shown["payload_schema"] is None


@pytest.mark.parametrize(
    "words",
    [
        ["submit", "reports.dialy"],
        ["schedules", "create", "s", "reports.dialy", "0 9 * * *"],
        ["schedules", "upsert", "s", "reports.dialy", "0 9 * * *"],
        ["schedules", "update", "there", "--job", "reports.dialy"],
    ],
)
def test_an_unknown_job_is_a_line_on_standard_error_and_with_strict_an_error(
    said: Say, published: Settings, words: list[str]
) -> None:
    assert said("schedules", "create", "there", "mail.send", "0 9 * * *").err == ""
    refused = said("--json", *words, "--strict")
    assert (refused.code, refused.problem["value"]) == (1, "'reports.dialy'")
    assert "did you mean 'reports.daily'" in refused.problem["remedy"]
    assert "--strict" in refused.problem["remedy"]
    warned = said(*words)
    assert warned.code == 0
    (line,) = warned.err.splitlines()
    assert line.startswith("warning: job='reports.dialy': no worker has ever known this job")
    assert "did you mean 'reports.daily'" in line


def test_with_json_the_warning_is_json(said: Say, published: Settings) -> None:
    assert "did you mean" in said("--json", "submit", "reports.dialy").problem["warning"]


def test_a_run_that_waits_for_nobody_says_so(said: Say, published: Settings) -> None:
    run = said("--json", "submit", "reports.dialy", "--delay", "3600").json[0]["id"]
    assert "no worker knows job 'reports.dialy'; did you mean 'reports.daily'?" in said("runs", "show", run).out
    assert "No worker has ever known job" in said("why", run).out


def test_a_file_is_compared_with_what_workers_know(said: Say, published: Settings, tmp_path: Path) -> None:
    file = tmp_path / "schedules.yaml"
    file.write_text(FILE)
    shown = said("apply", str(file), "--dry-run")
    assert shown.code == 0
    assert "nightly: job='reports.dialy': no worker has ever known this job" in shown.err
    assert "weekly:" not in shown.err
    strict = said("apply", str(file), "--dry-run", "--strict")
    assert strict.code == 1
    assert "refused  nightly" in strict.out
    assert "or leave --strict out" in strict.out
    plan = said("--json", "apply", str(file), "--dry-run").json
    assert [len(change["warnings"]) for change in plan] == [1, 0]
    applied = said("apply", str(file))
    assert applied.code == 0
    assert applied.err.count("no worker has ever known") == 1, "once, in the plan"


def test_jobs_are_published_without_a_worker(
    said: Say, published: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "published_jobs.py").write_text(
        "from quarterjack import job\n@job('new.one')\ndef one(ctx, payload): ...\n__version__ = '7.1'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for _ in range(2):
        assert said("jobs", "publish", "published_jobs").out == "1 jobs are known\n"
    assert [job["name"] for job in said("--json", "jobs", "list").json] == ["mail.send", "new.one", "reports.daily"]
    assert said("--json", "jobs", "list", "new").json[0]["version"] == "7.1"
    assert said("--json", "submit", "new.one", "--strict").code == 0
    assert said("jobs", "publish", "no_such_package").code == 1
    assert said("jobs", "publish").code == 2
