"""CronJob manifests: every word is taken over or named with its line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack import Registry
from quarterjack.apply.document import read
from quarterjack.apply.nodes import read_documents
from quarterjack.errors import InvalidInput
from quarterjack.importers.kubernetes import read_kubernetes
from quarterjack.importers.report import Conversion, ImportedLine, ImportReport
from quarterjack.ready_jobs.command import command_job
from quarterjack.testing import Harness
from quarterjack.timing import next_fires

from tests.support.timing.oracle import Cron, crons

DATA = Path(__file__).parents[2] / "data" / "kubernetes"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
JOB = "{template: {spec: {containers: [{name: a, command: [echo, hi]}]}}}"


def imported(name: str) -> ImportReport:
    return read_kubernetes((DATA / name).read_text(), name)


def cron_job(spec: str, job: str = JOB) -> str:
    return f"kind: CronJob\nmetadata: {{name: a}}\nspec:\n  jobTemplate: {{spec: {job}}}\n{spec}"


def only(text: str, **asked: Any) -> tuple[Mapping[str, Any], ImportedLine]:
    found = read_kubernetes(text, "f.yaml", **asked)
    (words,) = found.schedules.values()
    return words, found.lines[0]


def fires(words: Mapping[str, Any], after: datetime, count: int) -> list[str]:
    zone, policies = words["timezone"], words.get("rule", {})
    found = next_fires(words["expression"], timezone=zone, after=after, count=count, **policies)
    return [f"{fire:%m-%d %H:%M%z}" for fire in found]


# The samples.


def test_the_documented_ones_are_created_and_apply() -> None:
    found = imported("documented.yaml")
    hello, report = found.schedules.values()
    assert hello == {
        "job": "command",
        "expression": "* * * * *",
        "timezone": "UTC",
        "payload": {"argv": ["/bin/sh", "-c", "date; echo Hello from the Kubernetes cluster"]},
        "retry": {"max_attempts": 7, "cap": 360, "jitter": 0},
        "catch_up": "latest",
    }
    assert report == {
        "job": "command",
        "expression": "30 2 * * 1-5",
        "timezone": "Europe/Berlin",
        "rule": {"gap": "skip", "repeated": "both"},
        "payload": {
            "argv": ["python3", "-m", "report", "--day=today", "$(HOME)", "$(NOT_SET)"],
            "environment": {"DAY": "today", "LABEL": "todays"},
            "directory": "/srv/report",
            "timeout": 600,
        },
        "description": "The report of the day",
        "tags": {"app.kubernetes.io/name": "report"},
        "retry": {"max_attempts": 1},
        "catch_up": "latest",
        "catch_up_window": 3600.0,
        "overlap": "terminate_other",
    }
    assert [(line.line, line.fit) for line in found.lines] == [(1, Conversion.DIFFERS), (21, Conversion.EXACT)]


@pytest.mark.parametrize("name", ["documented.yaml", "listed.yaml"])
def test_every_word_is_taken_or_named(name: str) -> None:
    """Take a word out of the manifest: either the schedule changes, or the report does, or it says nothing of what is due."""
    text = (DATA / name).read_text()
    whole = read_kubernetes(text, name)
    silent = set()
    for document in read_documents(text, name):
        for leaf in document.leaves():
            lines = text.splitlines()
            if re.fullmatch(r"\s*[\w./-]+: [^\[{|]+", lines[leaf.line - 1]):
                del lines[leaf.line - 1]
                told = read_kubernetes("\n".join(lines), name)
                if _without_lines(told) == _without_lines(whole):
                    silent.add(leaf.path.rpartition(".")[2])
    assert silent <= {
        *(
            "apiVersion",
            "restartPolicy",
            "imagePullPolicy",
            "creationTimestamp",
            "generation",
            "resourceVersion",
            "uid",
        ),
        *("terminationMessagePath", "terminationMessagePolicy", "dnsPolicy", "schedulerName", "lastScheduleTime"),
        *("terminationGracePeriodSeconds", "parallelism", "suspend", "key", "name", "memory", "cpu"),
    }


def _without_lines(found: ImportReport) -> list[Any]:
    notes = [re.sub(r"line \d+", "", note) for line in found.lines for note in line.notes]
    return [found.schedules, notes, [line.text for line in found.lines]]


def test_what_is_listed_is_created_or_named_with_lines() -> None:
    found = imported("listed.yaml")
    clean, by_image, other = found.lines
    assert (clean.line, clean.fit, clean.name) == (4, Conversion.DIFFERS, "shop/clean")
    said = "\n".join(clean.notes)
    for expected in (
        "Forbid: a fire during a run is skipped for good",
        "line 35: PASSWORD comes from elsewhere in the cluster",
        "the worker must have what the image shop:1 has",
        "line 10: metadata.annotations is left out",
        "line 19: spec.failedJobsHistoryLimit is left out: runs are kept",
        "line 45: spec.jobTemplate.spec.template.spec.containers[0].resources is left out: size the worker",
        "containers[0].volumeMounts is left out: the worker must have these files",
        "template.spec.serviceAccountName is left out: give the worker the permissions",
    ):
        assert expected in said
    assert len(clean.notes) == 10
    assert (by_image.fit, by_image.name, by_image.is_entry) == (Conversion.LEFT, None, True)
    assert "write that as command: [...]" in by_image.notes[0]
    assert (other.fit, other.is_entry, other.text) == (Conversion.LEFT, False, "ConfigMap settings")
    assert (len(found.schedules), found.not_taken) == (1, 1)
    assert found.schedules["shop/clean"]["paused"] is True


def test_what_was_imported_runs() -> None:
    registry = Registry()
    command_job(registry=registry)
    harness = Harness(registry, at=NOON)
    (document,) = read(imported("documented.yaml").yaml(), "f.yaml")
    plan = harness.scheduler.compare_declared(document.declarations, managed_by=document.managed_by)
    assert harness.scheduler.carry_out(plan).failed == {}
    (run,) = harness.advance(minutes=1)
    assert run.result["output"].endswith("Hello from the Kubernetes cluster")


# Times as Kubernetes' parser has them.


def test_with_two_days_restricted_either_is_enough_also_with_a_step() -> None:
    """2026-06-01 is a Monday. To cron, and here, 0 0 */2 * 1 would be Mondays with an odd date only."""
    words, _ = only(cron_job("  schedule: 0 0 */10 * 1"))
    assert words["expression"] == "0 0 1-31/10 * 1"
    found = fires(words, datetime(2026, 5, 31, 12, tzinfo=UTC), 6)
    assert [day[:5] for day in found] == ["06-01", "06-08", "06-11", "06-15", "06-21", "06-22"]
    assert only(cron_job("  schedule: 0 0 */2 * *"))[0]["expression"] == "0 0 */2 * *"
    assert only(cron_job("  schedule: 0 0 1 * ?/2"))[0]["expression"] == "0 0 1 * 0-6/2"


def test_a_time_that_the_clocks_skip_is_skipped_and_one_that_comes_twice_is_due_twice() -> None:
    words, _ = only(cron_job("  schedule: 30 2 * * *\n  timeZone: Europe/Berlin"))
    spring = fires(words, datetime(2026, 3, 28, 12, tzinfo=UTC), 1)
    autumn = fires(words, datetime(2026, 10, 24, 12, tzinfo=UTC), 2)
    assert spring == ["03-30 02:30+0200"]
    assert autumn == ["10-25 02:30+0200", "10-25 02:30+0100"]


def as_kubernetes(cron: Cron, wall: datetime) -> bool:
    """Whether it is due when a wall clock shows this: only a bare star makes a day field no restriction."""
    clock = wall.month in cron.month.values and wall.hour in cron.hour.values and wall.minute in cron.minute.values
    by_date, by_week = wall.day in cron.day.values, wall.isoweekday() % 7 in cron.weekday.values
    star = {cron.day.text, cron.weekday.text} & {"*", "*/1"}
    return clock and ((by_date and by_week) if star else (by_date or by_week))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(crons, st.sampled_from(["2026-03-28 12:00", "2026-10-24 12:00", "2026-06-30 00:00"]))
def test_any_schedule_is_due_whenever_the_wall_clock_matches(cron: Cron, start: str) -> None:
    """Every minute of three days, two of which have a change of the clocks, against the sets that the text means."""
    after = datetime.fromisoformat(start).replace(tzinfo=UTC)
    minutes = [after + timedelta(minutes=number) for number in range(1, 3 * 24 * 60 + 1)]
    due = [one for one in minutes if as_kubernetes(cron, one.astimezone(ZoneInfo("Europe/Berlin")))]
    found = read_kubernetes(cron_job(f"  schedule: '{cron.text}'\n  timeZone: Europe/Berlin"), "f.yaml")
    if not found.schedules:
        assert "never occurs" in found.lines[0].notes[0]
        return
    (words,) = found.schedules.values()
    policies, count = words.get("rule", {}), min(len(due) + 1, 1_000)
    ours = next_fires(words["expression"], timezone="Europe/Berlin", after=after, count=count, **policies)
    assert [fire.astimezone(UTC) for fire in ours if fire.astimezone(UTC) <= minutes[-1]] == due[:count]


@pytest.mark.parametrize(
    ("spec", "expression", "zone"),
    [
        ("  schedule: 'CRON_TZ=Asia/Tokyo 0 5 * * *'", "0 5 * * *", "Asia/Tokyo"),
        ("  schedule: 'TZ=Asia/Tokyo 0 5 * * *'\n  timeZone: Asia/Seoul", "0 5 * * *", "Asia/Seoul"),
        ("  schedule: '@every 1h30m'", "rate(5400 seconds)", "Europe/Paris"),
        ("  schedule: '@weekly'", "@weekly", "Europe/Paris"),
        ("  schedule: 0 5 * * 1-5", "0 5 * * 1-5", "Europe/Paris"),
    ],
)
def test_when_it_is_due(spec: str, expression: str, zone: str) -> None:
    words, _ = only(cron_job(spec), timezone="Europe/Paris")
    assert (words["expression"], words["timezone"]) == (expression, zone)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("  schedule: 0 5 * * *", True),
        ("  schedule: 0 5 * * *\n  timeZone: ''", True),
        ("  schedule: 0 5 * * *\n  timeZone: Asia/Tokyo", False),
        ("  schedule: 'CRON_TZ=Asia/Tokyo 0 5 * * *'", False),
    ],
)
def test_a_zone_that_nothing_names_is_told(spec: str, told: bool) -> None:
    found = read_kubernetes(cron_job(spec), "f.yaml")
    assert any("no time zone is known" in remark for remark in found.remarks) == told


# What cannot be.


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (cron_job("  suspend: false"), "no spec.schedule"),
        (cron_job("  schedule: 61 * * * *"), "minute 61 is outside"),
        (cron_job("  schedule: '@every 1.5h'"), "not a length of time in whole seconds"),
        (cron_job("  schedule: 0 5 * * *\n  concurrencyPolicy: Never"), "not Allow, Forbid or Replace"),
        (cron_job("  schedule: 0 5 * * *\n  startingDeadlineSeconds: soon"), "is not a number"),
        (cron_job("  schedule: 0 5 * * *\n  suspend: 'yes'"), "is not true or false"),
        (cron_job("  schedule: 0 5 * * *\n  timeZone: Mars/Olympus"), "Mars/Olympus"),
        (cron_job("  schedule: 0 5 * * *", "{template: {spec: {containers: []}}}"), "several containers"),
        (cron_job("  schedule: 0 5 * * *", JOB.replace("[echo, hi]", "[[echo], hi]")), "is not text"),
        (
            cron_job("  schedule: 0 5 * * *", JOB.replace("command:", "args:")),
            "has args and no command: its image's ENTRYPOINT",
        ),
        (
            cron_job("  schedule: 0 5 * * *", JOB.replace("command: [echo, hi]", "image: x")),
            "what it runs is in its image",
        ),
        (
            cron_job("  schedule: 0 5 * * *", JOB.replace("[echo, hi]", "echo hi")),
            "containers[0].command='echo hi': is not a list",
        ),
        (
            cron_job("  schedule: 0 5 * * *", JOB.replace("hi]", "hi], args: --all")),
            "containers[0].args='--all': is not a list",
        ),
        (
            cron_job("  schedule: 0 5 * * *", JOB.replace("hi]", "hi], env: {A: b}")),
            "containers[0].env='': is not a list",
        ),
        ("kind: CronJob\n", "no spec.schedule"),
    ],
)
def test_what_cannot_be_is_named_and_stops_nobody(text: str, why: str) -> None:
    good = cron_job("  schedule: 0 5 * * *").replace("name: a}", "name: good}")
    found = read_kubernetes(f"{text}\n---\n{good}", "f.yaml")
    assert list(found.schedules) == ["good"]
    assert found.lines[0].fit is Conversion.LEFT
    assert why in found.lines[0].notes[0]


# Hostile files.


def laughs() -> str:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        # With `make test`, tests/unit/apply/test_document.py has the same reader count its nodes.
        pytest.param(laughs(), "f.yaml:", "too large or too deep", marks=pytest.mark.check),
        ("kind: CronJob\nspec:\n  schedule: *nobody\n", "f.yaml:3", "is not YAML"),
        ("kind: CronJob\nspec: !!python/object/apply:os.system [ls]\n", "f.yaml:2", "is a tag"),
        ("a: 1\na: 2\n", "f.yaml:2", "is a duplicate key"),
        ("kind: CronJob\n" + "{{ template }}\n", "f.yaml:2", "has placeholders of a template"),
        ("[" * 5_000, "f.yaml", "is not YAML|too deep"),
        ("- " * 3_000 + "x", "f.yaml", "is not YAML|too deep"),
        ("", "f.yaml", "has no manifest"),
        ("kind: CronJobList\nitems: []\n", "f.yaml", "has no manifest"),
    ],
)
def test_hostile_yaml_is_one_clean_error(text: str, where: str, what: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{where}.*({what})"):
        read_kubernetes(text, "f.yaml")


def test_what_is_no_manifest_is_named() -> None:
    found = read_kubernetes("just text\n---\n- 1\n- 2\n", "f.yaml")
    assert [line.fit for line in found.lines] == [Conversion.LEFT] * 3
    assert (found.jobs, found.not_taken) == (None, 3)  # the exit code is 1: nobody knows what they are


def test_a_list_of_manifests_is_read_and_an_empty_document_is_none() -> None:
    job = "{spec: {template: {spec: {containers: [{command: [x]}]}}}}"
    one = f"{{kind: CronJob, metadata: {{name: a}}, spec: {{schedule: '@daily', jobTemplate: {job}}}}}"
    found = read_kubernetes(f"---\n# Source: chart/templates/off.yaml\n---\n- {one}\n---\n", "f.yaml")
    assert (list(found.schedules), found.not_taken) == (["a"], 0)
    with pytest.raises(InvalidInput, match="has no manifest"):
        read_kubernetes("---\n# nothing\n---\n", "f.yaml")


def test_a_variable_with_a_secret_is_told() -> None:
    env = "env: [{name: DB_PASSWORD, value: hunter2}, {name: TOKEN_TTL, value: '60'}, {name: API_KEY, value: ''}]"
    pod = f"spec: {{containers: [{{command: [x], {env}}}]}}"
    text = f"kind: CronJob\nspec: {{schedule: '@daily', jobTemplate: {{spec: {{template: {{{pod}}}}}}}}}\n"
    (line,) = read_kubernetes(text, "f.yaml").lines
    told = [note for note in line.notes if "secrets" in note]
    assert told == ["line 2: DB_PASSWORD is kept in the payload: let the job fetch secrets by name"]
    assert "hunter2" not in str(line)


def test_variables_that_repeat_each_other_take_no_memory() -> None:
    variables = "".join(f", {{name: V{number}, value: '{f'$(V{number - 1})' * 8}'}}" for number in range(1, 12))
    text = (
        "kind: CronJob\nmetadata: {name: much}\nspec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {containers: "
        f"[{{command: [x], env: [{{name: V0, value: aaaaaaaaaa}}{variables}]}}]}}}}}}}}}}\n"
    )
    (line,) = read_kubernetes(text, "cronjobs.yaml").lines
    assert line.fit is Conversion.LEFT
    assert "once $(NAME) is replaced" in line.notes[0]


def test_arguments_that_repeat_a_variable_take_no_memory() -> None:
    text = (
        "kind: CronJob\nmetadata: {name: much}\nspec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {containers: "
        f"[{{command: [x{', $(V)' * 1_000}], env: [{{name: V, value: {'a' * 1_000}}}]}}]}}}}}}}}}}\n"
    )
    (line,) = read_kubernetes(text, "cronjobs.yaml").lines
    assert line.fit is Conversion.LEFT
    assert "once $(NAME) is replaced" in line.notes[0]


@pytest.mark.parametrize(
    ("container", "kept"),
    [
        ("command: [a], env: [{name: URL, value: 'postgres://u:pw@db/x'}]", True),
        ("command: [a], env: [{name: BUS, value: 'Endpoint=sb://x/;SharedAccessKey=pw'}]", True),
        ("command: [sh, -c, backup --token=pw]", True),
        ("command: [backup, --token, pw]", True),
        ("command: [a], env: [{name: URL, value: 'postgres://db/x'}]", False),
    ],
)
def test_a_secret_that_stays_in_a_payload_is_told(container: str, kept: bool) -> None:
    """Only variables with a name such as PASSWORD were told, not a URL or an argument with a password."""
    job = f"{{template: {{spec: {{containers: [{{name: a, {container}}}]}}}}}}"
    remarks = read_kubernetes(cron_job("  schedule: 0 5 * * *", job), "f.yaml").remarks
    told = "payloads keep what looks like a secret as it is, that of a: let the job fetch secrets by name instead"
    assert (told in remarks) is kept
