"""The construct: a scheduler in your own app, with your jobs in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from aws_cdk import Duration, RemovalPolicy, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct
from quarterjack.domain.names import check_flag
from quarterjack.domain.queue import LOW_SHARE, Queue
from quarterjack.settings import (
    DEFAULT_DEPTH,
    DEFAULT_PREFIX,
    DEFAULT_SHARDS,
    DEFAULT_TICKER_GROUPS,
    DEFAULT_TICKER_WRITES,
)

from .alarms.construct import InstallationAlarms, stack_parts
from .alarms.settings import AlarmSettings
from .canary import CanaryDeployments, check_canary
from .dashboard.construct import InstallationDashboard, TenantInsights
from .front_door.api import ApiFunction, ApiSettings
from .grants import GrantingConstruct
from .installation import ARCHIVE_RETENTION, LOW_AGE, InstallationSettings
from .packaging.dependencies import AWS, BundleTarget
from .packaging.jobs import declared_by, find_jobs
from .roles.events import EventsFunction, check_events
from .roles.historian import HistorianFunction
from .roles.periodic import QUEUE_AGE, TICKER_MEMORY, AuditorFunction, TickerFunction
from .roles.undertaker import UndertakerFunction
from .roles.worker import WorkerFunction, WorkerSettings, WorkerSize, allow_work
from .storage.athena import ArchiveTable
from .storage.queues import InstallationQueues, worker_part
from .storage.store import InstallationStore
from .template import check_stripes, outputs_of

MEMORY = 512  # MB of the worker
TIMEOUT = Duration.minutes(15)  # of the worker: what Lambda allows
RETENTION = Duration.days(90)


class Quarterjack(GrantingConstruct):
    """Tables, queues, bucket, the functions, their clocks and alarms.

        jobs = Quarterjack(self, "Jobs", jobs="acme/jobs", memory=1024, secrets={"DATABASE": secret})
        table.grant_read_data(jobs.worker)  # what the jobs themselves need
        jobs.grant_scheduling(api)          # who creates schedules and submits runs

    Arguments:
        jobs: the package whose import registers the jobs, a folder with ``__init__.py`` or a ``.py`` file; relative to the
            working directory. What it requires stands in a ``requirements.txt`` in it or beside it, or in ``requirements``.
        prefix: tables, queues and functions are called ``<prefix>-…``; two installations in one account and region differ in it.
        tables: how the names of the tables begin instead, after a restore: docs/how-to/restore.md.
        queues: the declared queues, each of which gets an SQS queue and a worker of its own. None: those that the package
            declares; to know them, a package whose text has ``Queue`` in it is imported (in another process), so what it
            imports must be installed where this runs. Else give them: ``queues=[Queue("reports", memory=2048)]``.
        memory: MB of the default queue's worker.
        timeout: of the default queue's worker, at most 15 minutes. Longer jobs run on ``quarterjack worker`` in a container.
        environment: variables of all workers.
        secrets: variable → secret; the workers may read it, and find its ARN in the variable.
        tenant_secrets: whether the workers may read the secrets of tenants, ``/<prefix>/tenants/…`` in SSM, and nothing else there.
        layers, vpc, vpc_subnets, security_groups: of all workers.
        max_concurrency: the most worker functions of the default queue at once, 2 to 1000. None: 500, half of what AWS gives an
            account, and 100 for a declared queue without ``concurrency``; with ``pollers`` no limit. 0 leaves it to the account's limit.
        ticker_reserved, undertaker_reserved: functions at once that the account keeps for them, and their maximum. None reserves nothing:
            AWS keeps 100 of an account's functions unreserved, and a new account may have 10 in all. ``quarterjack doctor`` recommends.
        stripes: SQS queues that the default queue consists of, 1 to 100; see `Queue(stripes=...)` for declared ones. It may grow
            at any time; what is taken away goes with its messages, which `quarterjack resend` sends again. A template holds about 75
            stripes of all queues together, 25 with lanes; more are refused.
        priorities: whether the default queue has lanes for high and low runs, with event sources of their own; see
            `Queue(priorities=...)` for declared ones. An idle lane costs the polls of its event source.
        low_share: percent of the workers of each queue with lanes that low runs keep, 1 to 50.
        low_age: after which a low run that waits counts as normal.
        pollers, most_pollers: of the default queue's event source, a stripe each: kept always, 2 to 200, and at the most, up to
            2000. None: Lambda's standard polling. They exclude ``max_concurrency``.
        provisioned_concurrency: worker functions of the default queue that are always started, for starts without a cold start.
        canary: how CodeDeploy moves ticker and workers to new code, as in ``Linear10PercentEvery10Minutes``, and back when an alarm about
            them goes off. None: a deployment replaces them at once. See docs/how-to/deploy.md.
        archive_retention: how long the archive of all transitions is kept, in whole days; None: for ever.
        archive_lock: ``s3.ObjectLockRetention.compliance(Duration.days(365))`` (or ``governance``): nobody can change or remove the
            archive for so long. It is then in a bucket of its own. None: it is in the bucket, which its roles may write.
        athena: whether to make the archive a table of Athena, with two example queries.
        events: where events of runs and schedules are published: ``eventbridge:BUS``, ``sns:TOPIC_ARN`` or ``webhook:URL``; None: nowhere.
        event_types: only these, as in ``["run.dead"]``; None: all. See docs/how-to/events.md.
        event_secret: of a webhook, its signing secret.
        notice_topics: ARNs of the SNS topics that schedules name in ``on_failure`` and ``on_recovery``.
        queue_depth, queue_age: the ticker holds a queue back that has more messages waiting or at hand than this in a stripe (0:
            it never does), or whose runs that are due have waited for so long.
        shards: of a new agenda, 16 for 1,000 fires a second; it may only grow.
        ticker_groups: invocations that one tick is spread over at the most, when more is due than one should take; 1: never.
        ticker_writes: write units a second of the table of runs that a tick's claims may take, so that workers have the rest: two
            fifths of what the table takes; a thousand for each of the ``ticker_groups`` that shall be used. The default is for new
            tables, up to 1,000 fires a second; 0: any number.
        log_groups: names of the log groups to which `quarterjack worker` in containers sends its lines: with them the API, and whoever
            may read all tenants, finds the log lines of the runs there, too.
        metric_jobs: jobs with metrics of their own, by ``job`` and ``delivery``; CloudWatch bills about ten metrics for each.
        metric_tenants: tenants with metrics of their own, by ``tenant``; likewise.
        history: whether runs can be found by state, job and time, and are archived: a stream of the table of runs, and a function that
            reads it. Without it a schedule's own runs can be listed, and nothing else. To be set to False on a stack that had it: the
            processes outside of it need QUARTERJACK_HISTORY=off then.
        retention: how long an ended run stays in the ledger, in whole days.
        api: the HTTP API, and who is let in: ``ApiSettings(iam=True, keys=True)``. None: there is none.
        alarms: where they go, and their thresholds: ``AlarmSettings(topic=…)``. None: the defaults, and a topic of their own.
        dashboard: whether to make one of CloudWatch, with 49 metrics; three of up to 50 are free in an account.
        tenant_insights: whether Contributor Insights tell which tenants start, are late and fail the most; billed by log line.
        encryption_key: the customer's own key for tables, queues, bucket, topic, logs and the functions' variables; None leaves it to the
            keys of AWS. The policy of a key that this app does not create must allow the services: see docs/how-to/deploy.md.
        removal_policy: of tables, bucket and logs. RETAIN_ON_UPDATE_OR_DELETE keeps them, except those that a failed first deployment
            made; RETAIN keeps these, too.
        deletion_protection: of the tables. None: unless ``removal_policy`` is DESTROY. CloudFormation cannot remove a protected table
            when a first deployment fails: the next one imports it with ``cdk deploy --import-existing-resources``.
        tags: of all that can have them, besides ``quarterjack-prefix``, which bills can be broken down by.
        log_retention: of the functions' logs.
        target: what the functions are bundled for: AWS; AWS_COMPILED, the same with bytecode, made by an interpreter of Lambda's version
            that must be on the path; or HERE, the interpreter at hand, for a local cloud.

    Raises InvalidInput, with the field and the remedy, at synthesis.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        jobs: str | Path,
        requirements: str | Path | None = None,
        prefix: str = DEFAULT_PREFIX,
        tables: str | None = None,
        queues: Sequence[Queue] | None = None,
        memory: int = MEMORY,
        timeout: Duration = TIMEOUT,
        environment: Mapping[str, str] | None = None,
        secrets: Mapping[str, secretsmanager.ISecret] | None = None,
        tenant_secrets: bool = True,
        layers: Sequence[lambda_.ILayerVersion] = (),
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        max_concurrency: int | None = None,
        ticker_reserved: int | None = None,
        undertaker_reserved: int | None = None,
        stripes: int = 1,
        priorities: bool = False,
        low_share: int = LOW_SHARE,
        low_age: Duration = LOW_AGE,
        pollers: int | None = None,
        most_pollers: int | None = None,
        provisioned_concurrency: int = 0,
        canary: str | None = None,
        queue_depth: int = DEFAULT_DEPTH,
        queue_age: Duration = QUEUE_AGE,
        shards: int = DEFAULT_SHARDS,
        ticker_groups: int = DEFAULT_TICKER_GROUPS,
        ticker_writes: int = DEFAULT_TICKER_WRITES,
        log_groups: Sequence[str] = (),
        metric_jobs: Sequence[str] = (),
        metric_tenants: Sequence[str] = (),
        history: bool = True,
        retention: Duration = RETENTION,
        archive_retention: Duration | None = ARCHIVE_RETENTION,
        archive_lock: s3.ObjectLockRetention | None = None,
        athena: bool = True,
        events: str | None = None,
        event_types: Sequence[str] | None = None,
        event_secret: secretsmanager.ISecret | None = None,
        notice_topics: Sequence[str] = (),
        api: ApiSettings | None = None,
        alarms: AlarmSettings | None = None,
        dashboard: bool = True,
        tenant_insights: bool = False,
        encryption_key: kms.IKey | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        deletion_protection: bool | None = None,
        tags: Mapping[str, str] | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        target: BundleTarget = AWS,
    ) -> None:
        super().__init__(scope, construct_id)
        installation = InstallationSettings(
            prefix=prefix,
            tables=tables,
            shards=shards,
            stripes=stripes,
            priorities=priorities,
            low_share=low_share,
            low_age=low_age,
            retention=retention,
            history=history,
            metric_jobs=metric_jobs,
            metric_tenants=metric_tenants,
            log_groups=log_groups,
            archive_retention=archive_retention,
            archive_lock=archive_lock,
            log_retention=log_retention,
            removal_policy=removal_policy,
            deletion_protection=removal_policy is not RemovalPolicy.DESTROY
            if deletion_protection is None
            else deletion_protection,
            encryption_key=encryption_key,
            target=target,
        )
        alarm_settings = alarms or AlarmSettings()
        check_canary(canary, alarm_settings)
        installation.allow_logs_to_use_key()
        for name, word in {"quarterjack-prefix": prefix, **(tags or {})}.items():
            Tags.of(self).add(name, word)
        self._store = store = InstallationStore(self, "Store", installation=installation)
        if athena and history:
            ArchiveTable(self, "Athena", installation=installation, bucket=store.archive_bucket)
        package = find_jobs(jobs, requirements)
        declared = declared_by(package) if queues is None else queues
        self._queues = made = InstallationQueues(self, "Queues", installation=installation, declared=declared)
        ticker = TickerFunction(
            self,
            "Ticker",
            installation=installation,
            store=store,
            queues=made,
            notice_topics=notice_topics,
            groups=ticker_groups,
            writes=ticker_writes,
            reserved=ticker_reserved,
            queue_depth=queue_depth,
            queue_age=queue_age,
            canary=canary is not None,
        )
        undertaker = UndertakerFunction(
            self, "Undertaker", installation=installation, store=store, queues=made, reserved=undertaker_reserved
        )
        AuditorFunction(self, "Auditor", installation=installation, store=store, queues=made)
        if history:
            HistorianFunction(self, "Historian", installation=installation, store=store)
        check_events(events, event_types, event_secret, history=history)
        publishing = None
        if events is not None:
            publishing = EventsFunction(
                self,
                "Events",
                installation=installation,
                store=store,
                events=events,
                types=event_types,
                secret=event_secret,
            )
            for role in (ticker, undertaker):
                publishing.tell(role.function)
        self.worker_settings = common = WorkerSettings(
            installation=installation,
            store=store,
            queues=made,
            jobs=package,
            environment=environment or {},
            secrets=secrets or {},
            layers=layers,
            vpc=vpc,
            vpc_subnets=vpc_subnets,
            security_groups=security_groups,
            tenant_secrets=tenant_secrets,
            canary=canary is not None,
        )
        size = WorkerSize.of_default(
            memory=memory,
            timeout=timeout,
            max_concurrency=max_concurrency,
            pollers=pollers,
            most_pollers=most_pollers,
            stripes=stripes,
            priorities=priorities,
            provisioned=provisioned_concurrency,
        )
        self._tenant_secrets = tenant_secrets
        self._worker = WorkerFunction(self, "Worker", common=common, size=size, role=None)
        self._workers = self._workers_of_declared(common)
        self.alarms = InstallationAlarms(
            self,
            "Alarms",
            installation=installation,
            settings=alarm_settings,
            parts=stack_parts(made, history=history, events=events is not None, api=api is not None),
        )
        if canary is not None:
            parts = [
                ("ticker", ticker.alias),
                *((worker_part(name), worker.alias) for name, worker in self._by_queue()),
            ]
            aliases = {part: alias for part, alias in parts if alias is not None}
            CanaryDeployments(self, "Canary", canary=canary, aliases=aliases, alarms=self.alarms)
        self._show(installation, memory=memory, dashboard=dashboard, tenant_insights=tenant_insights)
        front_door = (
            None
            if api is None
            else ApiFunction(self, "Api", installation=installation, store=store, queues=made, settings=api)
        )
        self.outputs = outputs_of(
            self,
            installation=installation,
            store=store,
            queues=made,
            worker=self.worker,
            topic=self.alarms.topic,
            api=front_door,
        )
        check_stripes(self, made.stripes)

    def _show(self, installation: InstallationSettings, *, memory: int, dashboard: bool, tenant_insights: bool) -> None:
        check_flag("dashboard", dashboard)
        check_flag("tenant_insights", tenant_insights)
        functions = [worker_part(name) for name in (None, *self._workers)]
        if dashboard:
            workers = [worker_part(None), *(worker_part(queue.name) for queue in self._queues.declared)]
            sizes = {"ticker": TICKER_MEMORY, "worker": memory}
            InstallationDashboard(self, "Dashboard", installation=installation, workers=workers, memory=sizes)
        if tenant_insights:
            TenantInsights(self, "TenantInsights", installation=installation, workers=functions)

    def _workers_of_declared(self, common: WorkerSettings) -> dict[str, WorkerFunction]:
        """A worker for each declared queue whose runs are not left to containers, by queue."""
        return {
            queue.name: WorkerFunction(
                self,
                f"Worker-{queue.name}",
                common=common,
                size=WorkerSize.of(queue),
                queue=queue.name,
                role=self._worker.role,
            )
            for queue in self._queues.declared
            if not queue.container
        }

    def _by_queue(self) -> Iterator[tuple[str | None, WorkerFunction]]:
        """All worker functions, that of the default queue first."""
        yield None, self._worker
        yield from self._workers.items()

    @property
    def worker(self) -> lambda_.Function:
        """The function with the jobs: grant it what they need, and the workers of declared queues have it as well."""
        return self._worker.function

    @property
    def workers(self) -> Mapping[str, lambda_.Function]:
        """The functions of the declared queues, by queue. They have the role of ``worker``."""
        return {name: worker.function for name, worker in self._workers.items()}

    def grant_work(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee``, the role of a container that runs ``quarterjack worker``, do what the worker function does."""
        allow_work(grantee, self._store, self._queues, secrets=self._tenant_secrets)
