"""The settings that all parts of one installation share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from quarterjack.domain.names import check_flag, check_name, check_tenant, check_whole
from quarterjack.domain.queue import LOW_SHARE, MOST_LOW_SHARE, MOST_STRIPES
from quarterjack.domain.tenants.agenda_layout import MOST_SHARDS
from quarterjack.errors import InvalidInput
from quarterjack.settings import DEFAULT_LOW_AGE, DEFAULT_PREFIX, DEFAULT_SHARDS, LOG_GROUP, MOST_LOW_AGE
from quarterjack.sqs.routing import WORK

from .acknowledge import acknowledge_for
from .figures import Figure, Source
from .packaging.dependencies import AWS, BundleTarget

LOW_AGE = Duration.seconds(DEFAULT_LOW_AGE)
ARCHIVE_RETENTION = Duration.days(400)  # a year, and time for an audit of it
_LOGGING = ("worker", "worker-*", "undertaker", "ticker", "auditor")  # functions that log about runs
_PREFIX = re.compile(r"[a-z][a-z0-9-]{0,39}")  # of tables, queues and functions; the shortest limit is a function's 64


@dataclass(frozen=True, kw_only=True)
class InstallationSettings:
    """Settings shared by tables, queues and functions. Two installations in one account differ in ``prefix``."""

    prefix: str = DEFAULT_PREFIX  # tables, queues and functions are called `<prefix>-…`
    tables: str | None = None  # tables are called `<tables>-…` after a restore; None: as the rest
    shards: int = DEFAULT_SHARDS  # of a new agenda; it may only grow
    retention: Duration  # of ended runs in the ledger; whole days
    log_retention: logs.RetentionDays
    removal_policy: RemovalPolicy  # of tables, bucket and logs
    deletion_protection: bool  # of tables
    archive_retention: Duration | None = ARCHIVE_RETENTION  # of the archive's objects; None: for ever
    archive_lock: s3.ObjectLockRetention | None = (
        None  # of the archive's objects, in a bucket of its own; None: no lock
    )
    encryption_key: kms.IKey | None = None  # None: the keys that AWS owns
    stripes: int = 1  # SQS queues that the default queue consists of
    priorities: bool = False  # whether it has lanes for high and low runs, with as many SQS queues each
    low_share: int = LOW_SHARE  # percent of the workers of each queue with lanes that low runs keep
    low_age: Duration = LOW_AGE  # after which a low run that waits counts as normal
    history: bool = True  # a stream of the runs, and a historian
    metric_jobs: Sequence[str] = ()  # jobs with metrics of their own
    metric_tenants: Sequence[str] = ()  # tenants with metrics of their own
    log_groups: Sequence[str] = ()  # to which worker processes send their log lines
    target: BundleTarget = AWS  # the platform of the bundles

    @property
    def named_tables(self) -> dict[str, str]:
        """The variable that names the tables, if they were restored under other names."""
        return {} if self.tables is None else {"QUARTERJACK_TABLES": self.tables}

    @property
    def metered(self) -> dict[str, str]:
        """The variables that name the jobs and tenants with metrics of their own."""
        said = {"QUARTERJACK_METRIC_JOBS": self.metric_jobs, "QUARTERJACK_METRIC_TENANTS": self.metric_tenants}
        return {name: ",".join(names) for name, names in said.items() if names}

    def __post_init__(self) -> None:
        self._check_names()
        if not 1 <= self.shards <= MOST_SHARDS:
            raise InvalidInput("shards", self.shards, "is out of range", f"use 1 to {MOST_SHARDS}")
        if not 1 <= self.stripes <= MOST_STRIPES:
            raise InvalidInput("stripes", self.stripes, "is out of range", f"use 1 to {MOST_STRIPES}")
        check_flag("priorities", self.priorities)
        check_whole("low_share", self.low_share, 1, MOST_LOW_SHARE)
        check_whole("low_age", int(self.low_age.to_seconds()), 1, MOST_LOW_AGE)
        check_flag("history", self.history)
        for job in self.metric_jobs:
            check_name(job, "metric_jobs")
        for tenant in self.metric_tenants:
            check_tenant(tenant, "metric_tenants")
        for group in self.log_groups:
            if isinstance(self.log_groups, str) or not LOG_GROUP.fullmatch(group):
                remedy = "give a list of names, such as ['/ecs/acme-worker']"
                raise InvalidInput("log_groups", self.log_groups, "has what is not a name of a log group", remedy)
        if self.retention_days < 1:
            raise InvalidInput("retention", self.retention_days, "is under a day", "use Duration.days(1) or more")
        self._check_archive()

    def _check_names(self) -> None:
        for field, name in (("prefix", self.prefix), ("tables", self.tables or self.prefix)):
            if not _PREFIX.fullmatch(name):
                raise InvalidInput(field, name, "is not a name", "use 1 to 40 of a-z, 0-9 and -, a letter first")
        if f"-{WORK.suffix}-" in f"{self.prefix}-":
            raise InvalidInput(
                "prefix",
                self.prefix,
                f"its queues could be mistaken for another installation's {WORK.suffix} queues",
                "leave that word out",
            )

    def _check_archive(self) -> None:
        kept = None if self.archive_retention is None else self.archive_retention.to_days()
        if kept is not None and kept < 1:
            raise InvalidInput("archive_retention", kept, "is under a day", "use Duration.days(1) or more, or None")
        locked = 0 if self.archive_lock is None else self.archive_lock.duration.to_days()
        if kept is not None and locked > kept:
            remedy = f"use Duration.days({locked:.0f}) or more, or None to keep the archive for ever"
            raise InvalidInput("archive_retention", kept, "is shorter than archive_lock", remedy)

    @property
    def retention_days(self) -> int:
        return int(self.retention.to_days())

    def allow_logs_to_use_key(self) -> None:
        """Let CloudWatch Logs use the customer's key for the functions' log groups. No effect on a key that this app does not create."""
        if self.encryption_key is None:
            return
        groups = f"arn:{Aws.PARTITION}:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}:log-group:/aws/lambda/{self.name('*')}"
        self.encryption_key.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal(f"logs.{Aws.REGION}.amazonaws.com")],
                actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
                resources=["*"],
                conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
            )
        )

    def allow_log_reads(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` search what the functions log about runs, of all tenants, and the ``log_groups``."""
        groups = [f"/aws/lambda/{self.name(part)}" for part in _LOGGING] + list(self.log_groups)
        place = f"arn:{Aws.PARTITION}:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}:log-group:"
        arns = [f"{place}{group}:*" for group in groups]
        iam.Grant.add_to_principal(grantee=grantee, actions=["logs:FilterLogEvents"], resource_arns=arns)
        as_named = "arn:<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>:log-group:"
        for group in groups:
            why = "the streams of a log group are not known at deployment, and queues may be declared later"
            acknowledge_for(grantee, f"AwsSolutions-IAM5[Resource::{as_named}{group}:*]", why)

    def table(self, suffix: str) -> str:
        """The name of a table."""
        return f"{self.tables or self.prefix}-{suffix}"

    def measured(self, figure: Figure) -> str:
        """The name of what a figure is about."""
        return (self.table if figure.source is Source.TABLE else self.name)(figure.part)

    def name(self, suffix: str) -> str:
        return f"{self.prefix}-{suffix}"
