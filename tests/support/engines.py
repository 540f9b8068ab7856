"""The engines of the contract suite: in memory, moto, and local clouds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import boto3
import pytest
from moto import mock_aws
from quarterjack import services as wiring
from quarterjack.aws import BatchBackoff, Client
from quarterjack.concurrency.pools import RequestStats
from quarterjack.local.installation import create_bucket, create_queues, create_tables
from quarterjack.ports.queues import RawMessage
from quarterjack.ports.services import Services
from quarterjack.services import connect, system_clock
from quarterjack.settings import Settings
from quarterjack.testing import ManualClock, Memory

AT_ONCE = BatchBackoff(wait=lambda seconds: None)  # rounds without waits: no engine here recovers by waiting


WRONG = {
    "moto": {
        "stale receipt": "moto deletes and hides by a receipt of an earlier delivery",
        "row put by an update": "moto's stream has the bare key first, and then the row",
        "unchanged row": "moto's stream has writes that change nothing",
    },
    "ministack": {},
    "dynamodb_local": {},
    "localemu": {"stale receipt": "LocalEmu deletes by a receipt of an earlier delivery"},
    "memory": {},
}


_prefixes = (
    itertools.count()
)  # moto is never reset, which takes it longer than all else: each test has names of its own


_moto = mock_aws()


@dataclass(kw_only=True)
class Engine:
    """One implementation."""

    name: str  # memory, ministack, moto, dynamodb_local, localemu (beside DynamoDB Local)
    services: Services
    clock: Any  # UTC ms, of the queue
    settings: Settings | None = None  # None for memory
    clients: dict[str, Any] = field(default_factory=dict)  # boto3's clients by service
    wired: dict[str, Client] = field(default_factory=dict)  # the clients of the services under test

    def is_wrong(self, about: str) -> None:
        """Skip where the engine is known to differ from AWS in this."""
        reason = WRONG.get(self.name, {}).get(about)
        if reason is not None:
            pytest.skip(f"{about}: {reason}")

    def again(self, **changes: Any) -> Services:
        """The same installation with other settings, as another process sees it."""
        if self.settings is None:
            return self.memory.connect() if not changes else self._reconnected(changes)
        return connect(Settings(**(vars(self.settings) | changes)), backoff=AT_ONCE)

    memory: Memory = field(default_factory=lambda: Memory(system_clock))

    def _reconnected(self, changes: dict[str, Any]) -> Services:
        self.memory._shards = changes["shards"]
        return self.memory.connect()

    def receive(self, most: int = 10, *, wait: float = 3.0, visibility: int = 30) -> list[RawMessage]:
        """Messages as soon as there are any, ``wait`` seconds at the most."""
        return list(self.services.work.receive(most=most, wait=wait, visibility=visibility))


@cache
def _shared_client(service: str, endpoint: str | None, region: str | None, aws_client: str) -> Client:
    return Client(service, Settings(endpoint=endpoint, region=region, aws_client=aws_client))


@cache
def _boto3_client(service: str, endpoint: str | None, region: str | None) -> Any:
    return boto3.client(service, endpoint_url=endpoint, region_name=region)


def _wired(name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Over boto3; its clients take 0.1 s to make, so they are shared."""

    def client(service: str, of: Settings, session: object = None, **_: object) -> Client:
        return _shared_client(service, of.endpoint, of.region, of.aws_client)

    monkeypatch.setattr(wiring, "Client", client)
    stats = RequestStats()
    stats.record_wait(0.01)  # so that requests go side by side, as over a network
    services = connect(settings, backoff=AT_ONCE, stats=stats)
    clients = {s: _boto3_client(s, settings.endpoint, settings.region) for s in ("dynamodb", "sqs", "s3")}
    wired = {service: client(service, settings) for service in ("dynamodb", "sqs")}
    return Engine(name=name, services=services, clock=system_clock, settings=settings, clients=clients, wired=wired)


def _in_memory() -> Engine:
    clock = ManualClock(datetime.now(UTC))
    memory = Memory(clock, idle=lambda seconds: clock.advance(timedelta(seconds=seconds)))
    return Engine(name="memory", services=memory.connect(), clock=clock, memory=memory)


@contextmanager
def _in_moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    prefix = f"t-{next(_prefixes)}"
    settings = Settings(
        prefix=prefix,
        region="us-east-1",
        bucket=f"{prefix}-payloads",
        shards=4,
        claim_by="put",
        aws_client="botocore",  # moto answers in its place
    )
    _moto.start(reset=False)
    try:
        engine = _wired("moto", settings, monkeypatch)
        create_tables(engine.clients["dynamodb"], settings)
        create_queues(engine.clients["sqs"], settings)
        create_bucket(engine.clients["s3"], prefix + "-payloads")
        yield engine
    finally:
        _moto.stop()
