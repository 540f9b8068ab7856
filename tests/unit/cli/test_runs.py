"""``quarterjack runs …`` as one types it: cancel, retry, replay, wait, tail, logs."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from quarterjack import Context, Registry, Retry, Run, Scheduler, Settings
from quarterjack.cli.runs import tail
from quarterjack.cli.runs.tail import RunFollower
from quarterjack.cli.shell import Shell
from quarterjack.services import connect, system_clock
from quarterjack.testing.process import Hand, make_worker

from tests.support.command_line import Say, environment

pytestmark = pytest.mark.cloud

jobs = Registry()


@jobs.job("good")
def good(ctx: Context, payload: Any) -> str:
    ctx.logger.info("good.done")
    return "done"


@jobs.job("bad", retry=Retry(max_attempts=1))
def bad(ctx: Context, payload: Any) -> None:
    raise ValueError("never")


@jobs.job("later", retry=Retry(max_attempts=2, base=600, jitter=0))
def later(ctx: Context, payload: Any) -> None:
    raise ValueError("not yet")


@pytest.fixture
def work(local_settings: Settings) -> Callable[[], None]:
    """Work off the next message."""
    services = connect(local_settings)
    worker = make_worker(services, jobs, system_clock, wait=lambda seconds: None, chance=random.Random(1))

    def until_something_was_done() -> None:
        give_up = time.monotonic() + 60
        while not Hand(worker=worker).work():
            assert time.monotonic() < give_up

    return until_something_was_done


@pytest.fixture
def owner(local_settings: Settings) -> Scheduler:
    return Scheduler(settings=local_settings, jobs=jobs)


class TestCancel:
    def test_one(self, said: Say, owner: Scheduler) -> None:
        run = owner.submit("good", delay=60)
        assert said("--json", "runs", "cancel", run.id).json[0]["state"] == "CANCELLED"

    @pytest.fixture
    def queued(self, said: Say, owner: Scheduler) -> list[datetime]:
        """Fires of a schedule that wait, oldest first."""
        owner.create_schedule("often", "good", "rate(10 seconds)")
        return [run.due for run in owner.list_runs("often").items]

    def test_many_are_counted_first(self, said: Say, queued: list[datetime]) -> None:
        span = ("--after", queued[1].isoformat(), "--before", queued[4].isoformat())
        words = ("runs", "cancel", "--schedule", "often", *span)
        assert said("--json", *words, "--dry-run").json == [{"count": 3, "dry_run": True}]
        assert said(*words).code == 8
        done = said(*words, "--yes")
        assert done.out.startswith("3 runs of often due after")
        runs = said("--json", "runs", "list", "often", "--upcoming", "--oldest-first").json
        assert [run["state"] for run in runs[:6]] == ["QUEUED"] * 2 + ["CANCELLED"] * 3 + ["QUEUED"]

    def test_nothing_to_cancel_asks_nothing(self, said: Say) -> None:
        assert said("--json", "runs", "cancel", "--schedule", "nothing").json == [{"count": 0, "dry_run": False}]

    @pytest.mark.parametrize(
        "words",
        [
            (),
            ("a/b#once", "--schedule", "s"),
            ("a/~b#once", "--dry-run"),
            ("a/~b#once", "--after", "2026-01-01T00:00:00Z"),
        ],
    )
    def test_one_or_many(self, said: Say, words: tuple[str, ...]) -> None:
        assert said("runs", "cancel", *words).code == 1

    def test_the_sdk_stops_when_it_is_told_to(self, owner: Scheduler, queued: list[datetime]) -> None:
        stop, seen = threading.Event(), list[int]()

        def progress(done: int) -> None:
            seen.append(done)
            if done == 2:
                stop.set()

        between = (queued[0] - timedelta(seconds=1), queued[-1])
        assert owner.cancel_runs("often", between=between, on_progress=progress, stop=stop) == 2
        assert seen == [1, 2]


class TestAgain:
    def test_retry_hastens(self, said: Say, owner: Scheduler, work: Callable[[], None]) -> None:
        run = owner.submit("later")
        work()
        assert owner.get_run(run.id).state == "RETRYING"
        hastened = said("--json", "runs", "retry", run.id).json[0]
        assert datetime.fromisoformat(hastened["not_before"]) <= datetime.now(UTC)
        assert said("runs", "retry", owner.submit("good", delay=60).id).code == 4

    def test_reschedule_moves_what_has_not_begun(self, said: Say, owner: Scheduler, work: Callable[[], None]) -> None:
        run = owner.submit("good", delay=60)
        moved = said("--json", "runs", "reschedule", run.id, "--delay", "3600").json[0]
        assert datetime.fromisoformat(moved["due"]) > run.due + timedelta(minutes=50)
        moved = said("--json", "runs", "reschedule", run.id, "--at", "2099-01-01T00:00:00Z").json[0]
        assert moved["due"].startswith("2099-01-01T00:00:00")
        assert "give --at a time" in said("runs", "reschedule", run.id).err
        done = owner.submit("good")
        work()
        assert said("runs", "reschedule", done.id, "--delay", "1").code == 4

    def test_replay(self, said: Say, owner: Scheduler, work: Callable[[], None]) -> None:
        run = owner.submit("good", {"n": 1})
        assert said("runs", "replay", run.id).code == 4, "it has not ended"
        work()
        again = said("--json", "runs", "replay", run.id, "--payload", '{"n": 2}', "--key", "once-more").json[0]
        assert (again["replay_of"], again["payload"]) == (run.id, {"n": 2})
        same = said("--json", "runs", "replay", run.id, "--payload", '{"n": 2}', "--key", "once-more").json[0]
        assert same["id"] == again["id"]


class TestWait:
    @pytest.mark.parametrize(("job", "code", "state"), [("good", 0, "SUCCEEDED"), ("bad", 10, "DEAD")])
    def test_the_exit_code_is_the_outcome(
        self, said: Say, owner: Scheduler, work: Callable[[], None], job: str, code: int, state: str
    ) -> None:
        run = owner.submit(job)
        work()
        waited = said("--json", "runs", "wait", run.id)
        assert (waited.code, json.loads(waited.out)["state"]) == (code, state)

    def test_it_gives_up(self, said: Say, owner: Scheduler) -> None:
        assert said("runs", "wait", owner.submit("good", delay=60).id, "--timeout", "0.001").code == 7
        assert said("runs", "wait", "default/~nothing#once").code == 3


class TestTail:
    def test_a_run_to_its_end(
        self, said: Say, owner: Scheduler, work: Callable[[], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run, shown, show = owner.submit("bad"), threading.Event(), tail._print

        def noted(shell: Shell, runs: list[Run]) -> None:
            show(shell, runs)
            shown.set()

        def work_then() -> None:
            assert shown.wait(60)
            work()

        monkeypatch.setattr(tail, "_print", noted)
        working = threading.Thread(target=work_then)
        working.start()
        followed = said("--json", "runs", "tail", run.id)
        working.join()
        assert followed.code == 10
        states = [json.loads(line)["state"] for line in followed.out.splitlines()]
        assert (states[0], states[-1]) == ("QUEUED", "DEAD")
        assert len(states) == len(set(states)), "only what changes is printed"
        assert "ValueError: never" in said("runs", "tail", run.id).out

    def test_a_schedule_until_one_has_enough(self, said: Say, owner: Scheduler, work: Callable[[], None]) -> None:
        owner.create_schedule("s", "good", "rate(1 second)")
        work()
        shown = said("--json", "runs", "tail", "s", "--for", "3", "--last", "1").json
        keys = [(run["id"], run["state"]) for run in shown]
        assert len(keys) == len(set(keys))
        assert 2 <= len(keys) <= 6, "the last one, and those that came due meanwhile"
        assert said("runs", "tail", "nothing", "--for", "1").code == 3

    def test_ctrl_c_ends_it_in_good_order(self, owner: Scheduler, local_settings: Settings) -> None:
        run = owner.submit("good", delay=600)
        import os

        environ = {**os.environ, **environment(local_settings), "PYTHONPATH": os.pathsep.join(sys.path)}
        tail = subprocess.Popen(
            [sys.executable, "-m", "quarterjack", "runs", "tail", run.id],
            env={**environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert tail.stdout is not None
        assert "QUEUED" in tail.stdout.readline()
        tail.send_signal(signal.SIGINT)
        _, err = tail.communicate(timeout=60)
        assert (tail.returncode, err) == (0, "")

    def test_what_counts_as_a_change(self, owner: Scheduler) -> None:
        from dataclasses import replace

        run, follower = owner.submit("good", delay=60), RunFollower()
        running = replace(run, state=type(run.state)("RUNNING"), attempt=1)
        steps = [run, run, running, replace(running, progress=0.5), replace(running, progress=0.5, fence=3)]
        assert [bool(follower.changed([step])) for step in steps] == [True, False, True, True, False]
        assert follower.open == {run.id}
        assert follower.changed([replace(run, state=type(run.state)("SUCCEEDED"))])
        assert follower.open == set()


class TestLogs:
    @staticmethod
    def line(run_id: str, second: int, event: str, **fields: Any) -> str:
        """A line of now, in that order."""
        at = datetime.now(UTC) + timedelta(seconds=second)
        first = {"time": at.isoformat(timespec="milliseconds"), "level": "INFO", "event": event}
        return json.dumps({**first, **fields, "run_id": run_id})

    def test_from_the_files_of_processes(
        self, said: Say, owner: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = owner.submit("good", idempotency_key="a", delay=60)
        other = "default/~a#once2"
        first, second = tmp_path / "worker-1.log", tmp_path / "worker-2.log"
        first.write_text(
            f"{self.line(run.id, 1, 'run.started')}\nnoise {run.id}\n{self.line(other, 1, 'other')}\n"
            f"{self.line(run.id, 3, 'run.failed', traceback='Traceback: [boom]')}\n"
        )
        second.write_text(self.line(run.id, 2, "job.said", amount=7) + "\n" + self.line(run.id, 4, "unfinished")[:20])
        shown = said("--json", "runs", "logs", run.id, "--folder", str(tmp_path)).json
        assert [(line["source"], line["event"]) for line in shown] == [
            ("worker-1", "run.started"),
            ("worker-2", "job.said"),
            ("worker-1", "run.failed"),
        ]
        monkeypatch.setenv("QUARTERJACK_LOGS", str(tmp_path))
        text = said("runs", "logs", run.id)
        assert "amount=7" in text.out
        assert "Traceback: [boom]" in text.out
        assert "there may be more" in said("runs", "logs", run.id, "--limit", "1").err

    def test_the_traceback_of_the_last_attempt_follows(
        self, said: Say, owner: Scheduler, work: Callable[[], None], tmp_path: Path
    ) -> None:
        run = owner.submit("bad")
        work()
        (tmp_path / "worker.log").write_text(self.line(run.id, 1, "run.ended", error_type="ValueError") + "\n")
        shown = said("runs", "logs", run.id, "--folder", str(tmp_path)).out
        assert re.search(r"run.ended.*\n\nattempt 1:\nTraceback .*\n  File .*test_runs.py", shown)
        assert "/quarterjack/worker" not in shown
        assert "Traceback" not in said("--json", "runs", "logs", run.id, "--folder", str(tmp_path)).out

    def test_from_cloudwatch(self, said: Say, owner: Scheduler, local_settings: Settings) -> None:
        run = owner.submit("good", idempotency_key="a")
        cloud = boto3.client("logs", endpoint_url=local_settings.endpoint, region_name=local_settings.region)
        now = system_clock()
        for part, texts in {
            "worker": [self.line(run.id, 0, "run.started"), self.line(f"{run.id}2", 0, "other"), "not JSON " + run.id],
            "undertaker": [self.line(run.id, 0, "run.dead")],
            "prod-worker": [self.line(run.id, 0, "of another installation")],
        }.items():
            group = f"/aws/lambda/{local_settings.prefix}-{part}"
            cloud.create_log_group(logGroupName=group)
            cloud.create_log_stream(logGroupName=group, logStreamName="s")
            events = [{"timestamp": now + n, "message": text} for n, text in enumerate(texts)]
            cloud.put_log_events(logGroupName=group, logStreamName="s", logEvents=events)
        shown = said("--json", "runs", "logs", run.id).json
        assert {(line["source"], line["event"]) for line in shown} == {
            ("worker", "run.started"),
            ("undertaker", "run.dead"),
        }

    def test_where_nobody_logs_the_remedy_is_named(self, said: Say, owner: Scheduler, tmp_path: Path) -> None:
        run = owner.submit("good", delay=60)
        assert "QUARTERJACK_LOG_GROUPS" in said("runs", "logs", run.id).err
        assert said("runs", "logs", run.id, "--folder", str(tmp_path / "nowhere")).code == 6
        assert "no log line of the run was found" in said("runs", "logs", run.id, "--folder", str(tmp_path)).err


def test_a_run_of_a_backfill_is_not_late(said: Say, work: Callable[[], None]) -> None:
    said("schedules", "create", "s", "good", "* * * * *")
    (backfill,) = said("--json", "schedules", "backfill", "s", "-10m", "-8m", "--current", "--yes").json
    work()
    for words in (("backfills", "runs", "s", backfill["id"]), ("runs", "list", "s")):
        lines = [line for line in said(*words).out.splitlines() if "SUCCEEDED" in line]
        assert lines
        assert all("  backfill  " in line for line in lines)
    run, *_ = (one for one in said("--json", "runs", "list", "s").json if one["state"] == "SUCCEEDED")
    assert run["lateness"] > 400, "programs get the number"
    assert re.search(r"lateness +backfill\n", said("runs", "show", run["id"]).out)
    assert "  backfill  " in said("runs", "tail", run["id"]).out
