"""Texts of other kinds than an importer reads: templates, programs, units of systemd. Each is named, with what can be done instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NoReturn

from quarterjack.apply.nodes import YamlNode, read_documents
from quarterjack.errors import InvalidInput
from quarterjack.importers.text import without_secrets

_DEPLOYED = (
    "deploy it, then quarterjack import eventbridge, which asks AWS; or give it what aws scheduler get-schedule prints"
)
_APPLIED = (
    "apply it, then quarterjack import eventbridge, which asks AWS, or"
    " kubectl get cronjobs -A -o yaml | quarterjack import kubernetes -"
)
_TIMER = (
    "declare its times, with a job that does what its service does: OnCalendar=Mon..Fri 03:30 is expression: 30 3 * * MON-FRI,"
    " RandomizedDelaySec= is window, Persistent=true is catch_up: latest, OnUnitActiveSec=15min is rate(15 minutes)"
)
_HELM = (
    re.compile(
        r"\{\{-?\s*(?:/\*|(?:if|range|with|toYaml)\s+\S|(?:include|define|template)\s+[\"'`]|(?:end|else)\b|[.$])"
    ),
    "looks like a template of Helm",
    "render it: helm template CHART | quarterjack import kubernetes -",
)
_KINDS = (
    (
        re.compile(
            r"^[\"' \t{]*Transform[\"']?:[\"'\[\s-]*AWS::Serverless|Type[\"']?:\s*[\"']?AWS::Serverless::",
            re.MULTILINE,
        ),
        "is a template of SAM",
        _DEPLOYED,
    ),
    (
        re.compile(
            r"^[\"' \t{]*AWSTemplateFormatVersion\b|^[ \t]*[\"']?Type[\"']?:\s*[\"']?AWS::\w+::\w+", re.MULTILINE
        ),
        "is a template of CloudFormation",
        _DEPLOYED,
    ),
    (
        re.compile(
            r"\A(?=.*^functions:\s)(?:(?=.*^provider:\s).*^service:\s|.*^[ \t]+- schedule:)", re.MULTILINE | re.DOTALL
        ),
        "is a configuration of the Serverless Framework",
        _DEPLOYED,
    ),
    (
        re.compile(
            r"^resource[ \t]+\"[\w-]+\"[ \t]+\"[\w-]+\"[ \t]*\{|[\"'](?:aws_scheduler_schedule|aws_cloudwatch_event_rule)[\"']",
            re.MULTILINE,
        ),
        "is a configuration or state of Terraform",
        _APPLIED,
    ),
    (re.compile(r"^\[(?:Unit|Timer|Service|Install)\][ \t]*\r?$", re.MULTILINE), "is a unit of systemd", _TIMER),
)
_UNRENDERED = (  # a command may have {{.Names}} and {{json .}} of Go
    re.compile(
        r"^(?![ \t]*#)[^\n]*(?:\{\{-?[ \t]{0,9}(?!(?:end|else)\b)[A-Za-z_][\w.]{0,99}[ \t]{0,9}(?:\|[^\n}]{0,99})?-?\}\}"
        r"|<%[=-]|\{%-?[ \t]{0,9}(?:if|for|set|include|end\w+|else)\b|%\{~?[ \t]{0,9}(?:if|for|end\w+|else)\b)",
        re.MULTILINE,
    ),
    "has placeholders of a template",
    "render the template first, and import what it becomes",
)
_XML = (re.compile(r"\A\s*<(?:\?xml\b|!--|[A-Za-z])"), "is XML", "declare its schedules, with jobs that do the work")
_NOT_YAML = (  # by the first that fits
    _XML,
    (
        re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE),
        "is a text in Markdown",
        "give what is in its block of code alone",
    ),
    (
        re.compile(r"^(?:package[ \t]+\w+[ \t]*$|#\w+:[ \t]*\{)", re.MULTILINE),
        "looks like CUE",
        "cue export FILE --out yaml | quarterjack import kubernetes -",
    ),
    (
        re.compile(r"^(?:local[ \t]+\w+[ \t]*=|function\()", re.MULTILINE),
        "looks like Jsonnet",
        "jsonnet FILE | quarterjack import kubernetes -",
    ),
)
_JSON = re.compile(r"\s*(?:\[|\{\s*\")")
_DECIDING = re.compile(  # fields of a schedule; others have texts of other programs
    r"(?:^|\.)(?:schedule|image|timeZone|suspend|concurrencyPolicy|metadata\.name(?:space)?|Name|ScheduleExpression)$"
)
_IN_VALUES = (  # of quoted placeholders, which leave a template YAML
    (_DECIDING, _HELM),
    (_DECIDING, _UNRENDERED),
    (
        re.compile(r"(?:^|\.)jobTemplate\."),  # with its commands and variables
        (re.compile(r"\{\{-?[^{}\n]{0,200}?\.(?:Values|Release|Chart)\.\w"), *_HELM[1:]),  # objects of Helm alone
    ),
)
_PROGRAM = re.compile(
    r"^(?:import\b[^\n]*[ \t]from[ \t]|import[ \t]+['\"]|export[ \t]+(?:default|const|class|=)|module\.exports\b"
    r"|(?:const|let|var)[ \t]+[^\n=]{1,200}=[ \t]*require\(|from[ \t]+[\w.]+[ \t]+import\b|import[ \t]+[\w.]+[ \t]*\r?$)",
    re.MULTILINE,
)
_PROGRAMS = (  # by what the text mentions
    (
        re.compile(r"@serverless/typescript|AWS\[['\"]functions['\"]\]|\bserverlessConfiguration\b"),
        "is a configuration of the Serverless Framework in TypeScript",
        f"serverless print shows it as YAML, with its schedules; to import them {_DEPLOYED}",
    ),
    (re.compile(r"\baws[-_]cdk|@aws-cdk/"), "is an application of CDK", _DEPLOYED),
    (
        re.compile(r"(?i)beat_?schedule\b|\bcelery\b"),
        "is a module of Celery",
        "quarterjack import celery MODULE, by its name and without .py",
    ),
    (re.compile(""), "is a program", "declare its schedules, with jobs that do the work"),
)
_ELSEWHERE = (  # what one of the importers reads, or none, by the importers to which it looks like an error
    (
        "crontab eventbridge",
        re.compile(r"\A(?=.*^apiVersion:)(?=.*^kind:)", re.MULTILINE | re.DOTALL),
        "is a manifest of Kubernetes",
        "quarterjack import kubernetes FILE",
    ),
    (
        "crontab eventbridge",
        re.compile(r"\A(?=.*^[\"']?on[\"']?:)(?=.*^jobs:)", re.MULTILINE | re.DOTALL),
        "is a workflow of GitHub Actions",
        "declare its schedules, which GitHub reads in UTC, with a job that does the work",
    ),
    (
        "crontab kubernetes eventbridge",
        re.compile(
            r"^cron:[ \t]*\r?\n(?:[ \t]*(?:#.*)?\r?\n)*[ \t]*-[ \t]+(?:description|url|schedule|target|timezone):",
            re.MULTILINE,
        ),
        "is a cron.yaml of App Engine",
        "declare its schedules, with jobs that call its URLs: every monday 09:00 is expression: 0 9 * * MON",
    ),
    (
        "crontab kubernetes eventbridge",
        re.compile(
            r"^[ \t]+(?:-[ \t]+)?(?:ansible\.builtin\.)?cron:[ \t]*\r?\n[ \t]+(?:name|minute|hour|job|special_time|user):",
            re.MULTILINE,
        ),
        "is a task of Ansible",
        "run its playbook, then on the host: crontab -l -u USER | quarterjack import crontab -",
    ),
    (
        "crontab",
        re.compile(r"^[ \t]*\[job-(?:exec|run|local|service-run)\b", re.MULTILINE),
        "is a configuration of Ofelia",
        "declare its schedules: '0 30 2 * * *' has seconds first here too, @every 1h30m is rate(90 minutes), no-overlap is overlap: skip",
    ),
    (
        "crontab",
        re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE),
        "is a text in Markdown",
        "give the crontab in it alone",
    ),
    ("crontab", *_XML),
    (
        "crontab eventbridge",
        re.compile(r"^[ \t{]*\"crons\"[ \t]*:\s*\[\s*\{[^][{}]*\"schedule\"[ \t]*:", re.MULTILINE),
        "is a configuration of Vercel",
        "declare its crons, which Vercel reads in UTC, with jobs that call their paths",
    ),
    (
        "crontab",
        re.compile(r"\A\s*[\[{]\s*[\"{}\]]"),
        "is JSON",
        "quarterjack import eventbridge FILE, or kubernetes",
    ),
    (
        "kubernetes",
        re.compile(r"\A\s*[\[{](?=.*\"(?:FlexibleTimeWindow|ScheduleExpression)\")", re.DOTALL),
        "is a listing of AWS",
        "quarterjack import eventbridge FILE",
    ),
    (
        "kubernetes eventbridge",
        re.compile(r"^(?:[\d*][\d*,/-]*[ \t]+){4}[\w*?,/-]+[ \t]+\S", re.MULTILINE),
        "looks like a crontab",
        "quarterjack import crontab FILE",
    ),
)
_IN_THE_CLUSTER = "what it becomes is in the cluster: kubectl get cronjobs -A -o yaml | quarterjack import kubernetes -"
_DEPLOYING = frozenset({"HelmRelease", "HelmChart", "Application", "ApplicationSet"})  # of Flux, k3s and Argo CD
_LATER = re.compile(r"\$\{?[A-Za-z_(]|<[A-Za-z]|__[A-Z]|@@\w|%[A-Z]\w*%")  # a value that is put in later
_OTHERS = {
    "Template": "a template of OpenShift: oc process -f FILE -p NAME=VALUE -o yaml | quarterjack import kubernetes -",
    "Kustomization": "it names other files: kubectl kustomize FOLDER | quarterjack import kubernetes -",
    "CronWorkflow": "a CronWorkflow of Argo is not read: declare its schedule, with a job that does what its workflow does",
    "PingSource": "a PingSource of Knative is not read: declare its schedule, with a job that posts its data",
    "ScheduledSparkApplication": "it is not read: declare its schedule, with a job that submits the application",
}

_TIMED = re.compile(r"cron|schedule|expression|rate", re.IGNORECASE)  # the name of a field with an expression
_NAMED = re.compile(r"cron|crontab|(cron_?)?schedules?|(cron|schedule)_?expression", re.IGNORECASE)  # of nothing else
_PLACEHOLDER = re.compile(r"\s*(?:\$|<|%|\{|__|@@)\S.*")  # the value is put in later
_EXPRESSION = re.compile(
    r"\s*(?:@\w+(?:\s+\w+)?|(?:rate|cron|at)\(.+\)|(?:(?:CRON_)?TZ=\S+\s+)?(?:[\d*?][\w*?,/#-]*\s+){3,5}\S+(?:\s+\S+){1,2})\s*"
)


def refuse_template(text: str, source: str, *, reader: str) -> None:
    """Raise InvalidInput, with the line, for a text of another kind than ``reader`` reads: ``crontab``, ``kubernetes``, ``eventbridge``."""
    if found := _PROGRAM.search(text):
        _refuse(text, source, found, *next(kind[1:] for kind in _PROGRAMS if kind[0].search(text)))
    others = [kind[1:] for kind in _ELSEWHERE if reader in kind[0]]
    unrendered = [_UNRENDERED] if reader == "crontab" else []  # last: a workflow has ${{ }}, too
    helm = [_HELM] if reader == "eventbridge" and not _JSON.match(text) else []
    _refuse_any([*helm, *_KINDS, *others, *unrendered], text, source)


def read_rendered(text: str, source: str) -> list[YamlNode]:
    """The documents of YAML. Raises InvalidInput, with the line, if it is none, or a template with placeholders.

    A rendered document may have placeholders of other programs, as in ``kubectl get -o go-template='{{range .items}}'``.
    """
    try:
        documents = list(read_documents(text, source))
    except InvalidInput:
        _refuse_any([_HELM, _UNRENDERED, *_NOT_YAML], text, source)
        raise
    for leaf in (leaf for document in documents for leaf in document.leaves() if isinstance(leaf.value, str)):
        for place, (pattern, problem, remedy) in _IN_VALUES:
            if place.search(leaf.path) and pattern.search(leaf.value):
                raise InvalidInput(f"{source}:{leaf.line}", without_secrets(leaf.value)[:60], problem, remedy)
    return documents


def _refuse_any(kinds: Iterable[tuple[re.Pattern[str], str, str]], text: str, source: str) -> None:
    for pattern, problem, remedy in kinds:
        if found := pattern.search(text):
            _refuse(text, source, found, problem, remedy)


def _refuse(text: str, source: str, found: re.Match[str], problem: str, remedy: str) -> NoReturn:
    begin = found.start() + len(found[0]) - len(found[0].lstrip())
    line = text.count("\n", 0, begin) + 1
    raise InvalidInput(f"{source}:{line}", without_secrets(text.split("\n")[line - 1].strip())[:60], problem, remedy)


def put_in_later(node: YamlNode, *paths: tuple[str, ...]) -> str | None:
    """Why a document is not converted, if one of these fields has a placeholder: ``${SCHEDULE}``; None: none has."""
    found = ((path, node.get(*path)) for path in paths)
    later = next(((path, one) for path, one in found if one is not None and _LATER.search(str(one.value))), None)
    if later is None:
        return None
    path, one = later
    return (
        f"line {one.line}: {'.'.join(path)} {str(one.value)!r} is put in later:"
        " replace it first, as envsubst < FILE does, or render the template"
    )


def why_not(node: YamlNode, kind: object) -> tuple[bool, str]:
    """Whether a document that is no CronJob may be due at a time, and why it is not converted."""
    timed = [leaf for leaf in node.leaves() if _is_timed(leaf)]
    version = node.get("apiVersion")
    if kind in _DEPLOYING or (version is not None and str(version.value).startswith("kustomize.toolkit.")):
        return bool(timed), _IN_THE_CLUSTER
    if known := _OTHERS.get(str(kind)):
        return True, known
    workflow = kind is None and node.get("on") is not None and node.get("jobs") is not None
    what = "it is a workflow of GitHub Actions" if workflow else "it is no CronJob and is not read"
    if timed:
        path = timed[0].path.removeprefix(node.path).lstrip(".")
        more = f" and {len(timed) - 1} more" if len(timed) > 1 else ""
        zone = ", which GitHub reads in UTC" if workflow else ""
        return (
            True,
            f"{what}, but line {timed[0].line}, {path}, has a schedule{more}{zone}: declare it, with a job that does the work",
        )
    if kind is None and not workflow:
        return True, "it has no kind, so it is no manifest: give the output of kubectl get cronjobs -o yaml"
    return False, f"{what.removesuffix(' and is not read')}: nothing of it is due at a time"


def _is_timed(leaf: YamlNode) -> bool:
    """Whether a field has an expression, by its name and its value, or by a value that nothing else has."""
    word, value = re.sub(r"\[\d+\]$", "", leaf.path).rpartition(".")[2], str(leaf.value)
    if _NAMED.fullmatch(word) and _PLACEHOLDER.fullmatch(value):
        return True
    return _EXPRESSION.fullmatch(value) is not None and (_TIMED.search(word) is not None or "*" in value)
