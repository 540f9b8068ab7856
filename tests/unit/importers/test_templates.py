"""Templates are no schedules yet: each is named, with the way to what can be imported."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pytest
from quarterjack.errors import InvalidInput
from quarterjack.importers.crontab import read_crontab
from quarterjack.importers.eventbridge import read_eventbridge
from quarterjack.importers.kubernetes import read_kubernetes
from quarterjack.importers.report import Conversion, ImportReport
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


@pytest.mark.parametrize("reader", ["crontab", "kubernetes", "eventbridge"])
@pytest.mark.parametrize(
    "piece",
    [
        "\n \n",
        "functions:\n",
        "Transform: \n \n",
        "{{ ",
        "{",
        "- schedule: * \n",
        "import a ",
        "on: \n",
        "* 1 2 3\n",
        "const a",
    ],
)
def test_what_is_no_template_is_known_in_a_time_that_grows_with_its_length(piece: str, reader: str) -> None:
    """A backtracking pattern took minutes for 200 KB of blank lines; ten times the text may take forty times as long, not a hundred."""

    def seconds(text: str) -> float:
        began = time.process_time()
        refuse_template(text, "t.yaml", reader=reader)
        return time.process_time() - began

    text = f"functions:\n{piece * 4000}"
    brief = text[: len(text) // 10]
    assert min(seconds(text) for _ in range(3)) < 40 * max(min(seconds(brief) for _ in range(3)), 1e-4)


TIMER = "[Unit]\nDescription=Backup\n\n[Timer]\nOnCalendar=Mon..Fri 03:30\nPersistent=true\n"
TERRAFORM = 'resource "aws_cloudwatch_event_rule" "nightly" {\n  schedule_expression = "rate(5 minutes)"\n}\n'
STATE = '{"values": {"root_module": {"resources": [{"type": "aws_scheduler_schedule"}]}}}\n'
TYPESCRIPT = """import type { AWS } from '@serverless/typescript';

export default { cron: { events: [{ schedule: 'rate(1 hour)' }] } } satisfies AWS['functions'];
"""
JAVASCRIPT = (
    "const serverlessConfiguration = {service: 'cron', functions: {}};\nmodule.exports = serverlessConfiguration;\n"
)
CDK = "from aws_cdk import aws_events as events\n\nevents.Rule(stack, 'Nightly')\n"
CRON_JS = "const cron = require('node-cron');\ncron.schedule('* * * * *', () => {});\n"
BEAT = "from celery import Celery\n\napp = Celery()\napp.conf.beat_schedule = {}\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (TIMER, r"\[Unit\]'?: is a unit of systemd; .*OnCalendar=.*RandomizedDelaySec= is window"),
        (TERRAFORM, "is a configuration or state of Terraform; apply it, then quarterjack import eventbridge"),
        (STATE, "is a configuration or state of Terraform"),
        (TYPESCRIPT, "is a configuration of the Serverless Framework in TypeScript; serverless print shows it"),
        (JAVASCRIPT, "is a configuration of the Serverless Framework in TypeScript; serverless print shows it"),
        (CDK, "is an application of CDK; deploy it"),
        (CRON_JS, "is a program; declare its schedules"),
        (BEAT, "is a module of Celery; quarterjack import celery MODULE"),
    ],
)
def test_every_importer_names_what_it_does_not_read(text: str, what: str) -> None:
    for read in READERS.values():
        with pytest.raises(InvalidInput, match=rf"^t:[0-9]=.*{what}"):
            read(text)


READERS: Mapping[str, Callable[[str], ImportReport]] = {
    "crontab": lambda text: read_crontab(text, "t"),
    "kubernetes": lambda text: read_kubernetes(text, "t"),
    "eventbridge": lambda text: read_eventbridge(text, "t", now=NOW),
}
WORKFLOW = "name: nightly\non:\n  schedule:\n    - cron: '30 5 * * *'\njobs: {build: {runs-on: x}}\n"
MANIFEST = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}\n"
CRONTAB = "MAILTO=ops\n30 5 * * 1-5 /bin/report\n"


@pytest.mark.parametrize(
    ("text", "readers", "what"),
    [
        (
            WORKFLOW,
            "crontab eventbridge",
            "is a workflow of GitHub Actions; declare its schedules, which GitHub reads in UTC",
        ),
        (MANIFEST, "crontab eventbridge", "is a manifest of Kubernetes; quarterjack import kubernetes FILE"),
        (CRONTAB, "kubernetes eventbridge", "looks like a crontab; quarterjack import crontab FILE"),
        (
            '{"Name": "x", "ScheduleExpression": "rate(1 day)"}',
            "crontab",
            "is JSON; quarterjack import eventbridge FILE",
        ),
    ],
)
def test_a_file_for_another_importer_is_sent_there(text: str, readers: str, what: str) -> None:
    for reader in readers.split():
        with pytest.raises(InvalidInput, match=what):
            READERS[reader](text)


@pytest.mark.parametrize(
    "line",
    [
        "0 5 * * * {{ INSTALL_PREFIX }}/bin/backup",
        "MAILTO={{mail.to}}",
        "0 5 * * * root {{ command | default('x') }}",
        "<%= @minute %> 5 * * * /bin/x",
        "{% for each in jobs %}",
        "{%- if backup %}",
    ],
)
def test_a_crontab_that_a_template_becomes_is_not_read_before(line: str) -> None:
    """A crontab of restic with ``{{ INSTALL_PREFIX }}`` was exact, and its schedule was named after the placeholder."""
    with pytest.raises(InvalidInput, match=r"^t:2=.*has placeholders of a template; render the template first"):
        read_crontab(f"# {{{{ managed }}}}\n{line}\n", "t")


def test_what_a_command_or_a_map_contains_is_no_template() -> None:
    for command in (
        "docker ps --format '{{.Names}}' && echo [Unit] resource",
        "x '{{json .}}{{end}}'",
        "date +{%H}",
        "a < %b",
    ):
        assert READERS["crontab"](f"0 5 * * * {command}\n").not_taken == 0
    maps = "kind: ConfigMap\ndata:\n  tab: |\n    0 5 * * * /bin/x\n  unit: |\n    [Timer]\n  app: |\n    import os\n"
    assert READERS["kubernetes"](maps).lines[0].line == 1


@pytest.mark.parametrize("value", ["$cron-daily", "${CRON}", "<your schedule>", "__CRON__", "@@CRON@@", "%CRON%"])
def test_a_schedule_that_is_put_in_later_is_one(value: str) -> None:
    """A workflow of starter-workflows has ``cron: $cron-daily``."""
    (line,) = read_kubernetes(f"kind: Backup\nspec: {{schedule: '{value}'}}\n", "w.yaml").lines
    assert (line.is_entry, "line 2, spec.schedule, has a schedule" in line.notes[0]) == (True, True)


def test_every_schedule_of_a_workflow_is_counted_and_its_zone_told() -> None:
    (line,) = read_kubernetes(WORKFLOW.replace("jobs:", "    - cron: '0 1 * * *'\njobs:"), "w.yaml").lines
    assert "line 4, on.schedule[0].cron, has a schedule and 1 more, which GitHub reads in UTC" in line.notes[0]
    (line,) = read_kubernetes("on: {push: {}}\njobs: {}\n", "w.yaml").lines
    assert not line.is_entry


@pytest.mark.parametrize("text", ["schedules: []\n", "a: 1\n", 'workflow "x" {\n  on = "schedule(0 0 * * *)"\n}\n'])
def test_what_nobody_knows_is_not_said_to_be_without_a_time(text: str) -> None:
    """The exit code was 0 for a configuration of Terraform, a crontab and any text: a text is a document of YAML."""
    assert read_kubernetes(text, "t").not_taken == 1


def test_an_expression_is_known_by_its_value_as_well() -> None:
    (line,) = read_kubernetes("kind: ScaledObject\nspec: {start: 0 8 * * 1-5, replicas: '10'}\n", "t").lines
    assert "line 2, spec.start, has a schedule" in line.notes[0]


IN_A_COMMAND = """kind: CronJob
metadata: {name: clean}
spec:
  schedule: 0 * * * *
  jobTemplate: {spec: {template: {spec: {containers: [{command: [sh, -c, "kubectl get -o go-template='{{range .items}}'"]}]}}}}
---
kind: ConfigMap
data: {mail.tmpl: "{{ .Labels.name }} {{if .x}}"}
"""


def test_placeholders_of_another_program_are_no_template() -> None:
    """kubectl's go-template and Alertmanager's mails were taken for Helm's, and the whole file was refused."""
    assert list(READERS["kubernetes"](IN_A_COMMAND).schedules) == ["clean"]


@pytest.mark.parametrize(
    "container",
    [
        "image: '{{ .Values.image.repository }}:{{ .Values.image.tag }}'",
        "image: '{{ image }}'",
        "command: [report, --tenant, '{{ .Values.tenant }}']",
        "command: [report]\n            env: [{name: TENANT, value: '{{ default .Values.tenant .Release.Name }}'}]",
    ],
)
def test_a_template_whose_placeholders_are_quoted_is_named(container: str) -> None:
    """It is YAML for all that: its command and variables were taken with the placeholders in them, without a word."""
    head = "kind: CronJob\nmetadata: {name: a}\nspec:\n  schedule: 0 * * * *\n  jobTemplate:\n    spec:\n      template:\n        spec:\n"
    text = f"{head}          containers:\n          - {container}\n"
    with pytest.raises(InvalidInput, match=r"^t:1\d=.*template"):
        read_kubernetes(text, "t")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("name: {{name}}", "has placeholders of a template"),
        ("name: '{{ name }}'", "has placeholders of a template"),
        ("name: '{{ .Release.Name }}'", "looks like a template of Helm"),
        ("name: a\n  {% if labels %}", "has placeholders of a template"),
    ],
)
def test_a_manifest_with_placeholders_of_any_template_is_named(line: str, what: str) -> None:
    """A manifest of mustache was refused for a key that is not text."""
    with pytest.raises(InvalidInput, match=rf"^t:[34]=.*{what}"):
        read_kubernetes(f"kind: CronJob\nmetadata:\n  {line}\nspec: {{schedule: 0 * * * *}}\n", "t")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[global]\n\n[job-exec "a"]\nschedule = @every 1h\ncommand = b\n', "t:3=.*is a configuration of Ofelia"),
        (
            "cron:\n# nightly\n- description: a\n  url: /b\n  schedule: every 6 hours\n",
            "t:1=.*is a cron.yaml of App Engine",
        ),
        (
            '{\n  "crons": [\n    {\n      "path": "/a",\n      "schedule": "30 03 * * *"\n    }\n  ]\n}\n',
            "t:2=.*is a configuration of Vercel",
        ),
        ("- hosts: all\n  tasks:\n  - name: a\n    cron:\n      name: b\n      job: c\n", "t:4=.*is a task of Ansible"),
        ("Nightly:\n\n```\n0 5 * * * /bin/a\n0 6 * * * /bin/b\n```\n", "t:3=.*is a text in Markdown"),
        ("#!/usr/bin/env bash\nA=1\ncrontab - <<X\n0 5 * * * a\n0 6 * * * b\nX\n", "t:3=.*is a line of a bash script"),
        ("#!/bin/sh\n0 5 * * * a\necho done\n", "t:3=.*is a line of a sh script, which is no crontab"),
        (
            "Add this:\n0 5 * * * /bin/a\nand look\ninto its log.\n",
            "t:1=.*is no line of a crontab, and 2 more lines are none",
        ),
        ("/***\n * once a week\n */\n0 5 * * 1 /bin/a\n", "t:1=.*is no line of a crontab, and 2 more lines are none"),
        ("token=abc\nlogin with password=hunter2 first\n", "t:2='login with password=… first'"),
    ],
)
def test_a_text_that_is_no_crontab_is_named_in_one_sentence(text: str, what: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{what}"):
        read_crontab(text, "t")


def test_a_crontab_with_a_bad_line_is_read_all_the_same() -> None:
    found = read_crontab("#!/usr/bin/crontab\n0 5 * * * /bin/a\nfi\n0 6 * * * /bin/b\n", "t")
    assert (len(found.schedules), found.not_taken) == (2, 1)


OPENSHIFT = """kind: Template
apiVersion: template.openshift.io/v1
objects:
- kind: CronJob
  metadata: {name: "${NAME}"}
  spec: {schedule: "${SCHEDULE}"}
"""
KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [cronjob.yaml]\n"
RELEASE = "kind: HelmRelease\nmetadata: {name: backup}\nspec: {values: {schedule: 0 3 * * *}}\n"
FLUX = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nspec: {path: ./jobs}\n"


@pytest.mark.parametrize(
    ("text", "remedy", "is_entry"),
    [
        (OPENSHIFT, "oc process -f FILE -p NAME=VALUE -o yaml | quarterjack import kubernetes -", True),
        (KUSTOMIZATION, "kubectl kustomize FOLDER | quarterjack import kubernetes -", True),
        (RELEASE, "kubectl get cronjobs -A -o yaml | quarterjack import kubernetes -", True),
        (FLUX, "kubectl get cronjobs -A -o yaml | quarterjack import kubernetes -", False),
    ],
    ids=["openshift", "kustomize", "a release of flux", "a kustomization of flux"],
)
def test_a_manifest_that_becomes_others_is_named_with_the_way_to_them(text: str, remedy: str, is_entry: bool) -> None:
    """A kustomization had nothing that is due, and a template of OpenShift was to be declared."""
    (line,) = read_kubernetes(text, "t").lines
    assert (line.fit, line.is_entry) == (Conversion.LEFT, is_entry)
    assert line.notes[0].endswith(remedy)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("metadata:\n  %{~ if length(labels) > 0 }\n  labels: a\n", "t:2=.*has placeholders of a template"),
        ("# Jobs\n\nAdd: this\n\n```yaml\nkind: CronJob\n```\n", "t:5=.*is a text in Markdown; give what is in its"),
        ('package jobs\n\n#Job: {\n\tkind: "CronJob"\n}\n', "t:1=.*looks like CUE; cue export FILE --out yaml [|]"),
        ('#Job: {\n\tkind: "CronJob"\n}\nschedule: "0 3 * * *"\n', "t:1=.*looks like CUE"),
        ("local k = 5;\n{\n  cron: k.new('0 3 * * *', []),\n}\n", "t:1=.*looks like Jsonnet; jsonnet FILE [|]"),
        ('<?xml version="1.0"?>\n<job>a: b: c</job>\n', "t:1=.*is XML; declare its schedules"),
    ],
    ids=["terraform's templatefile", "markdown", "cue", "cue without a package", "jsonnet", "xml"],
)
def test_what_is_not_yaml_is_called_what_it_is(text: str, what: str) -> None:
    """It was said to be YAML with a text that lacks its quotes."""
    with pytest.raises(InvalidInput, match=f"^{what}"):
        read_kubernetes(text, "t")


def test_a_configuration_of_quartz_is_no_crontab() -> None:
    text = '<?xml version="1.0"?>\n<cron-expression>0 0/5 * * * ?</cron-expression>\n'
    with pytest.raises(InvalidInput, match=r"^t:1=.*is XML; declare its schedules"):
        read_crontab(text, "t")


@pytest.mark.parametrize(
    "field",
    [
        "schedule: '${SCHEDULE}'",
        "schedule: $cron-daily",
        "schedule: 0 5 * * *\n  timeZone: <zone>",
        "schedule: 0 5 * * *\n  timeZone: __ZONE__",
        "schedule: 0 5 * * *\n  suspend: ${suspend}",
        "schedule: 0 ${HOUR} * * *",
    ],
)
def test_a_field_of_a_manifest_that_is_put_in_later_is_named(field: str) -> None:
    container = "jobTemplate: {spec: {template: {spec: {containers: [{command: [a]}]}}}}"
    (line,) = read_kubernetes(f"kind: CronJob\nmetadata: {{name: x}}\nspec:\n  {field}\n  {container}\n", "t").lines
    assert line.fit is Conversion.LEFT
    assert "is put in later: replace it first, as envsubst < FILE does, or render the template" in line.notes[0]


def test_a_name_that_is_put_in_later_is_named() -> None:
    (line,) = read_kubernetes("kind: CronJob\nmetadata: {name: 'a-${ENV}'}\nspec: {schedule: 0 5 * * *}\n", "t").lines
    assert "line 2: metadata.name 'a-${ENV}' is put in later" in line.notes[0]
