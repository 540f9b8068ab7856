"""Shared by all checks: the installation, calls to AWS without effects, and the findings that checks yield."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

from quarterjack.concurrency.pools import RequestPool
from quarterjack.domain.schedule import Head
from quarterjack.domain.times import SECOND, from_ms, to_ms
from quarterjack.errors import Unreadable
from quarterjack.ports.services import Clock, Services
from quarterjack.services import connect
from quarterjack.settings import Settings

_CONFIG = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 2})
_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"})
_MISSING = frozenset(
    {"404", "AWS.SimpleQueueService.NonExistentQueue", "NoSuchBucket", "QueueDoesNotExist", "ResourceNotFoundException"}
)
_ACTION = re.compile(r"perform: ([\w-]+:\w+)")
UNREACHABLE, NO_CREDENTIALS, NO_REGION = "Unreachable", "NoCredentials", "NoRegion"
# Requests of one check: one after the other they took 43 s where each took 150 ms, and the API's function has 29 s.
_AT_ONCE = 8

_P = TypeVar("_P")
_R = TypeVar("_R")


def at_once(ask: Callable[[_P], _R], parts: Sequence[_P]) -> Sequence[_R]:
    """What ``ask`` says of each part, in the order of the parts; several are asked at the same time. Raises its first error."""
    return RequestPool(_AT_ONCE).map(lambda part: (ask(part), 0), parts)


class Severity(StrEnum):
    """Severity of a finding."""

    OK = "ok"  # the check passed
    WARN = "warn"  # it works, with a problem; or it could not be checked
    FAIL = "fail"  # something does not work


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one check of one thing."""

    check: str = ""  # name of the check's function, which ``run_checks`` fills in
    verdict: Severity
    what: str  # the observation
    remedy: str | None = None  # None if it is ok


def ok(what: str) -> Finding:
    return Finding(verdict=Severity.OK, what=what)


def warn(what: str, remedy: str) -> Finding:
    return Finding(verdict=Severity.WARN, what=what, remedy=remedy)


def fail(what: str, remedy: str) -> Finding:
    return Finding(verdict=Severity.FAIL, what=what, remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class ProbeAnswer:
    """Result of one call: a response or an error."""

    action: str  # as IAM calls it: dynamodb:GetItem
    data: dict[str, Any] = field(default_factory=dict)  # of a success
    code: str | None = None  # of an error; None: success
    text: str = ""  # of an error

    @property
    def denied(self) -> bool:
        """Whether the caller may not do this."""
        return self.code in _DENIED

    @property
    def missing(self) -> bool:
        """Whether there is no such table, queue or bucket."""
        return self.code in _MISSING


@dataclass(kw_only=True)
class AwsProbe:
    """Calls with the credentials and the endpoint that everything else uses."""

    settings: Settings
    clock: Clock  # UTC ms
    skews: list[tuple[int, int]] = field(default_factory=list)  # ms: bounds of the local clock's lead over AWS
    _clients: dict[str, Any] = field(default_factory=dict)
    _making: threading.Lock = field(default_factory=threading.Lock)

    def call(self, service: str, operation: str, /, **arguments: Any) -> ProbeAnswer:
        """Make one call. Errors of AWS and of the network are returned, not raised."""
        action = f"{service}:{operation}"
        before = self.clock()
        try:
            client = self._client(service)
            action = f"{service}:{client.meta.method_to_api_mapping[operation]}"
            data: dict[str, Any] = getattr(client, operation)(**arguments)
        except ClientError as problem:
            response: Any = problem.response
            self._note_date(before, response)
            error = response.get("Error", {})
            code, text = str(error.get("Code", "")), str(error.get("Message", ""))
            named = _ACTION.search(text)
            return ProbeAnswer(action=named[1] if named else action, code=code, text=text)
        except NoCredentialsError as problem:
            return ProbeAnswer(action=action, code=NO_CREDENTIALS, text=str(problem))
        except (NoRegionError, ValueError) as problem:
            return ProbeAnswer(action=action, code=NO_REGION, text=str(problem))
        except BotoCoreError as problem:
            return ProbeAnswer(action=action, code=UNREACHABLE, text=str(problem))
        self._note_date(before, data)
        return ProbeAnswer(action=action, data=data)

    def metric(
        self, namespace: str, name: str, dimension: tuple[str, str], statistic: str, window: timedelta
    ) -> list[dict[str, Any]]:
        """The datapoints of a metric in the last ``window``, a minute each, oldest first; none if CloudWatch does not answer."""
        now = from_ms(self.clock())
        answer = self.call(
            "cloudwatch",
            "get_metric_statistics",
            Namespace=namespace,
            MetricName=name,
            Dimensions=[{"Name": dimension[0], "Value": dimension[1]}],
            StartTime=now - window,
            EndTime=now,
            Period=60,
            Statistics=[statistic],
        )
        return sorted(answer.data.get("Datapoints", []), key=lambda point: point["Timestamp"])

    @property
    def region(self) -> str:
        """The region that boto3 resolves."""
        return str(self._client("dynamodb").meta.region_name)

    def _client(self, service: str) -> Any:
        with self._making:
            if service not in self._clients:
                where = {"endpoint_url": self.settings.endpoint_of(service), "region_name": self.settings.region}
                self._clients[service] = boto3.session.Session().client(service, config=_CONFIG, **where)
            return self._clients[service]

    def _note_date(self, before: int, response: dict[str, Any]) -> None:
        """Narrow the bounds of the offset: AWS wrote the answer between two local readings, within the second of its ``Date``."""
        date = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date is None:
            return
        theirs = to_ms(parsedate_to_datetime(date), "Date")
        self.skews.append((before - theirs - SECOND, self.clock() - theirs))


@dataclass(kw_only=True)
class DoctorContext:
    """The installation that is checked."""

    settings: Settings
    probe: AwsProbe
    clock: Clock  # UTC ms
    packages: Sequence[str] = ()  # whose jobs should be importable
    sample: int = 50  # schedules to check
    chance: random.Random = field(default_factory=random.Random)
    tables: set[str] = field(default_factory=set)  # suffixes of those that are there and readable
    queues: dict[str, Mapping[str, str]] = field(default_factory=dict)  # attributes of those that are there, by suffix
    shards: int = 0  # of the agenda; 0: not known
    active: list[Head] = field(default_factory=list)  # the sampled schedules that are ACTIVE
    unread: list[Unreadable] = field(default_factory=list)  # why rows that the checks read cannot be read

    @cached_property
    def services(self) -> Services:
        """The services, connected as everywhere else."""
        return connect(self.settings)
