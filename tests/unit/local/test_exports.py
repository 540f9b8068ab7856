"""The variables that another terminal needs: with them, its requests are those of the installation's processes."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack import Settings
from quarterjack.local.installation import _SHELL_NEEDS, LocalInstallation
from quarterjack.local_installations import export_line
from quarterjack.settings import from_environment

ENVIRONMENT = dict.fromkeys(_SHELL_NEEDS, "x y")
LOCAL: dict[str, Any] = {"bucket": "b", "logs": "/logs"}


def terminal(settings: Settings) -> dict[str, str]:
    variables: Any = LocalInstallation.variables
    line = export_line(variables.fget(SimpleNamespace(settings=settings, environment=ENVIRONMENT)))
    word, *parts = shlex.split(line)
    assert word == "export"
    return dict(part.split("=", 1) for part in parts)


@pytest.mark.parametrize(
    "own",
    [{}, {"prefix": "p", "tenant": "acme"}, {"priorities": "default,mail", "stripes": "mail=3"}, {"history": False}],
)
def test_a_terminal_has_the_settings_of_the_processes(own: dict[str, Any]) -> None:
    settings = Settings(**LOCAL, **own)
    found = from_environment(terminal(settings))
    assert found == Settings(**LOCAL, **own, endpoint="x y", region="x y")


def test_it_does_not_get_the_name_of_the_user_who_started_it() -> None:
    assert terminal(Settings(**LOCAL, actor="ada")) == ENVIRONMENT | {
        "QUARTERJACK_BUCKET": "b",
        "QUARTERJACK_LOGS": "/logs",
    }
