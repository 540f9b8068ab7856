"""Schedules whose fires are far away."""

from __future__ import annotations

import pytest
from quarterjack.testing import Crash

from tests.support.scenes.world import Faults, World, crash


def far(
    world: World,
    name: str = "s",
    expression: str = "* * * * *",
    job: str = "note",
    window: float = 1800.0,
) -> None:
    """A schedule of which nothing is claimed yet: it was created, and its creator died."""
    with pytest.raises(Crash):
        world.owner(Faults().at("arm", after=crash)).create_schedule(name, job, expression, catch_up_window=window)
