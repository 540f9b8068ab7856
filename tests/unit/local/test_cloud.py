"""The embedded cloud itself: it starts, stays on loopback, keeps its data when asked to, and is gone with its parent."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.extras import install_remedy
from quarterjack.local import cloud as cloud_module
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.local.installation import provision
from quarterjack.local.loopback import LOOPBACK
from quarterjack.local.snapshots import newest
from quarterjack.settings import Settings
from quarterjack.testing.cloud import running_cloud

HOLD_A_CLOUD = """
import os, signal
from quarterjack.local.cloud import LocalCloud
cloud = LocalCloud().start()
print(cloud.pid, cloud.port, flush=True)
signal.pause()
"""


def client(cloud: LocalCloud, service: str) -> Any:
    keys = {name.lower(): value for name, value in cloud.credentials.items()}
    return boto3.client(service, endpoint_url=cloud.endpoint, region_name=cloud.region, **keys)


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether ``condition`` came true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def listening_addresses(pid: int) -> set[tuple[str, int]]:
    """Local address (as the kernel prints it) and port of every TCP socket on which ``pid`` listens."""
    links, found = set(), set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # of a request that ended meanwhile
            links.add(str(fd.readlink()))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in links:
                address, port = fields[1].split(":")
                found.add((address, int(port, 16)))
    return found


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the kernel's socket tables")
def test_nothing_listens_beyond_loopback(local_cloud: LocalCloud) -> None:
    client(local_cloud, "lambda").list_functions()  # loads a service that starts listeners of its own
    assert listening_addresses(local_cloud.pid) == {("0100007F", local_cloud.port)}


def test_it_answers_as_aws_does(local_cloud: LocalCloud) -> None:
    assert local_cloud.endpoint == f"http://{LOOPBACK}:{local_cloud.port}"
    assert client(local_cloud, "sts").get_caller_identity()["Account"]


def test_any_sdk_finds_it_by_its_environment(local_cloud: LocalCloud) -> None:
    code = "import boto3; print(boto3.client('sqs').list_queues()['ResponseMetadata']['HTTPStatusCode'])"
    environ = {"PATH": os.environ["PATH"], **local_cloud.environment}
    asked = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "200"


def test_two_clouds_run_beside_each_other(local_cloud: LocalCloud) -> None:
    with LocalCloud() as other:
        assert other.port != local_cloud.port
        client(other, "sqs").create_queue(QueueName="only-here")
        assert not client(local_cloud, "sqs").list_queues(QueueNamePrefix="only-here").get("QueueUrls")


def test_a_port_that_another_took_is_left_for_a_free_one(
    local_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = iter([local_cloud.port])
    choose = LocalCloud._choose_port
    monkeypatch.setattr(LocalCloud, "_choose_port", lambda self: next(ports, None) or choose(self))
    with LocalCloud() as other:
        assert other.port != local_cloud.port


def test_one_that_never_starts_says_why(local_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalCloud, "_choose_port", lambda _: local_cloud.port)
    with pytest.raises(Unavailable, match="already in use"):
        LocalCloud().start()


def test_one_that_starts_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_module, "START_TIMEOUT", 0.0)
    monkeypatch.setattr(cloud_module, "_answers", lambda *_: False)
    cloud = LocalCloud()
    with pytest.raises(Unavailable, match="no answer within 0 s"):
        cloud.start()
    with pytest.raises(Misconfigured, match="not running"):
        _ = cloud.pid


def test_without_ministack_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_module, "find_spec", lambda _: None)
    with pytest.raises(Misconfigured, match=re.escape(install_remedy("local"))):
        LocalCloud()


def test_stopping_leaves_no_process_and_no_file() -> None:
    with LocalCloud() as cloud:
        pid, directory = cloud.pid, cloud.log.parent
        assert (alive(pid), directory.is_dir()) == (True, True)
    assert (alive(pid), directory.exists()) == (False, False)
    cloud.stop()


def test_the_cloud_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", HOLD_A_CLOUD]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, _ = map(int, parent.stdout.readline().split())
        assert alive(pid)
        parent.send_signal(signal.SIGKILL)
    assert until(lambda: not alive(pid))


def test_it_gives_this_process_credentials_and_takes_them_away_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine")
    with running_cloud() as cloud:
        assert os.environ["AWS_ACCESS_KEY_ID"] == cloud.credentials["AWS_ACCESS_KEY_ID"]
    assert "AWS_ACCESS_KEY_ID" not in os.environ
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == "mine"


def streamed(cloud: LocalCloud, settings: Settings) -> list[str]:
    """The owners of the changes in the stream of the table of runs."""
    arn = client(cloud, "dynamodb").describe_table(TableName=settings.table("runs"))["Table"]["LatestStreamArn"]
    streams = client(cloud, "dynamodbstreams")
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    begin = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    iterator = streams.get_shard_iterator(**begin)["ShardIterator"]
    records = streams.get_records(ShardIterator=iterator)["Records"]
    return [record["dynamodb"]["Keys"]["owner"]["S"] for record in records]


class TestData:
    def fill(self, cloud: LocalCloud, settings: Settings) -> None:
        key = {"owner": {"S": "acme/hourly"}, "key": {"S": "1"}}
        client(cloud, "dynamodb").put_item(TableName=settings.table("runs"), Item=key)
        client(cloud, "s3").put_object(Bucket=settings.bucket, Key="payloads/1", Body=b"large")
        sqs = client(cloud, "sqs")
        url = sqs.get_queue_url(QueueName=settings.queue("work"))["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=1)
        sqs.send_message(QueueUrl=url, MessageBody="in flight")
        assert sqs.receive_message(QueueUrl=url, VisibilityTimeout=1)["Messages"][0]["Body"] == "in flight"

    def check(self, cloud: LocalCloud, settings: Settings) -> None:
        rows = client(cloud, "dynamodb").scan(TableName=settings.table("runs"))["Items"]
        assert [row["owner"]["S"] for row in rows] == ["acme/hourly"]
        assert streamed(cloud, settings) == ["acme/hourly"]
        assert client(cloud, "s3").get_object(Bucket=settings.bucket, Key="payloads/1")["Body"].read() == b"large"
        sqs = client(cloud, "sqs")
        url = sqs.get_queue_url(QueueName=settings.queue("work"))["QueueUrl"]
        bodies: list[str] = []

        def both_are_back() -> bool:
            got = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1, MaxNumberOfMessages=10, VisibilityTimeout=1)
            bodies.extend(message["Body"] for message in got.get("Messages", []))
            return {"delayed", "in flight"} <= set(bodies)

        assert until(both_are_back)

    def test_tables_queues_and_bucket_survive_a_restart(self, tmp_path: Path, local_cloud: LocalCloud) -> None:
        settings = Settings(prefix="kept", region=local_cloud.region, bucket="kept-payloads")
        with LocalCloud(data=tmp_path) as first:
            here = Settings(**{**vars(settings), "endpoint": first.endpoint})
            with reached_by_this_process(first.credentials):
                provision(here)
            self.fill(first, here)
        with LocalCloud(data=tmp_path) as again:
            assert again.port == first.port, "URLs in other terminals stay valid"
            with reached_by_this_process(again.credentials):
                provision(Settings(**{**vars(settings), "endpoint": again.endpoint}))
            self.check(again, settings)
        with socket.create_server((LOOPBACK, first.port)), LocalCloud(data=tmp_path) as moved:
            assert moved.port != first.port
            self.check(moved, settings)

    def test_one_directory_serves_one_cloud_at_a_time(self, tmp_path: Path) -> None:
        with LocalCloud(data=tmp_path), pytest.raises(Misconfigured, match="in use by another local cloud"):
            LocalCloud(data=tmp_path).start()
        with LocalCloud(data=tmp_path):
            pass

    def test_of_a_killed_cloud_all_but_the_last_second_is_kept(self, tmp_path: Path) -> None:
        settings = Settings(prefix="kept", region=LocalCloud.region, bucket="kept-payloads")
        state = tmp_path / "state"

        def snapshot_has(*texts: str) -> bool:
            try:
                whole = "".join(file.read_text() for file in (newest(state) or state).glob("*.json"))
            except FileNotFoundError:  # replaced meanwhile
                return False
            return all(text in whole for text in texts)

        with LocalCloud(data=tmp_path) as first:
            here = Settings(**{**vars(settings), "endpoint": first.endpoint})
            with reached_by_this_process(first.credentials):
                provision(here)
            self.fill(first, here)
            assert until(lambda: snapshot_has("acme/hourly", "delayed", "in flight"))
            os.kill(first.pid, signal.SIGKILL)
        with LocalCloud(data=tmp_path) as again:
            self.check(again, settings)


def test_the_module_needs_nothing_of_the_extra_before_a_cloud_is_started() -> None:
    extra = "import sys; sys.modules |= dict.fromkeys(['httptools', 'uvicorn', 'ministack']); import quarterjack.local.cloud"
    subprocess.run([sys.executable, "-c", extra], check=True)
