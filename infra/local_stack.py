"""The stack on an embedded cloud: synthesised, bootstrapped and deployed by the real CDK command line; its clients and its logs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import boto3
from quarterjack import Run, Scheduler, Settings
from quarterjack.errors import Misconfigured
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import inherited

from .app import STACK
from .packaging.node import wheel_node

ROOT = Path(__file__).parents[1]
CDK = ROOT / ".node" / "node_modules" / "aws-cdk" / "bin" / "cdk"  # where `make setup` puts it
ASSEMBLY = "cdk.out"
# Knobs for what the embedded cloud does not have: types of resources for queries of Athena, and alarms on metric math.
LACKING = {"athena": "false", "alarms": "off"}
SETTLED = timedelta(seconds=5)  # after its due time, within which a run has to end
JOBS = "examples/starter"
SCHEDULE = "every-5-seconds"
STRIPES = 2  # of the default queue


class Reached(Protocol):
    """A cloud that another process reaches by these variables of its environment."""

    @property
    def environment(self) -> Mapping[str, str]: ...


@dataclass(kw_only=True)
class Deployment:
    """A deployed stack and its clients."""

    cloud: LocalCloud
    settings: Settings
    scheduler: Scheduler
    urls: Mapping[str, str]  # of the HTTP API, by way in

    def client(self, service: str) -> Any:
        return _client(self.cloud, service)

    def runs(self) -> list[Run]:
        """The runs of the schedule that should have ended by now."""
        return list(self.scheduler.list_runs(SCHEDULE, before=datetime.now(UTC) - SETTLED).items)

    def function(self, part: str) -> str:
        return f"{self.settings.prefix}-{part}"

    def lines(self, part: str, event: str = "") -> list[str]:
        """The lines of a function's log, or those that have a word."""
        pattern = {"filterPattern": f'"{event}"'} if event else {}
        pages = self.client("logs").get_paginator("filter_log_events")
        found = pages.paginate(logGroupName=f"/aws/lambda/{self.function(part)}", **pattern)
        return [str(line["message"]).rstrip("\n") for page in found for line in page["events"]]

    def parts(self) -> Iterator[str]:
        """The functions that have a log."""
        group = f"/aws/lambda/{self.function('')}"
        for page in self.client("logs").get_paginator("describe_log_groups").paginate(logGroupNamePrefix=group):
            yield from (found["logGroupName"].removeprefix(group) for found in page["logGroups"])


def keep_logs(cloud: LocalCloud, deployment: Deployment | None, folder: Path) -> list[Path]:
    """Write the log of the cloud and those of the functions into a folder: they go with the cloud. Returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"cloud.log": cloud.log.read_text(errors="replace")}
    if deployment is not None:
        files |= {f"{part}.log": "\n".join(deployment.lines(part)) + "\n" for part in deployment.parts()}
    for name, text in files.items():
        (folder / name).write_text(text)
    return [folder / name for name in files]


def synthesise(cloud: LocalCloud, out: Path, *, folder: Path = ROOT, jobs: str = JOBS) -> Path:
    """Synthesise the stack of a checkout with bundles for this interpreter; returns the file of its template."""
    app = ("--app", f'"{sys.executable}" -m infra.app', "--output", str(out / ASSEMBLY))
    lacking = (f"{knob}={value}" for knob, value in LACKING.items())
    context = (f"jobs={jobs}", "target=here", "removal=destroy", f"stripes={STRIPES}", "api=iam,keys", *lacking)
    cdk(
        cloud, out, "synth", "--quiet", *app, *(word for each in context for word in ("--context", each)), folder=folder
    )
    return out / ASSEMBLY / f"{STACK}.template.json"


def bootstrap(cloud: LocalCloud, out: Path) -> None:
    """Create the resources that the CDK needs in an account before its first deployment.

    It needs no app, so it can run beside the synthesis: it is called where there is no ``cdk.json``, whose app the CDK would run.
    """
    account = _client(cloud, "sts").get_caller_identity()["Account"]
    cdk(cloud, out, "bootstrap", f"aws://{account}/{cloud.region}", folder=out)


def release(cloud: LocalCloud, out: Path) -> Deployment:
    """Deploy the synthesised stack, and connect to the resources that its outputs name."""
    outputs = out / "outputs.json"
    arguments = ("--require-approval", "never", "--outputs-file", str(outputs))
    cdk(cloud, out, "deploy", "--app", str(out / ASSEMBLY), *arguments)
    named = json.loads(outputs.read_text())[STACK]
    settings = Settings(
        prefix=named["Prefix"],
        bucket=named["BucketName"],
        stripes=named["Stripes"],
        endpoint=cloud.endpoint,
        region=cloud.region,
    )
    urls = {way: named[f"{way.capitalize()}ApiUrl"] for way in ("iam", "keys")}
    return Deployment(cloud=cloud, settings=settings, scheduler=Scheduler(settings=settings), urls=urls)


def cdk(cloud: Reached, out: Path, verb: str, *arguments: str, folder: Path = ROOT) -> None:
    """Run the CDK's command line against ``cloud``. Raises Misconfigured, with what it printed, if it fails."""
    node = wheel_node()
    if node is None or not CDK.exists():
        raise Misconfigured("the CDK's command line is not installed; run: make setup")
    done = subprocess.run(
        [str(node), str(CDK), verb, "--no-notices", *arguments],
        cwd=folder,
        env={**inherited(), **cloud.environment, "CDK_HOME": str(out), "CDK_DISABLE_CLI_TELEMETRY": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Misconfigured(f"cdk {verb} failed:\n{done.stdout[-4_000:]}\n{done.stderr[-4_000:]}")


def _client(cloud: LocalCloud, service: str) -> Any:
    return boto3.client(service, endpoint_url=cloud.endpoint, region_name=cloud.region)
