"""``quarterjack import`` as one types it: the report, then the files, or neither."""

from __future__ import annotations

import io
import json
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from quarterjack.apply.document import read
from quarterjack.apply.schema import published
from quarterjack.aws import Client
from quarterjack.cli.app import run
from quarterjack.settings import Settings

from tests.support.command_line import Said, Say

DATA = Path(__file__).parents[2] / "data"
CRONTAB = "MAILTO=ops\n# every night\n30 2 * * * /opt/backup.sh --all\n@reboot /opt/hello\n"

Type = Callable[..., Said]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Runs a command in an empty directory with a crontab in it; nothing here needs a cloud."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crontab.txt").write_text(CRONTAB)

    def say(*words: str) -> Said:
        capsys.readouterr()
        code = run(words)
        out, err = capsys.readouterr()
        return Said(int(code), out, err)

    return say


def files() -> list[str]:
    return sorted(path.name for path in Path.cwd().iterdir() if path.name != "crontab.txt")


def test_a_crontab_is_reported_line_by_line_and_written(typed: Type) -> None:
    done = typed("import", "crontab", "crontab.txt", "--timezone", "Europe/Berlin")
    assert done.code == 1, "an entry was not taken over"
    assert done.out.splitlines()[:6] == [
        "crontab.txt: a user's crontab, without users in it",
        "    1  differs     -                    MAILTO=ops",
        "       nothing is mailed to ops: to be told of failures give the schedules on_failure: (an SNS topic)",
        "    3  exact       crontab/backup-0dd6  30 2 * * * /opt/backup.sh --all",
        "    4  not mapped  -                    @reboot /opt/hello",
        "       runs when cron starts, which is at no time; start it with the worker or the machine (systemd)",
    ]
    assert "3 lines: 1 exact, 1 differs, 1 not mapped; 1 schedules" in done.err
    assert files() == ["jobs.py", "schedules.schema.json", "schedules.yaml"]
    (document,) = read(Path("schedules.yaml").read_text(), "schedules.yaml")
    (declared,) = document.declarations
    assert (document.managed_by, declared.name, declared.job) == ("crontab/crontab", "crontab/backup-0dd6", "command")
    assert declared.description == "every night"
    assert stat.S_IMODE(Path("schedules.yaml").stat().st_mode) == 0o644


def test_a_dry_run_and_a_refusal_write_nothing(typed: Type) -> None:
    assert "crontab/backup" in typed("import", "crontab", "crontab.txt", "--dry-run").out
    assert files() == []
    Path("schedules.yaml").write_text("mine")
    done = typed("import", "crontab", "crontab.txt")
    assert done.code == 1
    assert "output='schedules.yaml': exists already; give another --output, or --force to overwrite it" in done.err
    assert "crontab/backup" in done.out, "the report comes first"
    assert files() == ["schedules.yaml"], "no half: no jobs.py either"
    assert Path("schedules.yaml").read_text() == "mine"
    typed("import", "crontab", "crontab.txt", "--force")
    assert Path("schedules.yaml").read_text().startswith("# Imported from crontab.txt")
    assert files() == ["jobs.py", "schedules.schema.json", "schedules.yaml"]


def test_a_jobs_file_of_somebody_else_is_left_alone(typed: Type) -> None:
    Path("jobs.py").write_text("mine")
    done = typed("import", "crontab", "crontab.txt")
    assert "jobs-file='jobs.py': exists already; give another --jobs-file" in done.err
    assert files() == ["jobs.py"]
    done = typed("import", "crontab", "crontab.txt", "--jobs-file", "cron_jobs.py")
    assert "wrote cron_jobs.py" in done.err
    assert Path("jobs.py").read_text() == "mine"


def test_the_jobs_file_names_the_files_in_its_commands(typed: Type) -> None:
    typed("import", "crontab", "crontab.txt", "--output", "cron.yaml", "--jobs-file", "cron_jobs.py")
    written = Path("cron_jobs.py").read_text()
    assert "    quarterjack apply cron.yaml --jobs cron_jobs  " in written
    assert "    quarterjack worker --jobs cron_jobs\n" in written


def test_the_same_import_again_changes_nothing_and_is_no_error(typed: Type) -> None:
    typed("import", "crontab", "crontab.txt")
    before = {name: Path(name).stat().st_mtime_ns for name in files()}
    done = typed("import", "crontab", "crontab.txt")
    assert "wrote" not in done.err
    assert "exists already" not in done.err
    assert {name: Path(name).stat().st_mtime_ns for name in files()} == before


def test_what_is_imported_is_never_overwritten(typed: Type) -> None:
    Path("schedules.yaml").write_bytes((DATA / "kubernetes" / "documented.yaml").read_bytes())
    before = Path("schedules.yaml").read_bytes()
    done = typed("import", "kubernetes", "schedules.yaml", "--force")
    assert done.code == 1
    assert "output='schedules.yaml': is the file that was imported" in done.err
    assert (files(), Path("schedules.yaml").read_bytes()) == (["schedules.yaml"], before)


def test_a_folder_that_is_not_there_is_named(typed: Type) -> None:
    done = typed("import", "crontab", "crontab.txt", "--output", "no/such/schedules.yaml")
    assert done.code == 1
    assert "cannot be written" in done.err
    assert files() == []


def test_a_program_gets_a_line_of_json_for_each_line_and_a_summary(typed: Type) -> None:
    done = typed("--json", "import", "crontab", "crontab.txt")
    *lines, summary = [json.loads(line) for line in done.out.splitlines()]
    assert [(line["line"], line["fit"], line["name"]) for line in lines] == [
        (1, "differs", None),
        (3, "exact", "crontab/backup-0dd6"),
        (4, "not mapped", None),
    ]
    assert summary["schedules"] == 1
    assert summary["written"] == ["jobs.py", "schedules.schema.json", "schedules.yaml"]
    assert any("no time zone is known" in remark for remark in summary["remarks"])


def test_standard_input_system_and_shadow(typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"0 5 * * * alice /opt/sweep\n")))
    assert typed("import", "crontab", "-", "--system", "--shadow").code == 0
    (words,) = yaml.safe_load(Path("schedules.yaml").read_text())["schedules"].values()
    assert (words["payload"]["user"], words["shadow"]) == ("alice", True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x00\x01", "crontab.txt:1="),
        (b"0 5 * * * caf\xe9\n", "iconv -f latin1"),
        (b"# nothing\n", "has no entry: nothing in it is due"),
    ],
)
def test_a_hostile_file_is_one_clean_error(typed: Type, content: bytes, said: str) -> None:
    Path("crontab.txt").write_bytes(content)
    done = typed("import", "crontab", "crontab.txt")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert said in done.err
    assert files() == []


def test_a_file_that_is_not_there_is_named(typed: Type) -> None:
    done = typed("import", "kubernetes", "missing.yaml")
    assert done.err.startswith("error: FILE='missing.yaml': cannot be read (No such file or directory)")


def test_manifests_are_reported_and_written(typed: Type) -> None:
    done = typed("import", "kubernetes", str(DATA / "kubernetes" / "documented.yaml"))
    assert done.code == 0
    assert "   21  exact       report  CronJob report" in done.out
    assert files() == ["jobs.py", "schedules.schema.json", "schedules.yaml"]


@pytest.mark.cloud
def test_what_was_imported_is_applied_and_exported_unchanged(
    said: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said("import", "crontab", str(DATA / "crontabs/etc/cron.d/munin")).code == 0
    assert "crontab/munin: 4 create" in said("apply", "schedules.yaml").err
    assert "crontab/munin: 4 unchanged" in said("apply", "schedules.yaml").err
    said("export", "--prefix", "munin/", "--output", "again.yaml")
    assert yaml.safe_load(Path("again.yaml").read_text()) == yaml.safe_load(Path("schedules.yaml").read_text())


@pytest.mark.cloud
def test_what_eventbridge_has_is_asked_of_its_api(
    said: Say, local_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = {
        "Arn": "arn:aws:sqs:us-east-1:000000000000:orders",
        "RoleArn": "arn:aws:iam::000000000000:role/r",
        "Input": "go",
    }
    scheduler, events = Client("scheduler", local_settings), Client("events", local_settings)
    scheduler.call("create_schedule_group", Name="shop")
    for number in range(3):
        scheduler.call(
            "create_schedule",
            Name=f"sync-{number}",
            GroupName="shop",
            ScheduleExpression=f"rate({number + 1} hours)",
            FlexibleTimeWindow={"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 5},
            Target=target,
        )
    events.call("put_rule", Name="hourly", ScheduleExpression="rate(1 hour)", State="DISABLED")
    events.call("put_targets", Rule="hourly", Targets=[{"Id": "1", "Arn": target["Arn"], "Input": "[1]"}])
    try:
        done = said("import", "eventbridge", "--region", str(local_settings.region))
        whole = yaml.safe_load(Path("schedules.yaml").read_text())
        said("import", "eventbridge", "--group", "shop", "--force")
        of_group = yaml.safe_load(Path("schedules.yaml").read_text())
    finally:
        for number in range(3):
            scheduler.call("delete_schedule", Name=f"sync-{number}", GroupName="shop")
        events.call("remove_targets", Rule="hourly", Ids=["1"])
        events.call("delete_rule", Name="hourly")
    assert done.code == 0, done.err
    assert whole["managed_by"] == f"eventbridge/{local_settings.region}"
    found = whole["schedules"]
    assert {name: words["expression"] for name, words in found.items()} == {
        "shop/sync-0": "rate(1 hours)",
        "shop/sync-1": "rate(2 hours)",
        "shop/sync-2": "rate(3 hours)",
        "hourly/1": "rate(1 hour)",
    }
    assert found["shop/sync-0"]["rule"] == {"window": 300}
    assert (found["hourly/1"]["paused"], found["hourly/1"]["payload"]) == (True, [1])
    assert set(of_group["schedules"]) == {"shop/sync-0", "shop/sync-1", "shop/sync-2"}


def test_a_listing_is_reported_and_written(typed: Type) -> None:
    done = typed("import", "eventbridge", str(DATA / "eventbridge" / "schedules.json"))
    assert done.code == 0
    assert "    1  exact       nightly-report  nightly-report" in done.out
    assert "target_job(" in Path("jobs.py").read_text()


def test_the_schema_that_the_schedules_name_is_beside_them_and_one_that_is_there_stays(typed: Type) -> None:
    typed("import", "crontab", "crontab.txt", "--output", "schedules.yaml")
    first, _, _ = Path("schedules.yaml").read_text().partition("\nmanaged_by")
    (named,) = re.findall(r"\$schema=(\S+)", first)
    assert Path(named).read_text() == published()
    Path(named).write_text("{}")
    Path("schedules.yaml").unlink()
    assert f"wrote {named}" not in typed("import", "crontab", "crontab.txt").err
    assert Path(named).read_text() == "{}"
    assert f"wrote {named}" in typed("import", "crontab", "crontab.txt", "--force").err
    assert Path(named).read_text() == published()
