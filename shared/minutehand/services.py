"""Wire the flow's services to AWS, or to whatever answers at AWS_ENDPOINT_URL."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from minutehand.aws import AwsSession, BatchBackoff, CallerIdentity, Client
from minutehand.aws.secrets import SsmSecrets
from minutehand.clock import system_clock
from minutehand.concurrency.pools import RequestPool, RequestStats
from minutehand.domain.notice import schedule_events
from minutehand.domain.queue import declared_name, prioritised, striped
from minutehand.domain.times import DAY, SECOND
from minutehand.dynamodb.agenda import RowAgenda
from minutehand.dynamodb.audit import RowAudit
from minutehand.dynamodb.dynamo_tables import DynamoTables
from minutehand.dynamodb.history.archive import BucketArchive
from minutehand.dynamodb.history.pages import RowHistory
from minutehand.dynamodb.history.run_stream import DynamoRunStream
from minutehand.dynamodb.ledger import RowLedger
from minutehand.dynamodb.leftovers import RowLeftovers
from minutehand.dynamodb.payloads import BucketPayloads
from minutehand.dynamodb.records import RowDeadIndex, RowRecords
from minutehand.dynamodb.schedules import RowSchedules
from minutehand.dynamodb.table_client import TableClient
from minutehand.dynamodb.tables import RUNS, TABLES, TableDefinition
from minutehand.dynamodb.tenants.api_keys import RowApiKeys
from minutehand.dynamodb.tenants.erasure.objects import BucketVersions
from minutehand.dynamodb.tenants.erasure.rows import RowErasures
from minutehand.dynamodb.tenants.profiles import RowTenants
from minutehand.dynamodb.tenants.usage import RowUsage
from minutehand.ports.run_logs import RunLogs
from minutehand.ports.services import Services
from minutehand.run_logs.cloudwatch import CloudWatchRunLogs
from minutehand.run_logs.files import FileRunLogs
from minutehand.settings import Settings
from minutehand.sqs.queues import SqsDeadQueue, SqsWorkQueue
from minutehand.sqs.topics import AsyncFunction, SnsNotices
from minutehand.state.backpressure import Limits
from minutehand.ticker.fan_out import HandOver

_LOGS_TIMEOUT = 10  # seconds: shorter than what API Gateway waits
_LOGS_AT_ONCE = 4  # requests: CloudWatch Logs takes a few a second of an account

__all__ = ["connect", "hand_over_to", "system_clock"]


def connect(settings: Settings, *, backoff: BatchBackoff | None = None, stats: RequestStats | None = None) -> Services:
    """The services of one stack; ``stats`` counts their requests.

    This makes the clients, except the bucket's, which is made when a large payload is met. It makes no call.
    """
    backoff = backoff or BatchBackoff()
    session = AwsSession()
    retention, stats = settings.retention_days * DAY, stats or RequestStats()
    dynamodb, sqs = (Client(name, settings, session, waited=stats.record_wait) for name in ("dynamodb", "sqs"))
    s3 = partial(Client, "s3", settings, session)

    def pool() -> RequestPool:  # of one table or queue: what one throttles slows down no other
        return RequestPool(settings.requests, stats=stats, wait=backoff.wait)

    def table(each: TableDefinition) -> TableClient:
        return TableClient(dynamodb, settings.table(each.suffix), backoff=backoff, pool=pool())

    tables = DynamoTables({each: table(each) for each in TABLES}, batched=settings.claim_by == "partiql")
    tenants, agenda = RowTenants(tables), RowAgenda(tables, shards=settings.shards, clock=system_clock)
    return Services(
        schedules=RowSchedules(tables, tenants),
        ledger=RowLedger(tables, retention=retention),
        agenda=agenda,
        work=SqsWorkQueue(
            sqs,
            settings.queue("work"),
            backoff=backoff,
            consumes=declared_name(settings.work_queue),
            stripes=striped(settings.stripes),
            prioritised=prioritised(settings.priorities),
            low_age=settings.low_age * SECOND,
            weight_of=agenda.weight_of,
            pool=pool(),
        ),
        dead=SqsDeadQueue(sqs, settings.queue("dead")),
        dead_index=RowDeadIndex(tables),
        records=RowRecords(tables),
        leftovers=RowLeftovers(tables),
        history=RowHistory(tables, retention=retention),
        stream=DynamoRunStream(
            dynamodb, settings.table(RUNS.suffix), partial(Client, "dynamodbstreams", settings, session)
        ),
        audit=RowAudit(tables),
        tenants=tenants,
        usage=RowUsage(tables),
        erasures=RowErasures(tables),
        objects=BucketVersions(s3, settings.bucket, settings.archive_bucket, pool=pool()),
        api_keys=RowApiKeys(tables),
        identity=CallerIdentity(settings, session),
        payloads=BucketPayloads(s3, settings.bucket),
        archive=BucketArchive(s3, settings.archive_bucket, inbox=settings.bucket, pool=pool()),
        notices=SnsNotices(settings),
        secrets=SsmSecrets(partial(Client, "ssm", settings, session), settings.prefix),
        logs=_run_logs(settings, session),
        retention=retention,
        schedule_events=schedule_events(settings.events, settings.event_types),
        limits=Limits(depth=settings.queue_depth, age=settings.queue_age * SECOND),
    )


def _run_logs(settings: Settings, session: AwsSession) -> RunLogs:
    """Of the processes of this machine if the settings name their folder, else in CloudWatch Logs."""
    if settings.logs is not None:
        return FileRunLogs(Path(settings.logs))
    groups = () if settings.log_groups is None else tuple(settings.log_groups.split(","))
    client = partial(Client, "logs", settings, session, config={"read_timeout": _LOGS_TIMEOUT})
    return CloudWatchRunLogs(client, settings.prefix, groups, pool=RequestPool(_LOGS_AT_ONCE))


def hand_over_to(function: str, settings: Settings) -> HandOver:
    """How a ticker hands shards over to another invocation of its function, by its name or ARN."""
    return AsyncFunction(function, settings).send
