"""An installation on this machine: the cloud, its tables and queues, and the processes, in one folder."""

from __future__ import annotations

import shlex
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from minutehand.domain.queue import striped_text
from minutehand.errors import Unavailable
from minutehand.local.cloud import LocalCloud, reached_by_this_process
from minutehand.local.declared import declared_queues
from minutehand.local.process_group import LogFollower, ProcessGroup, roles
from minutehand.local.provision import provision
from minutehand.settings import DEFAULT_PREFIX, DEFAULT_TENANT, Settings

_READY = 30.0  # seconds for the workers to be ready; usually 1 to 3
_POLL = 0.05  # seconds between reads of their logs
_SHELL_NEEDS = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True, kw_only=True)
class LocalInstallation:
    settings: Settings
    environment: Mapping[str, str]  # variables with which an AWS SDK reaches its cloud
    processes: ProcessGroup
    follower: LogFollower  # of the logs of all processes, from their start on
    folder: Path  # logs, and the data if it is kept

    @property
    def exports(self) -> str:
        """The shell command that lets another terminal reach it."""
        variables = {name: self.environment[name] for name in _SHELL_NEEDS}
        variables |= {"MINUTEHAND_BUCKET": str(self.settings.bucket), "MINUTEHAND_LOGS": str(self.folder)}
        return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())

    def wait_until_ready(self, stop: threading.Event) -> None:
        """Return when every worker has logged that it receives messages. Raises Unavailable if one has not after 30 s."""
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


@contextmanager
def installation(
    *,
    data: Path | None = None,
    jobs: Sequence[str],
    tickers: int = 1,
    workers: int = 2,
    tenant: str = DEFAULT_TENANT,
    prefix: str = DEFAULT_PREFIX,
    stripes: int = 1,
) -> Iterator[LocalInstallation]:
    """Start an installation with the queues that the packages ``jobs`` declare, for the time of the block.

    ``stripes`` is the number of SQS queues of the default queue. ``data`` is a directory that keeps the state for the next start.
    Without it the folder is temporary, and it is removed unless the block raised. Within the block, the AWS clients of this process
    use the local cloud, too.
    """
    with (
        _folder(data) as folder,
        LocalCloud(data=None if data is None else folder / "cloud") as cloud,
        reached_by_this_process(cloud.environment),
    ):
        queues = declared_queues(jobs)
        settings = Settings(
            prefix=prefix,
            tenant=tenant,
            endpoint=cloud.endpoint,
            region=cloud.region,
            bucket=f"{prefix}-payloads".lower(),
            stripes=striped_text({None: stripes} | {queue.name: queue.stripes for queue in queues}),
        )
        provision(settings, queues=queues)
        parts = roles(tickers=tickers, workers=workers, jobs=jobs, queues=queues)
        processes = ProcessGroup(parts, settings, cloud.environment, folder)
        follower = processes.follow()  # before the processes start
        with processes:
            yield LocalInstallation(
                settings=settings, environment=cloud.environment, processes=processes, follower=follower, folder=folder
            )


@contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    """The data directory, or a temporary one, which stays only if the block raised."""
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        yield data.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="minutehand-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
