"""Commands against a fresh installation on the local cloud: ``said`` gives all that they say, ``say`` the output of what must succeed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from quarterjack.cli.app import app
from quarterjack.settings import Settings
from typer.testing import CliRunner

from tests.support.command_line import Say, environment, speaker


@pytest.fixture
def said(local_settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    return speaker(local_settings, monkeypatch, capsys)


@pytest.fixture
def say(local_settings: Settings) -> Callable[..., str]:
    given = {**environment(local_settings), "COLUMNS": "300"}

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, words, env=given)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output

    return run
