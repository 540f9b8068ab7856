"""The archive as a table of Athena, with partitions that need no maintenance, and two example queries."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Aws
from aws_cdk import aws_athena as athena
from aws_cdk import aws_glue as glue
from aws_cdk import aws_s3 as s3
from constructs import Construct
from quarterjack.domain.history.archive_objects import ARCHIVE

from ..installation import InstallationSettings

TABLE = "archive"
FIRST_DAY = "2026-01-01"  # no archive is older

# Fields of a line. Times are texts that sort by time; `from_iso8601_timestamp` makes timestamps of them.
COLUMNS: Mapping[str, str] = {
    "run": "string",
    "schedule": "string",
    "job": "string",
    "kind": "string",
    "sequence": "string",
    "at": "string",
    "before": "string",
    "after": "string",
    "revision": "int",
    "fence": "int",
    "attempt": "int",
    "worker": "string",
    "reason": "string",
    "error_type": "string",
    "error_code": "string",
    "created_at": "string",
    "due": "string",
    "not_before": "string",
    "leased_at": "string",
    "started_at": "string",
    "ended_at": "string",
    "backfill": "string",
    "replay_of": "string",
    "skipped": "int",
    "parent": "string",
    "child_no": "int",
    "has_result": "boolean",
}

FAILURES = """\
-- Failed runs of the last seven days, by job and error. DISTINCT: the archive may repeat a line.
SELECT job, kind, error_type, count(*) AS runs, max(ended_at) AS last
FROM (SELECT DISTINCT run, sequence, job, kind, error_type, ended_at FROM {table}
      WHERE tenant = '{tenant}' AND day >= date_format(current_date - interval '7' day, '%Y-%m-%d')
        AND kind IN ('dead', 'lost', 'expired'))
GROUP BY job, kind, error_type
ORDER BY runs DESC
"""
TRANSITIONS = """\
-- Everything that happened to the runs of one schedule yesterday.
SELECT DISTINCT at, run, kind, before, after, worker, fence, attempt, reason, error_type, sequence
FROM {table}
WHERE tenant = '{tenant}' AND day = date_format(current_date - interval '1' day, '%Y-%m-%d') AND schedule = 'invoices'
ORDER BY run, sequence
"""
QUERIES = {
    "failures": ("Failed runs of the last seven days, by job and error", FAILURES),
    "transitions": ("What happened to the runs of a schedule yesterday", TRANSITIONS),
}


class ArchiveTable(Construct):
    """A database of AWS Glue with the table ``archive``. A query must name the tenant: partitions are projected from it and the day."""

    def __init__(self, scope: Construct, name: str, *, installation: InstallationSettings, bucket: s3.IBucket) -> None:
        super().__init__(scope, name)
        self.database = installation.prefix.replace("-", "_")
        root = f"s3://{bucket.bucket_name}/{ARCHIVE}/"
        database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=self.database, description="Quarterjack: the archive of all transitions of runs"
            ),
        )
        table = glue.CfnTable(
            self,
            "Table",
            catalog_id=Aws.ACCOUNT_ID,
            database_name=self.database,
            table_input=glue.CfnTable.TableInputProperty(
                name=TABLE,
                description="Transitions of runs; `tenant` must be named in WHERE, `day` should be",
                table_type="EXTERNAL_TABLE",
                parameters=_projection(root),
                partition_keys=[_column("tenant", "string"), _column("day", "string")],
                storage_descriptor=glue.CfnTable.StorageDescriptorProperty(
                    location=root,
                    columns=[_column(column, kind) for column, kind in COLUMNS.items()],
                    input_format="org.apache.hadoop.mapred.TextInputFormat",
                    output_format="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
                    serde_info=glue.CfnTable.SerdeInfoProperty(
                        serialization_library="org.openx.data.jsonserde.JsonSerDe"
                    ),
                ),
            ),
        )
        table.add_resource_dependency(database)
        for word, (description, text) in QUERIES.items():
            query = athena.CfnNamedQuery(
                self,
                word.capitalize(),
                name=installation.name(word),
                description=description,
                database=self.database,
                query_string=text.format(table=TABLE, tenant="default"),
            )
            query.add_resource_dependency(table)


def _column(name: str, kind: str) -> glue.CfnTable.ColumnProperty:
    return glue.CfnTable.ColumnProperty(name=name, type=kind)


def _projection(root: str) -> Mapping[str, str]:
    """Athena computes the partitions of a query from its conditions, so that no crawler has to look for new days."""
    return {
        "classification": "json",
        "projection.enabled": "true",
        "projection.tenant.type": "injected",
        "projection.day.type": "date",
        "projection.day.format": "yyyy-MM-dd",
        "projection.day.range": f"{FIRST_DAY},NOW",
        "projection.day.interval": "1",
        "projection.day.interval.unit": "DAYS",
        "storage.location.template": f"{root}tenant=${{tenant}}/day=${{day}}/",
    }
