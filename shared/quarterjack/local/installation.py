"""An installation on this machine: the cloud, its tables and queues, and the processes, in one folder.

Tables, queues and bucket are made from the definitions that the CDK stack uses, too: on any endpoint, and repeating it changes nothing.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from quarterjack.domain.queue import Queue
from quarterjack.errors import Unavailable
from quarterjack.job_packages import check_package
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.local.cloud_guard import CloudGuard
from quarterjack.local.declared import declared_queues
from quarterjack.local.processes import LogFollower, ProcessGroup, roles, variables
from quarterjack.settings import Settings
from quarterjack.sqs.stripes import Stripes, all_queues
from quarterjack.stores.tables import STREAM, TABLES
from quarterjack.values import replace

_READY = 30.0  # seconds for the workers to be ready; usually 1 to 3
_POLL = 0.05  # seconds between reads of their logs
_RETRIES = Config(retries={"mode": "standard", "total_max_attempts": 3})  # at most 3 s of waits: the cloud may be dead
_PACE = {"Delay": 1, "MaxAttempts": 60}  # seconds between two requests: AWS takes about ten for a table
_GRACE = 20.0  # seconds for processes to finish their runs
_HURRY = 1.0  # seconds for processes to end when they have nothing to finish: no cloud, or no start
_SHELL_NEEDS = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION")


def provision(settings: Settings, *, queues: Iterable[Queue] = ()) -> None:
    """Create tables, bucket, and the usual and declared queues with the names of ``settings``. Existing ones keep their data."""
    where: dict[str, Any] = {"endpoint_url": settings.endpoint, "region_name": settings.region, "config": _RETRIES}
    create_tables(boto3.client("dynamodb", **where), settings)
    create_queues(boto3.client("sqs", **where), settings, queues)
    if settings.bucket is not None:
        create_bucket(boto3.client("s3", **where), settings.bucket)


def create_tables(dynamodb: Any, settings: Settings) -> None:
    """Create the tables, wait until they are ready, and switch their expiry on, and their streams as the settings say."""
    ready: set[str] = set()  # without waiting: emulators create a table at once
    for table in TABLES:
        with _allowing("ResourceInUseException"):
            wanted = table.create_arguments(settings.table(table.suffix), history=settings.history)
            made = dynamodb.create_table(**wanted)
            if made["TableDescription"].get("TableStatus") == "ACTIVE":
                ready.add(table.suffix)
    for table in TABLES:
        name = settings.table(table.suffix)
        if table.suffix not in ready:
            dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig=_PACE)
        if table.stream and table.suffix not in ready:
            _switch_stream(dynamodb, name, on=settings.history)
        if table.ttl is not None:
            # Some emulators ignore the expiry at creation, and AWS refuses to switch it on twice.
            now = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
            if now.get("AttributeName") != table.ttl or now["TimeToLiveStatus"] not in ("ENABLED", "ENABLING"):
                wanted = {"Enabled": True, "AttributeName": table.ttl}
                dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=wanted)


def _switch_stream(dynamodb: Any, name: str, *, on: bool) -> None:
    """Let a table that existed have a stream, or none. A stream that is there stays, with its changes."""
    now = dynamodb.describe_table(TableName=name)["Table"].get("StreamSpecification", {})
    if bool(now.get("StreamEnabled")) != on:
        dynamodb.update_table(TableName=name, StreamSpecification=STREAM if on else {"StreamEnabled": False})
        dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig=_PACE)


def create_queues(sqs: Any, settings: Settings, declared: Iterable[Queue] = ()) -> dict[str, str]:
    """Create the queues, the dead-letter queue first; returns their URLs by suffix."""
    urls: dict[str, str] = {}
    known = Stripes.parse(settings.stripes, settings.priorities)
    for queue in all_queues(declared, stripes=known.of(None), priorities=None in known.prioritised):
        arn = None
        if queue.dead_letters is not None:
            dead = sqs.get_queue_attributes(QueueUrl=urls[queue.dead_letters], AttributeNames=["QueueArn"])
            arn = str(dead["Attributes"]["QueueArn"])
        name, attributes = settings.queue(queue.suffix), queue.attributes(arn)
        url = ""
        with _allowing("QueueAlreadyExists", "QueueNameExists"):
            url = str(sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])
        if not url:  # it exists with the attributes of an earlier release
            url = str(sqs.get_queue_url(QueueName=name)["QueueUrl"])
            sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
        urls[queue.suffix] = url
    return urls


def create_bucket(s3: Any, name: str) -> None:
    region = s3.meta.region_name
    place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    with _allowing("BucketAlreadyOwnedByYou"):
        s3.create_bucket(Bucket=name, **place)


@contextmanager
def _allowing(*codes: str) -> Iterator[None]:
    """Let the errors pass with which a service says that something exists already."""
    try:
        yield
    except ClientError as problem:
        if problem.response["Error"]["Code"].rpartition(".")[2] not in codes:
            raise


@dataclass(frozen=True, kw_only=True)
class LocalInstallation:
    settings: Settings
    environment: Mapping[str, str]  # variables with which an AWS SDK reaches its cloud
    processes: ProcessGroup
    watch: CloudGuard
    follower: LogFollower  # reads the logs of all processes from their start
    folder: Path  # logs, and the data if it is kept

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables with which another terminal uses it as its processes do."""
        usual, own = variables(Settings()), variables(replace(self.settings, actor=None))
        changed = {name: value for name, value in own.items() if usual.get(name) != value}
        return {name: self.environment[name] for name in _SHELL_NEEDS} | changed

    def wait_until_ready(self, stop: threading.Event) -> None:
        """Return when every worker has logged that it receives messages, or at ``stop``. Raises Unavailable if one has not after 30 s."""
        ahead = deepcopy(self.follower)  # the caller reads the same lines again
        waiting = {name for name in self.processes.names if name.startswith("worker")}
        deadline = time.monotonic() + _READY
        while waiting and not stop.wait(_POLL):
            waiting -= {name for name, event in ahead.new() if event["event"] == "worker.started"}
            self.processes.replace_ended()
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{', '.join(waiting)}: not ready within {_READY:.0f} s; see the logs in {self.folder}"
                )
        self.watch.check()


@contextmanager
def installation(
    *,
    data: Path | None = None,
    jobs: Sequence[str],
    tickers: int = 1,
    workers: int = 2,
    settings: Settings | None = None,
    stop: threading.Event | None = None,
) -> Iterator[LocalInstallation]:
    """Start an installation with the queues that the packages ``jobs`` declare, for the time of the block.

    ``settings`` are followed but for places, which are those of the local cloud, and for the queues of single processes: see
    ``local_settings``. ``data`` is a directory that keeps the state for the next start. Without it the folder is temporary, and it
    is removed unless the block raised an error. Within the block, the AWS clients of this process use the local cloud, too. If the cloud
    ends by itself, ``stop`` is set, and the block raises CloudDied.
    """
    for package in jobs:  # before anything is started
        check_package(package)
    with (
        _folder(data) as folder,
        LocalCloud(data=None if data is None else folder / "cloud") as cloud,
        reached_by_this_process(cloud.environment),
        CloudGuard(cloud, data=data and folder, stop=stop or threading.Event()).start().guard() as watch,
    ):
        queues = declared_queues(jobs)
        settings = local_settings(settings or Settings(), queues, cloud, folder)
        provision(settings, queues=queues)
        known = roles(tickers=tickers, workers=workers, jobs=jobs, queues=queues, history=settings.history)
        processes = ProcessGroup(known, settings, cloud.environment, folder)
        follower = processes.follow()  # before the processes start
        with _running(processes, watch):
            yield LocalInstallation(
                settings=settings,
                environment=cloud.environment,
                processes=processes,
                watch=watch,
                follower=follower,
                folder=folder,
            )


def local_settings(given: Settings, queues: Sequence[Queue], cloud: LocalCloud, folder: Path) -> Settings:
    """The settings of all processes: ``given``, with the local cloud's endpoint, bucket, logs and the declared stripes and lanes."""
    stripes, priorities = Stripes.parse(given.stripes, given.priorities).declared(queues).texts
    return replace(
        given,
        endpoint=cloud.endpoint,
        endpoints=None,
        region=cloud.region,
        bucket=f"{given.prefix}-payloads".lower(),
        archive_bucket=None,
        logs=str(folder),
        log_groups=None,
        jobs=None,  # each worker is told by its command line
        work_queue=None,  # the same
        stripes=stripes,
        priorities=priorities,
    )


@contextmanager
def _running(processes: ProcessGroup, watch: CloudGuard) -> Iterator[None]:
    """The processes for the time of the block. They have no time to finish if their cloud died, or if Ctrl-C ended the start."""
    grace = _GRACE
    try:
        processes.start()
        yield
    except KeyboardInterrupt:
        grace = _HURRY
        raise
    except Exception:
        grace = _HURRY if watch.is_lost() else _GRACE
        raise
    finally:
        processes.stop(grace)


@contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    """The data directory, or a temporary one, which stays only if the block raised an error."""
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        yield data.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="quarterjack-"))
    try:
        yield folder
    except Exception:  # its logs may say why
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
