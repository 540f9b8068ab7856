"""``quarterjack apply`` and ``export`` as one types them."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from quarterjack import Scheduler, Settings
from quarterjack import jobs as jobs_module

from tests.support.command_line import Say, typed
from tests.support.parts import in_rotation

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
from quarterjack import job, schedule

@schedule("0 9 * * MON-FRI", timezone="Europe/Paris", name="morning")
@job("acme.report")
def report(ctx, payload):
    pass

@schedule("0 10 * * *", name="orphan")
def orphan(ctx, payload):
    pass
"""


GIVE_UP = 60.0  # seconds


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
    assert "Apply 1 change and delete 1 schedule" in done.err
    assert said("--json", "schedules", "get", "nightly").json[0]["expression"] == "30 2 * * *", (
        "nothing before the question"
    )
    assert said("apply", "schedules.yaml", "--prune", "--yes").code == 0
    assert [one["name"] for one in said("--json", "schedules", "list").json] == ["nightly"]


def test_a_payload_is_compared_key_by_key_without_its_secrets(said: Say, folder: Path) -> None:
    first = "{region: eu, days: [1, 2], token: abc-1, card: 4711, old: true}"
    second = "{region: us, days: [1, 2, 3], token: abc-2, card: 4712}"
    (folder / "acme_declared.py").write_text(
        PACKAGE.replace(
            "from quarterjack import job, schedule", "from quarterjack import Redact, job, schedule"
        ).replace('@job("acme.report")', '@job("acme.report", redact=Redact(fields=("card",)))')
    )
    file = FILE.partition("  nightly")[0] + "  weekly" + FILE.partition("  weekly")[2]
    for text in (first, second):
        (folder / "schedules.yaml").write_text(
            file.replace("reports.weekly", "acme.report").replace("{region: eu}", text)
        )
        done = said("apply", "schedules.yaml", "--jobs", "acme_declared", *(("--dry-run",) if text is second else ()))
        assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "~ update  weekly  acme.report",
        '    payload.card: "[redacted]" → "[redacted]" (it differs)',
        "    + payload.days[2]: 3",
        '    payload.region: "eu" → "us"',
        '    payload.token: "[redacted]" → "[redacted]" (it differs)',
        "    - payload.old: true",
    ]
    done = said("--json", "apply", "schedules.yaml", "--jobs", "acme_declared", "--dry-run")
    (change,) = done.json
    assert [one["path"] for one in change["payload_changes"]][:2] == ["payload.card", "payload.days[2]"]
    assert change["fields"]["payload"][1]["token"] == "[redacted]"
    assert not any(secret in done.out for secret in ("abc-", "471"))


@pytest.mark.parametrize(("answer", "code", "number"), [("n\n", 8, 0), ("y\n", 0, 2)])
def test_at_a_terminal_it_asks_first(
    said: Say, folder: Path, local_settings: Settings, answer: str, code: int, number: int
) -> None:
    ours, theirs = pty.openpty()
    asked = typed(local_settings, "apply", "schedules.yaml", stdin=theirs, stderr=subprocess.PIPE)
    os.write(ours, answer.encode())
    _, err = asked.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert asked.returncode == code, err
    assert "Apply 2 changes?" in err
    assert len(said("--json", "schedules", "list").json) == number


@pytest.mark.parametrize("words", [("--yes",), ("--dry-run",), ("--json",)])
def test_it_does_not_ask_there_if_that_is_said_or_nothing_is_changed(
    folder: Path, local_settings: Settings, words: tuple[str, ...]
) -> None:
    ours, theirs = pty.openpty()
    done = typed(local_settings, "apply", "schedules.yaml", *words, stdin=theirs, stderr=subprocess.PIPE)
    _, err = done.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, err
    assert "?" not in err


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


# A worker that applies.


def worker_until(settings: Settings, word: str, *words: str) -> dict[str, object]:
    """The first line of a worker's log with this event; then it ends."""
    process = typed(settings, "--json", "worker", "--jobs", "acme_declared", *words, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            event: dict[str, object] = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == word:
                return event
        raise AssertionError(f"it ended without {word}")
    finally:
        process.terminate()
        process.stderr.close()
        process.wait(GIVE_UP)


@in_rotation(of=6)
def test_a_worker_applies_its_package_if_it_is_told_to(folder: Path, local_settings: Settings) -> None:
    owner = Scheduler(settings=local_settings)
    worker_until(local_settings, "worker.started")
    assert list(owner.list_schedules().items) == [], "it is off by default"
    left = worker_until(local_settings, "declarations.left", "--apply")
    assert (left["package"], left["schedule"]) == ("acme_declared", "orphan")
    (found,) = owner.list_schedules().items
    assert (found.name, found.managed_by, found.revision) == ("morning", "acme_declared", 1)


@in_rotation(of=6)
def test_applying_by_hand_makes_an_older_set_the_current_one(folder: Path, local_settings: Settings, said: Say) -> None:
    declared = (folder / "acme_declared.py").read_text()
    whole = declared.split("@schedule", 2)
    (folder / "acme_declared.py").write_text("@schedule".join(whole[:2]))
    worker_until(local_settings, "declarations.applied", "--apply")
    (folder / "acme_declared.py").write_text("@schedule".join(whole[:2]).replace("0 9 * * MON-FRI", "0 8 * * MON-FRI"))
    worker_until(local_settings, "declarations.applied", "--apply")
    (folder / "acme_declared.py").write_text("@schedule".join(whole[:2]))
    worker_until(local_settings, "declarations.replaced", "--apply")
    assert said("apply", "acme_declared", "--yes").code == 0
    (found,) = Scheduler(settings=local_settings).list_schedules().items
    assert found.expression == "0 9 * * MON-FRI"


def test_what_a_worker_changed_meanwhile_is_changed_back(
    folder: Path, local_settings: Settings, said: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was at another set, and lost its claim when this one became the current one."""
    declared = (folder / "acme_declared.py").read_text()
    (folder / "acme_declared.py").write_text("@schedule".join(declared.split("@schedule", 2)[:2]))
    owner = Scheduler(settings=local_settings)

    def noted(*_: object) -> bool:
        owner.update_schedule("morning", expression="0 8 * * MON-FRI")
        return True

    monkeypatch.setattr("quarterjack.cli.schedules.apply.note_applied", noted)
    assert said("apply", "acme_declared", "--yes").code == 0
    (found,) = owner.list_schedules().items
    assert found.expression == "0 9 * * MON-FRI"
