"""Where the proof runs: AWS, with the credentials of this shell, or an embedded cloud of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from quarterjack.errors import Misconfigured
from quarterjack.local.cloud import LocalCloud, reached_by_this_process

LOCAL = "local"
AWS = "aws"
_GONE = (
    "ValidationError",
    "ResourceNotFoundException",
    "NoSuchBucket",
    "NoSuchEntity",
    "QueueDoesNotExist",
    "NonExistentQueue",
)
# A passing error of the network, of AWS or of a loaded machine is no finding: calls are repeated for about two minutes.
_PATIENT = Config(retries={"mode": "standard", "total_max_attempts": 10}, connect_timeout=20, read_timeout=120)
# The functions write no bytecode, and their roles are enforced: the outage of the queue is a policy.
_VARIABLES = {"PYTHONDONTWRITEBYTECODE": "1", "AUTH": "true"}


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """An account in a region, on AWS or here. It has what `infra.local_stack.cdk` uses of a `LocalCloud`."""

    endpoint: str | None  # None: AWS
    region: str
    environment: Mapping[str, str]  # with which another process reaches it
    _clients: dict[str, Any] = field(default_factory=dict)

    @property
    def is_aws(self) -> bool:
        return self.endpoint is None

    @property
    def account(self) -> str:
        return str(self.client("sts").get_caller_identity()["Account"])

    def client(self, service: str) -> Any:
        if service not in self._clients:
            made = boto3.client(service, endpoint_url=self.endpoint, region_name=self.region, config=_PATIENT)
            self._clients[service] = made
        return self._clients[service]


@contextmanager
def cloud_at(endpoint: str) -> Iterator[Cloud]:
    """``local`` or ``aws``. Raises Misconfigured for another endpoint, and on AWS without region or credentials."""
    if endpoint == LOCAL:
        with LocalCloud(variables=_VARIABLES) as cloud, reached_by_this_process(cloud.credentials):
            yield Cloud(endpoint=cloud.endpoint, region=cloud.region, environment=cloud.environment)
    elif endpoint == AWS:
        yield _aws()
    else:
        raise Misconfigured(f"ENDPOINT={endpoint!r}: is not one of {LOCAL}, {AWS}; other clouds: make contract")


def _aws() -> Cloud:
    if os.environ.get("AWS_ENDPOINT_URL"):
        raise Misconfigured("AWS_ENDPOINT_URL is set, so this would not be AWS; unset it, or use ENDPOINT=local")
    session = boto3.Session()
    region = os.environ.get("AWS_REGION") or session.region_name  # boto3 knows AWS_DEFAULT_REGION and profiles alone
    if region is None:
        raise Misconfigured("AWS_REGION is not set; set it to the region of the proof")
    if session.get_credentials() is None:
        raise Misconfigured("there are no credentials; set AWS_PROFILE to a profile of a throw-away account")
    environment = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    environment |= {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    return Cloud(endpoint=None, region=region, environment=environment)


@contextmanager
def if_there() -> Iterator[None]:
    """Pass over the error of what is not there any more, and over no other."""
    try:
        yield
    except ClientError as problem:
        if str(problem.response["Error"]["Code"]).rpartition(".")[2] not in _GONE:
            raise


@dataclass(frozen=True)
class Names:
    """All names of one proof, by which everything of it is found again."""

    token: str  # six characters

    @property
    def prefix(self) -> str:
        return f"proof-{self.token}"

    @property
    def stack(self) -> str:
        return f"QuarterjackProof-{self.token}"

    @property
    def qualifier(self) -> str:
        """Of what the CDK needs in an account: its own, so that it can go with the rest."""
        return f"qj{self.token}"

    @property
    def toolkit(self) -> str:
        return f"QuarterjackProofToolkit-{self.token}"

    @property
    def heard(self) -> str:
        """The queue that hears the alarms."""
        return f"{self.prefix}-heard"
