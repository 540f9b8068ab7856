"""Deploy the stack to an embedded cloud with the real CDK command line, and check that every deployed function works.

``make deploy-local`` runs it. It needs no account, no Docker and no fixed port. It leaves nothing behind, but after a failure the logs.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from quarterjack.errors import Misconfigured
from quarterjack.local.cloud import LocalCloud, reached_by_this_process

from .local_proof import PATIENCE, PROGRESS, prove, say
from .local_stack import Deployment, bootstrap, keep_logs, release, synthesise

LOGS = Path("build/deploy-local")
# Each process of a function has a copy of the bundle, whose bytecode no other process reads. As on AWS, it is not written.
_VARIABLES = {"PYTHONDONTWRITEBYTECODE": "1"}


def main() -> int:
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="quarterjack-deploy-") as folder,
        LocalCloud(variables=_VARIABLES) as cloud,
        reached_by_this_process(cloud.credentials),
    ):
        deployment, out = None, Path(folder)
        say(f"the embedded cloud runs; its log: {cloud.log}")
        try:
            with _step("synthesis with the functions' bundles, and beside it cdk bootstrap", cloud):
                _synthesise_and_bootstrap(cloud, out)
            with _step("cdk deploy", cloud):
                deployment = release(cloud, out)
            say(
                f"waiting for the deployed functions, at most {PATIENCE:.0f} s for each check; the ticker runs at every full minute"
            )
            for proof in prove(deployment):
                say(f"{time.monotonic() - began:4.0f} s  {proof}")
        except (TimeoutError, Misconfigured) as problem:
            _tell(problem, cloud, deployment)
            return 1
        say("stopping the embedded cloud and removing its files …")
    say(f"PASSED: the deployed functions work, after {time.monotonic() - began:.0f} s")
    return 0


def _tell(problem: Exception, cloud: LocalCloud, deployment: Deployment | None) -> None:
    """The error, and the place to which the logs were copied: the cloud's own end with it."""
    say(f"{problem}\n{cloud.log.read_text(errors='replace')[-4_000:]}")
    files = ", ".join(map(str, keep_logs(cloud, deployment, LOGS)))
    say(f"FAILED: {str(problem).partition(chr(10))[0]}; logs: {files}")


def _synthesise_and_bootstrap(cloud: LocalCloud, out: Path) -> None:
    with ThreadPoolExecutor(1) as beside:
        bootstrapped = beside.submit(bootstrap, cloud, out)
        synthesise(cloud, out)
        bootstrapped.result()


@contextmanager
def _step(what: str, cloud: LocalCloud) -> Iterator[None]:
    """Print a step as it begins, that it goes on, and how long it took."""
    say(f"{what} …")
    began, over = time.monotonic(), threading.Event()

    def progress() -> None:
        while not over.wait(PROGRESS):
            say(f"        {what}: {time.monotonic() - began:.0f} s; log: {cloud.log}")

    beside = threading.Thread(target=progress, name="progress", daemon=True)
    beside.start()
    try:
        yield
    finally:
        over.set()
        beside.join()
    say(f"{what}: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
