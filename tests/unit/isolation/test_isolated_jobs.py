"""Jobs with ``isolation="process"``, in real processes: what they get, what they leave, how they end."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from quarterjack import Context, Registry, RunState, Scheduler
from quarterjack.errors import InvalidInput
from quarterjack.isolation import PreloadedParent
from quarterjack.jobs import default_registry
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import AttemptResult, LeasedRun

from tests.support.job_tables import DictClient
from tests.support.scenes.isolated_jobs import Stage, living, until
from tests.support.scenes.isolated_work import Sum, add
from tests.support.scenes.world import Faults, fails


@pytest.fixture
def stage() -> Stage:
    return Stage()


def own_lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the worker logs of the processes of its jobs."""
    return [record for record in caplog.records if record.name.startswith("quarterjack.isolation")]


def test_the_result_comes_back_from_another_process(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    run = stage.run("add", {"a": 1, "b": 2})
    assert own_lines(caplog) == []
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 1)
    assert (run.result["sum"], run.result["stdin"]) == (3, "")
    assert run.result["pid"] != os.getpid()
    assert len(stage.memory.work) == 0


def test_a_wait_parks_the_run_and_its_schema_binds_the_sender(stage: Stage) -> None:
    run = stage.run("approve")
    assert (run.state, run.awaits, run.answer_schema) == (
        RunState.PARKED,
        "signal:approval",
        {"required": ["ok"]},
    )
    with pytest.raises(InvalidInput, match=r"payload\.ok"):
        stage.scheduler.signal(run.id, "approval", {})
    stage.scheduler.signal(run.id, "approval", {"ok": True})
    stage.work()
    ended = stage.scheduler.get_run(run.id)
    assert (ended.state, ended.result["answer"]) == (RunState.SUCCEEDED, {"ok": True})
    assert ended.result["pid"] != os.getpid()


def test_middleware_runs_in_the_process_of_the_job(stage: Stage) -> None:
    run = stage.run("add-within", {"a": 1, "b": 2})
    assert (run.state, run.result["sum"]) == (RunState.SUCCEEDED, 3), run.error
    assert run.result["traced_in"] == run.result["pid"] != os.getpid()


def test_middleware_objects_of_one_class_stay_in_their_order() -> None:
    run = Stage(jobs=default_registry).run("tests.add-layered", {"a": 1, "b": 2})
    assert (run.state, run.result["sum"]) == (RunState.SUCCEEDED, 112 + 2), run.error


@pytest.mark.parametrize(
    ("job", "kind", "said"),
    [
        (
            "add-refused",
            "OSError",
            "middleware tests.support.scenes.isolated_work.refusing, before the job: no session",
        ),
        (
            "add-lost",
            "JobError",
            "does not know middleware tests.support.scenes.isolated_work.Added; import the module",
        ),
    ],
)
def test_an_isolated_job_says_which_middleware_failed_or_is_missing(
    stage: Stage, job: str, kind: str, said: str
) -> None:
    run = stage.run(job, {"a": 1, "b": 2})
    assert (run.state, run.error_type) == (RunState.DEAD, kind)
    assert said in (run.error or "")


def test_a_job_gathers_its_children(stage: Stage) -> None:
    run = stage.run("family", 2)
    assert (run.state, run.reason) == (RunState.PARKED, "waits for 2 of 2 children: add-0, add-1")
    for _ in range(2):  # the children, and the slice that they wake
        stage.work()
    ended = stage.scheduler.get_run(run.id)
    assert (ended.state, ended.result["sums"], ended.attempt) == (RunState.SUCCEEDED, [1, 2], 1)
    children = [one for one in stage.memory.runs(None) if one.parent == run.id]
    assert [child.state for child in children] == [RunState.SUCCEEDED] * 2


def test_a_job_maps_in_a_process_of_its_own(stage: Stage) -> None:
    run = stage.run("crowd", 3)
    assert (run.state, run.reason) == (RunState.PARKED, "waits for 3 items of map 'add', 2 at a time")
    for _ in range(3):  # the first two items, the last one, and the slice that it wakes
        stage.work()
    ended = stage.scheduler.get_run(run.id)
    assert (ended.state, ended.result["sums"], ended.attempt) == (RunState.SUCCEEDED, [1, 2, 3], 1)


def test_a_typed_payload_arrives_converted(stage: Stage) -> None:
    run = stage.run("add-typed", Sum(1, 2))
    assert run.state is RunState.SUCCEEDED, run.error
    assert (run.result["sum"], run.result["pid"] != os.getpid()) == (3, True)


def test_a_payload_that_does_not_fit_is_a_permanent_failure(stage: Stage) -> None:
    unaware = Scheduler("acme", jobs=Registry(), services=stage.memory.connect(), clock=stage.clock)
    run = unaware.submit("add-typed", {"a": 1, "b": "token=abcdefgh"})
    stage.work()
    found = stage.scheduler.get_run(run.id)
    assert (found.state, found.attempt, found.error_type) == (RunState.DEAD, 1, "InvalidInput")
    assert found.error == "payload.b='token=[redacted]': does not fit 'add-typed'; give a valid integer"


def test_a_payload_that_does_not_fit_the_schema_costs_no_process() -> None:
    jobs = Registry()
    fits = {"properties": {"b": {"maximum": 2}}}
    jobs.job("add", isolation="process", schema=fits)(add)
    stage = Stage(jobs=jobs)
    assert stage.run("add", {"a": 1, "b": 2}).result["sum"] == 3
    stage.worker = replace(stage.worker, isolated=never)
    unaware = Scheduler("acme", jobs=Registry(), services=stage.memory.connect(), clock=stage.clock)
    run = unaware.submit("add", {"a": 1, "b": 3})
    stage.work()
    found = stage.scheduler.get_run(run.id)
    assert (found.state, found.attempt, found.error_type) == (RunState.DEAD, 1, "InvalidInput")
    assert found.error == "payload.b=3: does not fit the schema of 'add'; give a value of at most 2"


def never(worker: WorkerContext, leased: LeasedRun) -> AttemptResult:
    raise AssertionError("a process was started")


PRELOADED = """
from dataclasses import dataclass
from quarterjack import job

@dataclass
class Order:
    id: str

@dataclass
class Broken:
    thing: type("Thing", (), {})

@job("typed", isolation="process")
def typed(ctx, payload: Order): ...

@job("broken", isolation="process")
def broken(ctx, payload: Broken): ...

@job("in a thread")
def threaded(ctx, payload: list[Order]): ...
"""
LOOK = """
import sys
from quarterjack.isolation.preload import preload
from quarterjack.jobs import default_registry
print(preload(["preloaded_jobs"]).failed)
print([job.name for job in default_registry if "adapter" in vars(job.payload_type)])
"""


def test_what_checks_payloads_is_made_once_before_processes_are_forked(tmp_path: Path) -> None:
    """Importing Pydantic takes longer than most attempts. An annotation that nobody can check stops no other job."""
    (tmp_path / "preloaded_jobs.py").write_text(PRELOADED.replace("in a thread", "threaded"))
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": paths}
    )
    assert done.stdout.splitlines() == ["{}", "['typed']"]


def test_the_context_is_the_same_as_in_a_thread(stage: Stage) -> None:
    run = stage.run("about")
    assert run.result == {
        "run_id": run.id,
        "key": run.id,
        "tenant": "acme",
        "job": "about",
        "schedule": None,
        "at": run.due.isoformat(timespec="microseconds"),
        "attempt": 1,
        "remaining": None,
        "cancelled": False,
        "resume": None,
    }


@pytest.mark.parametrize(
    ("how", "kind", "state"),
    [
        ("key", "KeyError", RunState.DEAD),  # the job's never_on
        ("exit", "SystemExit", RunState.RETRYING),
        ("interrupt", "KeyboardInterrupt", RunState.RETRYING),
        ("cancelled", "RunCancelled", RunState.RETRYING),  # nobody asked for that
        ("lost", "LeaseLost", RunState.RETRYING),  # it is not
    ],
)
def test_what_it_raises_is_judged_by_its_policies(stage: Stage, how: str, kind: str, state: RunState) -> None:
    run = stage.run("fail", how)
    assert (run.state, run.error_type) == (state, kind)
    assert "work.py" in run.failed_attempts[0].traceback


@pytest.mark.parametrize(("how", "code"), [("exit", "exit 3"), ("segfault", "SIGSEGV"), ("kill", "SIGKILL")])
def test_a_process_that_dies_costs_one_attempt_and_no_waiting(
    stage: Stage, caplog: pytest.LogCaptureFixture, how: str, code: str
) -> None:
    run = stage.run("die", how)
    assert [(line.message, vars(line)["code"]) for line in own_lines(caplog)] == [("job.process_died", code)]
    assert (run.state, run.attempt, run.error_type, run.error_code) == (RunState.RETRYING, 1, "ProcessDied", code)
    assert len(run.failed_attempts) == 1
    assert not stage.worker.abandoned.is_set(), "the worker goes on"


def test_steps_and_checkpoint_outlive_the_process(stage: Stage, tmp_path: Path) -> None:
    to = tmp_path / "effects"
    first = stage.run("steps", {"to": str(to), "large": 70_000})
    assert (first.state, first.error_type) == (RunState.RETRYING, "ProcessDied")
    assert first.steps == {"a": "a in attempt 1", "b": "b in attempt 1"}
    stage.scheduler.retry_run(first.id)
    stage.work()
    second = stage.scheduler.get_run(first.id)
    assert (second.state, second.attempt) == (RunState.SUCCEEDED, 2)
    assert second.result["done"] == ["a in attempt 1", "b in attempt 1", "c in attempt 2"]
    assert second.result["found"] == {"after": "b", "attempt": 1, "large": "x" * 70_000}
    assert to.read_text().split() == ["a", "b", "c"]


def test_its_worker_writes_its_transaction_once() -> None:
    stage = Stage()
    stage.memory.dynamodb = table = DictClient()
    first = stage.run("book", {"id": "a", "fails": True})
    assert first.state is RunState.RETRYING
    stage.skip(30)
    stage.work()
    assert stage.scheduler.get_run(first.id).result == [2, {"fence": 1}]
    assert table.written == ["a"]
    assert table.stored["a"] == {"id": {"S": "a"}, "data": {"B": b"\x00\xff"}, "many": {"BS": [b"a", b"b"]}}
    kind, text = stage.run("book", {"id": "a"}).result
    assert (kind, text.partition(":")[0]) == ("ItemRefused", "items[0]")
    stage.memory.dynamodb = None
    kind, text = stage.run("book", {"id": "b"}).result
    assert kind == "InvalidInput"
    assert "pass Harness(dynamodb=client)" in text


def test_what_is_no_good_is_refused_where_the_job_is(stage: Stage) -> None:
    run = stage.run("refused")
    assert run.state is RunState.SUCCEEDED
    assert list(run.result) == ["step", "name", "checkpoint", "huge", "progress"]
    assert "has 6,000,002 bytes" in run.result["huge"]
    assert run.steps == {}


def test_a_result_that_is_no_json_is_noted(stage: Stage) -> None:
    run = stage.run("unkept")
    assert (run.state, run.result) == (RunState.SUCCEEDED, None)
    assert "result not kept: result=<object object" in str(run.reason)


def test_the_job_sees_the_troubles_of_its_worker() -> None:
    stage = Stage(hook=Faults().at("keep checkpoint", before=fails, times=None).at("put", before=fails, times=None))
    run = stage.run("unavailable")
    assert run.result == ["Unavailable: injected", "Unavailable: injected"]


def test_a_slice_ends_without_spending_an_attempt(stage: Stage) -> None:
    run = stage.run("slice")
    assert (run.state, run.attempt, run.slices) == (RunState.CONTINUED, 0, 1)
    stage.work()
    run = stage.scheduler.get_run(run.id)
    assert (run.state, run.attempt, run.result) == (RunState.SUCCEEDED, 1, "seen")


def test_a_slice_that_moved_nothing_is_a_failed_attempt(stage: Stage) -> None:
    run = stage.run("slice", "stuck")
    assert run.state is RunState.CONTINUED
    stage.work()
    run = stage.scheduler.get_run(run.id)
    assert (run.state, run.attempt, run.slices, run.error_type) == (RunState.RETRYING, 1, 1, "Continue")


def test_a_fork_that_returns_as_if_it_were_the_job_is_not_heard(stage: Stage, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    run = stage.run("fork", {"to": str(copy)})
    assert (run.state, run.result, run.steps) == (RunState.SUCCEEDED, "original", {"original": "original"})
    assert "ctx belongs to the process of the job" in copy.read_text()


def test_threads_of_a_job_may_step_and_one_left_behind_ends_with_it(stage: Stage) -> None:
    run = stage.run("threads")
    assert (run.state, run.result, len(run.steps)) == (RunState.SUCCEEDED, 1, 20)


def test_its_log_lines_carry_the_run(stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    run = stage.run("loud", "hear")
    (line,) = [json.loads(text) for text in capfd.readouterr().err.splitlines() if "loud.said" in text]
    assert (line["word"], line["run_id"], line["job"], line["tenant"]) == ("hear", run.id, "loud", "acme")


def test_a_process_that_cannot_be_started_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    run = Stage(parent=PreloadedParent()).run("add", {"a": 1, "b": 2})
    assert (run.state, run.error_type) == (RunState.RETRYING, "ProcessNotStarted")
    assert "/nowhere/python" in str(run.error)


def test_a_process_that_cannot_import_says_what() -> None:
    def here(ctx: Context, payload: object) -> None: ...

    here.__module__ = "nowhere.jobs"
    jobs = Registry()
    jobs.job("nowhere", isolation="process")(here)
    run = Stage(jobs).run("nowhere")
    assert (run.state, run.error_type) == (RunState.RETRYING, "ModuleNotFoundError")
    assert "No module named 'nowhere'" in str(run.error)


# What ends it.


@pytest.mark.parametrize("how", ["gil", "fork", "program"])
def test_its_timeout_kills_it_and_all_that_it_started(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    started = stage.start("wait", {"to": str(tmp_path / "mark"), "how": how})
    group = started.group
    assert until(lambda: len(living(group)) == (1 if how == "gil" else 2), 60)
    stage.skip(61)
    assert started.end().state is RunState.RETRYING
    assert until(lambda: living(group) == [], 60), "what was killed may be on a processor for a moment"
    run = stage.scheduler.get_run(started.run_id)
    assert [line.message for line in own_lines(caplog)] == ["job.killed"]
    assert (run.error_type, run.error) == ("Timeout", "the attempt took longer than its timeout of 60 s")
    assert not stage.worker.abandoned.is_set(), "nothing is left for which the process must be recycled"


@pytest.mark.parametrize(("how", "error"), [("asks", None), ("fails", "OSError")])
def test_it_sees_its_cancellation_at_a_heartbeat(stage: Stage, tmp_path: Path, how: str, error: str | None) -> None:
    started = stage.start("wait", {"to": str(tmp_path / "mark"), "how": how})
    (ticket,) = stage.worker.heartbeat.all()
    for _ in range(1_000):  # its progress comes through a socket, its mark through a file: either may be first
        if ticket.progress.fraction is not None or threading.Event().wait(0.01):
            break
    stage.scheduler.cancel_run(started.run_id)
    stage.beat()
    started.end()
    run = stage.scheduler.get_run(started.run_id)
    assert (run.state, run.reason, run.error_type) == (RunState.CANCELLED, "requested", error)
    assert (run.progress, run.stage) == (0.25, how)


@pytest.mark.parametrize("how", ["gil", "swallows"])
def test_its_cancel_grace_kills_it(stage: Stage, tmp_path: Path, how: str) -> None:
    started = stage.start("wait", {"to": str(tmp_path / "mark"), "how": how})
    stage.scheduler.cancel_run(started.run_id)
    stage.beat()
    stage.skip(29)
    assert living(started.group)
    stage.skip(2)
    assert started.end().state is RunState.CANCELLED
    assert until(lambda: living(started.group) == [], 60)
    assert stage.scheduler.get_run(started.run_id).reason == "did not end within 30 s of its cancellation"


def test_a_lost_lease_kills_it_and_nothing_is_written(stage: Stage, tmp_path: Path) -> None:
    started = stage.start("wait", {"to": str(tmp_path / "mark"), "how": "swallows"})
    stage.take_over(started.run_id)
    stage.beat()
    outcome = started.end()
    assert (outcome.action, outcome.gone) == ("lost", False)
    assert until(lambda: living(started.group) == [], 60)
    run = stage.scheduler.get_run(started.run_id)
    assert (run.state, run.fence, run.failed_attempts) == (RunState.RUNNING, 2, [])
    assert len(stage.memory.work) == 1


def test_a_step_after_the_lease_was_taken_is_refused(stage: Stage, tmp_path: Path) -> None:
    started = stage.start("wait", {"to": str(tmp_path / "mark"), "how": "steps"})
    stage.take_over(started.run_id)
    (tmp_path / "go").touch()
    assert started.end().action == "lost"
    run = stage.scheduler.get_run(started.run_id)
    assert (run.state, run.fence, run.steps) == (RunState.RUNNING, 2, {"before": 1})
