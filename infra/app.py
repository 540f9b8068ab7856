"""The CDK app and its stack: ``cdk deploy``, with ``-c name=value`` for the settings of an installation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from aws_cdk import App, Duration, RemovalPolicy, Stack
from aws_cdk import aws_s3 as s3
from constructs import Construct
from quarterjack.errors import InvalidInput

from . import AWS, AWS_COMPILED, HERE, AlarmSettings, ApiSettings
from .quarterjack import Quarterjack


class QuarterjackStack(Stack):
    """A stack with one scheduler; ``knobs`` are the arguments of the construct."""

    def __init__(self, scope: Construct, construct_id: str, *, knobs: dict[str, Any], **settings: Any) -> None:
        super().__init__(scope, construct_id, description="Quarterjack: a serverless job scheduler", **settings)
        self.quarterjack = Quarterjack(self, "Jobs", **knobs)
        for name, output in self.quarterjack.outputs.items():
            output.override_logical_id(name)


STACK = "Quarterjack"  # unless the context names it
PROTECTED = "termination-protection"  # in the context; of the stack itself, not of the construct
# What the CDK's command line keeps in the context for itself, besides names with a colon or that begin with @.
_OF_THE_CDK = ("acknowledged-issue-numbers", "cli-telemetry")
_CONTEXT = "see docs/how-to/deploy.md#the-context"

_REMOVAL = {
    "retain": RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    "retain-always": RemovalPolicy.RETAIN,
    "destroy": RemovalPolicy.DESTROY,
}


def _read(name: str, given: object, convert: Callable[[str], Any]) -> Any:
    try:
        return convert(str(given))
    except (KeyError, ValueError):
        raise InvalidInput(name, given, "is not understood", "see docs/how-to/deploy.md for its values") from None


def _check(words: Mapping[str, Any]) -> None:
    """Refuse a context with an unknown word, without jobs, or that leaves prefix or stack to its default while it has the other.

    A deployment with another prefix replaces tables and queues by empty ones. So a stack that has a prefix of its own also has a
    name of its own: who forgets the context makes another stack, and changes none. Raises InvalidInput.
    """
    known = (*KNOBS, PROTECTED, "stack")
    for word, said in words.items():
        if word not in known and word not in _OF_THE_CDK and ":" not in word and not word.startswith("@"):
            near = get_close_matches(word, known, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"use some of {', '.join(known)}"
            raise InvalidInput(word, said, "is no word of the context", remedy)
    if "jobs" not in words:
        remedy = f"give -c jobs=path/to/package, to try the stack -c jobs=examples/starter; {_CONTEXT}"
        raise InvalidInput("jobs", None, "is missing in the context", remedy)
    for word, other in ("stack", "prefix"), ("prefix", "stack"):
        if word not in words and other in words:
            what = f"is missing in the context beside {other}: another prefix in a stack replaces its tables and queues by empty ones"
            raise InvalidInput(word, None, what, f"give {word} and {other} as they were deployed; {_CONTEXT}")


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _api(text: str) -> ApiSettings:
    """The ways in, as in ``iam,keys``, and ``console``; a token's issuer and audience can be given in an app of one's own only."""
    ways = text.split(",")
    if not {"iam", "keys", "console"}.issuperset(ways):
        raise ValueError(text)
    return ApiSettings(iam="iam" in ways, keys="keys" in ways, console="console" in ways)


# Names in the context, the construct's argument that each sets, and its conversion.
KNOBS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "jobs": ("jobs", str),
    "requirements": ("requirements", str),
    "prefix": ("prefix", str),
    "tables": ("tables", str),
    "memory": ("memory", int),
    "timeout-seconds": ("timeout", lambda text: Duration.seconds(int(text))),
    "max-concurrency": ("max_concurrency", int),
    "ticker-reserved": ("ticker_reserved", int),
    "undertaker-reserved": ("undertaker_reserved", int),
    "stripes": ("stripes", int),
    "priorities": ("priorities", _flag),
    "low-share": ("low_share", int),
    "low-age-seconds": ("low_age", lambda text: Duration.seconds(int(text))),
    "pollers": ("pollers", int),
    "most-pollers": ("most_pollers", int),
    "provisioned-concurrency": ("provisioned_concurrency", int),
    "shards": ("shards", int),
    "ticker-groups": ("ticker_groups", int),
    "ticker-writes": ("ticker_writes", int),
    "history": ("history", _flag),
    "log-groups": ("log_groups", lambda text: text.split(",")),
    "metric-jobs": ("metric_jobs", lambda text: text.split(",")),
    "metric-tenants": ("metric_tenants", lambda text: text.split(",")),
    "retention-days": ("retention", lambda text: Duration.days(int(text))),
    "archive-retention-days": ("archive_retention", lambda text: Duration.days(int(text)) if int(text) else None),
    "archive-lock-days": (
        "archive_lock",
        lambda text: s3.ObjectLockRetention.compliance(Duration.days(int(text))),
    ),
    "canary": ("canary", str),
    "athena": ("athena", _flag),
    "events": ("events", str),
    "event-types": ("event_types", lambda text: text.split(",")),
    "api": ("api", _api),
    "alarms": ("alarms", AlarmSettings.read),
    "dashboard": ("dashboard", _flag),
    "tenant-insights": ("tenant_insights", _flag),
    "removal": ("removal_policy", lambda text: _REMOVAL[text]),
    "deletion-protection": ("deletion_protection", _flag),
    "tags": ("tags", lambda text: dict(part.split("=", 1) for part in text.split(","))),
    "target": ("target", {"aws": AWS, "aws-compiled": AWS_COMPILED, "here": HERE}.__getitem__),
}


def build(context: Mapping[str, Any] | None = None, *, out: Path | None = None) -> App:
    """The app.

    ``context`` and ``out`` are for tests; the CDK's command line passes its own in the environment.
    """
    app = App(context=dict(context or {}), outdir=None if out is None else str(out))
    given = {name: said for name, said in app.node.get_all_context().items() if said is not None}
    _check(given)
    knobs = {knob: _read(name, given[name], convert) for name, (knob, convert) in KNOBS.items() if name in given}
    protected = _read(PROTECTED, given.get(PROTECTED, False), _flag)
    QuarterjackStack(app, given.get("stack", STACK), knobs=knobs, termination_protection=protected)
    return app


if __name__ == "__main__":
    build().synth()
