"""The alarms of the nights' installation, as the stack makes them: synthesised once a session, for all its processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from quarterjack.domain.queue import Queue

from infra.app import QuarterjackStack

from aws_cdk import App  # isort: skip — after the package, which finds Node
from aws_cdk.assertions import Template  # isort: skip — the same
from tests.support.stacks import JOBS, NO_BUNDLING
from tests.support.templates import made_once


@pytest.fixture(scope="session")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Any]]:
    """The resources of a stack with the queues of a night, history and events."""

    def make() -> Template:
        app = App(context=NO_BUNDLING, outdir=str(tmp_path_factory.mktemp("cdk.out")))
        queues = [Queue(name="reports", priorities=True), Queue(name="gpu", container=True)]
        knobs = {"jobs": JOBS, "queues": queues, "events": "eventbridge:acme"}
        return Template.from_stack(QuarterjackStack(app, "Night", knobs=knobs))

    found: Mapping[str, Mapping[str, Any]] = made_once("night", make, tmp_path_factory)["Resources"]
    return found
