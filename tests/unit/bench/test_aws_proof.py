"""The parts of ``make aws-proof`` that need no cloud: the question before it, what is counted, the report, the removal.

tests/acceptance/test_aws_proof.py runs the whole on an embedded cloud.
"""

from __future__ import annotations

import io
import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import RunRow, RunState
from quarterjack.errors import Misconfigured

import bench.aws_proof.__main__ as command
from bench.aws_proof import alarms, cost, faults, leftovers, load, nobody_receives, ramp, removal
from bench.aws_proof.acceptance import judge_fires
from bench.aws_proof.cloud import Cloud, Names
from bench.aws_proof.deployment import deploy
from bench.aws_proof.load import Load, _began
from bench.aws_proof.parts import Part, prepared, proved
from bench.aws_proof.plan import here, on_aws
from bench.aws_proof.report import Verdict, judged, page, skipped, unfinished
from bench.observed.witness import Began

NOW = 1_800_000_000_000
LOAD = Load(name="a", names=["a"], fires=[("a", NOW), ("a", NOW + 10_000)])


class Stub:
    """Answers every call with what it was given for it, and notes the calls."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.calls = answers, list[tuple[str, dict[str, Any]]]()

    def __getattr__(self, name: str) -> Any:
        def call(*_: str, **given: Any) -> Any:
            self.calls.append((name, given))
            answer = self.answers.get(name, {})
            answer = answer(**given) if callable(answer) and not isinstance(answer, Stub) else answer
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def get_paginator(self, name: str) -> Any:
        answer = self.answers.get(name, {})
        return Stub(paginate=answer if isinstance(answer, Exception) else [answer])


def cloud_of(*, endpoint: str | None = None, functions: Any = None, **clients: Any) -> Cloud:
    made = {"lambda": functions, **clients}
    return Cloud(endpoint=endpoint, region="eu-central-1", environment={}, _clients=made)


def refused(operation: str, code: str = "AccessDenied") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, operation)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An AWS in which nothing may be made; what was done to it."""
    done = list[str]()
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setattr(Cloud, "account", "123456789012")
    monkeypatch.setattr(command, "prove", lambda *_: done.append("deployed"))
    monkeypatch.setattr(command, "remove", lambda *_: [done.append("removed")][:0])  # type: ignore[func-returns-value]
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))  # no terminal
    return done


@pytest.mark.parametrize("yes", [[], ["--yes", "y"], ["--yes", "no"]])
def test_on_aws_nothing_is_made_without_an_explicit_yes_and_the_cost_comes_first(
    aws: list[str], yes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--rate", "10000", *yes]) == 2
    told = capsys.readouterr().err
    assert aws == []
    assert told.index("COST") < told.index("is not yes")
    assert "account 123456789012, region eu-central-1" in told


def test_removal_alone_asks_as_well(aws: list[str]) -> None:
    assert command.main(["--remove", "proof-0a1b2c"]) == 2
    assert command.main(["--remove", "proof-0a1b2c", "--yes", "yes"]) == 0
    assert aws == ["removed"]


def test_only_a_prefix_of_a_proof_is_removed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--remove", "production"])
    assert "proof-1a2b3c" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TimeoutError("late"), refused("CreateTable"), KeyError("x")])
def test_everything_is_removed_after_a_failure_a_ctrl_c_and_a_defect(
    aws: list[str], error: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    def broken(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(command, "prove", broken)
    monkeypatch.setattr(command, "PLACE", tmp_path)
    assert command.main(["--yes", "yes"]) == 1
    assert aws == ["removed"]
    (kept,) = tmp_path.glob("*.md")
    assert ("interrupted" if isinstance(error, KeyboardInterrupt) else str(error)) in kept.read_text()


def test_an_endpoint_that_is_neither_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--endpoint", "http://localhost:4566"]) == 2
    assert "make contract" in capsys.readouterr().err


def test_another_endpoint_in_the_environment_is_not_taken_for_aws(
    aws: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:4566")
    assert command.main(["--yes", "yes"]) == 2
    assert "AWS_ENDPOINT_URL" in capsys.readouterr().err
    assert aws == []


def test_the_cost_grows_with_the_rate_and_a_large_one_has_the_settings_for_it() -> None:
    dollars = [sum(on_aws(rate).dollars().values()) for rate in (None, 100, 1_000, 10_000)]
    assert dollars == sorted(dollars)
    assert dollars[0] < 1 < dollars[-1] < 100
    assert on_aws(1_000).knobs == {}
    assert on_aws(10_000).knobs["stripes"] == "2"
    assert here(2).rates == [1, 2]


# What is counted.


def test_missing_double_and_early_starts_are_told() -> None:
    said = [Began("a", NOW, NOW + 500), Began("a", NOW, NOW + 900), Began("b", NOW, NOW - 1)]
    found = judge_fires("prompt", LOAD, said)
    assert found.verdict is Verdict.BROKEN
    assert "1 missing; 1 double; 1 unexpected; 1 started early" in found.says
    assert "1 missing; 1 unexpected; " in judge_fires("throttled", LOAD, said, may_repeat=True).says
    fine = judge_fires("prompt", LOAD, [Began("a", due, due + 500) for _, due in LOAD.fires])
    assert fine.verdict is Verdict.HELD
    assert "p99.9 0.500 s" in fine.says


def test_a_witness_is_read_among_lines_of_others() -> None:
    line = {"event": "proof.began", "whose": "a", "due_ms": NOW, "began_ms": NOW + 7.5}
    said = ["START RequestId: proof.began", json.dumps(line), json.dumps({"event": "proof.began"}), "[1]", "{"]
    assert list(_began(iter(said))) == [Began("a", NOW, NOW + 7.5)]


def row(due: int, created: int, started: int | None) -> RunRow:
    ref = fire_ref("default/a", due)
    state = RunState.SUCCEEDED if started else RunState.QUEUED
    return RunRow(
        ref=ref,
        state=state,
        revision=1,
        job="x",
        due=due,
        not_before=due,
        created_at=created,
        started_at=started,
        fence=1,
    )


def test_a_step_of_the_ramp_has_percentiles_of_both_ways_and_counts_what_is_missing() -> None:
    (_, first), (_, second) = LOAD.fires
    rows = [row(first, first - 60_000, first + 1_000), row(second, second + 7_000, None)]
    found = ramp.measured(2, LOAD, rows, "default")
    assert (found["fires"], found["missing"], found["goal"]) == (2, 1, "no")
    assert (found["accepted p50 s"], found["accepted max s"], found["% within 5 s"]) == (0, 7, 50)
    assert (found["started p99.9 s"], found["% within 2 s"]) == (1, 50)
    both = [row(due, due - 1, due + 1_999) for due in (first, second)]
    assert ramp.measured(2, LOAD, both, "default")["goal"] == "yes"
    none = ramp.measured(2, LOAD, [], "default")
    assert (none["missing"], none["goal"]) == (2, "no")


def test_cost_is_what_cloudwatch_counted_at_the_table_of_prices() -> None:
    counters = [
        cost.Counted(what="writes", namespace="A", metric="W", dimension=("T", "t"), dollars=2.0),
        cost.Counted(what="nothing", namespace="A", metric="R", dimension=("T", "t"), dollars=5.0),
    ]
    results = [{"Id": "m0", "Values": [3.0, 4.0]}, {"Id": "m1", "Values": []}]
    cloudwatch = Stub(get_metric_data={"MetricDataResults": results})
    found = cost.priced(counters, cloud_of(cloudwatch=cloudwatch), since=datetime.now(UTC), runs=1_000)
    assert found.rows == [{"what": "writes", "units": 7, "dollars": 14.0}]
    assert "$14.00 for 1,000 runs, $14000.00 a million" in found.says
    empty = Stub(get_metric_data={"MetricDataResults": []})
    none = cost.priced(counters, cloud_of(cloudwatch=empty), since=datetime.now(UTC), runs=1)
    assert none.verdict is Verdict.SKIPPED


def test_an_alarm_is_read_from_what_sns_brings() -> None:
    told = {"AlarmName": "proof-0a1b2c-dead-runs", "NewStateValue": "ALARM"}
    assert alarms.alarm_in(json.dumps({"Message": json.dumps(told)})) == "proof-0a1b2c-dead-runs: ALARM"


def test_the_limit_of_the_table_is_taken_back_when_the_block_fails() -> None:
    dynamodb = Stub(get_waiter=Stub())
    with pytest.raises(TimeoutError), faults._limited(cloud_of(dynamodb=dynamodb), "t", 25):
        raise TimeoutError
    updates = [given["OnDemandThroughput"] for name, given in dynamodb.calls if name == "update_table"]
    limits = [given["MaxWriteRequestUnits"] for given in updates]
    assert limits == [25, -1]


def test_the_calls_are_those_of_the_service_models() -> None:
    """No emulator checks these two: `OnDemandThroughput` and the subscription of a queue."""
    loader = botocore.session.get_session()
    update = loader.get_service_model("dynamodb").operation_model("UpdateTable").input_shape
    assert "MaxWriteRequestUnits" in update.members["OnDemandThroughput"].members
    subscribe = loader.get_service_model("sns").operation_model("Subscribe").input_shape
    assert {"TopicArn", "Protocol", "Endpoint"} <= set(subscribe.members)


def test_alarms_that_arrive_and_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a foreign message provokes, those that are set off by hand, and one whose parts are."""
    monkeypatch.setattr(alarms, "PAUSE", 0)

    def brought(*names: str) -> dict[str, Any]:
        told = (json.dumps({"AlarmName": f"proof-0a1b2c-{name}", "NewStateValue": "ALARM"}) for name in names)
        return {"Messages": [{"Body": json.dumps({"Message": text}), "ReceiptHandle": "r"} for text in told]}

    paging = [
        {"AlarmName": "proof-0a1b2c-unreadable", "AlarmActions": ["topic"]},
        {"AlarmName": "proof-0a1b2c-no-tick", "AlarmActions": ["topic"]},
        {"AlarmName": "proof-0a1b2c-late-starts-worker-5m", "AlarmActions": []},
    ]
    hidden = 'ALARM("arn:aws:cloudwatch:eu-central-1:1:alarm:proof-0a1b2c-late-starts-worker-5m")'
    composites = [
        {"AlarmName": "proof-0a1b2c-late-starts", "AlarmActions": ["topic"], "AlarmRule": f"({hidden} OR {hidden})"},
        {"AlarmName": "proof-0a1b2c-causes-of-late-starts", "AlarmActions": [], "AlarmRule": hidden},
    ]
    well, ill = ([{"HistoryData": json.dumps({"newState": {"stateValue": state}})}] for state in ("OK", "ALARM"))
    for answer, history, verdict, says in (
        (
            brought("unreadable", "no-tick"),
            ill,
            Verdict.HELD,
            "went off: proof-0a1b2c-late-starts, proof-0a1b2c-no-tick, proof-0a1b2c-unreadable",
        ),
        (brought("unreadable"), ill, Verdict.BROKEN, "proof-0a1b2c-no-tick, which was set off by hand, did not arrive"),
        ({}, ill, Verdict.BROKEN, "proof-0a1b2c-unreadable did not arrive"),
        (brought("unreadable", "no-tick"), well, Verdict.BROKEN, "proof-0a1b2c-late-starts did not go off"),
    ):
        sqs = Stub(get_queue_url={"QueueUrl": "u"}, receive_message=answer)
        cloudwatch = Stub(
            describe_alarms={"MetricAlarms": paging, "CompositeAlarms": composites},
            describe_alarm_history={"AlarmHistoryItems": history},
        )
        deployment: Any = type(
            "There", (), {"cloud": cloud_of(sqs=sqs, cloudwatch=cloudwatch), "names": Names("0a1b2c")}
        )
        deployment.function = "proof-0a1b2c-{}".format
        found = alarms.arrived(alarms.Listener(deployment=deployment), replace(on_aws(None), alarm_patience=0.01))
        assert found.verdict is verdict
        assert says in found.says
        set_off = {given["AlarmName"] for name, given in cloudwatch.calls if name == "set_alarm_state"}
        assert "proof-0a1b2c-late-starts-worker-5m" in set_off
        assert set_off <= {alarm["AlarmName"] for alarm in paging}


def test_the_outage_is_lifted_when_the_block_fails() -> None:
    iam = Stub()
    role = {"Role": "arn:aws:iam::1:role/sender"}
    cloud = cloud_of(iam=iam, functions=Stub(get_function_configuration=role))
    with pytest.raises(TimeoutError), faults.denied(cloud, Names("0a1b2c")):
        raise TimeoutError
    assert [name for name, _ in iam.calls] == ["put_role_policy"] * 2 + ["delete_role_policy"] * 2
    assert '"Deny"' in iam.calls[0][1]["PolicyDocument"]


# Removal and report.


def nothing_there() -> dict[str, Any]:
    """Clients of an account that has nothing of a proof; a test puts its own in."""
    gone = refused("Describe", "ValidationError")
    return {
        "functions": Stub(get_function_configuration=refused("Get", "ResourceNotFoundException")),
        "sqs": Stub(),
        "cloudformation": Stub(describe_stacks=gone, get_waiter=Stub()),
        "logs": Stub(describe_log_groups={"logGroups": []}),
        "dynamodb": Stub(list_tables={"TableNames": ["production-runs"]}),
        "s3": Stub(list_buckets={"Buckets": []}),
        "cloudwatch": Stub(describe_alarms={"MetricAlarms": [], "CompositeAlarms": []}),
        "iam": Stub(list_roles={"Roles": [{"RoleName": "admin"}]}),
    } | {"functions": Stub(get_function_configuration=gone, list_functions={"Functions": []})}


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "PAUSE", 0)


def in_turn(*answers: Any) -> Any:
    """One answer a call, the last one from then on."""
    left = list(answers)
    return lambda **_: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.usefixtures("rounds")
def test_a_step_of_the_removal_that_fails_does_not_keep_the_next_ones_and_is_taken_again() -> None:
    clients = nothing_there()
    clients["dynamodb"] = Stub(
        list_tables={"TableNames": ["proof-0a1b2c-runs"]}, delete_table=refused("DeleteTable", "InternalServerError")
    )
    clients["logs"] = Stub(describe_log_groups={"logGroups": [{"logGroupName": "/aws/lambda/proof-0a1b2c-worker"}]})
    said = list[str]()
    cloud = cloud_of(**clients)
    left = removal.remove(cloud, Names("0a1b2c"), said.append)
    assert [str(each) for each in left] == ["table proof-0a1b2c-runs", "log group /aws/lambda/proof-0a1b2c-worker"]
    deletes = [name for name, _ in clients["dynamodb"].calls if name == "delete_table"]
    assert len(deletes) == removal.ROUNDS
    assert ("delete_log_group", {"logGroupName": "/aws/lambda/proof-0a1b2c-worker"}) in clients["logs"].calls
    assert any("InternalServerError" in text for text in said)
    assert removal.commands(cloud, Names("0a1b2c"), left) == [
        "make aws-proof YES=yes REMOVE=proof-0a1b2c",
        "aws dynamodb delete-table --table-name proof-0a1b2c-runs --region eu-central-1",
        "aws logs delete-log-group --log-group-name /aws/lambda/proof-0a1b2c-worker --region eu-central-1",
    ]


@pytest.mark.usefixtures("rounds")
def test_a_passing_error_of_the_removal_leaves_nothing() -> None:
    clients = nothing_there()
    gone = in_turn({"TableNames": ["proof-0a1b2c-runs"]}, {"TableNames": ["proof-0a1b2c-runs"]}, {"TableNames": []})
    clients["dynamodb"] = Stub(delete_table=refused("DeleteTable", "LimitExceededException"))
    clients["dynamodb"].get_paginator = lambda _: Stub(paginate=lambda **_: [gone()])
    assert removal.remove(cloud_of(**clients), Names("0a1b2c"), lambda _: None) == []


@pytest.mark.usefixtures("rounds")
@pytest.mark.parametrize(
    "service", ["functions", "sqs", "logs", "dynamodb", "s3", "cloudwatch", "iam", "cloudformation"]
)
def test_what_cannot_be_listed_counts_as_left_and_everything_else_is_removed(service: str) -> None:
    class Out(Stub):
        def __getattr__(self, name: str) -> Any:
            raise refused(name, "ServiceUnavailable")

        def get_paginator(self, name: str) -> Any:
            raise refused(name, "ServiceUnavailable")

    clients = nothing_there() | {service: Out()}
    left = removal.remove(cloud_of(**clients), Names("0a1b2c"), lambda _: None)
    assert left
    assert all("perhaps a " in str(each) and "ServiceUnavailable" in str(each) for each in left)
    assert all(each.command.startswith("aws ") for each in left)


@pytest.mark.usefixtures("rounds")
def test_a_stack_that_could_not_be_deleted_is_forced_and_its_toolkit_stays_until_it_is_gone() -> None:
    there = {"Stacks": [{"StackStatus": "CREATE_COMPLETE"}]}
    failed = {"Stacks": [{"StackStatus": "DELETE_FAILED"}]}
    clients = nothing_there()
    clients["cloudformation"] = formation = Stub(
        describe_stacks=in_turn(there, failed),
        describe_stack_resources={"StackResources": []},
        get_waiter=Stub(wait=TimeoutError("the deletion failed")),
    )
    clients["iam"] = Stub(list_roles={"Roles": [{"RoleName": "cdk-qj0a1b2c-cfn-exec-role-1-r"}]})
    left = removal.remove(cloud_of(**clients), Names("0a1b2c"), lambda _: None)
    deleted = [given for name, given in formation.calls if name == "delete_stack"]
    assert [given["StackName"] for given in deleted] == ["QuarterjackProof-0a1b2c"] * removal.ROUNDS
    assert [given.get("DeletionMode") for given in deleted] == [None, *["FORCE_DELETE_STACK"] * (removal.ROUNDS - 1)]
    assert not any(name.startswith(("delete", "detach")) for name, _ in clients["iam"].calls)
    assert [str(each) for each in left][-1] == "role cdk-qj0a1b2c-cfn-exec-role-1-r"


def test_a_closed_terminal_does_not_end_the_removal() -> None:
    def closed(_: str) -> None:
        raise OSError(5, "Input/output error")

    assert removal.remove(cloud_of(**nothing_there()), Names("0a1b2c"), closed) == []


def test_the_commands_of_the_removal_are_those_of_the_service_models() -> None:
    """Every kind's command exists: `delete-table --table-name` is `DeleteTable(TableName=…)`."""
    loader, endpoint = botocore.session.get_session(), {"s3api": "s3"}
    for kind in leftovers.KINDS.values():
        for command_line in (kind.command, kind.look):
            service, operation, *option = command_line.split()
            model = loader.get_service_model(endpoint.get(service, service))
            name = next(one for one in model.operation_names if xform_name(one, "-") == operation)
            shape = model.operation_model(name).input_shape
            wanted = {f"--{xform_name(member, '-')}" for member in (shape.members if shape else ())}
            assert set(option) <= wanted


# Parts.


def test_an_error_ends_its_part_alone_and_the_report_has_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    def fires() -> Any:
        yield judged("fires, prompt", [], "all there")
        raise refused("FilterLogEvents", "InternalFailure")

    def lost() -> Any:
        raise KeyError("lost")

    found = list(
        proved(
            [
                Part(findings=["pause"], prove=lost),
                Part(findings=["fires, prompt", "fires, exact"], prove=fires),
                Part(findings=["ramp"], prove=lambda: [judged("ramp to 1", [], "fine")]),
            ]
        )
    )
    assert [(one.part, str(one.verdict)) for one in found] == [
        ("pause", "UNFINISHED"),
        ("fires, prompt", "held"),
        ("fires, exact", "UNFINISHED"),
        ("ramp to 1", "held"),
    ]
    assert "InternalFailure" in found[2].says
    assert "Traceback" in capsys.readouterr().err


def test_what_could_not_be_prepared_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    prepared("listening", lambda: dict[str, str]()["x"])
    assert "listening failed; its part tries again" in capsys.readouterr().err


def test_an_unfinished_part_is_no_success(aws: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(command, "PLACE", tmp_path)
    monkeypatch.setattr(command, "prove", lambda *_: [judged("a", [], "x"), unfinished("b", TimeoutError("late"))])
    assert command.main(["--yes", "yes"]) == 1
    assert aws == ["removed"]
    (kept,) = tmp_path.glob("*.md")
    assert "| b | UNFINISHED | ended by TimeoutError: late |" in kept.read_text()


def test_what_is_left_is_reported_with_its_commands(
    aws: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(command, "PLACE", tmp_path)
    monkeypatch.setattr(command, "prove", lambda *_: [judged("a", [], "x")])
    monkeypatch.setattr(command, "remove", lambda *_: [leftovers.Left("table t", "aws dynamodb delete-table")])
    assert aws == []
    assert command.main(["--yes", "yes"]) == 1
    (kept,) = tmp_path.glob("*.md")
    text = kept.read_text()
    assert "- left behind: table t" in text
    assert f"    make aws-proof YES=yes REMOVE={kept.stem}\n    aws dynamodb delete-table" in text


def test_schedules_that_were_not_created_in_time_are_deleted_and_others_get_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A loaded machine takes longer than the lead for a few schedules."""
    created, deleted = list[str](), list[str]()
    scheduler = SimpleNamespace(
        create_schedule=lambda name, *_, **__: created.append(name), delete_schedule=deleted.append
    )
    deployment: Any = SimpleNamespace(scheduler=lambda **_: scheduler, tick=lambda: None)
    slow = lambda: time.time() + (0 if deleted else 200)  # noqa: E731
    monkeypatch.setattr(load, "time", SimpleNamespace(time=slow))
    put = load.put_on(deployment, load.Fires(name="prompt", number=2, every=10, lead=1.0, threads=1))
    assert deleted == ["prompt-000000", "prompt-000001"]
    assert put.name == "prompt.again"
    assert put.names == created[2:] == ["prompt.again-000000", "prompt.again-000001"]
    assert not any(name.startswith("prompt-") for name in put.names)  # whose lines are counted apart
    deleted.clear()
    with pytest.raises(TimeoutError, match="2000 schedules were not created before their first fire"):
        load.put_on(deployment, load.Fires(name="ramp", number=2_000, every=10, lead=1.0, threads=1))
    assert deleted == []


# An alarm by its fault.


class Sources(Stub):
    """Event sources as Lambda has them: a change is under way for one look."""

    def __init__(self) -> None:
        super().__init__(list_event_source_mappings={"EventSourceMappings": [{"UUID": "u"}]})
        self.states = ["Enabled"]

    def get_event_source_mapping(self, **_: Any) -> Any:
        state = self.states[0]
        self.states = self.states[1:] or self.states
        return {"State": state}

    def update_event_source_mapping(self, *, UUID: str, Enabled: bool) -> None:  # noqa: N803 (boto3's words)
        assert UUID == "u"
        self.calls.append(("update", {"Enabled": Enabled}))
        self.states = ["Enabling", "Enabled"] if Enabled else ["Disabling", "Disabled"]


@pytest.mark.parametrize(("heard", "verdict"), [(True, Verdict.HELD), (False, Verdict.BROKEN)])
def test_an_alarm_goes_off_by_its_fault_and_the_worker_receives_again(
    heard: bool, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nobody_receives, "_LOOK", 0)
    told = json.dumps({"AlarmName": "proof-0a1b2c-nothing-runs", "NewStateValue": "ALARM"})
    message = {"Body": json.dumps({"Message": told}), "ReceiptHandle": "r"}
    sources, cloudwatch = Sources(), Stub()

    def state() -> RunState:
        return RunState.SUCCEEDED if sources.states == ["Enabled"] else RunState.QUEUED

    scheduler = SimpleNamespace(
        submit=lambda *_, idempotency_key: SimpleNamespace(id=idempotency_key),
        get_run=lambda _: SimpleNamespace(state=state()),
    )
    sqs = Stub(get_queue_url={"QueueUrl": "u"}, receive_message={"Messages": [message] if heard else []})
    deployment: Any = SimpleNamespace(
        cloud=cloud_of(sqs=sqs, cloudwatch=cloudwatch, functions=sources),
        names=Names("0a1b2c"),
        function="proof-0a1b2c-{}".format,
        scheduler=lambda: scheduler,
    )
    plan = replace(on_aws(None), alarm_patience=0.01)
    found = nobody_receives.nobody_receives(alarms.Listener(deployment=deployment), plan)
    assert found.verdict is verdict, found.says
    assert [given["Enabled"] for _, given in sources.calls if "Enabled" in given] == [False, True]
    assert cloudwatch.calls == []  # no state is set


def test_the_worker_receives_again_when_the_block_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nobody_receives, "_LOOK", 0)
    sources = Sources()
    deployment: Any = SimpleNamespace(cloud=cloud_of(functions=sources), function="proof-0a1b2c-{}".format)
    with pytest.raises(TimeoutError, match="late"), nobody_receives.unserved(deployment):
        raise TimeoutError("late")
    assert sources.states == ["Enabled"]


def test_the_report_has_every_part_with_its_verdict() -> None:
    rows = [{"a second": 10, "% within 5 s": 99.9412}]
    findings = [judged("ramp", ["2 missing"], "x|y", rows), skipped("alarms", "nothing goes off here")]
    text = page("Proof", {"where": "here"}, findings)
    assert "- parts: 0 held, 1 BROKEN, 0 UNFINISHED, 1 skipped" in text
    assert "| ramp | BROKEN | 2 missing; x\\|y |" in text
    assert "| alarms | skipped | skipped: nothing goes off here |" in text
    assert text.endswith("## ramp\n\n| a second | % within 5 s |\n| --- | --- |\n| 10 | 99.941 |\n")


def test_what_cannot_be_shown_here_says_so() -> None:
    deployment: Any = type("Here", (), {"cloud": cloud_of(endpoint="http://127.0.0.1:1")})
    parts = [
        faults.throttled_table(deployment, here(None)),
        alarms.arrived(alarms.Listener(deployment=deployment), here(None)),
        nobody_receives.nobody_receives(alarms.Listener(deployment=deployment), here(None)),
        cost.counted(deployment, since=datetime.now(UTC), runs=1),
        ramp.ramp(deployment, here(None)),
    ]
    assert {one.verdict for one in parts} == {Verdict.SKIPPED}
    assert all(len(one.says) > 20 for one in parts)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://127.0.0.1:1", {"target": "here", "athena": "false", "alarms": "off"}),
        (None, {"target": "aws", "athena": None, "alarms": None}),
    ],
)
def test_only_the_stack_of_an_embedded_cloud_lacks_parts(
    endpoint: str | None, expected: dict[str, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows no queries of Athena, and refuses a template with one as a whole."""
    import infra.local_stack

    asked = list[str]()

    def stopped(cloud: Cloud, out: Path, *words: str) -> None:
        asked.extend(words)
        raise Misconfigured("far enough")

    monkeypatch.setattr(infra.local_stack, "cdk", stopped)
    with pytest.raises(Misconfigured, match="far enough"):
        deploy(cloud_of(endpoint=endpoint), Names("0a1b2c"), here(None), tmp_path)
    context = dict(word.split("=", 1) for before, word in pairwise(asked) if before == "--context")
    assert {name: context.get(name) for name in expected} == expected
    assert context["prefix"] == "proof-0a1b2c"
