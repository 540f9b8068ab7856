"""``quarterjack runs signal``: the answer to a run that waits, and its receipt."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from quarterjack import Registry, Run
from quarterjack.cli.app import run
from quarterjack.testing import Harness

from tests.support.api import NOON

jobs = Registry()


@jobs.job("approve")
def approve(ctx: Any, payload: Any) -> Any:
    return ctx.wait_for("approval", timeout=3_600)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    harness = Harness(jobs, at=NOON)
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", harness.scheduler)
    return harness


@pytest.fixture
def waiting(harness: Harness) -> Run:
    run = harness.scheduler.submit("approve")
    harness.advance()
    return run


def test_the_receipt_is_printed(harness: Harness, waiting: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "signal", waiting.id, "approval", "--payload", '{"ok": true}']) == 0
    said = capsys.readouterr().out
    assert "accepted" in said
    assert '"ok"' in said
    harness.advance()
    assert harness.scheduler.get_run(waiting.id).result == {"ok": True}


def test_a_later_answer_is_told_the_first_one(waiting: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for payload in ("1", "1", "2"):
        assert run(["--json", "runs", "signal", waiting.id, "approval", "--payload", payload]) == 0
    receipts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["outcome"], one["payload"]) for one in receipts] == [("accepted", 1), ("repeated", 1), ("answered", 1)]
    assert receipts[0]["run_id"] == waiting.id


def test_the_answer_may_come_by_standard_input(
    waiting: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("[1, 2]"))
    assert run(["--json", "runs", "signal", waiting.id, "approval", "--payload", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["payload"] == [1, 2]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["a b"], "name"),
        (["a", "--payload", "{"], "payload"),
        (["a", "--payload", '"' + "x" * 70_000 + '"'], "payload"),
    ],
)
def test_what_cannot_be_an_answer_is_refused(
    waiting: Run, capsys: pytest.CaptureFixture[str], words: list[str], fault: str
) -> None:
    assert run(["runs", "signal", waiting.id, *words]) == 1
    assert fault in capsys.readouterr().err


def test_an_ended_run_takes_no_answer(harness: Harness, waiting: Run, capsys: pytest.CaptureFixture[str]) -> None:
    harness.scheduler.cancel_run(waiting.id)
    assert run(["runs", "signal", waiting.id, "approval"]) == 4
    assert "CANCELLED" in capsys.readouterr().err


def test_links_are_made_listed_and_revoked(harness: Harness, waiting: Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--payload", '{"ok": true}', "--to", "ada@acme.example", "--base", "https://jobs.example.com/console"]
    assert run(["--json", "runs", "link", waiting.id, "approval", *words, "--expires-in", "2d"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["url"].startswith("https://jobs.example.com/console/answer/")
    assert made["expires_at"].startswith("2026-05-06T12:00")
    assert run(["--json", "runs", "links", waiting.id]) == 0
    (listed,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (listed["id"], listed["state"], listed["payload"]) == (made["id"], "open", {"ok": True})
    assert run(["runs", "links", waiting.id]) == 0
    assert "ada@acme.example" in capsys.readouterr().out
    assert run(["runs", "revoke-link", waiting.id, made["id"]]) == 0
    assert "revoked" in capsys.readouterr().out
    assert harness.scheduler.list_links(waiting.id)[0].state == "revoked"


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["link", "RUN", "approval", "--to", "ada", "--base", "jobs"], "--base", 1),
        (["link", "RUN", "approval", "--to", "iam:x", "--base", "https://x"], "--to", 1),
        (["revoke-link", "RUN", "zz"], "LINK", 1),
        (["revoke-link", "RUN", "0" * 12], "`quarterjack runs links`", 3),
    ],
)
def test_what_a_link_cannot_be_names_the_option(
    waiting: Run, capsys: pytest.CaptureFixture[str], words: list[str], said: str, code: int
) -> None:
    assert run(["runs", *(waiting.id if word == "RUN" else word for word in words)]) == code
    assert said in capsys.readouterr().err
