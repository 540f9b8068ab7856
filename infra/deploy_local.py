"""Deploy the stack to an embedded cloud with the real CDK command line, and check that every deployed function works.

``make deploy-local`` runs it. It needs no account, no Docker and no fixed port. It leaves nothing behind.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import boto3
from quarterjack import Run, RunState, Scheduler, ScheduleState, Settings, Tenants
from quarterjack.domain.names import parse_run_id, stripe_of
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.errors import Misconfigured, NotFound
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.local.processes import inherited
from quarterjack.services import connect, system_clock
from quarterjack.ticker.fan_out import ALONE
from urllib3 import PoolManager

from .app import STACK
from .packaging.node import wheel_node
from .storage.queues import worker_part

ROOT = Path(__file__).parents[1]
CDK = ROOT / ".node" / "node_modules" / "aws-cdk" / "bin" / "cdk"  # where `make setup` puts it
PATIENCE = 100.0  # seconds for each check; the first tick comes within 60
BEYOND = timedelta(
    seconds=185
)  # further ahead than `create_schedule` looks, so that only the ticker can claim the fire
SETTLED = timedelta(seconds=5)  # after its due time, within which a run has to end
RUNS = 3  # that have to have succeeded
ASSEMBLY = "cdk.out"
# Knobs for what the embedded cloud does not have: types of resources for queries of Athena, and alarms on metric math.
LACKING = {"athena": "false", "alarms": "off"}
# Each process of a function has a copy of the bundle, whose bytecode no other process reads. As on AWS, it is not written.
_VARIABLES = {"PYTHONDONTWRITEBYTECODE": "1"}
_CROWD = ALONE * 2  # entries with which one invocation hands shards over to others
_LOOK = 0.5  # seconds between reads of the ledger
_SCHEDULE = "every-5-seconds"
_LATER = "later"
_FAILING = "failing"
_QUEUE = "reports"  # declared by the example
_STRIPES = 2  # of the default queue
_LANE = worker_part(_QUEUE)
_HTTP = PoolManager(retries=False)


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
        return list(self.scheduler.list_runs(_SCHEDULE, before=datetime.now(UTC) - SETTLED).items)


def synthesise(cloud: LocalCloud, out: Path) -> Path:
    """Synthesise the stack with bundles for this interpreter; returns the file of its template."""
    app = ("--app", f'"{sys.executable}" -m infra.app', "--output", str(out / ASSEMBLY))
    lacking = (f"{knob}={value}" for knob, value in LACKING.items())
    context = ("target=here", "removal=destroy", f"stripes={_STRIPES}", "api=iam,keys", *lacking)
    cdk(cloud, out, "synth", "--quiet", *app, *(word for each in context for word in ("--context", each)))
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


def prove(deployment: Deployment, *, patience: float = PATIENCE) -> Iterator[str]:
    """Give each deployed function work; yields a line for each check. Raises TimeoutError for one that takes over ``patience`` seconds."""
    scheduler = deployment.scheduler
    scheduler.create_schedule(_SCHEDULE, "starter.hello", "rate(5 seconds)", payload={"to": "deploy-local"})
    scheduler.create_schedule(_LATER, "starter.hello", f"at({datetime.now(UTC) + BEYOND:%Y-%m-%dT%H:%M:%S})")
    striped = _submit_to_each_stripe(scheduler)
    doomed = scheduler.submit("starter.doomed").id
    scheduler.create_schedule(
        _FAILING, "starter.doomed", "0 0 1 1 *", pause_on_failure=1, on_failure="job:starter.hello"
    )
    scheduler.trigger(_FAILING)
    report = scheduler.submit("starter.report", {"upto": 100}, queue=_QUEUE).id

    _wait_for("the worker", patience, lambda: _count(deployment.runs(), RunState.SUCCEEDED) >= RUNS)
    late = max((run.lateness or timedelta()).total_seconds() for run in deployment.runs())
    yield f"worker: {RUNS} runs of a schedule succeeded, at most {late:.1f} s late"
    _wait_for("the worker", patience, lambda: all(scheduler.get_run(run).ended_at for run in striped.values()))
    yield f"worker: took from SQS queues {sorted(striped)} of the default queue"

    _wait_for("the worker of the queue", patience, lambda: scheduler.get_run(report).ended_at is not None)
    if (result := scheduler.get_run(report).result) != {"sum": 5050}:
        raise TimeoutError(f"the report came to {result}")
    _wait_for(f"the log of {_LANE}", patience, lambda: _logged(deployment, _LANE, "Succeeded"))
    yield f"{_LANE}: ran what was sent to queue {_QUEUE}, one of {scheduler.queues()}"

    _wait_for("the undertaker", patience, lambda: _logged(deployment, "undertaker", "run.dead"))
    if (state := scheduler.get_run(doomed).state) is not RunState.DEAD:
        raise TimeoutError(f"the doomed run is {state}, not DEAD")
    _wait_for("the undertaker", patience, lambda: scheduler.get_schedule(_FAILING).state is ScheduleState.PAUSED)
    yield "undertaker: a run that failed for good is DEAD in the ledger; a schedule is paused for it"
    scheduler.pause_schedule(_FAILING, until=datetime.now(UTC) + timedelta(seconds=3))

    yield f"auditor: {_audit(deployment)}"
    yield f"api: {_ask_api(deployment)}"
    _wait_for("the ticker", patience, lambda: bool(scheduler.list_runs(_LATER).items))
    yield f"ticker: claimed a fire that was {BEYOND.seconds} s away when its schedule was created"
    # The clock has proved itself; its next tick would cost a minute.
    _wait_for("the notified job", patience, lambda: _notified(deployment) or _tick(deployment))
    _wait_for("the end of a pause", patience, lambda: _is_active(scheduler) or _tick(deployment))
    yield "ticker: notified a job that a schedule fails, and ended its pause"

    _crowd(deployment)
    _wait_for("the ticker's groups", patience, lambda: bool(_handed_over(deployment)))
    yield f"ticker: handed {_handed_over(deployment)} groups of shards over to itself"

    _wait_for("the historian", patience, lambda: _logged(deployment, "historian", "HistorianChanges"))
    yield "historian: was invoked with the stream of runs"
    _wait_for("the archive", patience, lambda: "succeeded" in {each.kind for each in scheduler.transitions(report)})
    yield f"historian: archived {len(scheduler.transitions(report))} transitions of a run"
    if stuck := [f"{run.id} is {run.state}" for run in deployment.runs() if run.state is not RunState.SUCCEEDED]:
        raise TimeoutError(f"not every run that was due has succeeded: {stuck}")


def main() -> int:
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="quarterjack-deploy-") as folder,
        LocalCloud(variables=_VARIABLES) as cloud,
        reached_by_this_process(cloud.credentials),
    ):
        out = Path(folder)
        try:
            with _step("synthesis with the functions' bundles, and beside it cdk bootstrap"):
                _synthesise_and_bootstrap(cloud, out)
            with _step("cdk deploy"):
                deployment = release(cloud, out)
            _say(
                f"waiting for the deployed functions; the ticker runs at every full minute, so this takes up to {PATIENCE:.0f} s"
            )
            for proof in prove(deployment):
                _say(f"{time.monotonic() - began:4.0f} s  {proof}")
        except (TimeoutError, Misconfigured) as problem:
            _say(f"{problem}\n{cloud.log.read_text(errors='replace')[-4_000:]}\nFAILED")
            return 1
        _say("stopping the embedded cloud and removing its files …")
    _say(f"PASSED: the deployed functions work, after {time.monotonic() - began:.0f} s")
    return 0


def _synthesise_and_bootstrap(cloud: LocalCloud, out: Path) -> None:
    with ThreadPoolExecutor(1) as beside:
        bootstrapped = beside.submit(bootstrap, cloud, out)
        synthesise(cloud, out)
        bootstrapped.result()


@contextmanager
def _step(what: str) -> Iterator[None]:
    """Print a step as it begins and how long it took."""
    _say(f"{what} …")
    began = time.monotonic()
    yield
    _say(f"{what}: {time.monotonic() - began:.0f} s")


def _client(cloud: LocalCloud, service: str) -> Any:
    return boto3.client(service, endpoint_url=cloud.endpoint, region_name=cloud.region)


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


def _wait_for(what: str, patience: float, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patience
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did nothing within {patience:.0f} s")
        time.sleep(_LOOK)


def _submit_to_each_stripe(scheduler: Scheduler) -> dict[int, str]:
    """A run in each stripe of the default queue. No more: each run that comes at once makes the cloud start one more process."""
    striped: dict[int, str] = {}
    while len(striped) < _STRIPES:
        run = scheduler.submit("starter.hello", {"to": "a stripe"}).id
        striped[stripe_of(parse_run_id(run), _STRIPES)] = run
    return striped


def _count(runs: list[Run], state: RunState) -> int:
    return sum(run.state is state for run in runs)


def _logged(deployment: Deployment, part: str, event: str) -> bool:
    group = f"/aws/lambda/{deployment.settings.prefix}-{part}"
    answer = deployment.client("logs").filter_log_events(logGroupName=group, filterPattern=f'"{event}"')
    return bool(answer["events"])


def _tick(deployment: Deployment) -> bool:
    """Call the ticker; False, so that a condition can try again after it."""
    deployment.client("lambda").invoke(FunctionName=f"{deployment.settings.prefix}-ticker", Payload=b"{}")
    return False


def _is_active(scheduler: Scheduler) -> bool:
    return scheduler.get_schedule(_FAILING).state is ScheduleState.ACTIVE


def _notified(deployment: Deployment) -> bool:
    """Whether the job that ``on_failure`` names has run, once for each notice."""
    scheduler = deployment.scheduler
    owner = f"{scheduler.tenant}/{_FAILING}"
    records = connect(deployment.settings).records.listed(owner, "~notice~")
    tokens = [record.key.removeprefix("~notice~") for record in records]
    try:
        runs = [scheduler.get_run(f"{scheduler.tenant}/~notice-{token}#once") for token in tokens]
    except NotFound:
        return False
    return bool(runs) and all(run.state is RunState.SUCCEEDED for run in runs)


def _crowd(deployment: Deployment) -> None:
    """Put more entries than one invocation takes, of schedules that do not exist: the ticker removes these."""
    agenda, now = connect(deployment.settings).agenda, system_clock()
    for shard in range(agenda.layout().shards):
        ids = (f"{deployment.scheduler.tenant}/nobody-{number}#1" for number in range(_CROWD // agenda.layout().shards))
        agenda.put([AgendaEntry(shard=shard, due=now, kind=EntryKind.CHAIN, id=of) for of in ids])
    _tick(deployment)


def _handed_over(deployment: Deployment) -> int:
    """The number of groups that the ticker handed over, by its metric. Raises TimeoutError if one was refused."""
    if _logged(deployment, "ticker", "invoke.failed"):
        raise TimeoutError("the ticker could not hand shards over to itself")
    group = f"/aws/lambda/{deployment.settings.prefix}-ticker"
    answer = deployment.client("logs").filter_log_events(logGroupName=group, filterPattern='"TickGroups"')
    return sum(int(json.loads(event["message"])["TickGroups"][0]) for event in answer["events"])


def _audit(deployment: Deployment) -> str:
    """Call the auditor, whose clock does so once an hour; returns its answer."""
    name = f"{deployment.settings.prefix}-auditor"
    answer = deployment.client("lambda").invoke(FunctionName=name)
    body = answer["Payload"].read().decode()
    if "FunctionError" in answer:
        raise TimeoutError(f"the auditor failed: {body}")
    return str(body)


def _ask_api(deployment: Deployment) -> str:
    """Submit a run with an API key and read it. Raises TimeoutError if the API answers anything else, or lets in who has none."""
    scheduler = deployment.scheduler
    key = Tenants(settings=deployment.settings).create_key(
        scheduler.tenant, "deploy-local", ["submit", "read-runs", "read-logs"]
    )
    run = _request(deployment, "keys", 201, key.text, {"job": "starter.hello", "payload": {"to": "the API"}})
    found = _request(deployment, "keys", 200, key.text, below=f"/{run['url_id']}?wait=20")
    if found["state"] != "SUCCEEDED":
        raise TimeoutError(f"the run that the API was given is {found['state']}")
    _wait_for("the log of that run", PATIENCE, lambda: "run.ended" in _log_of(deployment, key.text, run["url_id"]))
    for way, status in ("keys", 401), ("iam", 403):
        _request(deployment, way, status, None, {"job": "starter.hello"})
    return "took a run from an API key, waited for its end and has its log lines; nobody without credentials was let in"


def _log_of(deployment: Deployment, key: str, run: str) -> set[str]:
    """The events that the API finds in a run's log. The cloud has the lines once the function's invocation is over."""
    lines = _request(deployment, "keys", 200, key, below=f"/{run}/logs")["items"]
    return {line["event"] for line in lines if line["source"] == "worker"}


def _request(
    deployment: Deployment, way: str, status: int, key: str | None, body: Any = None, *, below: str = ""
) -> Any:
    """The document with which the API answers a request about runs. Raises TimeoutError for another status."""
    api = urlsplit(deployment.urls[way]).netloc.partition(".")[0]
    place = f"{deployment.cloud.endpoint}/_aws/execute-api/{api}/$default"  # its own name needs a name server
    # The local cloud asks for its own key; as a session token it leaves the header of the API key alone.
    sent = {
        "Content-Type": "application/json",
        "X-Amz-Security-Token": deployment.cloud.environment["AWS_ACCESS_KEY_ID"],
    }
    if key is not None:
        sent["Authorization"] = f"Bearer {key}"
    answer = _HTTP.request(
        "GET" if body is None else "POST",
        f"{place}/v1/tenants/{deployment.scheduler.tenant}/runs{below}",
        json=body,
        headers=sent,
        timeout=PATIENCE,
    )
    if answer.status != status:
        raise TimeoutError(f"the API for {way} answered {answer.status}, not {status}: {answer.data!r}")
    return answer.json()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 — a command


if __name__ == "__main__":
    sys.exit(main())
