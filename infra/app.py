"""The CDK app: ``cdk deploy``, with ``-c name=value`` for the settings of an installation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App, Duration, RemovalPolicy, Validations
from cdk_nag import AwsSolutionsChecks

from . import AWS, HERE
from .stack import MinutehandStack

JOBS = "examples/starter"  # the default, if the context names no package
STACK = "Minutehand"

# Names in the context, the construct's argument that each sets, and its conversion.
KNOBS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "jobs": ("jobs", str),
    "requirements": ("requirements", str),
    "prefix": ("prefix", str),
    "memory": ("memory", int),
    "timeout-seconds": ("timeout", lambda text: Duration.seconds(int(text))),
    "max-concurrency": ("max_concurrency", int),
    "stripes": ("stripes", int),
    "pollers": ("pollers", int),
    "most-pollers": ("most_pollers", int),
    "shards": ("shards", int),
    "ticker-groups": ("ticker_groups", int),
    "ticker-writes": ("ticker_writes", int),
    "retention-days": ("retention", lambda text: Duration.days(int(text))),
    "removal": ("removal_policy", lambda text: RemovalPolicy[text.upper()]),
    "target": ("target", {"aws": AWS, "here": HERE}.__getitem__),
}


def build(context: Mapping[str, Any] | None = None, *, out: Path | None = None) -> App:
    """The app, checked by cdk-nag when it is synthesised.

    ``context`` and ``out`` are for tests; the CDK's command line passes its own in the environment.
    """
    app = App(context=dict(context or {}), outdir=None if out is None else str(out))
    given = {name: app.node.try_get_context(name) for name in KNOBS}
    knobs = {knob: convert(str(given[name])) for name, (knob, convert) in KNOBS.items() if given[name] is not None}
    MinutehandStack(app, app.node.try_get_context("stack") or STACK, knobs={"jobs": JOBS, **knobs})
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


if __name__ == "__main__":
    build().synth()
