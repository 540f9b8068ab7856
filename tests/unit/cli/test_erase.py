"""``quarterjack tenants erase`` as one types it."""

from __future__ import annotations

import pytest
from quarterjack.cli.exits import ExitCode
from quarterjack.domain.tenants import erasure

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "BELIEF", 0)
    monkeypatch.setattr(erasure, "QUIET", 0)


def test_it_counts_first_and_then_erases_with_a_certificate(said: Say) -> None:
    said("--tenant", "acme", "submit", "note", "--at", "2099-01-01T00:00:00Z")
    counted = said("--json", "tenants", "erase", "acme", "--dry-run").json[0]
    assert (counted["tenant"], counted["found"]["runs"]) == ("acme", 1)
    assert "1  runs" in said("tenants", "erase", "acme", "--dry-run").out
    unconfirmed = said("tenants", "erase", "acme")
    assert unconfirmed.code == ExitCode.NOT_CONFIRMED
    assert "--confirm acme" in unconfirmed.err
    wrong = said("tenants", "erase", "acme", "--confirm", "acme2")
    assert wrong.code == ExitCode.FAILED
    done = said("--reason", "INC-7", "tenants", "erase", "acme", "--confirm", "acme")
    assert done.code == 0
    assert "tenant acme was erased" in done.out
    assert "1  runs" in done.out
    assert "point-in-time recovery" in done.out
    (again,) = said("--json", "tenants", "erase", "acme", "--confirm", "acme").json
    assert (again["reason"], again["removed"]["runs"]) == ("INC-7", 1)
    assert said("tenants", "set", "acme", "--description", "x").code == ExitCode.CONFLICT
    refused = said("--tenant", "acme", "submit", "note")
    assert refused.code != 0
    assert "ERASED" in refused.err
