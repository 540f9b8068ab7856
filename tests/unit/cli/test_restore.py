"""``quarterjack restore``: what it prints, and that it changes nothing before it is confirmed."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from quarterjack.cli.app import run
from quarterjack.domain.tenants.profile import INSTALLATION, Grant, TenantProfile
from quarterjack.stores.tables import TABLES

from tests.support.scenes.restored import Restored


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Restored:
    """Tables that were restored an hour after a schedule's last fires."""
    shop = Restored()
    shop.scheduler.create_schedule("often", "note", "*/30 * * * *")
    shop.harness.advance(minutes=40)
    shop.lose(shop.cuts(*[len(shop.journal.writes)] * len(TABLES)))
    shop.clock.advance(timedelta(hours=1))
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", shop.owner())
    monkeypatch.setattr("quarterjack.cli.typed.utc_now", shop.clock.now)
    return shop


POINT = ["--point", "2026-05-04T08:40:00Z"]


def test_plan_run_and_decisions(shop: Restored, capsys: pytest.CaptureFixture[str]) -> None:
    before = shop.content()
    assert run(["--json", "restore", "plan", *POINT]) == 0
    steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(step["kind"], step["target"]) for step in steps] == [
        ("hold-fire", "default/often#001777885200000"),
        ("hold-fire", "default/often#001777887000000"),
        ("begin-schedule", "default/often"),
        ("remove-chain", "default/often#1"),
    ]
    assert shop.content() == before

    assert run(["restore", "run", *POINT, "--yes"]) == 0
    said = capsys.readouterr()
    assert said.out == "4 steps; 2 leave a decision to the owner, 0 tell of something that is lost\n"
    assert "`quarterjack restore undecided` lists the runs" in " ".join(said.err.split())

    assert run(["--json", "restore", "undecided"]) == 0
    waiting = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["target"] for each in waiting] == [step["target"] for step in steps[:2]]
    assert run(["runs", "retry", waiting[0]["target"]]) == 0
    assert run(["runs", "cancel", waiting[1]["target"], "--yes"]) == 0
    capsys.readouterr()
    assert run(["restore", "undecided", "--expect"]) != 0
    shop.harness.advance(minutes=1)
    assert shop.starts[waiting[0]["target"]] == 1
    assert shop.starts[waiting[1]["target"]] == 0


def test_it_asks_first(shop: Restored, capsys: pytest.CaptureFixture[str]) -> None:
    before = shop.content()
    assert run(["restore", "run", *POINT]) != 0
    assert "--yes" in capsys.readouterr().err
    assert shop.content() == before


def test_who_has_no_grant_of_the_installation_is_refused(shop: Restored, capsys: pytest.CaptureFixture[str]) -> None:
    before, other = shop.content(), "iam:arn:aws:sts::111111111111:assumed-role/other/session"
    store = shop.memory.connect().tenants
    assert store.put(TenantProfile(tenant=INSTALLATION, grants=(Grant(to=other, can=("admin",)),)), expected=0)
    shop.clock.advance(timedelta(seconds=10))  # processes believe a profile for some seconds
    for words in (["plan", *POINT], ["run", *POINT, "--yes"], ["undecided"]):
        assert run(["restore", *words]) != 0
        assert "may not re" in capsys.readouterr().err
    assert {**shop.content(), "tenants": []} == {**before, "tenants": []}
