"""The limit of a CloudFormation template, checked before the CDK's own error, which names no setting."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CfnResource
from constructs import Construct
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.errors import InvalidInput

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
