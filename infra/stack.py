"""The stack of this repository: one scheduler, with the example jobs or the jobs that the context names."""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from constructs import Construct

from .quarterjack import Quarterjack


class QuarterjackStack(Stack):
    """A stack with one scheduler; ``knobs`` are the arguments of the construct."""

    def __init__(self, scope: Construct, construct_id: str, *, knobs: dict[str, Any], **settings: Any) -> None:
        super().__init__(scope, construct_id, description="Quarterjack: a serverless job scheduler", **settings)
        self.quarterjack = Quarterjack(self, "Jobs", **knobs)
        for name, output in self.quarterjack.outputs.items():
            output.override_logical_id(name)
