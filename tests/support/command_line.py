"""The command line in tests: what one types, and what comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from quarterjack.cli.app import run
from quarterjack.local.processes import variables
from quarterjack.settings import Settings


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> list[Any]:
        """Its JSON lines."""
        assert self.code == 0, self.err
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def problem(self) -> Any:
        """Its error as JSON."""
        return json.loads(self.err)


Say = Callable[..., Said]


def environment(settings: Settings) -> Mapping[str, str]:
    """The variables that `quarterjack local` tells one to export."""
    where = {"AWS_ENDPOINT_URL": str(settings.endpoint), "AWS_REGION": str(settings.region)}
    return variables(settings) | where


def speaker(settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs commands against an installation."""
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)

    def say(*words: str) -> Said:
        capsys.readouterr()
        code = run(words)
        out, err = capsys.readouterr()
        return Said(int(code), out, err)

    return say


def typed(settings: Settings, *words: str, **streams: Any) -> subprocess.Popen[str]:
    """A command in a process of its own, to be interrupted."""
    environ = {**os.environ, **environment(settings), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-m", "quarterjack", *words], env=environ, text=True, **streams)
