"""The settings of the processes of ``quarterjack local``: those of the shell, but for what belongs to another place."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack.cli.app import run
from quarterjack.domain.queue import Queue
from quarterjack.local.installation import local_settings
from quarterjack.local.processes import ProcessGroup
from quarterjack.local.session import session
from quarterjack.settings import Settings, from_environment

CLOUD: Any = SimpleNamespace(endpoint="http://127.0.0.1:4001", region="us-east-1")
PLACES = {"endpoint", "endpoints", "region", "bucket", "archive_bucket", "logs", "log_groups", "jobs", "work_queue"}
GIVEN = {
    "QUARTERJACK_APPLY_DECLARATIONS": "on",
    "QUARTERJACK_ARCHIVE_BUCKET": "production-archive",
    "QUARTERJACK_BUCKET": "production",
    "QUARTERJACK_EVENTS": "webhook:http://127.0.0.1:1/",
    "QUARTERJACK_HISTORY": "off",
    "QUARTERJACK_JOBS": "tests.support.installation.work",
    "QUARTERJACK_LOG_GROUPS": "/ecs/a",
    "QUARTERJACK_LOW_AGE": "7",
    "QUARTERJACK_LOW_SHARE": "7",
    "QUARTERJACK_METRIC_JOBS": "a",
    "QUARTERJACK_PREFIX": "p",
    "QUARTERJACK_PRIORITIES": "default",
    "QUARTERJACK_QUEUE_AGE": "7",
    "QUARTERJACK_QUEUE_DEPTH": "7",
    "QUARTERJACK_REQUESTS": "7",
    "QUARTERJACK_RETENTION_DAYS": "7",
    "QUARTERJACK_SHARDS": "7",
    "QUARTERJACK_STRIPES": "default=2",
    "QUARTERJACK_TENANT": "acme",
    "QUARTERJACK_TICKER_GROUPS": "7",
    "QUARTERJACK_TICKER_THREADS": "7",
    "QUARTERJACK_TICKER_WRITES": "7000",
    "QUARTERJACK_WORK_QUEUE": "mail",
}


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    """What the processes read in their environment, in a shell with all these variables."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "QUARTERJACK_"))]:
        monkeypatch.delenv(name)
    for name, value in {**GIVEN, "AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:2", "AWS_PROFILE": "work"}.items():
        monkeypatch.setenv(name, value)
    queues = [Queue(name="reports", stripes=3, priorities=True), Queue(name="mail")]
    settings = local_settings(from_environment(), queues, CLOUD, Path("/logs"))
    cloud = {"AWS_ENDPOINT_URL": CLOUD.endpoint, "AWS_REGION": CLOUD.region}
    found = ProcessGroup([], settings, cloud, tmp_path)._environ
    assert "AWS_PROFILE" not in found
    return from_environment(found)


def test_each_setting_is_that_of_the_shell_but_for_places(processes: Settings) -> None:
    given, usual = from_environment(GIVEN), Settings()
    changed = {field.name for field in fields(Settings) if getattr(given, field.name) != getattr(usual, field.name)}
    kept = changed - PLACES - {"stripes", "priorities"}
    assert len(kept) >= 14
    assert {name: getattr(processes, name) for name in kept} == {name: getattr(given, name) for name in kept}


def test_queues_that_the_shell_and_the_package_name_are_joined(processes: Settings) -> None:
    assert (processes.stripes, processes.priorities) == ("default=2,reports=3", "default,reports")


def test_places_are_those_of_the_local_cloud(processes: Settings) -> None:
    assert (processes.bucket, processes.logs) == ("p-payloads", "/logs")
    assert {processes.archive_bucket, processes.log_groups, processes.endpoints} == {None}
    assert processes.work_queue is None, "each queue has a worker of its own"


@pytest.mark.parametrize(
    ("words", "jobs"), [([], ("of.the.shell",)), (["--no-examples"], ("of.the.shell",)), (["--jobs", "own"], ("own",))]
)
def test_the_command_passes_the_settings_and_the_jobs_of_the_shell(
    words: list[str], jobs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUARTERJACK_APPLY_DECLARATIONS", "on")
    monkeypatch.setenv("QUARTERJACK_JOBS", "of.the.shell")
    seen: list[session.LocalOptions] = []
    monkeypatch.setattr(session, "run", lambda options, *_, **__: seen.append(options))
    assert run(["local", *words]) == 0
    (options,) = seen
    assert (options.jobs, options.settings.apply_declarations) == (jobs, True)
