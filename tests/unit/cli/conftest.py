"""``say`` runs a command against a fresh installation on the local cloud."""

from __future__ import annotations

import pytest
from minutehand.settings import Settings

from tests.support.command_line import Say, speaker


@pytest.fixture
def said(local_settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    return speaker(local_settings, monkeypatch, capsys)
