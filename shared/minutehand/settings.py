"""Settings: the one module that reads the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
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

CLIENTS = ("minutehand", "botocore")  # whose requests DynamoDB and SQS are sent
ACCOUNT_ENDPOINTS = ("preferred", "disabled", "required")
_SERVICE_ENDPOINT = "AWS_ENDPOINT_URL_"
_SERVICE_NAMES = {"cloudwatch_logs": "logs", "secrets_manager": "secretsmanager"}  # where the variable's differs
_SYSTEM_PROXIES = ("darwin", "win32")  # they keep proxies outside the environment as well
_PROXY_VARIABLES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy")
_PROFILE_VARIABLES = ("AWS_CONFIG_FILE", "AWS_DEFAULT_PROFILE", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the tables, queues and bucket are, and how they are talked to. Every field has a ``MINUTEHAND_*`` variable."""

    prefix: str = DEFAULT_PREFIX  # MINUTEHAND_PREFIX: tables and queues are called `<prefix>-…`
    tenant: str = DEFAULT_TENANT  # MINUTEHAND_TENANT: whose schedules the SDK sees
    endpoint: str | None = None  # AWS_ENDPOINT_URL: a local cloud instead of AWS
    endpoints: Mapping[str, str] | None = (
        None  # AWS_ENDPOINT_URL_DYNAMODB or AWS_ENDPOINT_URL_SQS: of that service, and so for each other; they go before `endpoint`
    )
    region: str | None = None  # AWS_REGION or AWS_DEFAULT_REGION; None leaves it to boto3
    aws_client: str = (
        CLIENTS[0]  # MINUTEHAND_AWS_CLIENT: `minutehand`, or `botocore`, which sends all requests itself and costs more
    )
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
        if self.aws_client not in CLIENTS:
            raise Misconfigured(
                f"MINUTEHAND_AWS_CLIENT={self.aws_client!r} is not known; use 'minutehand' or 'botocore'"
            )
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

    def at(self, endpoint: str | None) -> Settings:
        """These settings with another endpoint for all services, if one is given."""
        return replace(self, endpoint=endpoint, endpoints=None) if endpoint else self

    def endpoint_of(self, service: str) -> str | None:
        """The URL that was configured for a service; None leaves it to AWS's rules."""
        return (self.endpoints or {}).get(service, self.endpoint)

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
        "region": given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION"),
        "aws_client": given.get("MINUTEHAND_AWS_CLIENT"),
        "claim_by": given.get("MINUTEHAND_CLAIM_BY"),
        "bucket": given.get("MINUTEHAND_BUCKET"),
        "jobs": given.get("MINUTEHAND_JOBS"),
        "work_queue": given.get("MINUTEHAND_WORK_QUEUE"),
        "stripes": given.get("MINUTEHAND_STRIPES"),
        "logs": given.get("MINUTEHAND_LOGS"),
    }
    numbers = {name: _number(given, f"MINUTEHAND_{name.upper()}") for name in _NUMBERS}
    found = {**_configured_endpoints(given), **texts, **numbers}
    return Settings(**{k: v for k, v in found.items() if v is not None})  # type: ignore[arg-type]


def _configured_endpoints(given: Mapping[str, str]) -> dict[str, object]:
    """``endpoint`` and ``endpoints`` as the AWS SDKs read them."""
    if _is_true(given, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
        return {}
    of_services = {
        _SERVICE_NAMES.get(service := name.removeprefix(_SERVICE_ENDPOINT).lower(), service): url
        for name, url in given.items()
        if name.startswith(_SERVICE_ENDPOINT) and url
    }
    return {"endpoint": given.get("AWS_ENDPOINT_URL") or None, "endpoints": of_services or None}


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
    """Credentials as the environment has them."""

    access_key: str
    secret_key: str
    token: str | None


@dataclass(frozen=True, kw_only=True)
class SdkVariables:
    """The variables of the AWS SDKs that our own requests follow. Endpoints and region are in ``Settings``."""

    keys: Keys | None = None  # AWS_ACCESS_KEY_ID and its companions; None: botocore finds credentials
    account_id: str | None = None  # AWS_ACCOUNT_ID
    account_id_endpoints: str = ACCOUNT_ENDPOINTS[0]  # AWS_ACCOUNT_ID_ENDPOINT_MODE
    certificates: str | None = None  # AWS_CA_BUNDLE: a file or folder of those to trust; None: the usual ones
    max_attempts: int | None = None  # AWS_MAX_ATTEMPTS: of one request, in all
    retry_mode: str | None = None  # AWS_RETRY_MODE
    has_files: bool = False  # a profile or a configuration file may say more: botocore reads them
    has_variants: bool = False  # AWS_USE_FIPS_ENDPOINT, AWS_USE_DUALSTACK_ENDPOINT: botocore knows these endpoints
    has_proxies: bool = False  # HTTPS_PROXY and its companions, or a system that keeps proxies elsewhere


def sdk_variables(environ: Mapping[str, str] | None = None) -> SdkVariables:
    """The AWS SDKs' variables. Raises Misconfigured, without showing a key."""
    given = os.environ if environ is None else environ
    mode = (given.get("AWS_ACCOUNT_ID_ENDPOINT_MODE") or ACCOUNT_ENDPOINTS[0]).lower()
    if mode not in ACCOUNT_ENDPOINTS:
        raise Misconfigured(f"AWS_ACCOUNT_ID_ENDPOINT_MODE={mode!r} is not known; use one of {ACCOUNT_ENDPOINTS}")
    attempts = _number(given, "AWS_MAX_ATTEMPTS")
    if attempts is not None and attempts < 1:
        raise Misconfigured(f"AWS_MAX_ATTEMPTS={attempts} is out of range; use at least 1, or leave it out")
    folder = Path(given.get("HOME") or "~").expanduser() / ".aws"
    return SdkVariables(
        keys=_keys(given),
        account_id=given.get("AWS_ACCOUNT_ID") or None,
        account_id_endpoints=mode,
        certificates=given.get("AWS_CA_BUNDLE") or given.get("REQUESTS_CA_BUNDLE") or None,
        max_attempts=attempts,
        retry_mode=given.get("AWS_RETRY_MODE") or None,
        has_files=any(map(given.get, _PROFILE_VARIABLES))
        or any((folder / name).exists() for name in ("config", "credentials")),
        has_variants=_is_true(given, "AWS_USE_FIPS_ENDPOINT") or _is_true(given, "AWS_USE_DUALSTACK_ENDPOINT"),
        has_proxies=sys.platform in _SYSTEM_PROXIES or any(map(given.get, _PROXY_VARIABLES)),
    )


def _keys(given: Mapping[str, str]) -> Keys | None:
    """Keys that stay valid as long as the process: botocore takes these first too. Those that expire it reads again and again."""
    key, secret = given.get("AWS_ACCESS_KEY_ID"), given.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret or given.get("AWS_CREDENTIAL_EXPIRATION"):
        return None
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"):
        _check_plain(name, given.get(name, ""))
    return Keys(key, secret, given.get("AWS_SECURITY_TOKEN") or given.get("AWS_SESSION_TOKEN") or None)


def _is_true(given: Mapping[str, str], variable: str) -> bool:
    """As botocore reads it."""
    return given.get(variable, "").lower() == "true"


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
