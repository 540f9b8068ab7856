"""A group of shards that is handed over arrives in the function, named by its name and by its ARN."""

from __future__ import annotations

import io
import json
import socket
import zipfile

import boto3
import pytest
from quarterjack.local.cloud import LocalCloud
from quarterjack.services import hand_over_to
from quarterjack.settings import from_environment
from quarterjack.ticker.fan_out import group_event

PATIENCE = 60  # seconds until the local cloud has run a function
TELLS = """
import json, socket

def handler(event, context):
    with socket.create_connection(("127.0.0.1", {port})) as told:
        told.sendall(json.dumps(event).encode())
"""


@pytest.mark.parametrize("named", ["acme-ticker", "arn:aws:lambda:us-east-1:000000000000:function:acme-ticker"])
def test_the_function_is_given_the_group(named: str, local_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in local_cloud.environment.items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        suffix = f"-by-{'arn' if ':' in named else 'name'}"
        _make(f"acme-ticker{suffix}", TELLS.format(port=server.getsockname()[1]))
        assert hand_over_to(named + suffix, from_environment())(group_event([1, 2], 500))
        connection, _ = server.accept()
        with connection, connection.makefile() as told:
            assert json.loads(told.read()) == {"shards": [1, 2], "writes": 500}
    assert not hand_over_to("nobody", from_environment())(group_event([1])), "there is no such function"


def _make(name: str, text: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as package:
        package.writestr("it.py", text)
    boto3.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.11",
        Role="arn:aws:iam::000000000000:role/ticker",
        Handler="it.handler",
        Code={"ZipFile": packed.getvalue()},
    )
