"""Settings: the one module that reads the environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from quarterjack.errors import Misconfigured
from quarterjack.values import replace, value

DEFAULT_PREFIX = "quarterjack"
DEFAULT_TENANT = "default"
DEFAULT_REQUESTS = 8  # with these a ticker whose requests take 10 ms is bound by its processor
DEFAULT_TICKER_THREADS = 4  # enough to use one processor
DEFAULT_TICKER_GROUPS = 16  # one for each shard of a default agenda
MOST_TICKER_GROUPS = 128
DEFAULT_TICKER_WRITES = 2_000  # units a second, of the CDK construct: half of a new table's. A process has no limit
LEAST_TICKER_WRITES = 1_000  # units a second: the share of one invocation
DEFAULT_DEPTH = 50_000  # messages of an SQS queue, well below IN_FLIGHT: fires that are claimed already are still sent
DEFAULT_AGE = 600  # seconds
IN_FLIGHT = 120_000  # messages of one queue that SQS lets be in flight
MOST_AGE = 86_400  # seconds
DEFAULT_LOW_SHARE = 10  # percent
DEFAULT_LOW_AGE = 86_400  # seconds
MOST_LOW_AGE = 14 * MOST_AGE  # seconds: as long as SQS keeps a message
DEFAULT_SHARDS = 16  # 1,000 fires a second with headroom: a shard key takes 450 chain steps a second

CLIENTS = ("quarterjack", "botocore")  # what sends the requests to DynamoDB and SQS
_WORDS = {
    "aws_client": CLIENTS,
    "claim_by": ("partiql", "put"),
    "run_on": ("any", "assigned"),
}  # fields with a fixed set of values
_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}|arn:\S+")
LOG_GROUP = re.compile(r"[A-Za-z0-9_/.#-]{1,512}")
_BUCKETS = {"bucket": "the stack's output BucketName", "archive_bucket": "the stack's output ArchiveBucketName"}
_BOUNDS: Mapping[str, tuple[int, float, str]] = {  # of the other fields: least, most, unit
    "retention_days": (1, inf, "day"),
    "shards": (1, 1024, "shards"),
    "requests": (1, 32, "batches"),
    "ticker_threads": (1, 32, "threads"),
    "ticker_groups": (1, MOST_TICKER_GROUPS, "groups"),
    "ticker_writes": (LEAST_TICKER_WRITES, inf, "units a second"),
    "queue_depth": (0, IN_FLIGHT, "messages"),
    "queue_age": (1, MOST_AGE, "seconds"),
    "low_share": (1, 50, "percent"),
    "app_version_share": (0, 100, "percent"),
    "low_age": (1, MOST_LOW_AGE, "seconds"),
}
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
ACCOUNT_ENDPOINTS = ("preferred", "disabled", "required")
_SERVICE_ENDPOINT = "AWS_ENDPOINT_URL_"
# Where the variable has another name.
_SERVICE_NAMES = {"cloudwatch_logs": "logs", "dynamodb_streams": "dynamodbstreams", "secrets_manager": "secretsmanager"}
_PROXY_VARIABLES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy")
_PROFILE_VARIABLES = ("AWS_CONFIG_FILE", "AWS_DEFAULT_PROFILE", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Names and endpoints of tables, queues and bucket, and limits of the processes. Most fields have a ``QUARTERJACK_*`` variable."""

    prefix: str = DEFAULT_PREFIX  # QUARTERJACK_PREFIX: the names of tables and queues are `<prefix>-…`
    tables: str | None = (
        None  # QUARTERJACK_TABLES: the names of the tables are `<tables>-…`, after a restore; None: the prefix
    )
    tenant: str = DEFAULT_TENANT  # QUARTERJACK_TENANT: the tenant of the SDK's calls
    actor: str | None = None  # QUARTERJACK_ACTOR: actor recorded in the audit log; None: the IAM identity alone
    endpoint: str | None = None  # AWS_ENDPOINT_URL: a local cloud instead of AWS
    endpoints: Mapping[str, str] | None = None  # AWS_ENDPOINT_URL_DYNAMODB, …_SQS and so on: override `endpoint`
    region: str | None = None  # AWS_REGION or AWS_DEFAULT_REGION; None leaves it to boto3
    aws_client: str = CLIENTS[0]  # QUARTERJACK_AWS_CLIENT: `quarterjack`, or `botocore` (plain botocore, slower)
    claim_by: str = "partiql"  # QUARTERJACK_CLAIM_BY: `partiql`, or `put` for engines without PartiQL
    bucket: str | None = None  # QUARTERJACK_BUCKET: of large payloads; None refuses payloads over 64 KB
    archive_bucket: str | None = None  # QUARTERJACK_ARCHIVE_BUCKET: of the archive, if it has one of its own
    events: str | None = None  # QUARTERJACK_EVENTS: target of events: `eventbridge:BUS`, `sns:ARN`, `webhook:URL`
    event_types: str | None = None  # QUARTERJACK_EVENT_TYPES: of these types only, as in `run.dead,run.lost`; None: all
    event_secret: str | None = None  # QUARTERJACK_EVENT_SECRET: a webhook's secret: `secret:NAME`, `parameter:NAME`
    event_networks: str | None = None  # QUARTERJACK_EVENT_NETWORKS: private addresses of webhooks: `10.0.0.0/8`
    jobs: str | None = None  # QUARTERJACK_JOBS: the package whose jobs a worker runs
    app_version: str | None = None  # QUARTERJACK_APP_VERSION: of a worker's jobs; None: of their package, or a digest
    app_version_share: int = 100  # QUARTERJACK_APP_VERSION_SHARE: percent of the runs that a new version gets at first
    run_on: str = "any"  # QUARTERJACK_RUN_ON: `assigned`: runs start on workers of their application version alone
    apply_declarations: bool = False  # QUARTERJACK_APPLY_DECLARATIONS: `on`: a worker that starts applies its @schedule
    work_queue: str | None = None  # QUARTERJACK_WORK_QUEUE: the declared queue that a worker serves; None: the default
    stripes: str | None = None  # QUARTERJACK_STRIPES: of queues with several SQS queues, as in `default=4,reports=2`
    priorities: str | None = None  # QUARTERJACK_PRIORITIES: queues with lanes for high and low runs: `default,reports`
    low_share: int = DEFAULT_LOW_SHARE  # QUARTERJACK_LOW_SHARE: percent of a worker process's slots that low runs keep
    low_age: int = DEFAULT_LOW_AGE  # QUARTERJACK_LOW_AGE: seconds after which a low run that waits counts as normal
    logs: str | None = None  # QUARTERJACK_LOGS: the folder of local processes' logs; None: they are in CloudWatch Logs
    log_groups: str | None = None  # QUARTERJACK_LOG_GROUPS: log groups of worker processes, as in `/ecs/a,/ecs/b`
    metric_jobs: str | None = None  # QUARTERJACK_METRIC_JOBS: jobs with metrics of their own in CloudWatch, as in `a,b`
    metric_tenants: str | None = None  # QUARTERJACK_METRIC_TENANTS: tenants with metrics of their own, likewise
    history: bool = True  # QUARTERJACK_HISTORY: `on`, or `off`: no stream of the runs, no historian, nothing to search
    retention_days: int = 90  # QUARTERJACK_RETENTION_DAYS: how long ended runs and deleted schedules are stored
    queue_depth: int = DEFAULT_DEPTH  # QUARTERJACK_QUEUE_DEPTH: messages of an SQS queue that hold it back; 0: never
    queue_age: int = DEFAULT_AGE  # QUARTERJACK_QUEUE_AGE: seconds that a due run waits before its queue is held back
    shards: int = DEFAULT_SHARDS  # QUARTERJACK_SHARDS: of a new agenda; the number may only grow
    requests: int = DEFAULT_REQUESTS  # QUARTERJACK_REQUESTS: batches of one kind at the same time; 1: one by one
    ticker_threads: int = DEFAULT_TICKER_THREADS  # QUARTERJACK_TICKER_THREADS: shards that a ticker works on at once
    ticker_groups: int = DEFAULT_TICKER_GROUPS  # QUARTERJACK_TICKER_GROUPS: most invocations of one tick; 1: no fan-out
    ticker_writes: int = 0  # QUARTERJACK_TICKER_WRITES: most units a second of a tick's claims; 0: no limit

    @property
    def is_local(self) -> bool:
        """Whether they are those of a cloud on this machine, as in all processes of ``quarterjack local``."""
        return self.endpoint is not None and urlsplit(self.endpoint).hostname in _LOOPBACK

    def __post_init__(self) -> None:
        for name, known in _WORDS.items():
            if getattr(self, name) not in known:
                words = " or ".join(map(repr, known))
                raise Misconfigured(f"{_variable_of(name)}={getattr(self, name)!r} is not known; use {words}")
        for name in ("history", "apply_declarations"):
            if not isinstance(getattr(self, name), bool):
                raise Misconfigured(f"{_variable_of(name)}={getattr(self, name)!r} is not known; use True or False")
        for name, remedy in _BUCKETS.items():
            value = getattr(self, name)
            if value is not None and not _BUCKET.fullmatch(value):
                problem = f"{_variable_of(name)}={value!r} is not the name of a bucket"
                raise Misconfigured(f"{problem}; use {remedy}, or leave the variable unset")
        _check_log_groups(self.log_groups)
        for name, (least, most, unit) in _BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most and (name, value) != ("ticker_writes", 0):
                limits = f"at least {least:,}" if most == inf else f"{least:,} to {most:,}"
                remedy = f"use {limits} {unit}" + (", or 0 for no bound" if name == "ticker_writes" else "")
                raise Misconfigured(f"{_variable_of(name)}={value} is out of range; {remedy}")

    def at(self, endpoint: str | None) -> Settings:
        """These settings with another endpoint for all services, if one is given."""
        return replace(self, endpoint=endpoint, endpoints=None) if endpoint else self

    def endpoint_of(self, service: str) -> str | None:
        """The URL that was configured for a service; None leaves it to AWS's rules."""
        return (self.endpoints or {}).get(service, self.endpoint)

    @property
    def tables_prefix(self) -> str:
        """How the names of the tables begin, before the hyphen."""
        return self.tables or self.prefix

    def table(self, suffix: str) -> str:
        """The name of a table: ``schedules``, ``revisions``, ``agenda`` or ``runs``."""
        return f"{self.tables_prefix}-{suffix}"

    def queue(self, suffix: str) -> str:
        """The name of an SQS queue: ``work``, ``work-<name>`` of a declared one, each with ``_<stripe>``, or ``dead``."""
        return f"{self.prefix}-{suffix}"


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from environment variables; a field whose variable is not set has its default."""
    given = os.environ if environ is None else environ
    found: dict[str, object] = {"region": given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION")}
    if not _is_true(given, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):  # as the AWS SDKs do
        of_services = {
            _SERVICE_NAMES.get(service := name.removeprefix(_SERVICE_ENDPOINT).lower(), service): url
            for name, url in given.items()
            if name.startswith(_SERVICE_ENDPOINT) and url
        }
        found |= {"endpoint": given.get("AWS_ENDPOINT_URL") or None, "endpoints": of_services or None}
    for field in fields(Settings):
        if field.name not in ("endpoint", "endpoints", "region"):
            found[field.name] = _read(given, _variable_of(field.name), type(field.default))
    return Settings(**{k: v for k, v in found.items() if v is not None})  # type: ignore[arg-type]


def _check_log_groups(names: str | None) -> None:
    for group in () if names is None else names.split(","):
        if not LOG_GROUP.fullmatch(group):
            problem = f"{_variable_of('log_groups')}={names!r}: {group!r} is not the name of a log group"
            raise Misconfigured(f"{problem}; write names and commas, without spaces, as in /ecs/a,/ecs/b")


def _variable_of(field: str) -> str:
    return f"QUARTERJACK_{field.upper()}"


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of what this user's processes tell each other, by the XDG Base Directory Specification."""
    given = os.environ if environ is None else environ
    named = Path(given.get("XDG_STATE_HOME") or "")  # the specification: one that is not absolute is ignored
    return (named if named.is_absolute() else Path.home() / ".local" / "state") / "quarterjack"


def names_profile(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the user has named a profile of the AWS SDKs."""
    given = os.environ if environ is None else environ
    return bool(given.get("AWS_PROFILE") or given.get("AWS_DEFAULT_PROFILE"))


_OF_THE_USER = ("actor", "jobs")  # fields that say who uses an installation, and with which code


def without_installation(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without the variables that say where an installation is and how it is set up."""
    given = os.environ if environ is None else environ
    settings = {_variable_of(field.name) for field in fields(Settings) if field.name not in _OF_THE_USER}
    return {
        name: value
        for name, value in given.items()
        if name not in settings and (not name.startswith("AWS_") or name == "AWS_CA_BUNDLE")
    }


def trace_header(environ: Mapping[str, str] | None = None) -> str | None:
    """The X-Ray trace that Lambda set for the present invocation."""
    return (os.environ if environ is None else environ).get("_X_AMZN_TRACE_ID")


def variable(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """A variable that a job's configuration names, such as the one of a secret."""
    return (os.environ if environ is None else environ).get(name)


class Keys(NamedTuple):
    access_key: str
    secret_key: str
    token: str | None


@value(kw_only=True)
class SdkVariables:
    """The variables of the AWS SDKs that our own requests follow. Endpoints and region are in ``Settings``."""

    keys: Keys | None = None  # AWS_ACCESS_KEY_ID and its companions; None: botocore finds credentials
    account_id: str | None = None  # AWS_ACCOUNT_ID
    account_id_endpoints: str = ACCOUNT_ENDPOINTS[0]  # AWS_ACCOUNT_ID_ENDPOINT_MODE
    certificates: str | None = None  # AWS_CA_BUNDLE: file or folder of trusted certificates; None: the default ones
    max_attempts: int | None = None  # AWS_MAX_ATTEMPTS: of one request, in all
    retry_mode: str | None = None  # AWS_RETRY_MODE
    has_files: bool = False  # there is a profile or a configuration file: botocore reads it
    has_variants: bool = False  # AWS_USE_FIPS_ENDPOINT, AWS_USE_DUALSTACK_ENDPOINT: botocore knows these endpoints
    has_proxies: bool = False  # HTTPS_PROXY and its companions, or a system with proxies elsewhere


def sdk_variables(environ: Mapping[str, str] | None = None) -> SdkVariables:
    """The AWS SDKs' variables. Raises Misconfigured, without showing a key."""
    given = os.environ if environ is None else environ
    mode = (given.get("AWS_ACCOUNT_ID_ENDPOINT_MODE") or ACCOUNT_ENDPOINTS[0]).lower()
    if mode not in ACCOUNT_ENDPOINTS:
        raise Misconfigured(f"AWS_ACCOUNT_ID_ENDPOINT_MODE={mode!r} is not known; use one of {ACCOUNT_ENDPOINTS}")
    attempts = _read(given, "AWS_MAX_ATTEMPTS", int)
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
        has_proxies=sys.platform in ("darwin", "win32") or any(map(given.get, _PROXY_VARIABLES)),
    )


def _keys(given: Mapping[str, str]) -> Keys | None:
    """Keys that do not expire. botocore prefers them too. It reads keys that expire, again and again, so they are left to it."""
    key, secret = given.get("AWS_ACCESS_KEY_ID"), given.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret or given.get("AWS_CREDENTIAL_EXPIRATION"):
        return None
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"):
        value = given.get(name, "")
        if not value.isascii() or not value.isprintable() or " " in value:
            raise Misconfigured(f"{name} has a space, a line break or another odd character in it; set it anew")
    return Keys(key, secret, given.get("AWS_SECURITY_TOKEN") or given.get("AWS_SESSION_TOKEN") or None)


def _is_true(given: Mapping[str, str], variable: str) -> bool:
    return given.get(variable, "").lower() == "true"


SWITCH = {"on": True, "off": False}


def _read(given: Mapping[str, str], variable: str, kind: type) -> Any:
    """The value of a variable, a text unless ``kind`` is bool or int; None if it is not set. Raises Misconfigured."""
    if (text := given.get(variable)) is None or kind not in (bool, int):
        return text
    if kind is bool:
        if text not in SWITCH:
            raise Misconfigured(f"{variable}={text!r} is not known; use {' or '.join(map(repr, SWITCH))}")
        return SWITCH[text]
    try:
        return int(text)
    except ValueError:
        raise Misconfigured(f"{variable}={text!r} is not a whole number; set it to one or leave it out") from None
