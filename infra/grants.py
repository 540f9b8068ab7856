"""What roles outside the installation may do: read, schedule, work. Each has the actions that its calls of the SDK make, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from constructs import Construct
from quarterjack.domain.audit import ANCHORS
from quarterjack.domain.history.archive_objects import tenant_prefix
from quarterjack.domain.job_catalogue import OWNER as CATALOGUE
from quarterjack.domain.names import check_tenant
from quarterjack.domain.tenants.certificate import CERTIFICATES
from quarterjack.domain.tenants.profile import SHARED
from quarterjack.stores.agenda import CONFIG
from quarterjack.stores.tenants.app_versions import OWNER as APP_VERSIONS

from .storage.queues import InstallationQueues
from .storage.store import ARCHIVED, BATCH, DELETE, INBOX, PAYLOADS, READ, RESULTS, SCAN, InstallationStore

_PUT_AND_UPDATE = ("dynamodb:PutItem", "dynamodb:UpdateItem")
_STATEMENTS = ("dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate")
# Which queues are held back, which jobs and application versions there are: nothing of any tenant.
_SHARED = ("~quarterjack/~queues", CATALOGUE, APP_VERSIONS)
_GET = ("dynamodb:GetItem", "dynamodb:Query")


@dataclass(frozen=True)
class TenantKeys:
    """The partition keys of one tenant in the tables that have its name in them; of all tenants if it is None."""

    tenant: str | None

    def __post_init__(self) -> None:
        if self.tenant is not None:
            check_tenant(self.tenant)

    @property
    def schedules(self) -> Sequence[str]:
        return () if self.tenant is None else (self.tenant,)

    @property
    def owners(self) -> Sequence[str]:
        """Of revisions, runs and records."""
        return () if self.tenant is None else (f"{self.tenant}/*",)

    @property
    def dead(self) -> Sequence[str]:
        """Of the index of dead runs; no tenant or schedule has `#` in its name."""
        return (f"{self.tenant or '*'}#dead#*",)

    @property
    def history(self) -> Sequence[str]:
        """Of the history's books."""
        return () if self.tenant is None else (f"{self.tenant}#*",)

    @property
    def ledger(self) -> Sequence[str]:
        return () if self.tenant is None else (*self.owners, *self.dead)

    @property
    def archive(self) -> str:
        """The objects of the archive."""
        return ARCHIVED if self.tenant is None else f"{tenant_prefix(self.tenant)}*"

    @property
    def profiles(self) -> Sequence[str]:
        """Its own, those of tiers, and the installation's, whose defaults and grants hold for every tenant."""
        return () if self.tenant is None else (self.tenant, f"{SHARED}*")

    @property
    def audit(self) -> Sequence[str]:
        return () if self.tenant is None else (f"{self.tenant}#*",)

    def objects(self, keys: str) -> str:
        """The objects under ``keys`` (a prefix and ``*``)."""
        return keys if self.tenant is None else f"{keys.removesuffix('*')}{self.tenant}/*"


def allow_reading(
    grantee: iam.IGrantable, store: InstallationStore, queues: InstallationQueues, tenant: str | None
) -> None:
    """Allow the calls of the SDK that change nothing."""
    keys = TenantKeys(tenant)
    store.allow(grantee, "schedules", _GET, keys=keys.schedules)
    store.allow(grantee, "revisions", READ, keys=keys.owners)
    store.allow(grantee, "history", READ, keys=keys.history)
    store.allow(grantee, "runs", READ, keys=keys.ledger and (*keys.ledger, *_SHARED))
    store.allow(grantee, "audit", ("dynamodb:Query",), keys=keys.audit)
    store.allow(grantee, "tenants", ("dynamodb:BatchGetItem",), keys=keys.profiles)
    store.allow(grantee, "agenda", _GET)  # whether a chain is waiting: its shards hold the entries of all tenants
    for objects in (PAYLOADS, RESULTS):
        store.allow_objects(grantee, "s3:GetObject", keys.objects(objects))
    store.allow_archive_reads(grantee, keys.archive)
    store.allow_verifying(grantee, keys.objects(f"{ANCHORS}*"))
    store.allow_key(grantee, encrypt=False)
    if tenant is None:  # a log group has the lines of all tenants' runs
        store.allow_run_logs(grantee)
    queues.allow_list(grantee)


def allow_scheduling(
    grantee: iam.IGrantable, store: InstallationStore, queues: InstallationQueues, tenant: str | None, *, prompt: bool
) -> None:
    """Allow all calls of the SDK."""
    keys = TenantKeys(tenant)
    allow_reading(grantee, store, queues, tenant)
    store.allow(grantee, "schedules", _PUT_AND_UPDATE, keys=keys.schedules)
    store.allow(grantee, "revisions", _PUT_AND_UPDATE, keys=keys.owners)
    store.allow(grantee, "runs", _PUT_AND_UPDATE, _STATEMENTS, keys=keys.ledger)
    store.allow(grantee, "runs", DELETE, keys=keys.dead)  # a purge; nobody deletes from the ledger
    store.allow(grantee, "agenda", ("dynamodb:PutItem", *DELETE), BATCH)
    store.allow_audit_entries(grantee, tenant)
    store.allow_objects(grantee, "s3:PutObject", keys.objects(PAYLOADS))
    store.allow_sizes(grantee, keys.objects(PAYLOADS), keys.objects(RESULTS))  # which the limit of kept bytes counts
    store.allow_key(grantee)
    if prompt:
        queues.allow_send(grantee)


def _allow_profiles(grantee: iam.IGrantable, store: InstallationStore, tenant: str | None = None) -> None:
    """Allow the read of profiles, which brings the application versions along."""
    store.allow(grantee, "tenants", ("dynamodb:BatchGetItem",), keys=TenantKeys(tenant).profiles)
    store.allow(grantee, "runs", ("dynamodb:BatchGetItem",), keys=(APP_VERSIONS,))


def allow_governing(grantee: iam.IGrantable, store: InstallationStore) -> None:
    """Allow the calls of ``Tenants`` about profiles and API keys, of all tenants and of the installation, each change with its line."""
    _allow_profiles(grantee, store)
    store.allow(grantee, "tenants", ("dynamodb:Query", "dynamodb:PutItem", *DELETE), SCAN)
    store.allow(
        grantee, "agenda", ("dynamodb:GetItem", "dynamodb:PutItem"), keys=(CONFIG["shard"],)
    )  # weights, own shards
    store.allow_audit_entries(grantee)
    store.allow_key(grantee)


def allow_setting_secrets(grantee: iam.IGrantable, store: InstallationStore, tenant: str | None) -> None:
    """Allow the calls of ``Tenants`` about secrets, which the tenant's grants may refuse, each change with its line."""
    store.allow_secrets(grantee, "ssm:PutParameter", "ssm:DeleteParameter", "ssm:GetParametersByPath", tenant=tenant)
    _allow_profiles(grantee, store, tenant)
    store.allow_audit_entries(grantee, tenant)
    store.allow_key(grantee)


def allow_erasing(grantee: iam.IGrantable, store: InstallationStore) -> None:
    """Allow the erasure of tenants. No other role may delete from the ledger, change a line of the audit or remove versions of objects."""
    store.allow(grantee, "tenants", ("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"), SCAN, BATCH)
    store.allow_audit_entries(grantee)
    store.allow_key(grantee)
    for suffix in ("agenda", "revisions", "schedules", "history"):
        store.allow(grantee, suffix, SCAN, BATCH)
    store.allow(
        grantee, "runs", ("dynamodb:BatchGetItem",), SCAN, BATCH, _PUT_AND_UPDATE
    )  # asks workers to end runs, rewrites shared records
    store.allow(grantee, "audit", SCAN, BATCH)
    store.allow_erasing(grantee, (PAYLOADS, RESULTS, INBOX), ARCHIVED)
    store.allow_secrets(grantee, "ssm:GetParametersByPath", "ssm:DeleteParameter")
    store.allow_objects(grantee, "s3:PutObject", INBOX)
    store.allow_objects(grantee, "s3:PutObject", f"{CERTIFICATES}*", bucket=store.archive_bucket)


class GrantingConstruct(Construct):
    """A construct whose installation roles outside of it may be allowed to use."""

    _store: InstallationStore
    _queues: InstallationQueues

    def grant_reading(self, grantee: iam.IGrantable, *, tenant: str | None = None) -> None:
        """Let ``grantee`` call what changes nothing in the SDK: schedules, runs, failures, previews; of one tenant or of all.

        The agenda has no partitions of a tenant: ``describe_schedule`` reads its entries, which name schedules of all tenants.
        Log lines are for who may read all tenants: a log group has those of all.
        """
        allow_reading(grantee, self._store, self._queues, tenant)

    def grant_scheduling(self, grantee: iam.IGrantable, *, prompt: bool = True, tenant: str | None = None) -> None:
        """Let ``grantee`` do all that the SDK does: create, change and delete schedules, submit, read the ledger.

        Without ``prompt`` it may not send to the work queues: what it submits for now then starts within two minutes, as the ticker
        sends it. With ``tenant`` it reads and writes this tenant's schedules, runs and payloads. IAM cannot tell tenants apart in
        agenda and queues: there it can delay runs of others, or have them looked at.
        """
        allow_scheduling(grantee, self._store, self._queues, tenant, prompt=prompt)

    def grant_governing(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` do all that ``Tenants`` does: create, change, suspend and resume tenants, give and take grants."""
        allow_governing(grantee, self._store)

    def grant_erasing(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` do what ``grant_governing`` gives, and erase tenants: nobody else can delete from the ledger or the archive.

        Give it to a role that people assume for this alone. What it removes is gone.
        """
        allow_erasing(grantee, self._store)

    def grant_secrets(self, grantee: iam.IGrantable, *, tenant: str | None = None) -> None:
        """Let ``grantee`` list, set and delete secrets, of one tenant or of all. Their values it gets encrypted only."""
        allow_setting_secrets(grantee, self._store, tenant)
