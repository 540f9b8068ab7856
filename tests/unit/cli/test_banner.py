"""Processes at a terminal: a banner, then lines for people; elsewhere, and with --json, JSON lines."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from quarterjack import Scheduler, Settings

from tests.support.command_line import typed

pytestmark = pytest.mark.cloud

JOBS = """
from quarterjack import Retry, job

@job("greet")
def greet(ctx, payload):
    ctx.logger.info("greeted", extra={"whom": payload})

@job("alone", isolation="process")
def alone(ctx, payload):
    ctx.logger.info("greeted.alone")

@job("bad", retry=Retry(max_attempts=1))
def bad(ctx, payload):
    raise ConnectionError("closed")
"""
GIVE_UP = 60.0  # seconds


def screen(
    settings: Settings, folder: Path, *words: str, until: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, int]:
    """What a process prints at a terminal until it has said something, then gets Ctrl-C, and ends; and its exit code."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(folder)
    ours, theirs = pty.openpty()
    process = typed(settings, *words, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    found, stopped, give_up = "", False, time.monotonic() + GIVE_UP
    try:
        while time.monotonic() < give_up:
            if not stopped and re.search(until, found):
                process.send_signal(signal.SIGINT)
                stopped = True
            if select.select([ours], [], [], 0.1)[0]:
                found += os.read(ours, 100_000).decode()
    except OSError:  # its end of the terminal is closed
        pass
    finally:
        os.close(ours)
        if not stopped:
            process.kill()
    return re.sub("\x1b\\[[0-9;]*m", "", found.replace("\r\n", "\n")), process.wait(GIVE_UP)


def test_a_worker(local_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shown_jobs.py").write_text(JOBS)
    owner = Scheduler(settings=local_settings)
    for job in ("greet", "alone", "bad"):
        owner.submit(job, "Ada", idempotency_key=job)
    over = r"(?s)(?=.*greet#.*SUCCEEDED)(?=.*alone.*SUCCEEDED)(?=.*DEAD)".replace("greet#", "~greet")
    words = ("worker", "--jobs", "shown_jobs", "--concurrency", "3", "--grace", "1m30s")
    shown, code = screen(local_settings, tmp_path, *words, until=over, monkeypatch=monkeypatch)
    assert code == 0, shown
    banner, lines = shown.split("worker.started", 1)
    assert re.match(r"quarterjack \S+: worker\n", banner)
    for name, text in {
        "queue": "default",
        "jobs": "alone, bad, greet",
        "concurrency": "3 runs",
        "endpoint": local_settings.endpoint,
        "stop": "Ctrl-C, or SIGTERM: runs get 1 min 30 s to end; a second Ctrl-C does not wait",
    }.items():
        assert re.search(rf"^  {name} +{re.escape(str(text))}$", banner, re.MULTILINE), name
    assert re.search(rf"^  tenants +all of installation '{local_settings.prefix}'$", banner, re.MULTILINE)
    assert re.search(r"\n\d\d:\d\d:\d\dZ  INFO     greet  default/~greet#once  started \d.* late\n", lines)
    assert re.search(r"Z  INFO     greet  default/~greet#once  greeted  whom=Ada\n", lines)
    assert re.search(r"Z  INFO     greet  default/~greet#once  SUCCEEDED \(\d+ ms\)\n", lines)
    assert re.search(r"Z  WARNING  bad  default/~bad#once  DEAD \(\d+ ms\)  ConnectionError: closed\n", lines)
    assert re.search(r"Z  INFO     alone  default/~alone#once  greeted.alone\n", lines), "of an isolated job"
    assert "{" not in lines


@pytest.mark.parametrize(
    ("words", "until", "facts"),
    [
        (("ticker", "--period", "90s"), r"tick\.done", {"period": "1 min 30 s"}),
        (("undertaker",), r"times ", {"reads": "the dead-letter queue"}),
        (("historian",), r"times ", {"reads": "the stream of runs", "period": "2 s"}),
    ],
)
def test_the_others(
    local_settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    until: str,
    facts: dict[str, str],
) -> None:
    shown, code = screen(local_settings, tmp_path, *words, until=until, monkeypatch=monkeypatch)
    assert code == 0, shown
    assert re.match(rf"quarterjack \S+: {words[0]}\n", shown)
    for name, text in facts.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", shown, re.MULTILINE), shown
    assert '"event"' not in shown


def test_json_where_programs_read(local_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, code = screen(local_settings, tmp_path, "--json", "ticker", until=r"tick\.done", monkeypatch=monkeypatch)
    assert code == 0
    assert {json.loads(line)["event"] for line in shown.splitlines()} >= {"tick.done"}
    process = typed(local_settings, "ticker", stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert json.loads(process.stderr.readline())["event"] == "tick.done"
    process.terminate()
    process.communicate(timeout=GIVE_UP)
