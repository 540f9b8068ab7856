"""``quarterjack local`` as a newcomer starts it."""

from __future__ import annotations

import os
import re
import signal
import stat
import threading
import time
from pathlib import Path

import httpx
import pytest
from quarterjack.cli.exits import ExitCode

from tests.support.installation.local_command import command, local, processes_of, read_until

pytestmark = [pytest.mark.check, pytest.mark.cloud]


def child_pids(parent: int, name: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, fields = int(entry.parent.name), entry.read_text().rpartition(")")[2].split()
            line = (entry.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(fields[1]) == parent and name.encode() in line:
            found.append(pid)
    return found


def ended_run(browser: httpx.Client, key: str, seconds: float) -> dict[str, str]:
    """A run that succeeded, as the history has it: a page may be empty, and the history is some seconds behind."""
    asked, until = {"state": "SUCCEEDED", "limit": "1"}, time.monotonic() + seconds
    while time.monotonic() < until:
        header = {"Authorization": f"Bearer {key}"}
        page = browser.get("/v1/tenants/default/runs", params=asked, headers=header).json()
        for run in page["items"]:
            return dict(run)
        asked = {"state": "SUCCEEDED", "limit": "1"} | ({"cursor": page["cursor"]} if page["cursor"] else {})
    raise AssertionError(f"the history shows no run that succeeded in {seconds} s")


def test_it_ends_by_itself_and_finds_nothing_missing(tmp_path: Path) -> None:
    with local(tmp_path, "--for", "8") as running:
        first = read_until(running, "SUCCEEDED", 60)
        assert re.search(r"export AWS_ENDPOINT_URL=http://127\.0\.0\.1:\d+ ", first)
        rest = read_until(running, "stopping", 60)
        assert running.wait(60) == 0
    assert "0 missing, 0 double" in rest
    assert re.search(r"runs: DEAD 1, SUCCEEDED \d", rest)
    assert re.search(r"lateness, exact: p50 \d+ ms", rest)
    assert not list(tmp_path.glob("quarterjack-*")), "without --data nothing stays"


def test_a_browser_is_shown_what_runs(tmp_path: Path) -> None:
    with local(tmp_path, "--port", "0") as running:
        said = read_until(running, "qjk_local_", 60)
        (url,), (key,) = re.findall(r"browser: (\S+)/console/", said), re.findall(r"qjk_local_\S+", said)
        read_until(running, "SUCCEEDED", 60)
        with httpx.Client(base_url=url, trust_env=False, timeout=60, follow_redirects=True) as browser:
            same_site = {"Sec-Fetch-Site": "same-origin"}
            page = browser.post("/console/sign-in", data={"key": key}, headers=same_site)
            assert (page.status_code, page.url.path) == (200, "/console/t/default/")
            assert "check-page" in browser.get("/console/t/default/schedules").text
            listed = browser.get("/v1/tenants/default/schedules", headers={"Authorization": f"Bearer {key}"})
            assert "check-page" in {each["name"] for each in listed.json()["items"]}
            address = f"run/{ended_run(browser, key, 60)['url_id']}/logs"
            shown = browser.get(f"/console/t/default/{address}").text
            assert "run.started" in shown, "its lines come from the files of the processes"
            assert "worker-" in shown
        running.send_signal(signal.SIGINT)
        assert "0 missing, 0 double" in running.communicate(timeout=90)[0]
        assert running.returncode == 0


def test_ctrl_c_ends_it_with_a_summary(tmp_path: Path) -> None:
    with local(tmp_path) as running:
        read_until(running, "SUCCEEDED", 60)
        running.send_signal(signal.SIGINT)
        read_until(running, "0 missing, 0 double", 60)
        assert running.wait(60) == 0


def test_data_is_kept_and_what_was_missed_is_caught_up(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "kept"))
    endpoints = []
    for session in range(2):
        with local(tmp_path, *data, "--port", "0") as running:
            said = read_until(running, "qjk_local_", 60)
            endpoints.append(re.findall(r"export AWS_ENDPOINT_URL=.*|qjk_local_\S+", said))
            with command(tmp_path, "--local", "schedules", "list") as other:
                assert other.wait(60) == 0
            read_until(running, "SUCCEEDED", 60)
            running.send_signal(signal.SIGINT)
            rest = read_until(running, "stopping", 60)
            assert running.wait(60) == 0, rest
        assert "0 missing, 0 double" in rest
        assert ("caught up: " in rest) == (session == 1), rest
        threading.Event().wait(6)  # so long that a fire is missed
    assert endpoints[0] == endpoints[1], "other terminals and browsers find it where it was, with the same keys"
    assert len(endpoints[0]) == 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "kept").rglob("*key*.json")} == {0o600}


@pytest.mark.proof
def test_a_worker_that_is_killed_is_replaced_and_what_it_had_at_hand_runs_late(tmp_path: Path) -> None:
    with local(tmp_path, "--for", "12") as running:
        read_until(running, "SUCCEEDED", 60)
        (victim, _) = child_pids(running.pid, "worker")
        os.kill(victim, signal.SIGKILL)
        rest = read_until(running, "stopping", 120)
        assert re.search(r"worker-\d ended and was started again", rest)
        assert running.wait(60) == 0, rest


@pytest.mark.proof
def test_missing_fires_are_found_and_the_exit_code_says_so(tmp_path: Path) -> None:
    """Workers that hang: their processes are stopped, not ended."""
    with local(tmp_path, "--for", "12") as running:
        read_until(running, "SUCCEEDED", 60)
        workers = child_pids(running.pid, "worker")
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        rest = read_until(running, "stopping", 60)
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        assert running.wait(60) == 1
    assert re.search(r"; [1-9]\d* missing, 0 double", rest)
    assert "\nmissing: default/sample#" in rest


def test_a_killed_cloud_ends_it_with_an_error_and_no_verdict(tmp_path: Path) -> None:
    with local(tmp_path) as running:
        read_until(running, "SUCCEEDED", 60)
        (cloud,) = child_pids(running.pid, "quarterjack.local.engine")
        os.kill(cloud, signal.SIGKILL)
        said, code = running.communicate(timeout=60)[0], running.returncode
        assert code == ExitCode.UNAVAILABLE
        assert f"error: the local cloud (process {cloud}) was killed by SIGKILL" in said
        assert "missing" not in said
        assert "Traceback" not in said
        assert processes_of(tmp_path) == []


def test_with_data_a_killed_cloud_goes_on_where_it_was(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "kept"))
    with local(tmp_path, *data) as running:
        for _ in range(2):  # five seconds apart: several snapshots
            read_until(running, "sample ", 60)
        (cloud,) = child_pids(running.pid, "quarterjack.local.engine")
        os.kill(cloud, signal.SIGKILL)
        assert f"--data {tmp_path / 'kept'}, which has the state" in running.communicate(timeout=60)[0]
    with local(tmp_path, *data, "--for", "12") as running:
        rest = running.communicate(timeout=90)[0]
        assert running.returncode == 0, rest
        assert "0 missing, 0 double" in rest


def test_jobs_of_ones_own_that_cannot_be_loaded_are_named(tmp_path: Path) -> None:
    with local(tmp_path, "--for", "5", "--jobs", "no_such_package") as running:
        _, code = running.communicate(timeout=60)[0], running.returncode
    assert code == 1
