"""A queue that was purged on the emulator, and made anew: what the ledger knows of comes back, and everything runs once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import boto3
import pytest
from quarterjack import RunState
from quarterjack.cli.app import app
from typer.testing import CliRunner

from tests.support.command_line import environment
from tests.support.installation.scene import Scene, duplicates, worker

pytestmark = [pytest.mark.check, pytest.mark.cloud]

NOW, SOON = 30, 10  # one-offs that are due; that are delayed in the queue


def test_after_a_purge_every_run_runs_once(scene: Scene) -> None:
    scheduler, payload = scene.scheduler, {"to": scene.to}
    runs = [scheduler.submit("test.note", payload).id for _ in range(NOW)]
    runs += [scheduler.submit("test.note", payload, delay=3).id for _ in range(SOON)]
    scheduler.create_schedule("tick", "test.note", "rate(2 seconds, from=2026-01-01T00:00:00Z)", payload=payload)
    scheduler.pause_schedule("tick", drain=True)
    sqs = boto3.client("sqs", endpoint_url=scene.settings.endpoint, region_name=scene.settings.region)
    url = sqs.get_queue_url(QueueName=f"{scene.settings.prefix}-work")["QueueUrl"]
    sqs.purge_queue(QueueUrl=url)
    assert not sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1, VisibilityTimeout=0).get("Messages")
    told = [_resend(scene, *options) for options in (["--dry-run"], ["--rate", "200"])]
    assert told[0]["sent"] == told[1]["sent"]
    assert told[1]["sent"]["default"] >= NOW + SOON
    assert told[1]["cursor"] is None
    scene.start(worker())
    ended = scene.ended(*runs, within=60)
    assert Counter(run.state for run in ended) == {RunState.SUCCEEDED: NOW + SOON}
    assert not duplicates(scene.counts())
    assert _resend(scene)["sent"] == {}


def _resend(scene: Scene, *options: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["--json", "resend", "--all-tenants", *options], env=environment(scene.settings))
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))
