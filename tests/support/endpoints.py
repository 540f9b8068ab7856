"""``make contract ENDPOINT=…`` or ``ENGINE=…``: contract and acceptance suites against another cloud than the local one.

ENDPOINT is the URL of LocalStack, of moto's server or of anything else that runs and speaks the protocols of DynamoDB, SQS and S3.
ENGINE is one that the tests start: ``dynamodb-local``, beside the local cloud for SQS and S3, or ``localemu``, beside DynamoDB Local
for its tables. Every test has tables, queues and a bucket of its
own there, whose names begin with ``t-``; they are removed when the session ends. AWS itself is refused: ``make aws-proof`` is for it.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from quarterjack.local.cloud import LocalCloud, reached_by_this_process, sdk_environment
from quarterjack.local.installation import provision
from quarterjack.settings import Settings
from quarterjack.testing import cloud as testing
from quarterjack.testing.cloud import running_cloud

from tests.support.dynamodb_local import endpoint_with_dynamodb_local
from tests.support.localemu import running_localemu

VARIABLE = "QUARTERJACK_TEST_ENDPOINT"
DYNAMODB_LOCAL, LOCALEMU = "dynamodb-local", "localemu"
STARTED = {
    DYNAMODB_LOCAL: "dynamodb_local",
    LOCALEMU: "localemu",
}  # the engines that the tests start, by their words in ENGINE
UNKNOWN = "endpoint"
PUT_ONLY = ("moto",)  # engines whose PartiQL is not enough for claims
OWN_CLOUD = ("test_aws_proof.py", "test_local_command.py", "test_tutorial.py")  # what they start has a cloud of its own
_KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
}  # what LocalStack and moto take for their account
_ASKED = {"localstack": "/_localstack/health", "moto": "/moto-api/", "ministack": "/_ministack/health"}


@dataclass(frozen=True)
class Endpoint:
    """What the tests use of a `LocalCloud`, of a cloud that somebody else has started."""

    endpoint: str
    name: str = UNKNOWN  # of the engine: moto, localstack, ministack, dynamodb_local, localemu
    region: str = LocalCloud.region
    credentials: dict[str, str] = field(default_factory=lambda: given_credentials(os.environ))

    @property
    def environment(self) -> dict[str, str]:
        return sdk_environment(self.endpoint, self.credentials, self.region)


def asked_for() -> str | None:
    """The endpoint that this session is to use; None for the local cloud of its own."""
    return os.environ.get(VARIABLE) or None


def engine_asked_for() -> str | None:
    """The name of the engine there."""
    asked = asked_for()
    return asked and (STARTED.get(asked) or engine_at(checked(asked)))


def given_credentials(environ: Any) -> dict[str, str]:
    """The access key of the environment, or what emulators take."""
    return {name: environ.get(name, default) for name, default in _KEYS.items()}


@contextmanager
def session_cloud() -> Iterator[LocalCloud]:
    """The cloud of this session: a fresh one, or the one that was asked for."""
    asked = asked_for()
    if asked is None:
        with running_cloud() as cloud:
            yield cloud
    elif asked == DYNAMODB_LOCAL:
        with running_cloud() as cloud, endpoint_with_dynamodb_local(urlsplit(cloud.endpoint).netloc) as url:
            yield _as_cloud(Endpoint(url, STARTED[asked], credentials=cloud.credentials))
    elif asked == LOCALEMU:
        with running_localemu() as address, endpoint_with_dynamodb_local(address) as url:
            found = Endpoint(url, STARTED[asked], credentials=dict(_KEYS))
            with reached_by_this_process(found.credentials):
                yield _as_cloud(found)
    else:
        found = Endpoint(checked(asked), engine_at(asked))
        with reached_by_this_process(found.credentials), _removed_at_the_end(found):
            yield _as_cloud(found)


def _as_cloud(endpoint: Endpoint) -> LocalCloud:
    return endpoint  # type: ignore[return-value]  # it has what tests use of one


def checked(url: str) -> str:
    """The URL. Raises ValueError for one that is none, and for AWS."""
    host = urlsplit(url).hostname
    if host is None or urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"ENDPOINT={url!r}: is not a URL; use http://localhost:4566, or ENGINE={DYNAMODB_LOCAL}")
    if host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws")):
        raise ValueError(f"ENDPOINT={url!r}: is AWS, where hundreds of tables would be made; use: make aws-proof")
    return url.rstrip("/")


@cache
def engine_at(url: str) -> str:
    """What answers there, by the route that it has for itself. Raises ValueError if nothing does."""
    for name, path in _ASKED.items():
        try:
            with urllib.request.urlopen(url.rstrip("/") + path, timeout=10):
                return name
        except urllib.error.HTTPError as another:
            another.close()  # it answers, and is not this one
        except OSError as problem:
            raise ValueError(f"ENDPOINT={url!r}: does not answer ({problem}); start it first") from None
    return UNKNOWN


# --- what is left out, and what an emulator is known to get wrong ---


@dataclass(frozen=True)
class Fault:
    """A test that fails on an emulator because that is not like AWS."""

    test: str  # the end of its id, from the file's name on; a `*` at its end stands for the rest
    reason: str
    slow: bool = False  # it depends on the machine, so the test is skipped: an expected failure is strict

    def concerns(self, node: str) -> bool:
        name = node.rpartition("/")[2]
        return name.startswith(self.test[:-1]) if self.test.endswith("*") else name == self.test


_NO_BATCH = "its PartiQL takes no parameters, so claims are single PutItems: there is no batch to throttle or to lose"
_BREAKS = "answers 500, where the table of engines has the exception that it raises in process"
_BATCHES = "test_batch_failures.py::test_"
_TABLE = "test_engines.py::test_an_engine_answers_as_the_table_says[moto-put-"
FAULTS: dict[str, tuple[Fault, ...]] = {
    "moto": (
        Fault("test_async_function.py::*", "runs functions in Docker only"),
        Fault(f"{_BATCHES}throttled_claims_are_made_in_a_later_round*", _NO_BATCH),
        Fault(f"{_BATCHES}a_claim_that_is_never_answered_is_neither_made_nor_there", _NO_BATCH),
        Fault(f"{_BATCHES}a_statement_of_its_own_fault_is_unanswered_and_stops_no_other", _NO_BATCH),
        Fault(f"{_BATCHES}throttled_moves_are_made_later_or_not_answered", _NO_BATCH),
        Fault(f"{_BATCHES}throttled_leases_are_taken_later_or_not_answered", _NO_BATCH),
        Fault(f"{_BATCHES}the_waits_are_taken_between_rounds", _NO_BATCH),
        Fault(f"{_BATCHES}claims_whose_answer_was_lost_are_there_and_ours_to_send", _NO_BATCH),
        Fault(f"{_BATCHES}a_batch_of_leases_whose_answer_was_lost_is_held", _NO_BATCH),
        Fault(
            f"{_BATCHES}a_creation_whose_answer_was_lost_is_recognised",
            "applies a ClientRequestToken again, so that a creation looks like somebody else's",
        ),
        Fault(f"{_TABLE}move_task]", _BREAKS),
        Fault(f"{_TABLE}insert]", _BREAKS),
        Fault(f"{_TABLE}other_type]", _BREAKS),
        Fault(
            "test_chaos.py::test_a_short_siege_breaks_no_promise",
            "is too slow for it: some requests take over 25 s",
            slow=True,
        ),
        Fault(
            "test_many.py::test_two_tickers_and_two_workers_run_every_fire_once",
            "is too slow for 15 fires a second",
            slow=True,
        ),
    ),
    "localemu": (Fault("test_async_function.py::*", "runs functions in Docker only"),),
}


def amend(items: list[pytest.Item], engine: str) -> list[pytest.Item]:
    """Expect the failures of known faults, strictly; returns those tests that have a cloud of their own, to be deselected."""
    for item in items:
        for fault in FAULTS.get(engine, ()):
            if fault.concerns(item.nodeid):
                reason = f"{engine}: {fault.reason}"
                item.add_marker(
                    pytest.mark.skip(reason=reason) if fault.slow else pytest.mark.xfail(reason=reason, strict=True)
                )
    return [item for item in items if item.path.name in OWN_CLOUD]


# --- what is removed ---


@contextmanager
def _removed_at_the_end(where: Endpoint) -> Iterator[None]:
    """Note the installations that are made, which claim as the engine can, and remove them after the block."""
    made: list[Settings] = []

    def noted(settings: Settings, **more: Any) -> None:
        made.append(settings)
        provision(settings, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "provision", noted)
        if where.name in PUT_ONLY:
            patch.setattr(testing, "Settings", partial(Settings, claim_by="put"))
        try:
            yield
        finally:
            for settings in made:
                remove(settings, where.endpoint, where.region)


def remove(settings: Settings, endpoint: str, region: str) -> None:
    """Delete an installation's tables, queues and bucket. What cannot be deleted stays: the tests have their verdict."""
    dynamodb, sqs, s3 = (
        boto3.client(of, endpoint_url=endpoint, region_name=region) for of in ("dynamodb", "sqs", "s3")
    )
    prefix = f"{settings.prefix}-"
    with suppress(ClientError, BotoCoreError):
        for page in dynamodb.get_paginator("list_tables").paginate(ExclusiveStartTableName=prefix, Limit=10):
            mine = [name for name in page["TableNames"] if name.startswith(prefix)]
            for name in mine:
                dynamodb.delete_table(TableName=name)
            if len(mine) < len(page["TableNames"]):
                break
    with suppress(ClientError, BotoCoreError):
        for url in sqs.list_queues(QueueNamePrefix=prefix).get("QueueUrls", ()):
            sqs.delete_queue(QueueUrl=url)
    with suppress(ClientError, BotoCoreError):
        for item in s3.list_objects_v2(Bucket=settings.bucket).get("Contents", ()):
            s3.delete_object(Bucket=settings.bucket, Key=item["Key"])
        s3.delete_bucket(Bucket=settings.bucket)
