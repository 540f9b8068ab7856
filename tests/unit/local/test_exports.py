"""The line that another terminal needs: with it, whoever sends from there sends as the processes of the installation do."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack import Settings
from quarterjack.local.installation import _SHELL_NEEDS, LocalInstallation


@pytest.mark.parametrize("priorities", [None, "default,mail"])
def test_a_terminal_knows_the_queues_with_lanes(priorities: str | None) -> None:
    settings = Settings(prefix="p", bucket="b", priorities=priorities)
    environment = dict.fromkeys(_SHELL_NEEDS, "x y")
    exports: Any = LocalInstallation.exports
    line = exports.fget(SimpleNamespace(settings=settings, environment=environment, folder=Path("/logs")))
    word, *variables = shlex.split(line)
    found = dict(variable.split("=", 1) for variable in variables)
    assert (word, found["QUARTERJACK_BUCKET"], found["AWS_REGION"]) == ("export", "b", "x y")
    assert found.get("QUARTERJACK_PRIORITIES") == priorities
