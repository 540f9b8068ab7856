"""Deploy the stack under names of its own, with a bootstrap of its own, by the real CDK command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarterjack import Scheduler, Settings
from quarterjack.ports.services import Services
from quarterjack.services import connect, system_clock

from bench.aws_proof.cloud import Cloud, Names
from bench.aws_proof.plan import Plan
from tests.support.enforced_roles import amend, open_buckets

JOBS = Path(__file__).with_name("jobs.py")
AGO = 200_000  # ms: schedules are made as if so long ago, else the SDK itself would claim and send their first fires


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A deployed stack and its clients."""

    cloud: Cloud
    names: Names
    settings: Settings
    topic: str | None  # ARN of the alarms; None: there are none

    def scheduler(self, *, ago: int = 0) -> Scheduler:
        """The SDK, as it was called ``ago`` ms ago."""
        return Scheduler(settings=self.settings, clock=lambda: system_clock() - ago)

    def services(self) -> Services:
        return connect(self.settings)

    def function(self, part: str) -> str:
        return f"{self.settings.prefix}-{part}"

    def tick(self) -> None:
        """Call the ticker beside its clock: what was just made needs not wait a minute for it."""
        self.cloud.client("lambda").invoke(FunctionName=self.function("ticker"), InvocationType="Event", Payload=b"{}")


def deploy(cloud: Cloud, names: Names, plan: Plan, out: Path) -> Deployment:
    """Synthesise, bootstrap and deploy. Raises Misconfigured, with what the CDK said, if one fails."""
    from infra.local_stack import ASSEMBLY, LACKING, cdk  # noqa: PLC0415 (the CDK takes seconds and a process of Node)

    app = ("--app", f'"{sys.executable}" -m tools.app', "--output", str(out / ASSEMBLY))
    cdk(cloud, out, "synth", "--quiet", *app, *_context(names, plan, {} if cloud.is_aws else LACKING))
    if not cloud.is_aws:
        amend(out / ASSEMBLY / f"{names.stack}.template.json")
    where = f"aws://{cloud.account}/{cloud.region}"
    own = ("--toolkit-stack-name", names.toolkit)
    cdk(cloud, out, "bootstrap", where, *own, "--qualifier", names.qualifier, folder=out)
    if not cloud.is_aws:
        open_buckets(cloud.client("s3"))
    outputs = out / "outputs.json"
    said = ("--require-approval", "never", "--outputs-file", str(outputs))
    cdk(cloud, out, "deploy", "--app", str(out / ASSEMBLY), *own, *said)
    return _connected(cloud, names, json.loads(outputs.read_text())[names.stack])


def _context(names: Names, plan: Plan, lacking: Mapping[str, str]) -> list[str]:
    """``lacking``: knobs of what the cloud does not have; without any it is AWS."""
    context = {
        "stack": names.stack,
        "prefix": names.prefix,
        "jobs": str(JOBS),
        "removal": "destroy",
        "target": "here" if lacking else "aws",
        **lacking,
        "@aws-cdk/core:bootstrapQualifier": names.qualifier,
        **plan.knobs,
    }
    return [word for name, value in context.items() for word in ("--context", f"{name}={value}")]


def _connected(cloud: Cloud, names: Names, outputs: dict[str, Any]) -> Deployment:
    settings = Settings(
        prefix=outputs["Prefix"],
        bucket=outputs["BucketName"],
        stripes=outputs.get("Stripes"),
        endpoint=cloud.endpoint,
        region=cloud.region,
    )
    return Deployment(cloud=cloud, names=names, settings=settings, topic=outputs.get("AlarmTopicArn"))
