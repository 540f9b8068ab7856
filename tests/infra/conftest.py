"""Synthesis takes seconds, so the stack as it is deployed is made once a session, for all its processes; bundling is tested on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.app import QuarterjackStack

from aws_cdk import App, Stack  # isort: skip — after the package, which finds Node
from aws_cdk.assertions import Template  # isort: skip — the same
from tests.support.stacks import FLAGS, JOBS, NO_BUNDLING
from tests.support.templates import made_once

BARE = "in-a-bare-app"


@pytest.fixture(scope="session")
def with_knobs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Template]:
    """Makes the template of a stack with the knobs that it is called with."""

    def synthesise(**knobs: Any) -> Template:
        return _stack({}, tmp_path_factory, **knobs) if knobs else _without_knobs(BARE, tmp_path_factory)

    return synthesise


@pytest.fixture(scope="session", params=["as-deployed", BARE])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The template of the stack without any knobs: with this repository's feature flags, and with none."""
    return _without_knobs(request.param, tmp_path_factory)


def _without_knobs(app: str, folders: pytest.TempPathFactory) -> Template:
    flags = {} if app == BARE else FLAGS
    return Template.from_json(made_once(app, lambda: _stack(flags, folders), folders))


def _stack(flags: Mapping[str, Any], folders: pytest.TempPathFactory, **knobs: Any) -> Template:
    app = App(context={**flags, **NO_BUNDLING}, outdir=str(folders.mktemp("cdk.out")))
    return Template.from_stack(QuarterjackStack(app, "Test", knobs={"jobs": JOBS, **knobs}))


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """A user's stack, still empty."""
    return Stack(App(context=NO_BUNDLING, outdir=str(tmp_path)), "Test")
