"""Workers in containers: an ECS service on Fargate that polls a queue and grows with what waits in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Aws, Duration
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct
from quarterjack.domain.names import check_whole
from quarterjack.domain.queue import LOW_SHARE, declared_name
from quarterjack.errors import InvalidInput

from ..acknowledge import acknowledge
from ..quarterjack import Quarterjack
from ..roles.worker import WorkerSettings
from ..storage.queues import worker_part
from .queue_load import QueueLoad

HEALTH = 8080  # port of the health endpoints, on the task's loopback
_LONGEST_STOP = 120  # seconds that Fargate waits at most between SIGTERM and SIGKILL
_AFTER_GRACE = 15  # seconds for the last long poll and for what is released
_MOST_TASKS = 5_000  # of an ECS service
# Slim images have no curl; a status of 400 or more is an error that ends the probe with 1.
_PROBE = f"import urllib.request as r;r.urlopen('http://127.0.0.1:{HEALTH}/healthz',timeout=4)"
_GB = 1024
# Processor units and the memory, in MB, that Fargate gives with them: the least, the most, and the step.
_SIZES = {
    512: (_GB, 4 * _GB, _GB),
    1_024: (2 * _GB, 8 * _GB, _GB),
    2_048: (4 * _GB, 16 * _GB, _GB),
    4_096: (8 * _GB, 30 * _GB, _GB),
    8_192: (16 * _GB, 60 * _GB, 4 * _GB),
    16_384: (32 * _GB, 120 * _GB, 8 * _GB),
}


@dataclass(frozen=True, kw_only=True)
class ContainerSize:
    """How large one task is, how many there are, and how long each may take to stop.

    cpu, memory: of a task, in Fargate's units (512 to 16384; 1024 a core) and in MB, 2 to 8 times as much.
    concurrency: runs at the same time in a task, in threads; for jobs that compute, the number of cores.
    minimum, maximum: tasks. 0 tasks cost nothing, and the first run of a quiet queue then waits some minutes for a task.
    backlog: messages of the queue, waiting or at hand, for which there shall be one task. None: ``concurrency``, what a task takes at once.
    grace: seconds after SIGTERM for runs to finish, up to 105; then they are released and start elsewhere.
    """

    cpu: int = 512
    memory: int = 1024
    concurrency: int = 10
    minimum: int = 1
    maximum: int = 10
    backlog: int | None = None
    grace: int = 10

    def __post_init__(self) -> None:
        self._check_task()
        check_whole("concurrency", self.concurrency, 1, 1_000)
        check_whole("minimum", self.minimum, 0, _MOST_TASKS)
        check_whole("maximum", self.maximum, max(self.minimum, 1), _MOST_TASKS)
        check_whole("grace", self.grace, 0, _LONGEST_STOP - _AFTER_GRACE)
        if self.backlog is not None:
            check_whole("backlog", self.backlog, 1, 1_000_000)

    def _check_task(self) -> None:
        if self.cpu not in _SIZES:
            raise InvalidInput("cpu", self.cpu, "is no size of Fargate", f"use one of {', '.join(map(str, _SIZES))}")
        least, most, step = _SIZES[self.cpu]
        if self.memory not in range(least, most + 1, step):
            remedy = f"use {least} to {most} MB, a multiple of {step}"
            raise InvalidInput("memory", self.memory, f"is not what Fargate gives with cpu={self.cpu}", remedy)

    @property
    def target(self) -> int:
        return self.concurrency if self.backlog is None else self.backlog


class ContainerWorkers(Construct):
    """An ECS service on Fargate whose tasks run ``quarterjack worker`` on one queue.

        workers = ContainerWorkers(
            self, "Gpu", quarterjack=jobs, image=ecs.ContainerImage.from_asset("image"), cluster=cluster, queue="gpu"
        )
        table.grant_read_data(workers.role)  # what the jobs themselves need

    Arguments:
        quarterjack: the installation; its ``environment``, ``secrets`` and ``tenant_secrets`` are these workers', too.
        image: with Python, this package with its extra ``cli``, and the jobs' package; its ENTRYPOINT and CMD are replaced.
        cluster: with the VPC in which the tasks run.
        queue: the declared queue that they serve; None: the default one, beside the function or in place of it.
        jobs: packages to import; None: the installation's.
        size: of a task, and how many there are.
        architecture: of the image; None: x86-64.
        options: further options of ``quarterjack worker``.
        subnets, security_groups: of the tasks; they need to reach AWS.
        public_ip: for subnets without a NAT gateway.

    Lines and metrics go to the log group ``/ecs/<prefix>-worker-<queue>``: with its name in ``Quarterjack(log_groups=[...])`` the API
    and the console find the lines of runs there.
    Raises InvalidInput, with the field and the remedy, at synthesis.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        quarterjack: Quarterjack,
        image: ecs.ContainerImage,
        cluster: ecs.ICluster,
        queue: str | None = None,
        jobs: Sequence[str] | None = None,
        size: ContainerSize | None = None,
        architecture: ecs.CpuArchitecture | None = None,
        options: Sequence[str] = (),
        subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        public_ip: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        self._common, self._size = quarterjack.worker_settings, size or ContainerSize()
        self._queue = _known(self._common, queue)
        name = self._common.installation.name(worker_part(self._queue))
        self.log_group = self._log_group(name)
        task = self._task(name, architecture)
        self.role: iam.IRole = task.task_role
        quarterjack.grant_work(self.role)
        for secret in self._common.secrets.values():
            secret.grant_read(self.role)
        self._add_worker(task, image, self._command(jobs, options))
        self.service = ecs.FargateService(
            self,
            "Service",
            service_name=name,
            cluster=cluster,
            task_definition=task,
            desired_count=None,  # the scaling says how many; a deployment would set it back
            min_healthy_percent=100,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(enable=True, rollback=True),
            vpc_subnets=subnets,
            security_groups=None if security_groups is None else list(security_groups),
            assign_public_ip=public_ip,
        )
        self._scale()

    def _log_group(self, name: str) -> logs.LogGroup:
        installation = self._common.installation
        return logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/ecs/{name}",
            retention=installation.log_retention,
            removal_policy=installation.removal_policy,
            encryption_key=installation.encryption_key,
        )

    def _task(self, name: str, architecture: ecs.CpuArchitecture | None) -> ecs.FargateTaskDefinition:
        return ecs.FargateTaskDefinition(
            self,
            "Task",
            family=name,
            cpu=self._size.cpu,
            memory_limit_mib=self._size.memory,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=architecture or ecs.CpuArchitecture.X86_64,
                operating_system_family=ecs.OperatingSystemFamily.LINUX,
            ),
        )

    def _command(self, jobs: Sequence[str] | None, options: Sequence[str]) -> list[str]:
        imported = [word for package in jobs or [self._common.jobs.name] for word in ("--jobs", package)]
        served = [] if self._queue is None else ["--queue", self._queue]
        size = ["--concurrency", str(self._size.concurrency), "--grace", str(self._size.grace)]
        return [*imported, *served, *size, "--health", str(HEALTH), "--embedded-metrics", *options]

    def _add_worker(self, task: ecs.FargateTaskDefinition, image: ecs.ContainerImage, command: list[str]) -> None:
        task.add_container(
            "worker",
            image=image,
            entry_point=["quarterjack", "worker"],
            command=command,
            environment=self._environment(),
            logging=ecs.LogDrivers.aws_logs(log_group=self.log_group, stream_prefix="worker"),
            stop_timeout=Duration.seconds(self._size.grace + _AFTER_GRACE),
            health_check=ecs.HealthCheck(
                command=["CMD", "python", "-c", _PROBE],
                interval=Duration.seconds(30),
                timeout=Duration.seconds(5),
                retries=3,
                start_period=Duration.seconds(60),
            ),
        )
        acknowledge(task, "AwsSolutions-ECS2", "names of what is deployed, and ARNs of secrets: no secret's value")

    def _environment(self) -> dict[str, str]:
        common = self._common
        low_share = common.installation.low_share
        return {
            **common.variables(self._queue),
            "AWS_REGION": Aws.REGION,
            "QUARTERJACK_PREFIX": common.installation.prefix,
            **common.installation.named_tables,
            "QUARTERJACK_RETENTION_DAYS": str(common.installation.retention_days),
            **common.queues.variables,
            **({} if low_share == LOW_SHARE else {"QUARTERJACK_LOW_SHARE": str(low_share)}),
            **common.installation.metered,
            **({} if common.installation.history else {"QUARTERJACK_HISTORY": "off"}),
        }

    def _scale(self) -> None:
        """Keep the messages of the queue, waiting or at hand, at ``backlog`` for each task.

        What is at hand counts, so that tasks with long runs are not stopped because nothing waits behind them.
        """
        count = self.service.auto_scale_task_count(min_capacity=self._size.minimum, max_capacity=self._size.maximum)
        target = count.node.find_child("Target")
        assert isinstance(target, scaling.ScalableTarget)
        load = QueueLoad(self._common.queues.lanes_of(self._queue), self.service)
        policy = scaling.CfnScalingPolicy
        policy(
            self,
            "BacklogPerTask",
            policy_name=f"{self._common.installation.name(worker_part(self._queue))}-backlog",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target.scalable_target_id,
            target_tracking_scaling_policy_configuration=policy.TargetTrackingScalingPolicyConfigurationProperty(
                target_value=self._size.target,
                scale_in_cooldown=300,
                scale_out_cooldown=60,
                customized_metric_specification=policy.CustomizedMetricSpecificationProperty(metrics=load.queries()),
            ),
        )
        if self._size.minimum == 0:  # a share of no task is no number, so that the policy above cannot begin
            count.scale_on_metric(
                "First",
                metric=load.without_task(),
                scaling_steps=[scaling.ScalingInterval(upper=0, change=0), scaling.ScalingInterval(lower=1, change=1)],
                adjustment_type=scaling.AdjustmentType.CHANGE_IN_CAPACITY,
                evaluation_periods=1,
            )


def _known(common: WorkerSettings, queue: str | None) -> str | None:
    """The queue's name, None for the default one. Raises InvalidInput for one that is not declared."""
    name = declared_name(queue)
    declared = [each.name for each in common.queues.declared]
    if name is not None and name not in declared:
        known = ", ".join(declared) or "none but the default one"
        raise InvalidInput(
            "queue", queue, f"is not declared; there is {known}", "declare it: Queue(..., container=True)"
        )
    return name
