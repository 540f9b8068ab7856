"""Synthesis takes seconds, so the stack as it is deployed is made once a session; bundling is tested on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.stack import MinutehandStack

from aws_cdk import App  # isort: skip — after the package, which finds Node
from aws_cdk.assertions import Template  # isort: skip — the same

JOBS = Path(__file__).parent / "acme" / "jobs"
NO_BUNDLING: dict[str, Any] = {"aws:cdk:bundling-stacks": []}


def synthesise(**knobs: Any) -> Template:
    """The template of a stack with these knobs."""
    stack = MinutehandStack(App(context=NO_BUNDLING), "Test", knobs={"jobs": JOBS, **knobs})
    return Template.from_stack(stack)


@pytest.fixture(scope="session")
def template() -> Template:
    """The template of the stack as it is without any knobs."""
    return synthesise()


@pytest.fixture(scope="session")
def with_knobs() -> Callable[..., Template]:
    """Templates with knobs."""
    return synthesise
