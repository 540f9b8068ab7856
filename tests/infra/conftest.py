"""Synthesis takes seconds, so the stack as it is deployed is made once a session; bundling is tested on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.app import QuarterjackStack

from aws_cdk import App, Stack  # isort: skip — after the package, which finds Node
from aws_cdk.assertions import Template  # isort: skip — the same
from tests.support.stacks import FLAGS, JOBS, NO_BUNDLING


@pytest.fixture(scope="session")
def with_knobs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Template]:
    """Makes the template of a stack with the knobs that it is called with."""

    def synthesise(**knobs: Any) -> Template:
        app = App(context=NO_BUNDLING, outdir=str(tmp_path_factory.mktemp("cdk.out")))
        return Template.from_stack(QuarterjackStack(app, "Test", knobs={"jobs": JOBS, **knobs}))

    return synthesise


@pytest.fixture(scope="session", params=["as-deployed", "in-a-bare-app"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The template of the stack without any knobs: with this repository's feature flags, and with none."""
    flags = FLAGS if request.param == "as-deployed" else {}
    app = App(context={**flags, **NO_BUNDLING}, outdir=str(tmp_path_factory.mktemp("cdk.out")))
    return Template.from_stack(QuarterjackStack(app, "Test", knobs={"jobs": JOBS}))


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """A user's stack, still empty."""
    return Stack(App(context=NO_BUNDLING, outdir=str(tmp_path)), "Test")
