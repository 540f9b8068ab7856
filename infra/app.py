"""The CDK app and its stack: ``cdk deploy``, with ``-c name=value`` for the settings of an installation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


JOBS = "examples/starter"  # the default, if the context names no package
STACK = "Quarterjack"
PROTECTED = "termination-protection"  # in the context; of the stack itself, not of the construct

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
    given = {name: app.node.try_get_context(name) for name in KNOBS}
    knobs = {
        knob: _read(name, given[name], convert) for name, (knob, convert) in KNOBS.items() if given[name] is not None
    }
    protected = _read(PROTECTED, app.node.try_get_context(PROTECTED) or False, _flag)
    name = app.node.try_get_context("stack") or STACK
    QuarterjackStack(app, name, knobs={"jobs": JOBS, **knobs}, termination_protection=protected)
    return app


if __name__ == "__main__":
    build().synth()
