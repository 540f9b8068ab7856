"""``quarterjack secrets …`` as one types them, on a cloud with Parameter Store."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest
from quarterjack import Settings
from quarterjack.services import connect

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud
HUSH = "hush-0123456789"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> object:
    """Puts bytes on standard input, which is no terminal."""

    def type_in(content: bytes) -> None:
        stream = SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", stream)

    return type_in


def test_from_the_first_value_to_its_removal(said: Say, typed: object, local_settings: Settings) -> None:
    put = typed
    assert callable(put)
    assert said("--tenant", "acme", "secrets", "list").out == ""
    put(f"{HUSH}\n".encode())
    stored = said("--tenant", "acme", "secrets", "set", "crm-token")
    assert (stored.code, HUSH in stored.out + stored.err) == (0, False)
    put(b"hush-second")
    assert said("--tenant", "acme", "--json", "secrets", "set", "crm-token").json == [
        {"secret": "crm-token", "tenant": "acme"}
    ]
    services = connect(local_settings)
    assert services.secrets.get("acme", "crm-token") == "hush-second"
    (listed,) = said("--tenant", "acme", "--json", "secrets", "list").json
    assert (listed["name"], listed["version"]) == ("crm-token", 2)
    shown = said("--tenant", "acme", "secrets", "list").out
    assert "crm-token" in shown
    assert "hush" not in shown
    assert said("--tenant", "beta", "secrets", "list").out == ""
    refused = said("--tenant", "acme", "secrets", "delete", "crm-token")
    assert refused.code == 8
    assert said("--tenant", "acme", "secrets", "delete", "crm-token", "--yes").code == 0
    missing = said("--tenant", "acme", "secrets", "delete", "crm-token", "--yes")
    assert (missing.code != 0, "has no such secret" in missing.err) == (True, True)


@pytest.mark.parametrize("content", [b"", b"abc\n", b"x" * 5_000, b"\xff\xfe\xfd\xfc\xfb"])
def test_a_value_that_cannot_be_stored_is_refused_and_not_shown(said: Say, typed: object, content: bytes) -> None:
    assert callable(typed)
    typed(content)
    refused = said("--tenant", "acme", "secrets", "set", "crm-token")
    assert (refused.code, refused.out) == (1, "")
    assert "value='…'" in refused.err


@pytest.mark.parametrize("name", ["../beta/x", "a/b", "a:1"])
def test_a_name_that_could_climb_is_refused(said: Say, typed: object, name: str) -> None:
    assert callable(typed)
    typed(HUSH.encode())
    refused = said("--tenant", "acme", "secrets", "set", name)
    assert (refused.code, "is not a valid name" in refused.err) == (1, True)


def test_a_value_is_no_argument(said: Say) -> None:
    assert said("--tenant", "acme", "secrets", "set", "crm-token", HUSH).code == 2
