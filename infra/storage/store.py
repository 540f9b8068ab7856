"""The tables, from the package's own definitions, and the bucket of large payloads and results."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Aws, Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct
from quarterjack.domain.audit import ANCHORS
from quarterjack.domain.history import archive_objects
from quarterjack.domain.names import all_secrets, secrets_of
from quarterjack.stores.tables import TABLES, TableDefinition
from quarterjack.stores.tenants.erasures import GONE

from ..acknowledge import acknowledge, acknowledge_for, arn_of
from ..installation import InstallationSettings

PAYLOADS = "payloads/*"  # keys of payloads that are too large for a row
# Of these, the keys of a run's or a schedule's own: the auditor removes them when nothing names them any more. A rule of the bucket
# could not: it knows an object's age, and a run may be due in a hundred years.
OWN_PAYLOADS = ("payloads/*/runs/*", "payloads/*/schedules/*")
ARCHIVED = f"{archive_objects.tenant_prefix('*')}*"  # keys of the archive's objects
INBOX = (
    f"{archive_objects.INBOX}*"  # of those in its inbox, which is in the bucket even if the archive has one of its own
)
RESULTS = "results/*"  # keys of results and checkpoints
# Days that a result is kept beyond the retention, which counts from the run's end: the result may be older.
MARGIN = 14
UPLOAD_LEFTOVERS = Duration.days(7)  # after which parts of unfinished uploads are deleted
RESTORABLE = Duration.days(
    35
)  # that a table can be restored to: so long its rows find the payloads that were removed since

_LEADING = "dynamodb:LeadingKeys"

READ = ("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query")
WRITE = ("dynamodb:ConditionCheckItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
BATCH = ("dynamodb:BatchWriteItem",)  # puts and deletes, without conditions: for the agenda only
DELETE = ("dynamodb:DeleteItem",)
SCAN = ("dynamodb:Scan",)
PARTIQL = ("dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate")


class InstallationStore(Construct):
    """Tables and bucket, and permissions on them."""

    def __init__(self, scope: Construct, name: str, *, installation: InstallationSettings) -> None:
        super().__init__(scope, name)
        self._installation = installation
        self.tables = {table.suffix: self._table(table) for table in TABLES}
        self.bucket = self._bucket("Bucket", self._rules())
        self.archive_bucket = self.bucket if installation.archive_lock is None else self._locked_bucket()
        self._keep_anchors()

    def allow(self, grantee: iam.IGrantable, suffix: str, *actions: tuple[str, ...], keys: Sequence[str] = ()) -> None:
        """Let ``grantee`` do ``actions`` (groups of them, see above) to one table; with ``keys`` in partitions like these only."""
        conditions: dict[str, dict[str, str | list[str]]] = {}
        if keys:  # a request that names no partition has no leading key, and "for all values" would hold for it
            conditions["ForAllValues:StringLike"] = {_LEADING: list(keys)}
            conditions["Null"] = {_LEADING: "false"}
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=[action for group in actions for action in group],
            resource_arns=[self.tables[suffix].table_arn],
            conditions=conditions or None,
        )

    @property
    def archive_environment(self) -> dict[str, str]:
        """Of a function that writes or reads the archive."""
        return {"QUARTERJACK_ARCHIVE_BUCKET": self.archive_bucket.bucket_name}

    def allow_archiving(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee``, the historian, write the archive and its inbox."""
        self.allow_objects(grantee, "s3:PutObject", ARCHIVED, bucket=self.archive_bucket)
        self.allow_objects(grantee, "s3:PutObject", INBOX)

    def allow_compacting(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee``, the auditor, move the inbox into the archive."""
        self.allow_objects(grantee, "s3:PutObject", ARCHIVED, bucket=self.archive_bucket)
        self.allow_objects(grantee, "s3:GetObject", INBOX)
        self.allow_removal(grantee, INBOX)

    def allow_archive_reads(self, grantee: iam.IGrantable, keys: str = ARCHIVED) -> None:
        """Let ``grantee`` list and read the objects of the archive under ``keys``; those of the inbox are of all tenants."""
        self._allow_found(grantee, keys, self.archive_bucket)
        if keys == ARCHIVED:
            self._allow_found(grantee, INBOX, self.bucket)

    def _allow_found(self, grantee: iam.IGrantable, keys: str, bucket: s3.Bucket) -> None:
        self.allow_objects(grantee, "s3:GetObject", keys, bucket=bucket)
        self._allow_listing(grantee, keys, bucket=bucket)

    def allow_closing(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee``, the auditor, close the audit's days and put the closes into the archive's bucket."""
        self.allow(grantee, "audit", READ, ("dynamodb:ConditionCheckItem", "dynamodb:PutItem"))
        self.allow_objects(grantee, "s3:PutObject", f"{ANCHORS}*", bucket=self.archive_bucket)
        self.allow_anchors(grantee, f"{ANCHORS}*")

    def allow_anchors(self, grantee: iam.IGrantable, keys: str) -> None:
        """Let ``grantee`` find and read the closes in the archive's bucket."""
        self._allow_found(grantee, keys, self.archive_bucket)

    def allow_verifying(self, grantee: iam.IGrantable, keys: str) -> None:
        """Let ``grantee`` read the closes in the archive's bucket as they were put first, also those that were replaced."""
        self.allow_anchors(grantee, keys)
        self.allow_objects(grantee, "s3:GetObjectVersion", keys, bucket=self.archive_bucket)
        self._allow_listing(grantee, keys, bucket=self.archive_bucket, actions=("s3:ListBucketVersions",))

    def allow_gone(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee``, who reads the stream, know which tenants are erased."""
        self.allow(grantee, "tenants", ("dynamodb:Query",), keys=(GONE,))

    def allow_erasing(self, grantee: iam.IGrantable, folders: Sequence[str], archived: str) -> None:
        """Let ``grantee`` find, read and remove all versions of the objects under ``folders``, and of those ``archived``."""
        places = [(self.bucket, keys) for keys in folders] + [(self.archive_bucket, archived)]
        for bucket, keys in places:
            for action in ("s3:GetObject", "s3:GetObjectVersion", "s3:DeleteObject", "s3:DeleteObjectVersion"):
                self.allow_objects(grantee, action, keys, bucket=bucket)
        for action in ("s3:GetObjectRetention", "s3:GetObjectLegalHold"):  # why one was not removed
            self.allow_objects(grantee, action, archived, bucket=self.archive_bucket)
        for bucket in {self.bucket.node.path: self.bucket, self.archive_bucket.node.path: self.archive_bucket}.values():
            prefixes = [keys for of, keys in places if of is bucket]
            self._allow_listing(grantee, prefixes, bucket=bucket, actions=("s3:ListBucket", "s3:ListBucketVersions"))

    def allow_audit_entries(self, grantee: iam.IGrantable, tenant: str | None = None) -> None:
        """Let ``grantee`` add lines to the audit, of all tenants or of one: neither change nor remove one, nor close a day."""
        whose = tenant or "*"
        self.allow(grantee, "audit", ("dynamodb:PutItem",), keys=(f"{whose}#2*", "~days#2*"))  # the years from 2000 on
        self.allow(grantee, "audit", ("dynamodb:ConditionCheckItem", "dynamodb:GetItem"), keys=(f"{whose}#~shut",))

    def allow_objects(
        self, grantee: iam.IGrantable, action: str, keys: str, *, bucket: s3.Bucket | None = None
    ) -> None:
        """Let ``grantee`` do ``action`` to the objects under ``keys``."""
        place = bucket or self.bucket
        iam.Grant.add_to_principal(grantee=grantee, actions=[action], resource_arns=[place.arn_for_objects(keys)])
        rule = f"AwsSolutions-IAM5[Resource::{arn_of(place)}/{keys}]"
        acknowledge_for(grantee, rule, "the key of an object contains its run, which is not known at deployment")

    def allow_reads(self, grantee: iam.IGrantable, *folders: str) -> None:
        """Let ``grantee`` read objects. Who may not list a bucket is told that an object which is not there is forbidden."""
        for keys in folders:
            self.allow_objects(grantee, "s3:GetObject", keys)
        self._allow_listing(grantee)

    def allow_sizes(self, grantee: iam.IGrantable, *folders: str) -> None:
        """Let ``grantee`` list the objects under ``folders``, with their sizes."""
        self._allow_listing(grantee, folders)

    def allow_removal(self, grantee: iam.IGrantable, *folders: str) -> None:
        """Let ``grantee`` find and remove the objects under ``folders``."""
        for top in sorted({keys if keys == INBOX else f"{keys.partition('/')[0]}/*" for keys in folders}):
            self._allow_listing(grantee, top)
        for keys in folders:
            self.allow_objects(grantee, "s3:DeleteObject", keys)

    def _allow_listing(
        self,
        grantee: iam.IGrantable,
        keys: str | Sequence[str] | None = None,
        *,
        bucket: s3.Bucket | None = None,
        actions: Sequence[str] = ("s3:ListBucket",),
    ) -> None:
        """Let ``grantee`` list the keys that begin as ``keys``, or all."""
        place = bucket or self.bucket
        conditions = (
            None if keys is None else {"StringLike": {"s3:prefix": keys if isinstance(keys, str) else list(keys)}}
        )
        iam.Grant.add_to_principal(
            grantee=grantee, actions=list(actions), resource_arns=[place.bucket_arn], conditions=conditions
        )

    def allow_secrets(self, grantee: iam.IGrantable, *actions: str, tenant: str | None = None) -> None:
        """Let ``grantee`` do ``actions`` to the secrets of tenants, all or one's: parameters of SSM below one path, and no others."""
        prefix = self._installation.prefix
        folder = all_secrets(prefix) if tenant is None else secrets_of(prefix, tenant)
        places = [f"arn:{Aws.PARTITION}:ssm:{Aws.REGION}:{Aws.ACCOUNT_ID}:parameter{folder}*"]
        if tenant is not None:  # the path itself, for a list
            places.append(places[0].removesuffix("/*"))
        iam.Grant.add_to_principal(grantee=grantee, actions=list(actions), resource_arns=places)
        place = f"arn:<AWS::Partition>:ssm:<AWS::Region>:<AWS::AccountId>:parameter{folder}*"
        why = "the names of secrets are not known at deployment, and their path is this installation's"
        acknowledge_for(grantee, f"AwsSolutions-IAM5[Resource::{place}]", why)

    def allow_run_logs(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` search the log lines of runs, of all tenants."""
        self._installation.allow_log_reads(grantee)

    def allow_key(self, grantee: iam.IGrantable, *, encrypt: bool = True) -> None:
        """Let ``grantee`` use the customer's key, if there is one."""
        key = self._installation.encryption_key
        if key is not None and not encrypt:
            key.grant_decrypt(grantee)
        elif key is not None:
            key.grant_encrypt_decrypt(grantee)
            for action in ("kms:GenerateDataKey*", "kms:ReEncrypt*"):
                rule = f"AwsSolutions-IAM5[Action::{action}]"
                acknowledge_for(grantee, rule, "the variants of one action, on the customer's key only")

    def _table(self, table: TableDefinition) -> dynamodb.Table:
        key = self._installation.encryption_key
        numeric = table.range_type == "N"
        return dynamodb.Table(
            self,
            # Restored tables are other resources: the stack imports them, and lets go of the former ones.
            f"{table.suffix.capitalize()}{self._installation.tables or ''}",
            table_name=self._installation.table(table.suffix),
            partition_key=dynamodb.Attribute(name=table.hash_key, type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(
                name=table.range_key, type=dynamodb.AttributeType.NUMBER if numeric else dynamodb.AttributeType.STRING
            ),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute=table.ttl,
            stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES if table.stream and self._installation.history else None,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if key else dynamodb.TableEncryption.DEFAULT,
            encryption_key=key,
            removal_policy=self._installation.removal_policy,
            deletion_protection=self._installation.deletion_protection,
        )

    def _rules(self) -> list[s3.LifecycleRule]:
        """The rules that remove objects from the bucket."""
        return [
            s3.LifecycleRule(
                id="results-go-with-their-run",
                prefix=RESULTS.removesuffix("*"),
                expiration=Duration.days(self._installation.retention_days + MARGIN),
            ),
            s3.LifecycleRule(
                id="removed-objects-go-when-no-restore-needs-them",
                abort_incomplete_multipart_upload_after=UPLOAD_LEFTOVERS,
                noncurrent_version_expiration=RESTORABLE,
                expired_object_delete_marker=True,
            ),
            *self._archive_rules(),
        ]

    def _archive_rules(self) -> list[s3.LifecycleRule]:
        rule = s3.LifecycleRule(
            id="archive",
            prefix=f"{archive_objects.ARCHIVE}/",
            expiration=self._installation.archive_retention,
            # What a repeated batch has overwritten, and what has expired; locked versions stay until their lock ends.
            noncurrent_version_expiration=Duration.days(1),
        )
        return [rule]

    def _locked_bucket(self) -> s3.Bucket:
        """The archive's own bucket: a lock is a property of a whole bucket, and payloads must be removable."""
        lock = self._installation.archive_lock
        return self._bucket("ArchiveBucket", self._archive_rules(), lock=lock)

    def _keep_anchors(self) -> None:
        """Refuse to overwrite a close of the audit log: a lock keeps the old version, but readers would get the new one."""
        self.archive_bucket.add_to_resource_policy(
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3:PutObject"],
                resources=[self.archive_bucket.arn_for_objects(f"{ANCHORS}*")],
                conditions={"Null": {"s3:if-none-match": "true"}},
            )
        )

    def _bucket(
        self,
        name: str,
        rules: Sequence[s3.LifecycleRule],
        *,
        lock: s3.ObjectLockRetention | None = None,
    ) -> s3.Bucket:
        key = self._installation.encryption_key
        bucket = s3.Bucket(
            self,
            name,
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            bucket_key_enabled=key is not None,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=self._installation.removal_policy,
            versioned=True,
            object_lock_default_retention=lock,
            lifecycle_rules=list(rules),
        )
        acknowledge(
            bucket,
            "AwsSolutions-S1",
            "only the roles of this installation have access; data events of CloudTrail log it where that is needed",
        )
        return bucket
