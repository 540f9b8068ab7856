"""The CDK app of this checkout: ``infra.app``, checked by cdk-nag when it is synthesised. ``cdk.json`` names it.

The wheel does not have this module: the user of the construct chooses the rules of an app.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.app import build

from aws_cdk import App, Validations  # isort: skip — after the package, which finds Node
from cdk_nag import AwsSolutionsChecks  # isort: skip — the same


def checked(context: Mapping[str, Any] | None = None, *, out: Path | None = None) -> App:
    """The app with the rules of cdk-nag; the arguments are those of ``build``."""
    app = build(context, out=out)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


if __name__ == "__main__":
    checked().synth()
