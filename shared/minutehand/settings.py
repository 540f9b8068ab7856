"""Settings: the one module that reads the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from minutehand.errors import Misconfigured

DEFAULT_PREFIX = "minutehand"
DEFAULT_TENANT = "default"
DEFAULT_REQUESTS = 8  # a ticker that waits 10 ms for each request is then bound by its processor
MOST_REQUESTS = 32
DEFAULT_TICKER_THREADS = 4  # a processor's worth, where half of the time is waiting
MOST_TICKER_THREADS = 32
DEFAULT_TICKER_GROUPS = 16  # a default agenda's shards, one each
MOST_TICKER_GROUPS = 128
DEFAULT_TICKER_WRITES = (
    2_000  # units a second: half of a new table's. The construct's; a process that is told nothing takes any
)
LEAST_TICKER_WRITES = 1_000  # units a second: for less no invocation would wait
DEFAULT_DEPTH = 50_000  # messages of a stripe: what is claimed already comes on top, and SQS gives out 120,000
DEFAULT_AGE = 600  # seconds
IN_FLIGHT = 120_000  # messages that SQS gives out of one queue at a time
MOST_AGE = 86_400  # seconds
DEFAULT_SHARDS = 16  # 1,000 fires a second with headroom: a shard key takes 450 chain steps a second

_ENDPOINTS = frozenset(
    {
        *("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS"),
        *("AWS_USE_DUALSTACK_ENDPOINT", "AWS_USE_FIPS_ENDPOINT"),
    }
)
_PROXIES_IN_SYSTEM = ("darwin", "win32")  # and not only in the environment
_HEEDED = frozenset(  # by botocore
    {
        *("AWS_CONFIG_FILE", "AWS_DEFAULT_PROFILE", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"),
        *("AWS_CREDENTIAL_EXPIRATION", "AWS_SECURITY_TOKEN"),
        *("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the tables, queues and bucket are, and how they are talked to. Every field has a ``MINUTEHAND_*`` variable."""

    prefix: str = DEFAULT_PREFIX  # MINUTEHAND_PREFIX: tables and queues are called `<prefix>-…`
    tenant: str = DEFAULT_TENANT  # MINUTEHAND_TENANT: whose schedules the SDK sees
    endpoint: str | None = None  # AWS_ENDPOINT_URL: a local cloud instead of AWS
    region: str | None = None  # AWS_REGION or AWS_DEFAULT_REGION; None leaves it to boto3
    claim_by: str = "partiql"  # MINUTEHAND_CLAIM_BY: `partiql`, or `put` for engines without PartiQL
    bucket: str | None = None  # MINUTEHAND_BUCKET: of large payloads; None refuses payloads over 64 KB
    jobs: str | None = None  # MINUTEHAND_JOBS: the package whose jobs a worker knows
    work_queue: str | None = (
        None  # MINUTEHAND_WORK_QUEUE: the declared queue that a worker serves; None: the default one
    )
    stripes: str | None = None  # MINUTEHAND_STRIPES: of queues with several SQS queues, as in `default=4,reports=2`
    logs: str | None = None  # MINUTEHAND_LOGS: the folder that processes here log to; None: CloudWatch Logs has them
    retention_days: int = 90  # MINUTEHAND_RETENTION_DAYS: how long an ended run stays in the ledger
    queue_depth: int = (
        DEFAULT_DEPTH  # MINUTEHAND_QUEUE_DEPTH: messages of a stripe past which its queue is held back; 0: never
    )
    queue_age: int = (
        DEFAULT_AGE  # MINUTEHAND_QUEUE_AGE: seconds that due runs may wait for a worker before their queue is held back
    )
    shards: int = DEFAULT_SHARDS  # MINUTEHAND_SHARDS: of a new agenda; it may only grow
    requests: int = DEFAULT_REQUESTS  # MINUTEHAND_REQUESTS: batches of one kind under way at once; 1: one by one
    ticker_threads: int = DEFAULT_TICKER_THREADS  # MINUTEHAND_TICKER_THREADS: shards that a ticker is at, at once
    ticker_groups: int = (
        DEFAULT_TICKER_GROUPS  # MINUTEHAND_TICKER_GROUPS: invocations that a tick is spread over at the most; 1: never
    )
    ticker_writes: int = (
        0  # MINUTEHAND_TICKER_WRITES: units a second that the claims of a tick take at the most; 0: any
    )

    def __post_init__(self) -> None:
        if self.claim_by not in ("partiql", "put"):
            raise Misconfigured(f"MINUTEHAND_CLAIM_BY={self.claim_by!r} is not known; use 'partiql' or 'put'")
        if self.retention_days < 1 or not 1 <= self.shards <= 1024:
            raise Misconfigured(
                f"MINUTEHAND_RETENTION_DAYS={self.retention_days} or MINUTEHAND_SHARDS={self.shards} is out of range; "
                "use at least 1 day and 1 to 1024 shards"
            )
        if not 1 <= self.requests <= MOST_REQUESTS:
            raise Misconfigured(f"MINUTEHAND_REQUESTS={self.requests} is out of range; use 1 to {MOST_REQUESTS}")
        if not (1 <= self.ticker_threads <= MOST_TICKER_THREADS and 1 <= self.ticker_groups <= MOST_TICKER_GROUPS):
            raise Misconfigured(
                f"MINUTEHAND_TICKER_THREADS={self.ticker_threads} or MINUTEHAND_TICKER_GROUPS={self.ticker_groups} is out of "
                f"range; use 1 to {MOST_TICKER_THREADS} threads and 1 to {MOST_TICKER_GROUPS} groups"
            )

        if self.ticker_writes and self.ticker_writes < LEAST_TICKER_WRITES:
            raise Misconfigured(
                f"MINUTEHAND_TICKER_WRITES={self.ticker_writes} is out of range; use at least {LEAST_TICKER_WRITES:,} units a "
                "second, or 0 for no bound"
            )
        if not 0 <= self.queue_depth <= IN_FLIGHT or not 1 <= self.queue_age <= MOST_AGE:
            raise Misconfigured(
                f"MINUTEHAND_QUEUE_DEPTH={self.queue_depth} or MINUTEHAND_QUEUE_AGE={self.queue_age} is out of range; "
                f"use 0 to {IN_FLIGHT} messages and 1 to {MOST_AGE} seconds"
            )

    def table(self, suffix: str) -> str:
        """The name of a table: ``schedules``, ``revisions``, ``agenda`` or ``runs``."""
        return f"{self.prefix}-{suffix}"

    def queue(self, suffix: str) -> str:
        """The name of an SQS queue: ``work``, ``work-<name>`` of a declared one, each with ``_<stripe>``, or ``dead``."""
        return f"{self.prefix}-{suffix}"


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from environment variables; what is not set keeps its default."""
    given = os.environ if environ is None else environ
    texts = {
        "prefix": given.get("MINUTEHAND_PREFIX"),
        "tenant": given.get("MINUTEHAND_TENANT"),
        "endpoint": given.get("AWS_ENDPOINT_URL"),
        "region": given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION"),
        "claim_by": given.get("MINUTEHAND_CLAIM_BY"),
        "bucket": given.get("MINUTEHAND_BUCKET"),
        "jobs": given.get("MINUTEHAND_JOBS"),
        "work_queue": given.get("MINUTEHAND_WORK_QUEUE"),
        "stripes": given.get("MINUTEHAND_STRIPES"),
        "logs": given.get("MINUTEHAND_LOGS"),
    }
    numbers = {name: _number(given, f"MINUTEHAND_{name.upper()}") for name in _NUMBERS}
    return Settings(**{k: v for k, v in {**texts, **numbers}.items() if v is not None})  # type: ignore[arg-type]


_NUMBERS = (
    "retention_days",
    "shards",
    "requests",
    "queue_depth",
    "queue_age",
    "ticker_threads",
    "ticker_groups",
    "ticker_writes",
)


def trace_header(environ: Mapping[str, str] | None = None) -> str | None:
    """The X-Ray trace that Lambda set for the present invocation."""
    return (os.environ if environ is None else environ).get("_X_AMZN_TRACE_ID")


def variable(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """A variable that somebody else's configuration names, such as the one that holds a secret."""
    return (os.environ if environ is None else environ).get(name)


def this_process() -> int:
    """Its number: another one in a fork."""
    return os.getpid()


@dataclass(frozen=True)
class Keys:
    """Credentials as the environment has them, and whom to show them to."""

    access_key: str
    secret_key: str
    token: str | None
    certificates: str | None  # AWS_CA_BUNDLE: a file or folder of those to trust; None: the usual ones


def plain_keys(*, own_endpoint: bool, environ: Mapping[str, str] | None = None) -> Keys | None:
    """Keys, where they are in the environment and nothing but region and endpoint has a say in how AWS is reached.

    None: there is a profile, a file, a proxy … that only botocore heeds. ``own_endpoint``: the endpoint is given.
    Raises Misconfigured, without showing them, for keys that no request can carry.
    """
    given = os.environ if environ is None else environ
    key, secret = given.get("AWS_ACCESS_KEY_ID"), given.get("AWS_SECRET_ACCESS_KEY")
    heeded = _HEEDED if own_endpoint else _HEEDED | _ENDPOINTS
    if not key or not secret or sys.platform in _PROXIES_IN_SYSTEM or any(given.get(name) for name in heeded):
        return None
    folder = Path(given.get("HOME") or "~").expanduser() / ".aws"
    if any((folder / name).exists() for name in ("config", "credentials")):
        return None
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        _check_plain(name, given.get(name, ""))
    certificates = given.get("AWS_CA_BUNDLE") or given.get("REQUESTS_CA_BUNDLE")
    return Keys(key, secret, given.get("AWS_SESSION_TOKEN") or None, certificates or None)


def _check_plain(variable: str, value: str) -> None:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise Misconfigured(f"{variable} has a space, a line break or another odd character in it; set it anew")


def _number(given: Mapping[str, str], variable: str) -> int | None:
    text = given.get(variable)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise Misconfigured(f"{variable}={text!r} is not a whole number; set it to one or leave it out") from None
