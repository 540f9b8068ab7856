"""Templates, which are not what runs: a text is named, with the way to what can be imported."""

from __future__ import annotations

import re

from quarterjack.apply.nodes import YamlNode
from quarterjack.errors import InvalidInput

_DEPLOYED = (
    "deploy it, then quarterjack import eventbridge, which asks AWS; or give it what aws scheduler get-schedule prints"
)
_KINDS = (
    (
        re.compile(
            r"\{\{-?\s*(?:/\*|(?:if|range|with|toYaml)\s+\S|(?:include|define|template)\s+[\"'`]|(?:end|else)\b|[.$])"
        ),
        "looks like a template of Helm",
        "render it: helm template CHART | quarterjack import kubernetes -",
    ),
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
)
_OTHERS = {
    "CronWorkflow": "a CronWorkflow of Argo is not read: declare its schedule, with a job that does what its workflow does",
    "PingSource": "a PingSource of Knative is not read: declare its schedule, with a job that posts its data",
    "ScheduledSparkApplication": "it is not read: declare its schedule, with a job that submits the application",
}

_TIMED = re.compile(r"cron|schedule|expression|rate", re.IGNORECASE)  # the name of a field with an expression
_EXPRESSION = re.compile(
    r"\s*(?:@\w+(?:\s+\w+)?|(?:rate|cron|at)\(.+\)|(?:(?:CRON_)?TZ=\S+\s+)?(?:[\d*?][\w*?,/#-]*\s+){3,5}\S+(?:\s+\S+){1,2})\s*"
)


def refuse_template(text: str, source: str) -> None:
    """Raise InvalidInput, with the line, for a template."""
    for pattern, problem, remedy in _KINDS:
        if found := pattern.search(text):
            begin = found.start() + len(found[0]) - len(found[0].lstrip())
            line = text.count("\n", 0, begin) + 1
            raise InvalidInput(f"{source}:{line}", text.split("\n")[line - 1].strip()[:60], problem, remedy)


def why_not(node: YamlNode, kind: object) -> tuple[bool, str]:
    """Whether a document that is no CronJob is due at a time, and why it is not converted."""
    if known := _OTHERS.get(str(kind)):
        return True, known
    for leaf in node.leaves():
        word = re.sub(r"\[\d+\]$", "", leaf.path).rpartition(".")[2]
        if _TIMED.search(word) and _EXPRESSION.fullmatch(str(leaf.value)):
            path = leaf.path.removeprefix(node.path).lstrip(".")
            return True, (
                f"it is no CronJob and is not read, but line {leaf.line}, {path}, has a schedule: declare it, with a job that does the work"
            )
    return False, "it is no CronJob: nothing of it is due at a time"
