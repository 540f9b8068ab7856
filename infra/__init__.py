"""Quarterjack for the AWS CDK: ``from quarterjack.infra import Quarterjack``.

In this repository's checkout the package is the folder ``infra``.
"""

from .packaging.node import use_wheel_node

use_wheel_node()

from .alarms.settings import AlarmChange, AlarmSettings  # noqa: E402 — jsii starts Node at the first import of aws_cdk
from .containers.workers import ContainerSize, ContainerWorkers  # noqa: E402 — the same
from .front_door.api import ApiSettings, JwtIssuer  # noqa: E402 — the same
from .front_door.load_balancer import LoadBalancerSettings  # noqa: E402 — the same
from .packaging.dependencies import AWS, AWS_COMPILED, HERE, BundleTarget  # noqa: E402 — jsii starts Node at the first import of aws_cdk
from .quarterjack import Quarterjack  # noqa: E402 — the same

__all__ = [
    "AWS",
    "AWS_COMPILED",
    "HERE",
    "AlarmChange",
    "AlarmSettings",
    "ApiSettings",
    "BundleTarget",
    "ContainerSize",
    "ContainerWorkers",
    "JwtIssuer",
    "LoadBalancerSettings",
    "Quarterjack",
]
