"""Templates are no schedules yet: each is named, with the way to what can be imported."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from quarterjack.errors import InvalidInput
from quarterjack.importers.eventbridge import read_eventbridge
from quarterjack.importers.kubernetes import read_kubernetes
from quarterjack.importers.report import Conversion
from quarterjack.importers.templates import refuse_template

CLOUDFORMATION = """AWSTemplateFormatVersion: "2010-09-09"
Resources:
  Nightly:
    Type: AWS::Scheduler::Schedule
    Properties:
      ScheduleExpression: rate(5 minutes)
      Target: {Arn: !GetAtt Function.Arn, RoleArn: !GetAtt Role.Arn}
"""
IN_JSON = """{
  "Resources": {"Nightly": {
    "Type": "AWS::Events::Rule", "Properties": {"ScheduleExpression": "rate(5 minutes)"}}}
}
"""
SAM = """Transform: AWS::Serverless-2016-10-31
Resources:
  Function:
    Type: AWS::Serverless::Function
    Properties:
      Role: !GetAtt Role.Arn
"""
SERVERLESS = """service: cron
provider:
  name: aws
functions:
  cron:
    handler: handler.run
    events:
      - schedule: cron(0 12 * * ? *)
"""
HELM = """{{- /* a comment */}}
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ include "chart.fullname" . }}
spec:
  schedule: {{ .Values.schedule | quote }}
  jobTemplate:
    spec:
      {{- toYaml .Values.resources | nindent 16 }}
"""


FUNCTIONS = "functions:\n  crawl:\n    handler: crawl\n    events:\n      - schedule: rate(2 hours)\n"


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        (CLOUDFORMATION, "is a template of CloudFormation", "import eventbridge"),
        (IN_JSON, "is a template of CloudFormation", "aws scheduler get-schedule"),
        (SAM, "is a template of SAM", "import eventbridge"),
        (SERVERLESS, "is a configuration of the Serverless Framework", "deploy it"),
        (FUNCTIONS, "is a configuration of the Serverless Framework", "deploy it"),
        (HELM, "looks like a template of Helm", "helm template CHART | quarterjack import kubernetes -"),
        (HELM.partition("\n")[2], "looks like a template of Helm", "helm template"),
    ],
    ids=[
        "cloudformation",
        "cloudformation in json",
        "sam",
        "serverless",
        "a part of it",
        "helm",
        "helm without comment",
    ],
)
def test_a_template_is_named_with_the_way_to_what_can_be_imported(text: str, what: str, remedy: str) -> None:
    with pytest.raises(InvalidInput, match=what) as of_kubernetes:
        read_kubernetes(text, "t.yaml")
    with pytest.raises(InvalidInput, match=what) as of_eventbridge:
        read_eventbridge(text, "t.yaml", now=NOW)
    assert str(of_kubernetes.value) == str(of_eventbridge.value)
    assert remedy in str(of_kubernetes.value)
    assert str(of_kubernetes.value).startswith("t.yaml:")


NOW = datetime(2026, 5, 4, tzinfo=UTC)


def test_a_workflow_of_argo_is_not_said_to_be_without_a_time() -> None:
    argo = "apiVersion: argoproj.io/v1alpha1\nkind: CronWorkflow\nmetadata: {name: w}\nspec: {schedule: '* * * * *'}\n"
    found = read_kubernetes(f"{argo}---\nkind: ConfigMap\nmetadata: {{name: c}}\n", "w.yaml")
    assert ["CronWorkflow of Argo is not read" in found.lines[0].notes[0], found.lines[0].is_entry] == [True, True]
    assert [found.lines[1].is_entry, found.lines[1].notes] == [
        False,
        ("it is no CronJob: nothing of it is due at a time",),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("name: nightly\non:\n  schedule:\n    - cron: '30 5,17 * * *'\n", "line 4, on.schedule[0].cron,"),
        ("kind: JobConfig\nspec:\n  schedule:\n    cron:\n      expression: '0 */15 * * * * *'\n", "line 5"),
        ("services:\n  a:\n    labels: {ofelia.job-exec.x.schedule: '@every 5s'}\n", "line 3"),
        ("kind: List\nitems:\n- kind: Backup\n  spec: {schedule: '@daily'}\n", "line 4, spec.schedule,"),
        ("kind: Backup\nspec:\n  schedules:\n  - 0 2 * * MON-FRI\n", "line 4, spec.schedules[0],"),
    ],
    ids=["a workflow of github", "furiko", "ofelia", "in a list", "a list of texts"],
)
def test_a_document_with_a_schedule_is_not_said_to_be_without_a_time(text: str, where: str) -> None:
    (line,) = read_kubernetes(text, "w.yaml").lines
    assert (line.fit, line.is_entry) == (Conversion.LEFT, True)  # so that the exit code is 1
    assert where in line.notes[0]
    assert "declare it" in line.notes[0]


@pytest.mark.parametrize("spec", ["{schedule: daily}", "{replicas: 5, schedulerName: default}", "{crontab: see below}"])
def test_a_document_without_an_expression_has_no_schedule(spec: str) -> None:
    (line,) = read_kubernetes(f"kind: Deployment\nspec: {spec}\n", "d.yaml").lines
    assert not line.is_entry


@pytest.mark.parametrize("piece", ["\n \n", "functions:\n", "Transform: \n \n", "{{ ", "{", "- schedule: * \n"])
def test_what_is_no_template_is_known_in_a_time_that_grows_with_its_length(piece: str) -> None:
    """A backtracking pattern took minutes for 200 KB of blank lines; ten times the text may take forty times as long, not a hundred."""

    def seconds(text: str) -> float:
        began = time.process_time()
        refuse_template(text, "t.yaml")
        return time.process_time() - began

    text = f"functions:\n{piece * 4000}"
    brief = text[: len(text) // 10]
    assert min(seconds(text) for _ in range(3)) < 40 * max(min(seconds(brief) for _ in range(3)), 1e-4)
