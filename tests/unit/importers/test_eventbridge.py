"""EventBridge: what its listings say becomes schedules of jobs that call the same targets, or is named."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Registry
from quarterjack.apply.document import read
from quarterjack.errors import InvalidInput
from quarterjack.importers.eventbridge import read_eventbridge
from quarterjack.importers.report import Conversion, ImportedLine, ImportReport
from quarterjack.timing import next_fires

DATA = Path(__file__).parents[2] / "data" / "eventbridge"
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
TARGET = {"Arn": "arn:aws:lambda:eu-central-1:123456789012:function:report", "Input": "{}"}


def imported(text: str, source: str = "f.json") -> ImportReport:
    return read_eventbridge(text, source, now=NOW)


def only(**words: Any) -> tuple[Mapping[str, Any], ImportedLine]:
    given = {"Name": "a", "ScheduleExpression": "rate(5 minutes)", "Target": TARGET, **words}
    found = imported(json.dumps(given))
    (line,) = found.lines
    return next(iter(found.schedules.values()), {}), line


# The samples.


def test_schedules_as_the_command_line_prints_them() -> None:
    found = imported((DATA / "schedules.json").read_text(), "schedules.json")
    assert [(line.line, line.name, line.fit) for line in found.lines] == [
        (1, "nightly-report", Conversion.EXACT),
        (26, "shop/sync", Conversion.DIFFERS),
        (55, "stop-instances", Conversion.DIFFERS),
        (68, None, Conversion.LEFT),
    ]
    assert found.not_taken == 0, "what is over is not due"
    report, sync, stop = found.schedules.values()
    assert report == {
        "job": "lambda/report",
        "expression": "cron(30 2 ? * MON-FRI *)",
        "timezone": "Europe/Berlin",
        "rule": {"window": 900},
        "payload": {"day": "<aws.scheduler.scheduled-time>"},
        "description": "The report of the day",
    }
    assert sync == {
        "job": "sqs/sync.fifo",
        "expression": "rate(5 minutes, from=2026-05-31T22:02:00Z)",
        "timezone": "UTC",
        "rule": {"end": "2027-06-30T22:00:00Z"},
        "payload": "go",
        "paused": True,
        "retry": {"max_attempts": 4, "within": 600},
        "delete_after_completion": True,
    }
    assert (stop["job"], stop["paused"]) == ("aws-sdk/ec2/stopInstances", True)
    assert any(
        "DeadLetterConfig is left out: what fails for good is on the list" in note for note in found.lines[1].notes
    )
    assert any("write the job aws-sdk/ec2/stopInstances" in note for note in found.lines[2].notes)
    assert any("line 58: KmsKeyArn is left out" in note for note in found.lines[2].notes)


def test_rules_with_and_without_their_targets() -> None:
    found = imported((DATA / "rules.json").read_text(), "rules.json")
    assert [(line.text, line.name, line.fit, line.is_entry) for line in found.lines] == [
        ("hourly/1", "hourly/1", Conversion.DIFFERS, True),
        ("hourly/2", "hourly/2", Conversion.DIFFERS, True),
        ("bare", "bare", Conversion.DIFFERS, True),
        ("on-upload", None, Conversion.LEFT, False),
        ("a page that ends", None, Conversion.LEFT, True),
    ]
    assert [words["job"] for words in found.schedules.values()] == ["states/clean", "ecs/shop", "rule/bare"]
    assert not any("EcsParameters" in note for note in found.lines[0].notes), "each target has its own words"
    assert any("EcsParameters is left out" in note for note in found.lines[1].notes)
    assert any("list-targets-by-rule" in note for note in found.lines[2].notes)


@pytest.mark.parametrize("name", ["schedules.json", "rules.json"])
def test_what_is_written_can_be_read_and_its_jobs_be_loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from quarterjack import jobs as jobs_module

    registry = Registry()
    monkeypatch.setattr(jobs_module, "default_registry", registry)
    monkeypatch.setattr(jobs_module.default_registry, "_jobs", {})
    found = imported((DATA / name).read_text(), name)
    (document,) = read(found.yaml(), "schedules.yaml")
    assert found.jobs is not None
    compile(found.jobs, "jobs.py", "exec")
    assert {declared.job for declared in document.declarations} == {
        line.split('"')[1] for line in found.jobs.splitlines() if "target_job(" in line or line.startswith("@job(")
    }


@pytest.mark.parametrize("indent", ["  ", "\n\t", ""])
def test_documents_may_be_indented(indent: str) -> None:
    one = json.dumps({"Name": "a", "ScheduleExpression": "rate(1 day)", "Target": {"Arn": "arn:x"}}, indent=4)
    other = one.replace('"a"', '"b"')
    assert set(imported(f"{indent}{one}\n{indent}{other}").schedules) == {"a", "b"}


def test_a_listing_without_expressions_names_what_to_ask_for() -> None:
    listed = {"Schedules": [{"Name": "a", "GroupName": "g", "State": "ENABLED", "Target": {"Arn": "arn:x"}}]}
    found = imported(json.dumps(listed))
    assert found.schedules == {}
    assert "aws scheduler get-schedule --name a --group-name g" in found.lines[0].notes[0]
    assert found.not_taken == 1


@pytest.mark.parametrize("form", ["{one}\n{two}\n", "[{one}, {two}]", '{{"Schedules": [{one},\n{two}]}}', "{one}{two}"])
def test_any_way_of_putting_several_together_is_taken(form: str) -> None:
    one, two = (json.dumps({"Name": n, "ScheduleExpression": "rate(1 hour)", "Target": TARGET}) for n in "ab")
    assert list(imported(form.format(one=one, two=two)).schedules) == ["a", "b"]


@pytest.mark.parametrize("text", ["😀", "\u2028", "tab\t", "back\\ud83d\\ude00", '"quoted"', "a/b"])
@pytest.mark.parametrize("plain", [True, False])
def test_any_text_of_json_is_read_as_json_reads_it(text: str, plain: bool) -> None:
    given = {"Name": "a", "ScheduleExpression": "rate(1 hour)", "Target": TARGET, "Description": text}
    found = imported(json.dumps(given, ensure_ascii=plain).replace("/", "\\/"))
    assert found.schedules["a"]["description"] == text
    (document,) = read(found.yaml(), "f.yaml")
    assert document.declarations[0].description == text


def test_yaml_of_the_command_line_is_taken() -> None:
    text = f"Name: a\nScheduleExpression: cron(0 9 * * ? *)\nTarget:\n  Arn: {TARGET['Arn']}\n  Input: '1'\n"
    assert imported(text).schedules["a"]["payload"] == 1


# Words.


def test_a_rate_keeps_its_phase() -> None:
    words, _ = only(StartDate="2026-05-04T11:59:00+00:00")
    (fire,) = next_fires(words["expression"], after=NOW, count=1)
    assert fire == NOW + timedelta(minutes=4)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            {"StartDate": "2026-06-01T00:00:00+02:00", "ScheduleExpression": "cron(0 9 * * ? *)"},
            {"rule": {"start": "2026-05-31T22:00:00Z"}},
        ),
        ({"EndDate": "1798754400.0"}, {"rule": {"end": "2026-12-31T22:00:00Z"}}),
        ({"FlexibleTimeWindow": {"Mode": "OFF", "MaximumWindowInMinutes": 5}}, {"rule": None}),
        ({"State": "ENABLED", "ActionAfterCompletion": "NONE"}, {"paused": None, "delete_after_completion": None}),
        ({"GroupName": "g"}, {}),
        (
            {"Target": {**TARGET, "RetryPolicy": {"MaximumRetryAttempts": 0}}},
            {"retry": {"max_attempts": 1, "within": 86400}},
        ),
        ({"Target": {**TARGET, "RetryPolicy": {"MaximumRetryAttempts": 185}}}, {"retry": None}),
        ({"Target": {**TARGET, "Input": "plain text"}}, {"payload": "plain text"}),
        ({"Target": {**TARGET, "Input": '"quoted"'}}, {"payload": '"quoted"'}),
        ({"Target": {**TARGET, "Input": "[1, 2]"}}, {"payload": [1, 2]}),
    ],
)
def test_what_becomes_of_a_word(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    words, line = only(**given)
    assert line.fit is Conversion.EXACT
    assert {name: words.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({"Target": {"Arn": TARGET["Arn"]}}, "without Input EventBridge sends an event of its own"),
        ({"Target": {**TARGET, "Input": '{"a": "<aws.scheduler.schedule-arn>"}'}}, "is not replaced"),
        ({"ScheduleExpression": "cron(*/5 * * * ? *)", "ScheduleExpressionTimezone": "Europe/Berlin"}, "comes twice"),
        ({"Surprise": 1}, "line 1: Surprise is left out: nothing here corresponds to it"),
        ({"Target": {**TARGET, "Surprise": {"a": [1]}}}, "Target.Surprise is left out"),
    ],
)
def test_what_differs_is_named(given: dict[str, Any], note: str) -> None:
    words, line = only(**given)
    assert words
    assert line.fit is Conversion.DIFFERS
    assert note in "\n".join(line.notes)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ScheduleExpression": "rate(5 fortnights)"}, "rate(5 fortnights)"),
        ({"ScheduleExpression": "cron(0 9 * * * *)"}, "exactly one of the two day fields"),
        ({"ScheduleExpressionTimezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"StartDate": "soon"}, "is not a date"),
        ({"FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": "x"}}, "is not a number"),
        ({"Target": {**TARGET, "RetryPolicy": {"MaximumRetryAttempts": "many"}}}, "is not a number"),
        ({"Target": {**TARGET, "Input": "[" * 65 + "]" * 65}}, "nested more than 64 levels deep"),
        ({"Target": {**TARGET, "Input": "[" * 5_000 + "]" * 5_000}}, "nested more than 64 levels deep"),
    ],
)
def test_what_cannot_be_is_named(given: dict[str, Any], why: str) -> None:
    words, line = only(**given)
    assert words == {}
    assert (line.fit, line.is_entry) == (Conversion.LEFT, True)
    assert why in line.notes[0]


def test_two_resources_of_one_name_are_two_jobs() -> None:
    arns = [f"arn:aws:sqs:{region}:123456789012:q" for region in ("eu-central-1", "us-east-1", "eu-central-1")]
    texts = [
        json.dumps({"Name": f"s{n}", "ScheduleExpression": "rate(1 hour)", "Target": {"Arn": arn, "Input": "x"}})
        for n, arn in enumerate(arns)
    ]
    found = imported("\n".join(texts))
    jobs = {name: words["job"] for name, words in found.schedules.items()}
    assert (jobs["s0"] == jobs["s2"], jobs["s0"] != jobs["s1"]) == (True, True)
    assert {name: words["job"] for name, words in imported("\n".join(reversed(texts))).schedules.items()} == jobs
    assert imported(texts[0]).schedules["s0"]["job"] == "sqs/q"


def test_stubs_of_two_resources_of_one_name_are_two_jobs() -> None:
    """One stub had both, and named the second ARN alone."""
    arns = [f"arn:aws:ecs:{region}:123456789012:cluster/c" for region in ("eu-central-1", "us-east-1")]
    texts = [
        json.dumps({"Name": f"s{n}", "ScheduleExpression": "rate(1 hour)", "Target": {"Arn": arn, "Input": "x"}})
        for n, arn in enumerate(arns)
    ]
    found = imported("\n".join(texts))
    assert len({words["job"] for words in found.schedules.values()}) == 2
    assert found.jobs is not None
    assert all(arn in found.jobs for arn in arns)


def test_targets_without_an_id_are_named_for_what_they_call() -> None:
    targets = [{"Arn": f"arn:aws:sqs:eu-central-1:123456789012:{name}", "Input": "x"} for name in ("a", "b")]
    rule = {"Name": "sync", "ScheduleExpression": "rate(1 hour)", "Targets": targets}
    assert set(imported(json.dumps(rule)).schedules) == {"sync/sqs/a", "sync/sqs/b"}


def test_an_input_with_braces_is_no_template() -> None:
    found = imported(
        json.dumps(
            {"Name": "a", "ScheduleExpression": "rate(1 hour)", "Target": {**TARGET, "Input": "{{ .Name }} {{if x}}"}}
        )
    )
    assert found.schedules["a"]["payload"] == "{{ .Name }} {{if x}}"


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('{"Name": "a"', "f.json:1", "is not JSON"),
        ('{"Name": "a"}\n{"Name": oops}', "f.json:2", "is not JSON"),
        ("[" * 100_000, "f.json", "too deep|is not JSON"),
        ("", "f.json", "has no schedule"),
        ("[]", "f.json", "has no schedule"),
        ('{"Name": "a", "Name": "b"}', "f.json:1", "is a duplicate key"),
    ],
)
def test_hostile_listings_are_one_clean_error(text: str, where: str, what: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{where}.*({what})"):
        imported(text)


def test_no_name_and_no_arn_becomes_code() -> None:
    evil = 'x"""\nimport os\nos.system("id")\n"""{}\\'
    for arn in (f"arn:aws:sqs:r:1:{evil}", f"arn:aws:ecs:r:1:{evil}", evil):
        text = json.dumps({"Name": evil, "ScheduleExpression": "rate(1 hour)", "Target": {"Arn": arn, "Input": "x"}})
        found = imported(text, source=evil)
        assert found.jobs is not None
        tree = ast.parse(found.jobs)
        kinds = {type(node).__name__ for node in tree.body}
        assert kinds <= {"Expr", "ImportFrom", "Assign", "FunctionDef"}
        assert all("os" not in ast.dump(node) for node in tree.body if isinstance(node, ast.ImportFrom))
        assert [len(node.body) for node in tree.body if isinstance(node, ast.FunctionDef)] in ([], [2])
        (document,) = read(found.yaml(), "schedules.yaml")
        assert len(document.declarations) == 1
