"""Crontabs: every line of what Debian's packages install, and what cron's manual says of the odd ones."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from quarterjack import Registry
from quarterjack.apply.document import read
from quarterjack.errors import InvalidInput
from quarterjack.importers.cronforms import form_of
from quarterjack.importers.cronlines import CrontabForm, percent
from quarterjack.importers.crontab import read_crontab
from quarterjack.importers.programs import program_of
from quarterjack.importers.report import Conversion, ImportedLine, ImportReport
from quarterjack.importers.text import text_of, without_secrets
from quarterjack.ready_jobs.command import command_job
from quarterjack.testing import Harness
from quarterjack.timing import next_fires

from tests.support.timing.oracle import Cron, crons

DATA = Path(__file__).parents[2] / "data" / "crontabs"
SAMPLES = sorted(path for path in (DATA / "etc").rglob("*") if path.is_file())
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
BERLIN = "Europe/Berlin"
WORDS = {"@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}
BEFORE = [
    datetime(2026, 1, 31, 23, tzinfo=UTC),
    datetime(2026, 3, 28, 12, tzinfo=UTC),
    datetime(2026, 10, 24, 12, tzinfo=UTC),
]


def imported(path: Path, zone: str = BERLIN) -> ImportReport:
    return read_crontab(text_of(path.read_bytes(), path.name), str(path.relative_to(DATA)), timezone=zone)


def crontab(text: str, source: str = "jobs", **asked: Any) -> ImportReport:
    return read_crontab(text, source, **asked)


def only(text: str, **asked: Any) -> tuple[Mapping[str, Any], ImportedLine]:
    """The one schedule of a crontab, and the last line of the report."""
    found = crontab(text, **asked)
    (words,) = found.schedules.values()
    return words, found.lines[-1]


def fires(words: Mapping[str, Any], after: datetime, count: int) -> list[datetime]:
    policies = words.get("rule", {})
    found = next_fires(words["expression"], timezone=words["timezone"], after=after, count=count, key="t/x", **policies)
    return [fire.astimezone(UTC) for fire in found]


def by_cron(expression: str, after: datetime, count: int) -> list[datetime]:
    """What cronsim says, which reads expressions as Debian's cron does, changes of the clocks included."""
    peer = CronSim(WORDS.get(expression, expression), after.astimezone(ZoneInfo(BERLIN)))
    return [fire.astimezone(UTC) for fire in islice(peer, count)]


def applied(found: ImportReport) -> Harness:
    """An installation in memory to which the file was applied, as ``quarterjack apply`` does."""
    registry = Registry()
    command_job(registry=registry)
    harness = Harness(registry, at=NOON)
    (document,) = read(found.yaml(), "schedules.yaml")
    plan = harness.scheduler.compare_declared(document.declarations, managed_by=document.managed_by)
    done = harness.scheduler.carry_out(plan)
    assert (done.done, done.failed) == (len(found.schedules), {})
    again = harness.scheduler.compare_declared(document.declarations, managed_by=document.managed_by)
    assert {change.act for change in again.changes} == {"unchanged"}
    return harness


# What Debian's packages install.


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_line_of_a_package_is_created_or_named_and_applies(path: Path) -> None:
    found = imported(path)
    text = path.read_text(encoding="utf-8").splitlines()
    said = [number for number, line in enumerate(text, start=1) if line.strip() and not line.strip().startswith("#")]
    assert [line.line for line in found.lines] == said
    assert {line.name for line in found.lines if line.name} == set(found.schedules)
    assert all(line.notes for line in found.lines if line.fit is not Conversion.EXACT)
    assert all(line.name or line.notes for line in found.lines if line.is_entry)
    harness = applied(found)
    for name in found.schedules:
        assert harness.scheduler.get_schedule(name).managed_by == found.managed_by


def test_the_figures_of_the_samples() -> None:
    found = [imported(path) for path in SAMPLES]
    lines = [line for one in found for line in one.lines]
    entries = [line for line in lines if line.is_entry]
    assert len(SAMPLES) == 24
    assert (len(lines), len(entries), sum(len(one.schedules) for one in found)) == (66, 41, 40)
    (left,) = [line for line in entries if line.fit is Conversion.LEFT]
    assert left.text.startswith("@reboot")
    texts = [line.strip() for path in SAMPLES for line in path.read_text(encoding="utf-8").splitlines()]
    assert sum(text.startswith("#") for text in texts) == 126


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_what_is_created_is_due_when_cron_says(path: Path) -> None:
    found = imported(path)
    entries = {line.name: line for line in found.lines if line.name}
    for name, words in found.schedules.items():
        text = words["expression"]
        if entries[name].fit is Conversion.EXACT:
            assert text in " ".join(entries[name].text.split())
        for after in BEFORE:
            assert fires(words, after, 60) == by_cron(text, after, 60), (name, after)


def test_names_are_readable_and_the_same_at_every_import() -> None:
    found = imported(DATA / "etc" / "cron.d" / "sysstat")
    assert [name.rpartition("-")[0] for name in found.schedules] == ["sysstat/debian-sa1", "sysstat/debian-sa1"]
    assert {line.fit for line in found.lines if line.name} == {Conversion.EXACT}, "a name is no difference"
    assert found.managed_by == "crontab/sysstat"
    assert imported(DATA / "etc" / "cron.d" / "sysstat") == found
    assert [name.rpartition("-")[0] for name in imported(DATA / "etc" / "crontab").schedules] == [
        f"crontab/cron.{word}" for word in ("hourly", "daily", "weekly", "monthly")
    ]


def test_comments_become_descriptions_but_not_those_of_settings_or_what_is_commented_out() -> None:
    described = {
        name.rpartition("-")[0]: words.get("description")
        for path in ("etc/cron.d/cron-apt", "etc/crontab")
        for name, words in imported(DATA / path).schedules.items()
    }
    assert described["cron-apt/cron-apt"] == "Every night at 4 o'clock."
    assert described["crontab/cron.hourly"] is None
    found = crontab("# about PATH\nPATH=/bin\n0 5 * * * one\n\n# two:\n#0 6 * * * old\n# the new one\n0 6 * * * two\n")
    assert [words.get("description") for words in found.schedules.values()] == [None, "the new one"]


# The odd ones.


@pytest.mark.parametrize(
    ("line", "command", "stdin"),
    [
        ("mail -s %Hello%you", "mail -s ", "Hello\nyou\n"),
        (r"date +\%F", "date +%F", ""),
        (r"a\\%b", r"a\\", "b\n"),
        (r"a \b", r"a \b", ""),
        ("a%", "a", "\n"),
        (r"a%b\%c\d", "a", "b%c\\d\n"),
        ("a%b\\", "a", "b\\\n"),
    ],
)
def test_percent_is_the_end_of_the_command(line: str, command: str, stdin: str) -> None:
    assert percent(line) == (command, stdin)


@given(st.text(alphabet="a\\% \t$", max_size=12))
def test_percent_reads_any_line_as_crons_own_loop_does(line: str) -> None:
    assert percent(line) == _do_command(line)


def _do_command(line: str) -> tuple[str, str]:
    """The two loops of cron's do_command.c, letter by letter."""
    command: list[str] = []
    escaped, rest = False, None
    for place, letter in enumerate(line):
        command.append(letter)
        if escaped:
            if letter == "%":
                command[-2:] = ["%"]
            escaped = False
            continue
        if letter == "\\":
            escaped = True
        elif letter == "%":
            rest = line[place + 1 :]
            command.pop()
            break
    if rest is None:
        return "".join(command), ""
    found, escaped = "", False
    for given_letter in rest:
        letter = given_letter
        if escaped:
            found += "" if letter == "%" else "\\"
        elif letter == "%":
            letter = "\n"
        escaped = letter == "\\"
        found += "" if escaped else letter
    found += "\\" if escaped else ""
    return "".join(command), found if found.endswith("\n") else found + "\n"


def test_commands_run_with_what_the_crontab_says(tmp_path: Path) -> None:
    settings = f"SHELL=/bin/bash\nHOME={tmp_path}\nGREETING = ' hello '\n"
    found = crontab(settings + '* * * * * cat > out; echo "$GREETING" $0 $PWD $((7\\%4)) >> out%one%two\n')
    harness = applied(found)
    (run,) = harness.advance(minutes=1)
    assert (run.state, run.result["exit_code"]) == ("SUCCEEDED", 0)
    assert (tmp_path / "out").read_text() == f"one\ntwo\n hello  /bin/bash {tmp_path} 3\n"


def test_settings_hold_for_the_lines_that_follow() -> None:
    found = crontab("A=1\n0 5 * * * one\nCRON_TZ=Asia/Tokyo\nA=2\n'B c'=\"x y\"\n0 6 * * * two\n", timezone=BERLIN)
    one, two = found.schedules.values()
    assert (one["timezone"], one["payload"]["environment"]) == (BERLIN, {"A": "1"})
    assert (two["timezone"], two["payload"]["environment"]) == ("Asia/Tokyo", {"A": "2", "B c": "x y"})
    assert not any("no time zone" in remark for remark in found.remarks)


def test_times_above_a_crontab_s_zone_have_no_known_zone() -> None:
    """They were in UTC without a word, since a line below them had CRON_TZ."""
    text = "0 5 * * * a\n@reboot b\n0 6 * * * c\nCRON_TZ=Asia/Dubai\n0 7 * * * d\n"
    found = crontab(text)
    assert [words["timezone"] for words in found.schedules.values()] == ["UTC", "UTC", "Asia/Dubai"]
    assert [remark for remark in found.remarks if remark.startswith("no time zone is known up to line 3: ")]
    for known in (crontab(text, timezone="Asia/Dubai"), crontab(f"CRON_TZ=UTC\n{text}")):
        assert not any("no time zone" in remark for remark in known.remarks)


@pytest.mark.parametrize(
    ("setting", "fit", "note"),
    [
        ("MAILTO=ops@example.com", Conversion.DIFFERS, "on_failure"),
        ('MAILTO=""', Conversion.EXACT, None),
        ("MAILFROM=x", Conversion.LEFT, "none is sent"),
        ("TZ=Asia/Tokyo", Conversion.DIFFERS, "--timezone Asia/Tokyo"),
        ("LOGNAME=me", Conversion.LEFT, "cron does not let"),
        ("DB_PASSWORD=x", Conversion.DIFFERS, "fetch secrets by name"),
        ("RANDOM_DELAY=5", Conversion.DIFFERS, "a delay of its own"),
        ("RANDOM_DELAY=soon", Conversion.LEFT, "not a number of minutes"),
        ("SHELL=/bin/bash", Conversion.EXACT, None),
    ],
)
def test_what_a_setting_means_is_told(setting: str, fit: Conversion, note: str | None) -> None:
    found = crontab(f"{setting}\n0 5 * * * x\n")
    line = found.lines[0]
    assert (line.fit, line.is_entry, line.name) == (fit, False, None)
    assert note is None or note in line.notes[0]


@pytest.mark.parametrize(
    ("when", "expression", "fit"),
    [
        ("@daily", "@daily", Conversion.EXACT),
        ("@Hourly", "@Hourly", Conversion.EXACT),
        ("@every_minute", "* * * * *", Conversion.EXACT),
        ("-*/5 * * * *", "*/5 * * * *", Conversion.EXACT),
        ("0~29 * * * *", "H(0-29) * * * *", Conversion.DIFFERS),
        ("~ 3 * * *", "H 3 * * *", Conversion.DIFFERS),
        ("5/10 * * * *", "5/10 * * * *", Conversion.DIFFERS),
        ("0 0 * jan,JUN sun-tue", "0 0 * jan,JUN sun-tue", Conversion.EXACT),
    ],
)
def test_what_crons_write(when: str, expression: str, fit: Conversion) -> None:
    words, line = only(f"{when} x\n")
    assert (words["expression"], line.fit) == (expression, fit)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@reboot x", "runs when cron starts"),
        ("@fortnightly x", "not a known name"),
        ("61 * * * * x", "minute 61 is outside 0-59"),
        ("*/90 * * * * x", "rate(90 minutes)"),
        ("0 0 30 2 * x", "never occurs"),
        ("0 5 * * *", "is neither NAME=value nor five fields and command"),
        ("@daily", "nor an @ word and command"),
        ("what is this", "is neither"),
        ("& 15 20 * * 1-5 x", "is a line of fcron"),
        ("&nice(5) 05,35 12-14 * * * x", "is a line of fcron"),
        ("%nightly,mail(no) 0 21-23,3-5 x", "is a line of fcron"),
        ("@ 30 x", "is a line of fcron"),
        ("@mail(no) 3h x", "is a line of fcron"),
        ("@every 1h30m x", "write rate(90 minutes)"),
    ],
)
def test_what_cannot_be_is_named_and_stops_nobody(line: str, why: str) -> None:
    found = crontab(f"{line}\n0 5 * * * good\n")
    assert [words["payload"]["command"] for words in found.schedules.values()] == ["good"]
    assert found.lines[0].fit is Conversion.LEFT
    assert why in found.lines[0].notes[0]
    assert found.not_taken == 1


def test_a_huge_line_is_refused_with_its_number() -> None:
    with pytest.raises(InvalidInput, match=r"^jobs:2=.* has 300,010 characters; put the command into a script"):
        crontab("# big\n0 5 * * * " + "x" * 300_000)


def test_an_unknown_zone_is_named_at_each_line_that_it_is_about() -> None:
    found = crontab("0 5 * * * a\nCRON_TZ=Mars/Olympus\n0 5 * * * b\n")
    assert [line.fit for line in found.lines] == [Conversion.EXACT, Conversion.EXACT, Conversion.LEFT]
    assert "Mars/Olympus" in found.lines[2].notes[0]


def test_both_days_restricted_is_either_as_in_cron() -> None:
    words, _ = only("0 9 13 * 5 x\n")
    found = fires(words, datetime(2026, 2, 1, tzinfo=UTC), 5)
    assert [f"{fire:%m-%d}" for fire in found] == ["02-06", "02-13", "02-20", "02-27", "03-06"]


def test_only_a_leading_star_is_a_wildcard_when_the_clocks_change_as_in_debian() -> None:
    """2026-10-25 in Berlin: 02:00 to 03:00 comes twice; 0-6/2 is a set time to cron."""
    words, line = only("30 0-6/2 * * * x\n", timezone=BERLIN)
    assert line.fit is Conversion.EXACT
    assert words["rule"] == {"gap": "next_valid", "repeated": "first"}
    night = fires(words, datetime(2026, 10, 24, 21, tzinfo=UTC), 3)
    assert [f"{fire:%H:%M}" for fire in night] == ["22:30", "00:30", "03:30"], "in UTC"
    assert "rule" not in only("30 */2 * * * x\n", timezone=BERLIN)[0]
    assert "rule" not in only("30 0-6/2 * * * x\n")[0]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(crons, st.sampled_from(BEFORE))
def test_any_line_is_due_when_debians_cron_says(cron: Cron, after: datetime) -> None:
    """Also what is a wildcard here and a set time there."""
    assume(not re.search(r"\b(\d+)-\1\b", cron.text))  # cronsim reads 3-3 as a longer range
    found = crontab(f"{cron.text} x\n", timezone=BERLIN)
    if not found.schedules:
        assert "never occurs" in found.lines[0].notes[0]
        return
    (words,) = found.schedules.values()
    assert fires(words, after, 8) == by_cron(cron.text, after, 8)


# Which form it has.


@pytest.mark.parametrize(
    ("text", "source", "form"),
    [
        ("0 5 * * * root /bin/x", "copy.txt", CrontabForm.SYSTEM),
        ("# m h dom mon dow user\tcommand\n0 5 * * * alice x", "copy.txt", CrontabForm.SYSTEM),
        ("0 5 * * * alice x", "/etc/cron.d/x", CrontabForm.SYSTEM),
        ("0 5 * * * alice x", "backup/etc/crontab", CrontabForm.SYSTEM),
        ("0 5 * * * tar -cf x", "crontab.txt", CrontabForm.USER),
        ("# m h  dom mon dow   command\n0 5 * * * tar x y", "crontab.txt", CrontabForm.USER),
        ("@daily root /bin/x\n0 5 * * * www-data /bin/x", "x", CrontabForm.SYSTEM),
        ("0 5 * * * root /bin/x\n0 5 * * * /bin/y z", "x", CrontabForm.USER),
        ("0 5 * * * date", "x", CrontabForm.USER),
        ("1 5 daily x", "etc/anacrontab", CrontabForm.ANACRON),
        ("1 5 daily x\n1 5 weekly", "home/ada/.anacrontab", CrontabForm.ANACRON),
    ],
)
def test_the_form_is_seen_by_place_and_content(text: str, source: str, form: CrontabForm) -> None:
    assert form_of(text, source) is form


def test_the_form_may_be_said() -> None:
    (name,) = crontab("0 5 * * * alice x y\n", form=CrontabForm.SYSTEM).schedules
    assert name.startswith("jobs/x-")
    found = crontab("0 5 * * * /bin/x y\n", form=CrontabForm.SYSTEM)
    assert "--user if this crontab has no users" in found.lines[0].notes[0]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/bin/certbot -q renew", "certbot"),
        ("cd /srv && /opt/app/manage.py clearsessions >/dev/null 2>&1", "manage"),
        ("python3 -m reports.daily --all", "reports.daily"),
        ("FOO=1 nice -n 10 bash /opt/backup.sh", "backup"),
        ("root=$(cat /x | tail -1); /bin/sweep $root", "sweep"),
        ("perl -e 'sleep 5' && later", "later"),
        ("[ -x /a ]", "command"),
        ("curl https://example.com/ping", "curl"),
        ("python3 -c 'from shop.tasks import purge; purge(days=7)'", "purge"),
        ('cd /srv && /usr/bin/python3.11 -u -c "import shop.tasks; shop.tasks.clean_up()"', "shop.tasks.clean_up"),
        ("python3 -c \"import shutil; shutil.rmtree('/tmp/x')\"", "shutil.rmtree"),
        ("python3 -c 'import os, shop; os.chdir(\"/srv\"); print(shop.report())'", "shop.report"),
        ("python3 -c 'import shop; shop.Sweep(1).run()'", "shop.Sweep"),
        ("python3 -c 'import shop.nightly'", "shop.nightly"),
        ("python3 -c 'from shop import nightly'", "shop"),
        ("python -c 'print(\"shop.report()\")'", "python"),
        ("python3 -c 'print(1)' | mail ops", "mail"),
        ("python3 -c code", "python"),
        ("perl -e 'print 1;' > /tmp/one", "perl"),
        ("sh -c 'cd /srv && ./sweep.sh; true'", "sweep"),
        ('bash -lc "nice /opt/backup.sh \\"a b\\""', "backup"),
        ("python3 -c 'from a import b", "command"),
        ("echo python3 -c 'shop.purge()'", "echo"),
    ],
)
def test_a_name_is_what_the_command_is_about(command: str, name: str) -> None:
    assert program_of(command) == name


# Hostile files.


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        (b"0 5 * * * x\n\x00\x01", "f:2", "is not text"),
        (b"\x7fELF\x02\x01\x01\x00" + b"\x00" * 100 + b"\xff", "f:1", "is not UTF-8; give a text file"),
        ("0 5 * * * x\n# caf\xe9\n".encode("latin1"), "f:2", "iconv -f latin1 -t utf-8 f"),
        ("0 5 * * * x\n".encode("utf-16"), "f:1", "iconv -f utf-16 -t utf-8 f"),  # as PowerShell writes it
        (b"0 5 * * * x\n# \x1b[2J\n", "f:2", "take this character out"),
        (b"0 5 * * * x\n" * 1_500_000, "f", "is too large"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(data: bytes, where: str, what: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{where}=.*{what}"):
        text_of(data, "f")


def test_windows_ends_of_lines_and_a_byte_order_mark_are_no_part_of_a_command() -> None:
    text = text_of("﻿0 5 * * * x\r\n".encode(), "f")
    assert only(text)[0]["payload"] == {"command": "x"}


def test_an_empty_crontab_is_refused() -> None:
    for text in ("# nothing\n\n", "# 0 5 * * * x\n", "BROKER_USER=ada\nBROKER_PORT=5672\n"):
        with pytest.raises(InvalidInput, match="has no entry: nothing in it is due"):
            crontab(text)


@given(st.text(max_size=80), st.sampled_from(list(CrontabForm)))
def test_any_text_is_read_line_by_line_or_refused_cleanly(text: str, form: CrontabForm) -> None:
    try:
        found = crontab(f"0 5 * * * x y z\n{text}\n", form=form)
    except InvalidInput:
        return
    assert all(line.line > 0 for line in found.lines)
    if found.schedules:
        (document,) = read(found.yaml(), "f")
        assert {one.name for one in document.declarations} == set(found.schedules)


def test_the_jobs_file_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from quarterjack import jobs as jobs_module

    monkeypatch.setattr(jobs_module.default_registry, "_jobs", {})
    found = crontab("0 5 * * * x\n", source='od"d\\', job="shell")
    assert found.jobs is not None
    exec(compile(found.jobs, "jobs.py", "exec"), {"__name__": "jobs"})
    assert jobs_module.default_registry.names() == ["shell"]
    assert [words["job"] for words in found.schedules.values()] == ["shell"]


def test_lines_are_due_within_their_random_delay() -> None:
    words, _ = only("RANDOM_DELAY=10\n0 5 * * * x\n")
    (fire,) = fires(words, NOON, 1)
    assert timedelta(0) <= fire - datetime(2026, 5, 5, 5, tzinfo=UTC) < timedelta(minutes=10)


@pytest.mark.parametrize(
    "line",
    [
        "A=x" + " " * 90_000 + "y",
        "# " + "m h " * 22_000,
        "# " + "* " * 45_000,
        "0 5 * * * " + "if " * 30_000,
        "0 5 * * * " + "$(" * 45_000,
        "0 5 * * * " + "`" * 90_001,
        "0 5 * * * " + "\\%" * 45_000,
        " " * 90_000,
        "*" + "/" * 90_000 + " * * * * x",
        "1," * 45_000 + "1 * * * * x",
    ],
)
def test_long_lines_take_no_more_than_their_length(line: str) -> None:
    """Ten times the length takes some ten times as long; if all were read again for each character, a hundred times."""

    def seconds(text: str) -> float:
        began = time.process_time()
        assert any(name.startswith("jobs/good-") for name in crontab(f"{text}\n0 5 * * * good\n").schedules)
        return time.process_time() - began

    brief = line[: len(line) // 10]
    assert min(seconds(line) for _ in range(3)) < 40 * min(seconds(brief) for _ in range(3))


# Which form it is, by what cannot be a command.


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        (
            "0 * * * * git -C /srv/site pull --quiet\n30 2 * * * find /srv/tmp -mtime +7 -delete",
            ["git -C /srv/site pull --quiet", "find /srv/tmp -mtime +7 -delete"],
        ),
        ("@daily git gc --prune=now", ["git gc --prune=now"]),
        ("0 3 * * * mysql -e 'purge binary logs'", ["mysql -e 'purge binary logs'"]),
        ("0 3 * * * nginx -s reopen\n0 4 * * * postgres --version", ["nginx -s reopen", "postgres --version"]),
        ("0 3 * * * root -b -q fit.C", ["root -b -q fit.C"]),
        ("0 5 * * * php /srv/a.php\n0 6 * * * php /srv/b.php", ["php /srv/a.php", "php /srv/b.php"]),
        ("0 5 * * * php8 /srv/a\n0 6 * * * php8 /srv/b", ["php8 /srv/a", "php8 /srv/b"]),
        ("0 5 * * * cd /srv/app && ./a\n0 6 * * * cd /srv/b && ./b", ["cd /srv/app && ./a", "cd /srv/b && ./b"]),
        (
            "0 5 * * * source /srv/env && one\n0 6 * * * source /srv/env && two",
            ["source /srv/env && one", "source /srv/env && two"],
        ),
    ],
)
def test_a_command_is_not_taken_for_a_user(text: str, commands: list[str]) -> None:
    found = crontab(text)
    assert [words["payload"] for words in found.schedules.values()] == [{"command": command} for command in commands]
    assert {line.fit for line in found.lines} == {Conversion.EXACT}


@pytest.mark.parametrize(
    "text",
    [
        "*/5 * * * * deploy /srv/app/run.sh\n0 1 * * * deploy /srv/app/nightly.sh",
        "*/5 * * * * git /srv/hook.sh",
        "* * * * * daemon client-of-ours",
        "0 1 * * * postgres pg_dumpall",
    ],
)
def test_a_word_that_may_be_a_user_is_reported_until_the_form_is_given(text: str) -> None:
    found = crontab(text)
    assert {line.fit for line in found.lines} == {Conversion.DIFFERS}
    assert all("--system" in line.notes[0] for line in found.lines)
    for form in (CrontabForm.USER, CrontabForm.SYSTEM):
        assert {line.fit for line in crontab(text, form=form).lines} == {Conversion.EXACT}
    assert {words["payload"].get("user") for words in crontab(text, form=CrontabForm.SYSTEM).schedules.values()} & {
        "deploy",
        "git",
        "daemon",
        "postgres",
    }


@pytest.mark.parametrize("place", ["debian/cron.d", "debian/shop.cron.d", "etc/cron.d/shop", "cron.d/shop"])
def test_the_place_of_a_package_s_crontab_says_that_it_has_users(place: str) -> None:
    (words,) = crontab("* * * * * shop shop-client --once", place).schedules.values()
    assert words["payload"] == {"command": "shop-client --once", "user": "shop"}


@pytest.mark.parametrize(
    "line",
    [
        '*/5 * * * * * * echo "seven"',
        "0 */5 * * * * /srv/six.sh",
        "0 0 9 ? * MON-FRI /srv/quartz.sh",
        "0 0 9 * * 2026 /srv/year.sh",
    ],
)
@pytest.mark.parametrize("form", [None, CrontabForm.USER, CrontabForm.SYSTEM])
def test_further_fields_are_no_command(line: str, form: CrontabForm | None) -> None:
    found = crontab(f"{line}\n0 5 * * * root /srv/x", form=form)
    assert found.lines[0].fit is Conversion.LEFT
    assert "more than five fields" in found.lines[0].notes[0] or "as the user" in found.lines[0].notes[0]


def test_anacron_keeps_its_hours_and_delays() -> None:
    found = crontab(
        "START_HOURS_RANGE=3-22\nRANDOM_DELAY=45\n1 5 cron.daily nice run-parts /etc/cron.daily\n"
        "7\t25\tcron.weekly\tnice run-parts /etc/cron.weekly\n5 70 five /srv/five",
        "tab",
    )
    assert found.read_as == CrontabForm.ANACRON.value
    assert [words["expression"] for words in found.schedules.values()] == ["5 3 * * *", "25 3 * * 0", "rate(5 days)"]
    assert [line.fit for line in found.lines] == [Conversion.DIFFERS] * 5
    assert [note for note in found.lines[-1].notes if "outside of the hours" in note or "delay of 70" in note][1:]
    (plain,) = crontab("1 5 daily /srv/x", "etc/anacrontab").lines
    assert "the delay of 5 minutes after anacron's start is left out" in plain.notes


@pytest.mark.parametrize("source", ["etc/anacrontab", "tab"])
def test_a_line_of_anacron_goes_on_after_a_backslash(source: str) -> None:
    text = (
        "PATH=/usr/bin: \\\n/bin\n# it was \\\n1 5 old /srv/old\n1 5 mails find /msg -print0 | \\\r\n\t xargs -0 x; \\\n"
        " SORT=name /srv/munge\n7 10 weekly /srv/weekly\n"
    )
    found = crontab(text, source)
    assert found.read_as == CrontabForm.ANACRON.value
    mails, weekly = found.schedules.values()
    assert mails["payload"]["command"] == "find /msg -print0 |  \t xargs -0 x;   SORT=name /srv/munge"
    assert mails["payload"]["environment"] == weekly["payload"]["environment"] == {"PATH": "/usr/bin:  /bin"}
    assert [line.line for line in found.lines] == [1, 5, 8]
    assert not any("backslash" in note for line in found.lines for note in line.notes)


def test_anacron_takes_backslashes_out_of_a_command_which_is_told() -> None:
    (line,) = crontab(r"1 5 old find /old -exec rm {} \;", "etc/anacrontab").lines
    assert "a backslash in the command stays; anacron takes each one out" in line.notes
    assert not any("Vixie" in note for note in line.notes)


@pytest.mark.parametrize("count", [1, 3])
def test_names_stay_when_a_line_is_put_in(count: int) -> None:
    """A schedule of another name would run beside the old one, which ``apply`` leaves."""
    lines = [f"{minute} * * * * curl https://example.org/{minute}" for minute in range(count)]
    before = {words["payload"]["command"]: name for name, words in crontab("\n".join(lines)).schedules.items()}
    more = ["9 * * * * curl https://example.org/new", *lines]
    after = {words["payload"]["command"]: name for name, words in crontab("\n".join(more)).schedules.items()}
    assert before.items() <= after.items()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("$VV /srv/a.php x", "a"),
        ("${PHP} /srv/a.php", "a"),
        ("/usr/bin/php ${APP} /_cron/misc/gc", "gc"),
        ("php -q $APP --quiet", "php"),
        ("/usr/bin/python3 $SCRIPT > /dev/null", "python"),
        ("$CMD --prefix=EVENING --duration=15", "command"),
        ("$CMD --quiet report", "report"),
        ('"$CMD" --quiet', "command"),
        ("COMMAND=bash -l /srv/full_backup.sh", "full_backup"),
        ("/usr/local/bin/asmcfan>/dev/null", "asmcfan"),
        *(("$CMD >/dev/null 2>&1", "command"), ("$CMD &>/dev/null", "command"), ("[ -d /x ] 2>&1 & b.sh", "b")),
        ("su - app -c 'cd /srv/app && ./nightly.sh'", "nightly"),
        ("su app -c /srv/b.sh", "b"),
        ("sudo -u www-data php /srv/c.php", "c"),
        ("timeout -k 5 60 /srv/t.sh", "t"),
        ("/usr/bin/php8.2 /srv/lib/poll.php", "poll"),
        ("/usr/bin/envdir /etc/env.d /usr/local/bin/backup.sh", "backup"),
        ("flock -n /tmp/x.lock /usr/bin/php /srv/d.php", "d"),
        ("/usr/bin/flock -xn /tmp/y -c 'php /srv/e.php'", "e"),
        ("/bin/sh -lc 'cd /opt/shop && bundle exec rake congress:update'", "rake"),
        ("poetry run python -m shop.nightly", "shop.nightly"),
        ("su-exec www-data /usr/local/bin/eppitnic poll", "eppitnic"),
        ("run-one /srv/f.sh", "f"),
        ("bundle install", "bundle"),
        (". /etc/modules/init; module load netcdf; sh /save/drive_wafs > /tmp/err 2>&1", "drive_wafs"),
        ("run-parts --report --regex '.*.sh$' /opt/cron.hourly", "cron.hourly"),
        ("php -d memory_limit=512M artisan schedule:run", "artisan"),
        ("php -c /etc/php.ini -r 'x();'", "command"),
        ("python3 -W ignore /srv/a.py", "a"),
        ("java -cp /srv/lib.jar:/srv/conf com.shop.Main", "com.shop.Main"),
        ("bash -o pipefail /srv/b.sh", "b"),
        ("ruby -I lib -r bundler/setup bin/job.rb", "job"),
        ("node --require dotenv/config app.js", "app"),
        ("timeout --signal KILL 60 /srv/t.sh", "t"),
        ("flock --timeout 10 /tmp/x.lock /srv/d.sh", "d"),
        ("sudo --user app /srv/e.sh", "e"),
        ("su app -s /bin/bash -c /srv/f.sh", "f"),
        ("su app --shell /bin/sh -c 'php -q /srv/g.php'", "g"),
        ("sh -e -c '/srv/h.sh'", "h"),
        ("chpst -u app /srv/i.sh", "i"),
        ("time -o /tmp/took /srv/j.sh", "j"),
        ("exec -a nightly /srv/k.sh", "k"),
        ("ruby -r json /srv/l.rb", "l"),
        ("uv run --project /srv/shop -p 3.12 python nightly.py", "nightly"),
        ("DIR=${DIR:-/var/cache/munin/www}; if [ -d $DIR ]; then find $DIR -delete; fi", "find"),
        ("DIR=$({ cat /etc/a.conf || true; } | sed -E 's/^dir (.*)$/\\1/'); find $DIR -delete", "find"),
        ("A=$(b $(c $(d $(e)))) /srv/m.sh", "m"),
        ("${APP:-/opt/app}/bin/tick --now", "tick"),
        ("${A:-${B:-/opt/b}}/bin/n", "n"),
        ('"${BIN%/*}/job.sh" -q', "job"),
        ("A=\"b c\" D='e f' /srv/o.sh", "o"),
        ("for i in 1 2 3; do /srv/p.sh $i; done", "p"),
        ("case $DAY in 6) /srv/q.sh;; esac", "q"),
        ("{APP}/bin/s.sh", "s"),
        ("sleep $((RANDOM ", "command"),  # of: sleep $((RANDOM % 60)); /srv/r.sh
    ],
)
def test_a_name_comes_from_what_runs_and_not_from_what_starts_it(command: str, name: str) -> None:
    assert program_of(command) == name


def test_flock_without_waiting_skips_the_second_run() -> None:
    for command in ("flock -n /tmp/x /srv/d.sh", "/usr/bin/flock -xn /tmp/y -c 'php /srv/e.php'"):
        words, line = only(f"* * * * * {command}")
        assert (words["overlap"], line.fit) == ("skip", Conversion.EXACT)
    assert "overlap" not in only("* * * * * flock /tmp/x /srv/d.sh -n")[0]


@pytest.mark.parametrize(
    ("line", "form", "user", "overlap"),
    [
        ("0 9 * * * -n sleep 5 && rpki-client -v", None, None, None),
        ("0 9 * * * -ns sleep 5 && rpki-client -v", None, None, "skip"),
        ("@hourly -q -s sleep 5 && rpki-client -v", None, None, "skip"),
        ("0 9 * * * root -q sleep 5 && rpki-client -v", None, "root", None),
        ("0 9 * * * _rpki -s sleep 5 && rpki-client -v", CrontabForm.SYSTEM, "_rpki", "skip"),
    ],
)
def test_the_options_of_bsd_s_cron_are_no_part_of_the_command(
    line: str, form: CrontabForm | None, user: str | None, overlap: str | None
) -> None:
    """``-n sleep 5 …`` was the command, "exact", and sh knows no program -n; -s allows one run at a time."""
    words, reported = only(line, form=form)
    assert words["payload"]["command"] == "sleep 5 && rpki-client -v"
    assert (words["payload"].get("user"), words.get("overlap"), reported.fit) == (user, overlap, Conversion.EXACT)


@pytest.mark.parametrize(
    ("line", "word"), [("0 9 * * * -x a", "-x"), ("0 9 * * * -n -e a", "-e"), ("0 9 * * * root -n ", "-n")]
)
def test_another_option_before_the_command_is_refused(line: str, word: str) -> None:
    (reported,) = crontab(f"{line}\n0 1 * * * root a", "etc/crontab" if "root" in line else "jobs").lines[:1]
    assert reported.fit is Conversion.LEFT
    assert f"has '{word}' where its command begins" in reported.notes[0]


@pytest.mark.parametrize(
    "comment",
    [
        *("#=== backups ===", "# ---- jobs ----", "##### Mail #####", "#---------------"),
        "# min\thour\tday\tmonth\tweekday\tcommand",  # busybox
        "#minute\thour\tmday\tmonth\twday\twho\tcommand",  # FreeBSD
        "# Mins Hours Days Months Weekdays Command",
        *("# mn hr  dom mon dow  cmd", "#M H DoM M DoW cmd", "# mm hh dd mm dow", "# * m h d mo dow: the command"),
        *("# Min Std Tag Monat Wochentag Befehl", "# 分 時 日 月 曜日 コマンド"),
        "# (0-59)  (0-23)  (1-31)  (1-12 or Jan-Dec)  (0-6 or Sun-Sat)",
        "# .- minute, hour, day of month, month, weekday",
        '#ident "@(#)root 1.19"',
        "# vim: ft=crontab",
        "# minute         0-59",
        "# day of week    0-7 (0 or 7 is Sunday)",
        "# |  .------------- hour (0 - 23)",
        "# │ ┌──────────── Minute",
        "#period in days   delay in minutes   job-identifier   command",  # Red Hat's and Gentoo's anacrontab
        "# format: period delay job-identifier command",
        "# period  delay  job-id  command",
        "#(days)\t(min)",
        "# See crontab(5) for field format.",
    ],
)
def test_rulers_are_no_descriptions(comment: str) -> None:
    assert "description" not in only(f"{comment}\n0 1 * * * a")[0]
    assert only(f"{comment}\n# the real one\n0 1 * * * a")[0]["description"] == "the real one"


def test_the_sides_of_a_box_are_no_part_of_a_description() -> None:
    box = "#-------------#\n# update motd #\n#-------------#\n"
    assert only(f"{box}0 1 * * * a")[0]["description"] == "update motd"
    assert only("# written in C#\n0 1 * * * a")[0]["description"] == "written in C#"


@pytest.mark.parametrize(
    "comment", ["# Day of the month: the books", "# M: hourly mail of the day", "# every minute of the hour of the day"]
)
def test_a_description_may_have_words_of_time(comment: str) -> None:
    assert only(f"{comment}\n0 1 * * * a")[0]["description"] == comment[2:]


def test_a_command_without_a_user_in_a_system_s_crontab_is_refused() -> None:
    """cron calls it a bad user name; as a user it would have been dropped from the command without a word."""
    text = "*/5 * * * * cd ./blog && php wp-cron.php\n1 0 * * * apache ./symfony log:rotate\n2 0 * * * node sync.js\n"
    found = crontab(text)
    assert [line.fit for line in found.lines] == [Conversion.LEFT, Conversion.EXACT, Conversion.EXACT]
    assert found.lines[0].notes == ("names no user, 'cd' is a command; --user if no line has a user",)


@pytest.mark.parametrize("word", ["echo", "date", "cp", "curl", "rsync"])
def test_a_word_that_is_a_command_is_no_user(word: str) -> None:
    """The place of a file tells of users; in an image's or a repository's etc/crontab there are often none."""
    line = f"0 5 * * * {word} hello"
    (left,) = crontab(line, "etc/crontab").lines
    assert left.notes == (f"names no user, {word!r} is a command; --user if no line has a user",)
    assert crontab(line, "etc/crontab", form=CrontabForm.USER).lines[0].fit is Conversion.EXACT


def test_a_heading_without_users_makes_the_users_of_a_place_doubtful() -> None:
    heading = "# m h  dom mon dow   command"
    (line,) = crontab(f"{heading}\n0 5 * * * shop refresh", "etc/crontab").lines
    assert (line.fit, "shop is read as the user, of which no heading tells" in line.notes[0]) == (
        Conversion.DIFFERS,
        True,
    )
    for text in (f"{heading}\n0 5 * * * root refresh", f"{heading[:-7]}user command\n0 5 * * * shop refresh"):
        assert crontab(text, "etc/crontab").lines[0].fit is Conversion.EXACT
    assert crontab("0 5 * * * pwsh /app/x.ps1", "/etc/crontab").lines[0].fit is Conversion.EXACT
    for place in ("etc/crontab", "image/etc/crontab"):  # in a repository: often a user's
        (line,) = crontab("0 5 * * * pwsh /app/x.ps1", place).lines
        assert (line.fit, "pwsh is read as the user" in line.notes[0]) == (Conversion.DIFFERS, True)
    asked = crontab(f"{heading}\n0 5 * * * shop refresh", "etc/crontab", form=CrontabForm.SYSTEM)
    assert asked.lines[0].fit is Conversion.EXACT


def test_fcron_s_options_are_not_lost_for_the_lines_below() -> None:
    found = crontab("0 4 * * * before\n!timezone(Europe/Paris)\n0 5 * * * after\n")
    assert [line.fit for line in found.lines] == [Conversion.EXACT, Conversion.LEFT, Conversion.DIFFERS]
    assert found.lines[2].notes == ("fcron's options in line 2 are left out",)


@pytest.mark.parametrize(
    "source", ["acme.cron.d", "acme.crontab", "acme.fcrontab", "acme.txt", "acme.sample", "acme.tab", "acme.cron.d.ex"]
)
def test_the_kind_of_a_file_is_no_part_of_its_schedules_names(source: str) -> None:
    (name,) = crontab("0 5 * * * root /bin/x\n", source).schedules
    assert re.fullmatch("acme/x-[0-9a-f]{4}", name)


@pytest.mark.parametrize(
    "text",
    [
        "BROKER_PASSWORD = 'hunter2'\n0 5 * * * x\n",
        "0 5 * * * mysqldump -u root -phunter2 shop\n",
        "0 5 * * * mysqldump --single-transaction -u root -p'hunter2' shop | gzip > x\n",
        "0 5 * * * PGPASSWORD=hunter2 pg_dump shop\n",
        "0 5 * * * tool --password hunter2 run\n",
        "0 5 * * * curl https://ada:hunter2@example.com/x\n",
        "0 5 * * * curl 'https://example.com/x?token=hunter2&page=2'\n",
        "0 5 * * * curl -H 'Authorization: Bearer hunter2' https://example.com/\n",
        "0 5 * * 99 PASS=hunter2 x\n",
    ],
)
def test_a_secret_is_in_the_payload_and_not_in_the_report(text: str) -> None:
    found = crontab(text)
    assert "hunter2" not in str(found.lines)
    assert "…" in str(found.lines)
    assert any("looks like a secret" in remark for remark in found.remarks)
    assert found.not_taken or "hunter2" in str(found.schedules)


@pytest.mark.parametrize(
    "command", ["cat /etc/passwd", "pass show x", "PASSWORD=$(cat /run/pw) x", "token-refresh --all"]
)
def test_what_only_names_a_secret_is_shown(command: str) -> None:
    found = crontab(f"0 5 * * * {command}\n")
    assert found.lines[0].text == f"0 5 * * * {command}"
    assert not any("secret" in remark for remark in found.remarks)


@pytest.mark.parametrize("piece", ["mysql -u ", "mysql a ", "pass ", "a-", "x://a:", "--token "])
def test_secrets_are_looked_for_in_a_time_that_grows_with_the_length(piece: str) -> None:
    def seconds(text: str) -> float:
        began = time.process_time()
        without_secrets(text)
        return time.process_time() - began

    text = piece * 4000
    brief = text[: len(text) // 10]
    assert min(seconds(text) for _ in range(3)) < 40 * max(min(seconds(brief) for _ in range(3)), 1e-4)


@pytest.mark.parametrize(
    "line",
    [
        "0 5 * * * hpcstats hpcstats import",
        "0 5 * * * backuppc backuppc_nightly",
        "0 5 * * * freeside /usr/bin/freeside-daily fs_daily",
        "0 5 * * * news /usr/lib/news/bin/expire",
        "0 5 * * * cricket test -x /usr/share/cricket/collect",
        "0 5 * * * app ( cd /src; ./update.pl )",
        "0 5 * * * radio nice /usr/share/radio/daily",
    ],
)
def test_a_word_before_what_begins_a_command_may_be_its_user(line: str) -> None:
    (entry,) = crontab(f"{line}\n").lines
    assert entry.fit is Conversion.DIFFERS
    assert "if it is the user of each line: --system, else --user" in entry.notes[0]
    (words,) = crontab(f"{line}\n", "debian/cron.d").schedules.values()
    assert words["payload"]["user"] == line.split()[5]


def test_a_word_in_every_line_that_once_stands_before_a_command_may_be_its_user() -> None:
    text = "29 8 * * * le notify-send hello\n1 10 * * * le sh /home/le/apply.sh\n"
    assert all("le is read as a command; if it is the user" in line.notes[0] for line in crontab(text).lines)
    assert {line.fit for line in crontab("0 1 * * * make one\n0 2 * * * make two\n").lines} == {Conversion.EXACT}


def test_a_legend_with_users_makes_a_first_word_doubtful() -> None:
    text = "# *  *  *  *  * user-name  command to be executed\n29 8 * * * le notify-send hello\n"
    (line,) = crontab(text).lines
    assert "le is read as a command; if it is the user of each line: --system, else --user" in line.notes[0]
    (line,) = crontab(text.replace("user-name  ", "")).lines
    assert line.fit is Conversion.EXACT


def test_users_that_differ_are_seen_too() -> None:
    found = crontab("0 5 * * * app cd /srv && ./a\n0 6 * * * worker /srv/b.sh\n")
    assert [line.fit for line in found.lines] == [Conversion.DIFFERS] * 2
    found = crontab("0 5 * * * docker exec -t shop php artisan x\n0 6 * * * certbot renew\n0 7 * * * mytool /data\n")
    assert [line.fit for line in found.lines] == [Conversion.EXACT] * 3


def test_a_line_that_somebody_has_split_does_not_hide_the_users_of_the_others() -> None:
    found = crontab("* * * * * postgres find /db/wal \\\n    -type f -mmin +60 | \\\n    xargs rm\n")
    assert [line.fit for line in found.lines] == [Conversion.DIFFERS, Conversion.LEFT, Conversion.LEFT]
    assert any("postgres is read as a command; if it is the user" in note for note in found.lines[0].notes)


@pytest.mark.parametrize(
    ("command", "note"),
    [
        (r"find / -name x \\; | sed 's/a\\b/c/'", "Vixie's and BSD's cron make one backslash of it"),
        ("find /archive \\", "cron does not continue a line after a backslash"),
        (
            'date "+%F" >> /var/log/x',
            "% ends the command here, the rest is its standard input; busybox and supercronic",
        ),
        ("@SA_LIB_DIR@/sa1 -d 600 6 &", "@SA_LIB_DIR@ looks like a placeholder that is still to be replaced"),
        ("/home/ubuntu/{new_folder_name}/venv/bin/python x", "{new_folder_name} looks like a placeholder"),
        ("/home/<user>/run.sh", "<user> looks like a placeholder"),
        ("{INSTALL_DIR}/tests/run_tests.sh", "{INSTALL_DIR} looks like a placeholder"),
        ("php -f [wwwpath]cron/minute.php", "[wwwpath] looks like a placeholder"),
        ('"/path/to/run.sh"', "/path/to looks like a placeholder"),
    ],
)
def test_a_command_that_crons_read_differently_is_told(command: str, note: str) -> None:
    (entry,) = crontab(f"0 5 * * * {command}\n").lines
    assert entry.fit is Conversion.DIFFERS
    assert any(note in found for found in entry.notes)


def test_a_backslash_before_a_percent_ends_no_line() -> None:
    notes = only(r"0 1 * * * echo \\%one")[1].notes
    assert not any("does not continue a line" in note for note in notes)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "${A}/b.sh",
            "awk '{print}' /x",
            "{ /srv/a.sh; }",
            "ps | grep '[n]ginx'",
            "ls /a/path/to/b",
            "[ -x /a ] && /a",
        ),
        *("find /x -exec {} +", "git diff @{u}/x", "cp /a/{b,c}/d /e", "rm /x/[abc]*"),
    ],
)
def test_what_a_shell_reads_is_no_placeholder(command: str) -> None:
    assert only(f"0 1 * * * {command}")[1].fit is Conversion.EXACT


def test_programs_of_node_are_no_users() -> None:
    found = crontab("0 5 * * * node /app/a.js\n0 6 * * * node /app/b.js\n")
    assert [words["payload"] for words in found.schedules.values()] == [
        {"command": "node /app/a.js"},
        {"command": "node /app/b.js"},
    ]
    assert {line.fit for line in found.lines} == {Conversion.EXACT}


ANACRON = (
    "SHELL=/bin/sh\n1 0 cron.daily run-parts /etc/cron.daily\n@monthly 0 cron.monthly run-parts /etc/cron.monthly\n"
)


def test_an_entry_of_anacron_that_is_commented_out_describes_nothing() -> None:
    text = (
        "# the old one\n# 1\t5\tcron.daily\tnice run-parts /etc/cron.daily\n1 0 cron.daily run-parts /etc/cron.daily\n"
    )
    (words,) = crontab(text, "etc/anacrontab").schedules.values()
    assert words["description"] == "cron.daily"


def test_a_period_that_is_none_is_named() -> None:
    (line,) = crontab("ho 7 weekly a\n1 5 daily b", "etc/anacrontab").lines[:1]
    assert line.notes == ("the period 'ho' is neither a number of days nor @daily, @weekly or @monthly",)


@pytest.mark.parametrize("command", ["*applications/shop/cron/expire.py", "**scripts/sweep.py -x", "*tasks/mail"])
def test_a_command_of_web2py_is_refused(command: str) -> None:
    """Its own cron reads crontabs with users, in which a star stands for a web2py that runs the script."""
    found = crontab(f"0 1 * * * root {command}\n@hourly root {command}\n0 2 * * * root a")
    assert [line.fit for line in found.lines] == [Conversion.LEFT, Conversion.LEFT, Conversion.EXACT]
    assert "is a line of web2py" in found.lines[0].notes[0]
    (doubted,) = crontab(f"0 1 * * * shop {command}").lines
    assert (doubted.fit, "--system" in doubted.notes[0]) == (Conversion.DIFFERS, True)
    (refused,) = crontab(f"0 1 * * * shop {command}", form=CrontabForm.SYSTEM).lines
    assert "is a line of web2py" in refused.notes[0]


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("${CRON_SCHEDULE} cd /app && ./run", "$CRON_SCHEDULE"),
        ("$WHEN root ./run", "$WHEN"),
        ('"${WHEN:-0 3 * * *}" ./run', "$WHEN"),
        ("0 ${BACKUP_HOUR} * * * ./backup", "$BACKUP_HOUR"),
        ("*/$N * * * ${DAYS} $HOME/bin/run", "$N $DAYS"),
    ],
)
def test_a_variable_in_place_of_times_is_named_with_what_replaces_it(line: str, variables: str) -> None:
    (found,) = crontab(line).lines
    assert found.fit is Conversion.LEFT
    assert found.notes == (
        f"has a variable in place of its times: export it, then envsubst '{variables}' < FILE | quarterjack import crontab -",
    )


def test_the_rest_of_a_split_line_is_not_taken_for_a_variable() -> None:
    found = crontab("0 8 * * * cd /srv && \\\n  $HOME/venv/bin/python report.py\n")
    assert "is neither" in found.lines[1].notes[0]


def test_an_anacrontab_is_known_by_its_lines_too() -> None:
    """Under another name its @monthly line was exact, as the command ``0 cron.monthly run-parts …`` of a user."""
    found = crontab(ANACRON, "tab.txt")
    assert found.read_as == CrontabForm.ANACRON.value
    assert [words["payload"]["command"] for words in found.schedules.values()] == [
        "run-parts /etc/cron.daily",
        "run-parts /etc/cron.monthly",
    ]
    assert form_of("1 0 JAN x y z\n", "t") is CrontabForm.ANACRON
    assert form_of("1 0 1 JAN * /bin/a b\n@daily 5 in\n", "t") is CrontabForm.USER
    assert form_of(f"{ANACRON}0 5 * * * /bin/a\n", "t") is CrontabForm.USER


def test_equal_commands_have_names_that_no_other_line_decides_about() -> None:
    """The second of two equal commands was called -2: a line put in before it exchanged the two schedules."""
    week, weekend, other = "0 5 * * 1-5 /opt/sync\n", "0 9 * * 6,0 /opt/sync\n", "0 1 * * * /opt/other\n"

    def named(text: str) -> dict[str, str]:
        return {words["expression"]: name for name, words in crontab(text).schedules.items()}

    first = named(week + weekend)
    assert named(f"A=1\n{weekend}{other}{week}") == first | named(other)
    assert len(set(first.values())) == 2
    assert list(named(week).values()) == [next(iter(first.values())).rpartition("-")[0]]
    both = list(crontab(week + week).schedules)
    assert both == [*named(week).values(), f"{both[0]}-2"]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("curl -u ada:pw https://a/", "curl -u ada:… https://a/"),
        ('curl --user "ada:pw" x', 'curl --user "ada:…" x'),
        ("wget 'http://a/cron.php?cron_key=pw'", "wget 'http://a/cron.php?cron_key=…'"),
        ("curl 'https://a/?b=1&key=pw'", "curl 'https://a/?b=1&key=…'"),
        ("curl https://hooks.slack.com/services/T0/B0/pw -d x", "curl https://hooks.slack.com/services/… -d x"),
        ("curl https://api.telegram.org/bot1:pw", "curl https://api.telegram.org/bot…"),
        ("curl -H 'PRIVATE: glpat-pw' -H 'X-Auth-Key: pw'", "curl -H 'PRIVATE: …' -H 'X-Auth-Key: …'"),
        ("redis-cli -h a -a pw save", "redis-cli -h a -a … save"),
        ("sshpass -p pw ssh a", "sshpass -p … ssh a"),
        ("docker exec -u 1000:1000 a b; rsync -u a:/b c", "docker exec -u 1000:1000 a b; rsync -u a:/b c"),
    ],
)
def test_more_that_only_its_owner_may_read(command: str, shown: str) -> None:
    assert without_secrets(command) == shown


def test_notes_show_no_secrets_either() -> None:
    (_, line) = crontab("0 1 * * * /bin/a\n0 99 * * * token=abc x --password=pw\n", "t").lines
    assert "pw" not in "".join((line.text, *line.notes))


@pytest.mark.parametrize(
    "text", ["10 0 * * * news logcompress\n50 1 * * * news expire\n", "0 5 * * * backup nightly\n"]
)
def test_accounts_of_debian_before_bare_words_may_be_users(text: str) -> None:
    """A file of /etc/cron.d of nntp-rs was exact, with the commands ``news logcompress`` and ``news expire``."""
    found = crontab(text)
    assert {line.fit for line in found.lines} == {Conversion.DIFFERS}
    assert "is read as a command; if it is the user of each line: --system" in found.lines[0].notes[0]


def test_a_line_of_a_systems_crontab_without_its_user_says_what_to_do() -> None:
    (line,) = crontab("00 09 * * *\t/opt/mbse/bin/adm/maint\n", "debian/cron.d").lines
    assert "five fields and user and command; --user if this crontab has no users in it" in line.notes[0]


def test_no_random_delay_is_no_difference() -> None:
    setting, _ = crontab("RANDOM_DELAY=0\n0 5 * * * /bin/a\n").lines
    assert (setting.fit, setting.notes) == (Conversion.EXACT, ())
