"""The CloudFormation template of an installation: its outputs, and its limit. The CDK's own error names no setting."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CfnOutput, CfnResource
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.errors import InvalidInput

from .front_door.api import ApiFunction
from .installation import InstallationSettings
from .storage.queues import InstallationQueues
from .storage.store import InstallationStore

MOST_RESOURCES = 500  # of a template: a quota of CloudFormation that cannot be raised
# Managed policies that CDK makes at synthesis, of roles whose queues do not fit into an inline policy; what stands beside the construct.
_LATER = 20
_FEW = 25  # SQS queues that fit whatever else there is
_OF_STRIPE = 5  # an SQS queue, its policy, its event source and two alarms


def check_stripes(construct: Construct, queues: Mapping[str | None, tuple[int, int]]) -> None:
    """Refuse stripes that do not fit into one template. ``queues``: by name (None: the default one), its stripes and its lanes.

    The resources are counted where there are many SQS queues: that takes a second. Raises InvalidInput.
    """
    if sum(stripes * lanes for stripes, lanes in queues.values()) <= _FEW:
        return
    count = _LATER + sum(CfnResource.is_cfn_resource(node) for node in construct.node.find_all())
    if count <= MOST_RESOURCES:
        return
    name = max(queues, key=lambda one: queues[one][0] * queues[one][1])
    stripes, lanes = queues[name]
    fits = max(stripes - -(-(count - MOST_RESOURCES) // (_OF_STRIPE * lanes)), 1)
    what = f"are too many of queue {name or DEFAULT_QUEUE}: a template holds {MOST_RESOURCES} resources, and this one has about {count}"
    remedy = f"use at most {fits}, or fewer lanes, queues or alarms"
    raise InvalidInput("stripes", stripes, what, remedy)


def outputs_of(
    scope: Construct,
    *,
    installation: InstallationSettings,
    store: InstallationStore,
    queues: InstallationQueues,
    worker: lambda_.Function,
    topic: sns.ITopic | None,
    api: ApiFunction | None,
) -> dict[str, CfnOutput]:
    """By name; ``override_logical_id`` gives one a name that a script can rely on."""
    described = {
        "Prefix": ("QUARTERJACK_PREFIX for the SDK and the command line", installation.prefix),
        "BucketName": ("QUARTERJACK_BUCKET for the SDK and the command line", store.bucket.bucket_name),
        "WorkQueueUrl": ("The queue of runs that are due", queues.work.queue_url),
        "DeadLetterQueueUrl": ("The queue of runs that ended dead", queues.dead.queue_url),
        "WorkerName": ("The function that runs the jobs", worker.function_name),
    }
    if installation.tables is not None:
        described["Tables"] = ("QUARTERJACK_TABLES for the SDK and the command line", installation.tables)
    if topic is not None:
        described["AlarmTopicArn"] = ("Subscribe to it to hear of alarms", topic.topic_arn)
    if store.archive_bucket is not store.bucket:
        place = "QUARTERJACK_ARCHIVE_BUCKET for the SDK and the command line"
        described["ArchiveBucketName"] = (place, store.archive_bucket.bucket_name)
    if not installation.history:
        described["History"] = ("QUARTERJACK_HISTORY for the SDK and the command line", "off")
    if queues.stripes_said is not None:
        described["Stripes"] = ("QUARTERJACK_STRIPES for the SDK and the command line", queues.stripes_said)
    if queues.priorities_said is not None:
        what = "QUARTERJACK_PRIORITIES for the SDK and the command line"
        described["Priorities"] = (what, queues.priorities_said)
    for way, url in ({} if api is None else api.urls).items():
        described[f"{way.capitalize()}ApiUrl"] = (f"The HTTP API, for callers by {way}", url)
    if api is not None and api.console_url is not None:
        described["ConsoleUrl"] = ("The console, for people who sign in or have an API key", api.console_url)
    return {
        name: CfnOutput(scope, name, description=description, value=value)
        for name, (description, value) in described.items()
    }
