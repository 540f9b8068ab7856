"""Wire the flow's services to AWS, or to whatever answers at AWS_ENDPOINT_URL."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from quarterjack.aws import AwsSession, BatchBackoff, CallerIdentity, Client
from quarterjack.aws.secrets import SsmSecrets
from quarterjack.clock import system_clock
from quarterjack.concurrency.pools import RequestPool, RequestStats
from quarterjack.domain.notice import schedule_events
from quarterjack.domain.queue import declared_name
from quarterjack.domain.times import DAY, SECOND
from quarterjack.dynamodb.dynamo_tables import DynamoTables
from quarterjack.dynamodb.run_stream import DynamoRunStream
from quarterjack.dynamodb.table_client import TableClient
from quarterjack.ports.run_logs import RunLogs
from quarterjack.ports.services import Services
from quarterjack.run_logs.cloudwatch import CloudWatchRunLogs
from quarterjack.run_logs.files import FileRunLogs
from quarterjack.s3.archive import BucketArchive
from quarterjack.s3.payloads import BucketPayloads
from quarterjack.s3.versions import BucketVersions
from quarterjack.settings import Settings
from quarterjack.sqs.queues import SqsDeadQueue, SqsWorkQueue
from quarterjack.sqs.stripes import Stripes
from quarterjack.sqs.topics import AsyncFunction, SnsNotices
from quarterjack.state.backpressure import Limits
from quarterjack.stores.agenda import Agenda
from quarterjack.stores.audit import Audit
from quarterjack.stores.dead_index import DeadIndex
from quarterjack.stores.history.books import History
from quarterjack.stores.ledger import Ledger
from quarterjack.stores.records import Records
from quarterjack.stores.schedules import ScheduleStore
from quarterjack.stores.siblings import Siblings
from quarterjack.stores.tables import RUNS, TABLES, TableDefinition
from quarterjack.stores.tenants.api_keys import ApiKeyStore
from quarterjack.stores.tenants.erasures import ErasureStore
from quarterjack.stores.tenants.profiles import TenantStore
from quarterjack.stores.tenants.usage import TenantUsage
from quarterjack.stores.unique_keys import UniqueKeys
from quarterjack.stores.upkeep import Upkeep
from quarterjack.stores.waits import Waits
from quarterjack.ticker.fan_out import HandOver

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
    tenants, agenda = (
        TenantStore(tables),
        Agenda(tables, shards=settings.shards, clock=system_clock, name=settings.tables_prefix),
    )
    return Services(
        schedules=ScheduleStore(tables, tenants),
        ledger=Ledger(tables, retention=retention),
        siblings=Siblings(tables, retention=retention),
        waits=Waits(tables, retention=retention),
        unique_keys=UniqueKeys(tables, retention=retention),
        agenda=agenda,
        work=SqsWorkQueue(
            sqs,
            settings.queue("work"),
            backoff=backoff,
            consumes=declared_name(settings.work_queue),
            stripes=Stripes.parse(settings.stripes, settings.priorities),
            low_age=settings.low_age * SECOND,
            weight_of=agenda.weight_of,
            pool=pool(),
        ),
        dead=SqsDeadQueue(sqs, settings.queue("dead")),
        dead_index=DeadIndex(tables),
        records=Records(tables),
        upkeep=Upkeep(tables),
        history=History(tables, retention=retention),
        stream=DynamoRunStream(
            dynamodb, settings.table(RUNS.suffix), partial(Client, "dynamodbstreams", settings, session)
        ),
        audit=Audit(tables),
        tenants=tenants,
        usage=TenantUsage(tables),
        erasures=ErasureStore(tables),
        objects=BucketVersions(s3, settings.bucket, settings.archive_bucket, pool=pool()),
        api_keys=ApiKeyStore(tables),
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
