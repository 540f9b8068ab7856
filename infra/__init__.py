"""Minutehand for the AWS CDK: ``from minutehand.infra import Minutehand``.

In this repository's checkout the package is the folder ``infra``.
"""

from .node import use_wheel_node

use_wheel_node()

from .api import ApiSettings, JwtIssuer  # noqa: E402 — jsii starts Node at the first import of aws_cdk
from .bundling import AWS, AWS_COMPILED, HERE, BundleTarget  # noqa: E402 — jsii starts Node at the first import of aws_cdk
from .load_balancer import LoadBalancerSettings  # noqa: E402 — the same
from .minutehand import Minutehand  # noqa: E402 — the same

__all__ = [
    "AWS",
    "AWS_COMPILED",
    "HERE",
    "ApiSettings",
    "BundleTarget",
    "JwtIssuer",
    "LoadBalancerSettings",
    "Minutehand",
]
