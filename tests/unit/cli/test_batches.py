"""``quarterjack runs submit-all``, and ``quarterjack submit --unique``."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Registry
from quarterjack.cli.app import run
from quarterjack.testing import Harness

from tests.support.api import NOON


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    jobs = Registry()
    jobs.job("send")(lambda ctx, payload: payload)
    jobs.job("report")(lambda ctx, payload: payload)
    harness = Harness(jobs, at=NOON)
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", harness.scheduler)
    return harness


def payloads(harness: Harness) -> list[Any]:
    return [one.payload for one in sorted(harness.runs(), key=lambda one: one.id) if one.job == "send"]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    found = capsys.readouterr()
    return found.out + found.err


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_lines_of_json_are_submitted_and_the_end_is_told(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mails.jsonl"
    path.write_text('{"job": "send", "payload": 1}\n\n{"job": "send", "payload": {"a": 2}, "delay": 60}\n')
    for _ in range(2):  # repeated, it submits nothing twice
        assert run(["runs", "submit-all", str(path), "--on-end", "report", "--key", "may"]) == 0
        assert "2 of 2 runs submitted as batch may" in (text := said(capsys))
        assert "default/~may#once" in text
    assert payloads(harness) == [1, {"a": 2}]
    harness.advance(hours=1)
    assert harness.scheduler.get_run("default/~may#once").result["succeeded"] == 2


def test_a_table_with_columns_for_fields_and_members_of_the_payload(harness: Harness, tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    path.write_text('\ufeffpayload.to,payload.text,delay,priority\nAda,"Hello, you",,\nBob,,90,low\n', encoding="utf-8")
    assert run(["runs", "submit-all", str(path), "--job", "send"]) == 0
    assert payloads(harness) == [{"to": "Ada", "text": "Hello, you"}, {"to": "Bob", "text": ""}]
    assert sorted((one.due - NOON).total_seconds() for one in harness.runs()) == [0, 90]


def test_standard_input(harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given(monkeypatch, '{"job": "send", "payload": "Ada"}')
    assert run(["--json", "runs", "submit-all", "-"]) == 0
    given(monkeypatch, 'job,payload\nsend,"{""a"": 1}"\n')
    assert run(["--json", "runs", "submit-all", "-", "--format", "csv"]) == 0
    assert [json.loads(line)["number"] for line in capsys.readouterr().out.splitlines()] == [1, 1]
    assert sorted(map(str, payloads(harness))) == ["Ada", "{'a': 1}"]


def test_refused_items_are_listed_and_the_others_go(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, '{"job": "send"}\n{"job": "send", "delay": -1}\n{"job": "send", "unique": "k"}\n7\n')
    assert run(["runs", "submit-all", "-"]) == 1
    text = said(capsys)
    assert "1 of 4 runs submitted" in text
    assert all(word in text for word in ("delay", "unique", "is no object"))
    assert len(payloads(harness)) == 1


def test_throttled_items_are_repeated_with_the_key(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.tenants.set("default", limits={"waiting_runs": 1})
    given(monkeypatch, '{"job": "send", "delay": 60}\n' * 2)
    assert run(["runs", "submit-all", "-", "--key", "may"]) == 5
    text = said(capsys)
    assert "1 of 2" in text
    assert "--key may" in text


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.jsonl", '{"job": "send"}\n{', "line 2 is not JSON"),
        ("a.csv", "", "has no heading"),
        ("a.csv", "job,mail\nsend,x\n", "a column 'mail'"),
        ("a.csv", "job,retry\nsend,x\n", "a column 'retry'"),
        ("a.csv", "job,job\nsend,send\n", "two columns 'job'"),
        ("a.csv", "job,payload,payload.a\nsend,1,2\n", "give one or the other"),
        ("a.csv", "job,payload\nsend,1,2\n", "line 2 has 3 cells"),
        ("a.csv", "job,payload\nsend,{\n", "payload in line 2 is not JSON"),
        ("a.csv", 'job,payload\nsend,"1\n', "is not CSV"),
        ("a.jsonl", "", "give at least one"),
        ("absent.jsonl", None, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_submits_nothing(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | None, problem: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    assert run(["runs", "submit-all", str(path)]) == 1
    assert problem in capsys.readouterr().err
    assert list(harness.runs()) == []


def test_a_job_that_is_not_there_names_the_option(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, '{"job": "send"}')
    assert run(["runs", "submit-all", "-", "--on-end", "absent", "--strict"]) == 1
    assert "--on-end='absent'" in capsys.readouterr().err
    assert list(harness.runs()) == []


# Unique keys.


def test_a_unique_key_is_given_by_options(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--json", "submit", "send", "--delay", "60", "--unique", "k"]
    assert [run([*words, "--payload", payload]) for payload in ("1", "2")] == [0, 0]
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["id"], first["payload"]) == (second["id"], second["payload"])
    assert run([*words, "--payload", "3", "--on-duplicate", "replace"]) == 0
    assert json.loads(capsys.readouterr().out)["payload"] == 3
    assert run([*words, "--on-duplicate", "refuse", "--unique-for", "1h"]) == 4
    assert "has the key" in capsys.readouterr().err
    assert run([*words, "--on-duplicate", "after", "--payload", "4"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "PARKED"
    harness.advance(hours=1)
    assert sorted(payloads(harness)) == [3, 4]


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--unique-for", "1h"], "--unique-for"),
        (["--on-duplicate", "refuse"], "--on-duplicate"),
        (["--unique", "k", "--on-duplicate", "never"], "--on-duplicate"),
        (["--unique", "a b"], "--unique"),
        (["--unique", "k", "--on-duplicate", "after", "--key", "i"], "--key"),
    ],
)
def test_what_does_not_go_with_a_unique_key_names_the_option(
    harness: Harness, capsys: pytest.CaptureFixture[str], words: list[str], option: str
) -> None:
    assert run(["submit", "send", *words]) == 1
    assert f"{option}=" in capsys.readouterr().err
