"""The alarms of the template: all of the table, of every part, with a runbook, within CloudWatch's limits, and as the knobs say."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from quarterjack.domain.queue import Queue
from quarterjack.errors import InvalidInput
from quarterjack.signals.catalogue import METRICS

from infra import AlarmChange, AlarmSettings, Quarterjack
from infra.alarms.construct import MOST as MOST_TEXT
from infra.alarms.construct import page_of, steps_of, with_steps
from infra.alarms.plan import QueueParts, StackParts, planned
from infra.alarms.spec import LATE, AlarmSpec, Each, Need, Severity
from infra.alarms.specs import SPECS
from infra.figures import Source
from tests.support.nights.scenes import INCIDENTS
from tests.support.signals.alarms import CompositeAlarm, MetricAlarm, alarms_of
from tests.support.signals.evaluator import Evaluator
from tests.support.signals.formulas import evaluate
from tests.support.signals.lateness import LATENESSES, MOST, Lateness
from tests.support.stacks import JOBS

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
QUEUES = [Queue(name="reports", stripes=2), Queue(name="gpu", container=True)]
BY_ID = {spec.id: spec for spec in SPECS}
ROLES = {"{worker}": "worker"}  # the role that emits what a part's word stands for
Alarm = MetricAlarm | CompositeAlarm


def made(template: Template) -> dict[str, Alarm]:
    """The alarms of a template, by name without the prefix."""
    metric_alarms, composites = alarms_of(template.to_json()["Resources"])
    found: list[Alarm] = [*metric_alarms, *composites]
    return {alarm.name.removeprefix("quarterjack-"): alarm for alarm in found}


@pytest.fixture(scope="module")
def whole(with_knobs: Callable[..., Template]) -> Template:
    return with_knobs(queues=QUEUES, events="eventbridge:acme")


@pytest.fixture(scope="module")
def alarms(whole: Template) -> dict[str, Alarm]:
    return made(whole)


def paged(alarms: dict[str, Alarm]) -> set[str]:
    return {name for name, alarm in alarms.items() if alarm.pages}


# The table.


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.id)
def test_each_is_about_figures_that_are_emitted_and_explained(spec: Any) -> None:
    for word, figure in spec.figures.items():
        assert re.search(rf"\b{word}\b", spec.formula)
        if figure.source is Source.OURS:
            assert ROLES.get(figure.part, figure.part) in METRICS[figure.name].roles
    assert (RUNBOOKS / f"{spec.id}.md").is_file()
    assert spec.means.endswith(".")
    assert spec.look.endswith((".", "?"))
    assert set(spec.hidden_by) <= BY_ID.keys()


def test_each_page_is_an_alarms_and_the_list_of_pages_has_its_severity() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} - {"README", *INCIDENTS} == BY_ID.keys()
    rows = re.findall(r"^\| (P\d) \| (.*) \|$", (RUNBOOKS / "README.md").read_text(), re.MULTILINE)
    listed = {alarm: severity for severity, row in rows for alarm in re.findall(r"\[([a-z-]+)\]", row)}
    assert listed == {spec.id: str(spec.severity) for spec in SPECS}


def test_no_alarm_hides_one_that_is_more_urgent_but_what_follows_of_it() -> None:
    for spec in SPECS:
        for cause in spec.hidden_by:
            assert BY_ID[cause].severity <= spec.severity, f"{cause} hides {spec.id}"


def test_what_hides_another_ends_later_than_what_follows_begins() -> None:
    """Else CloudWatch would not have suppressed it yet when the cause has gone."""
    for cause in {cause for spec in SPECS for cause in spec.hidden_by}:
        assert BY_ID[cause].windows or BY_ID[cause].values > BY_ID[cause].times, cause


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.id)
def test_there_is_room_for_figures_that_are_late(spec: AlarmSpec) -> None:
    """Of the values that an alarm looks at so many are old enough as have to be beyond the threshold; late ones alone are no fault."""
    late = math.ceil(LATE / spec.period)  # of the last values, those that lack figures
    if not spec.silence_breaches and not spec.windows and (spec.values > 1 or spec.period < 2 * LATE):
        assert spec.values >= spec.times + late
    assert spec.times >= spec.least_times
    assert all(min(window.short, window.long) >= 2 * LATE for window in spec.windows)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.id)
def test_no_value_is_ever_missing(spec: AlarmSpec) -> None:
    """How many older values CloudWatch takes in the place of missing ones is not documented."""
    for present in itertools.product((None, 30.0), repeat=len(spec.figures)):
        series = {word: [7.0, one, one] for word, one in zip(spec.figures, present, strict=True)}
        assert None not in evaluate(spec.formula, series, 3)[1:]


# The template.


def test_every_part_has_its_alarms(alarms: dict[str, Alarm]) -> None:
    assert paged(alarms) == {
        *("nothing-runs", "nothing-runs-reports", "nothing-runs-reports_1", "nothing-runs-gpu", "no-tick", "behind"),
        *("late-sends", "late-starts", "dead-runs", "expired", "lost", "lost-reports", "lost-gpu", "lost-ticker"),
        *(
            f"{name}{queue}"
            for name in ("slow-runs", "failing-attempts", "version-unserved")
            for queue in ("", "-reports", "-gpu")
        ),
        *("rescued-leases", "rescued-leases-reports", "rescued-leases-gpu", "backlog-grows", "held-back", "waiting"),
        *("function-errors", "throttled", "no-audit", "audit-contradicted", "quarantined", "unburied"),
        *("unreadable", "rejected", "historian-behind", "historian-errors", "historian-aside", "historian-set-aside"),
        *("events-behind", "events-set-aside", "breaker-open"),
    }
    functions = {name for name in alarms if name.startswith("function-errors-")}
    assert functions == {
        f"function-errors-{part}" for part in ("ticker", "undertaker", "auditor", "worker", "worker-reports")
    }
    assert {name for name in alarms if name.startswith("waiting-")} == {
        "waiting-work-reports",
        "waiting-work-reports_1",
        "waiting-work-gpu",
    }


def test_history_events_and_the_api_have_alarms_where_they_are(with_knobs: Callable[..., Template]) -> None:
    from infra import ApiSettings

    found = made(with_knobs(history=False, athena=False, api=ApiSettings(keys=True)))
    assert not [name for name in found if name.startswith(("historian", "events"))]
    assert "function-errors-api" in found


def test_the_words_of_each_say_what_it_means_and_lead_to_its_page(alarms: dict[str, Alarm]) -> None:
    for name in paged(alarms):
        text = alarms[name].description
        (spec,) = (spec for spec in SPECS if text.endswith(f"docs/runbooks/{spec.id}.md"))
        assert name.startswith(spec.id)
        assert text.startswith(f"{spec.severity}. {spec.means}")
        assert len(text) <= 1_024


def test_without_an_address_the_message_brings_the_first_steps_along(alarms: dict[str, Alarm]) -> None:
    """Every command in it stands on the page, and the first one to type is always there."""
    for name in paged(alarms):
        text = alarms[name].description
        (spec,) = (spec for spec in SPECS if text.endswith(f"docs/runbooks/{spec.id}.md"))
        commands = re.findall(r"`((?:quarterjack|aws|cdk|kubectl) [^`]+)`", text.partition("\n")[2])
        page = [line.strip() for line in (RUNBOOKS / f"{spec.id}.md").read_text().splitlines() if line[:4] == "    "]
        assert commands, name
        assert set(commands) <= {line.partition("    #")[0].strip() for line in page}, name
        assert commands[0] == page[0].partition("    #")[0].strip(), name
    text = alarms["nothing-runs"].description
    assert "1. A queue of a function. Its event source may be disabled: `aws lambda list-event-source-mappings" in text


def test_the_steps_name_the_parts_of_the_installation() -> None:
    steps = "\n".join(steps_of(page_of("nothing-runs"), "acme-jobs", "acme-jobs"))
    assert "--function-name acme-jobs-worker" in steps
    assert "quarterjack-" not in steps
    assert "`quarterjack queues list`" in steps


def test_the_steps_name_the_tables_of_a_restored_installation() -> None:
    steps = "\n".join(steps_of(page_of("historian-behind"), "acme-jobs", "acme-jobs2"))
    assert "--table-name acme-jobs2-history" in steps
    assert "/aws/lambda/acme-jobs-historian" in steps


def test_the_longest_prefix_leaves_room_for_steps() -> None:
    for spec in SPECS:
        begin = f"{spec.severity}. {spec.means} Look first: {spec.look}"
        text = with_steps(begin, spec.id, "x" * 60, "x" * 60)
        assert len(text) <= MOST_TEXT
        assert "\nFirst: `" in text, spec.id


@pytest.mark.parametrize(
    "address", ["docs/runbooks", "", "https://", "ftp://x/y", "https://a b", "https://x/" + "y" * 400]
)
def test_an_address_that_nobody_can_open_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match=r"alarms.runbooks=.*is not an address of pages; give one of at most 400"):
        AlarmSettings(runbooks=address)


def test_the_context_may_name_the_address() -> None:
    read = AlarmSettings.read("runbooks=https://wiki.example.com/q?a=b,waiting=off")
    assert (read.runbooks, read.changes["waiting"].enabled) == ("https://wiki.example.com/q?a=b", False)


def test_all_is_within_the_limits_of_cloudwatch(whole: Template, alarms: dict[str, Alarm]) -> None:
    for name, alarm in alarms.items():
        if isinstance(alarm, MetricAlarm):
            assert len(alarm.figures) <= 10, name
            assert alarm.period * alarm.out_of * 60 <= (86_400 if alarm.period < 60 else 604_800), name
            assert len(alarm.formula) <= 1_024, name
    for body in whole.find_resources("AWS::CloudWatch::CompositeAlarm").values():
        rule = json.dumps(body["Properties"]["AlarmRule"])
        assert rule.count("ALARM(") <= 100


def test_of_a_hundred_stripes_no_rule_is_too_long() -> None:
    stripes = ["work", *(f"work_{number}" for number in range(1, 100))]
    parts = StackParts(
        queues=[QueueParts(stripes=stripes, worker="worker", is_declared=False, has_function=True)],
        functions=["ticker", "worker"],
        has=frozenset({Need.HISTORY}),
    )
    plan = planned(SPECS, parts)
    names = [alarm.name for alarm in plan.metric_alarms] + [alarm.name for alarm in plan.composites]
    assert len(names) == len(set(names))
    for composite in plan.composites:
        if composite.suppressor is not None:
            assert composite.suppressor in names
        if composite.spec is None:
            assert sum(map(len, composite.any_of)) <= 60


def test_silence_of_the_ticker_wakes_somebody_after_seven_minutes(alarms: dict[str, Alarm]) -> None:
    no_tick = alarms["no-tick"]
    assert isinstance(no_tick, MetricAlarm)
    (ticks,) = no_tick.figures.values()
    assert (ticks.namespace, ticks.name, ticks.dimensions) == (
        "Quarterjack",
        "Ticks",
        (("service", "quarterjack-ticker"),),
    )
    assert (no_tick.formula, no_tick.operator, no_tick.threshold) == ("FILL(ticks, 0)", "LessThanThreshold", 1)
    assert (no_tick.period, no_tick.times, no_tick.missing) == (1, 7, "breaching")
    assert no_tick.description.startswith("P1.")


def test_errors_of_the_auditor_are_counted_by_the_hour(alarms: dict[str, Alarm]) -> None:
    """It is called once an hour and not again: of ten minutes one at most has an error."""
    auditor, worker = alarms["function-errors-auditor"], alarms["function-errors-worker"]
    assert isinstance(auditor, MetricAlarm)
    assert isinstance(worker, MetricAlarm)
    assert (auditor.period, auditor.times, auditor.out_of) == (60, 2, 3)
    assert (worker.period, worker.times, worker.out_of) == (1, 3, 10)


@pytest.mark.parametrize("lateness", LATENESSES.values(), ids=LATENESSES)
@pytest.mark.parametrize(
    ("name", "source", "figure", "dimension"),
    [
        ("quarantined", "Quarterjack", "QuarantinedEntries", "service"),
        ("audit-contradicted", "Quarterjack", "AuditContradicted", "service"),
        ("function-errors-auditor", "AWS/Lambda", "Errors", "FunctionName"),
    ],
)
def test_what_each_audit_finds_is_told_once(
    whole: Template, lateness: Lateness, name: str, source: str, figure: str, dimension: str
) -> None:
    """Audits are an hour apart: an alarm that looks at an hour ends and begins again where a figure is late."""
    resources = {
        each: body
        for each, body in whole.find_resources("AWS::CloudWatch::Alarm").items()
        if body["Properties"].get("AlarmName") == f"quarterjack-{name}"
    }
    found, states = Evaluator(resources, lateness=lateness), ""
    for minute in range(6 * 60):
        if minute % 60 == 37:
            found.figures.add((source, figure, ((dimension, "quarterjack-auditor"),)), minute, [1])
        found.evaluate()
        states += "A" if found.states[f"quarterjack-{name}"] == "ALARM" else "o"
    assert re.fullmatch("o+A+", states)


@pytest.mark.parametrize(("share", "state"), [(41, "OK"), (60, "ALARM")])
def test_a_share_is_told_by_figures_of_which_one_is_later(whole: Template, share: int, state: str) -> None:
    """Failed attempts are known, and those that ended not yet: for a while more seem to fail than do."""
    resources = {
        each: body
        for each, body in whole.find_resources("AWS::CloudWatch::Alarm").items()
        if body["Properties"].get("AlarmName") == "quarterjack-failing-attempts"
    }
    found = Evaluator(resources, lateness=lambda key, minute: MOST if key[1] == "AttemptsEnded" else 0)
    states = set()
    for minute in range(60):
        for name, count in (("AttemptsEnded", 100), ("AttemptsFailed", share)):
            found.figures.add(("Quarterjack", name, (("service", "quarterjack-worker"),)), minute, [count])
        found.evaluate()
        states.add(found.states["quarterjack-failing-attempts"])
    assert states == {"OK", state}


def test_the_objective_burns_at_two_speeds(alarms: dict[str, Alarm]) -> None:
    for minutes, threshold in ((10, 1.44), (60, 1.44), (30, 0.6), (360, 0.6)):
        window = alarms[f"late-sends-{minutes}m"]
        assert isinstance(window, MetricAlarm)
        assert (window.period, window.threshold, window.out_of) == (minutes, threshold, 1)
        assert not window.pages


def test_who_pages_tells_the_topic_when_it_begins_and_when_it_ends(whole: Template) -> None:
    (topic,) = whole.find_resources("AWS::SNS::Topic")
    for kind in ("Alarm", "CompositeAlarm"):
        for body in whole.find_resources(f"AWS::CloudWatch::{kind}").values():
            given = body["Properties"]
            if "AlarmActions" in given:
                assert given["AlarmActions"] == given["OKActions"] == [{"Ref": topic}]


# The knobs.


def test_none_is_made_where_they_are_off(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(alarms=AlarmSettings.read("off"))
    assert not made(template)
    template.resource_count_is("AWS::SNS::Topic", 0)
    assert "AlarmTopicArn" not in template.find_outputs("*")


def test_threshold_length_and_severity_are_knobs(with_knobs: Callable[..., Template]) -> None:
    text = "slow-runs.threshold=60000,slow-runs.severity=P3,no-tick.minutes=9,lost=off,late-starts=off"
    found = made(with_knobs(alarms=AlarmSettings.read(text)))
    slow, silent = found["slow-runs"], found["no-tick"]
    assert isinstance(slow, MetricAlarm)
    assert isinstance(silent, MetricAlarm)
    assert slow.threshold == 60_000
    assert slow.description.startswith("P3.")
    assert (silent.times, silent.out_of) == (9, 12)
    assert not [name for name in found if name.startswith(("lost", "late-starts"))]


def test_each_severity_may_have_a_topic_of_its_own(stack: Stack) -> None:
    pager, desk = (
        sns.Topic.from_topic_arn(stack, name, f"arn:aws:sns:eu-west-1:123456789012:{name}")
        for name in ("pager", "desk")
    )
    settings = AlarmSettings(topic=desk, topics={"P1": pager}, runbooks="https://runbooks.example.com/quarterjack/")
    Quarterjack(stack, "Jobs", jobs=JOBS, alarms=settings)
    template = Template.from_stack(stack)
    template.resource_count_is("AWS::SNS::Topic", 0)
    for name, topic in (("no-tick", "pager"), ("dead-runs", "desk")):
        template.has_resource_properties(
            "AWS::CloudWatch::Alarm",
            {"AlarmName": f"quarterjack-{name}", "AlarmActions": [f"arn:aws:sns:eu-west-1:123456789012:{topic}"]},
        )
    assert made(template)["no-tick"].description.endswith("https://runbooks.example.com/quarterjack/no-tick.md")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"nonsense": AlarmChange()}, r"alarms.changes='nonsense': is not an alarm; use one of audit-contradicted"),
        (
            {"no-tick": AlarmChange(minutes=0)},
            r"alarms.no-tick.minutes=0: does not fit; use a multiple of 1 from 7 to 1,437",
        ),
        ({"no-tick": AlarmChange(minutes=6)}, r"alarms.no-tick.minutes=6: does not fit; use a multiple of 1 from 7"),
        ({"no-audit": AlarmChange(minutes=60)}, r"no-audit.minutes=60: does not fit; use a multiple of 60 from 120"),
        (
            {"slow-runs": AlarmChange(minutes=7)},
            r"alarms.slow-runs.minutes=7: does not fit; use a multiple of 5 from 5",
        ),
        ({"late-starts": AlarmChange(minutes=5)}, r"alarms.late-starts.minutes=5: cannot be set"),
        (
            {"slow-runs": AlarmChange(threshold=-1)},
            r"alarms.slow-runs.threshold=-1: is not a number from 0 on; give ms",
        ),
        (
            {"slow-runs": AlarmChange(severity="P0")},
            r"alarms.slow-runs.severity='P0': is not a severity; use one of P1",
        ),
    ],
)
def test_a_change_that_cannot_be_is_refused(change: dict[str, AlarmChange], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        AlarmSettings(changes=change)


@pytest.mark.parametrize(
    "text", ["of", "slow-runs", "slow-runs.threshold", "slow-runs.minutes=x", "slow-runs.colour=red"]
)
def test_a_text_that_cannot_be_read_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"alarms=.*is not understood; write on, off, or e\.g\. slow-runs.threshold=60000"
    ):
        AlarmSettings.read(text)


def test_severities_and_parts_are_those_of_the_table() -> None:
    assert {spec.severity for spec in SPECS} == set(Severity)
    assert {spec.each for spec in SPECS} == set(Each)
