"""The process from which isolated attempts are forked: what it imports, what it hands on, and what happens when it dies."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from quarterjack import RunState
from quarterjack.isolation import PreloadedParent
from quarterjack.isolation.preloaded_parent import report_of
from quarterjack.job_packages import load

from tests.support.scenes.isolated_jobs import Stage, children, living, until
from tests.support.scenes.isolated_work import written

WORK = "tests.support.scenes.isolated_work"
JOB = """
import os, socket, sqlite3, sys, threading
from tests.support.scenes.isolated_work import written
IMPORTED_BY = os.getpid()
if IMPORTED_BY != {worker}:
    pass
{body}

@written.job("{name}", isolation="process")
def imported(ctx, payload):
    return [os.getpid(), IMPORTED_BY]
"""


@pytest.fixture
def parent() -> Iterator[PreloadedParent]:
    with closing(PreloadedParent(["quarterjack.ready_jobs.command", WORK])) as made:
        yield made


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a module with a job of its own name whose import does something in every process but the worker; import it there."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(body: str) -> str:
        name = f"left_{tmp_path.name}_{len(list(tmp_path.iterdir()))}".replace("-", "_")
        text = JOB.format(name=name, worker=os.getpid(), body=indent(body, "    "))
        (tmp_path / f"{name}.py").write_text(text)
        load(name, written)
        monkeypatch.delitem(sys.modules, name)
        return name

    return write


def logged(caplog: pytest.LogCaptureFixture, event: str) -> dict[str, Any]:
    """The fields of the one line of that event."""
    (record,) = [record for record in caplog.records if record.message == event]
    return vars(record)


def test_an_attempt_is_forked_from_a_process_that_has_imported_its_module(parent: PreloadedParent) -> None:
    stage = Stage(parent=parent)
    first, second = (stage.run("look-around").result for _ in range(2))
    (forked_from,) = {first["imported by"], second["imported by"]}
    assert len({os.getpid(), forked_from, first["pid"], second["pid"]}) == 4
    assert forked_from in children(os.getpid())
    assert children(forked_from) == [], "reaped"


def test_it_has_no_aws_clients_and_no_second_thread(parent: PreloadedParent) -> None:
    seen = Stage(parent=parent).run("look-around").result
    assert (seen["aws"], seen["threads"]) == ([], 1)


def test_an_attempt_has_the_surroundings_that_its_worker_has_now(
    parent: PreloadedParent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(parent=parent)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "old")
    before = stage.run("look-around", "AWS_SESSION_TOKEN").result
    monkeypatch.setenv("AWS_SESSION_TOKEN", "new")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    mine = resource.getrlimit(resource.RLIMIT_CORE)
    limit = 4_096 if hard == resource.RLIM_INFINITY or hard >= 4_096 else hard
    resource.setrlimit(resource.RLIMIT_CORE, (limit, hard))
    try:
        seen = stage.run("look-around", "AWS_SESSION_TOKEN").result
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, mine)
    assert (before["variable"], seen["variable"]) == ("old", "new")
    assert (seen["directory"], seen["core"], seen["path"]) == (str(tmp_path), limit, str(tmp_path))
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    assert stage.run("look-around", "AWS_SESSION_TOKEN").result["variable"] is None


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("threading.Thread(target=threading.Event().wait, name='poller', daemon=True).start()", "thread 'poller'"),
        ("import _thread; _thread.start_new_thread(threading.Event().wait, ())", "1 thread(s) of native code"),
        ("server = socket.create_server(('127.0.0.1', 0))", "socket at ('127.0.0.1', "),
        ("one, other = socket.socketpair()", "socket connected to "),
        ("database = sqlite3.connect(__file__ + '.db', isolation_level=None)", ".db"),
    ],
)
def test_a_module_whose_import_leaves_what_a_fork_breaks_is_imported_by_each_attempt(
    module: Callable[[str], str], caplog: pytest.LogCaptureFixture, body: str, left: str
) -> None:
    name = module(body)
    report = report_of([WORK, name])
    assert (report.module, report.failed) == (name, {})
    assert left in report.left[0]
    with closing(PreloadedParent([WORK, name])) as parent:
        stage = Stage(written, parent=parent)
        results = [stage.run(name).result for _ in range(2)]
    assert [pid == imported_by for pid, imported_by in results] == [True, True]
    line = logged(caplog, "isolation.not_preloaded")
    assert line["imported"] == name
    assert left in line["left"][0]


def test_what_ended_by_its_imports_before_the_first_fork_is_logged_all_the_same(
    module: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    name = module("threading.Thread(target=threading.Event().wait, name='poller', daemon=True).start()")
    with closing(PreloadedParent([name])) as parent:
        parent.start()
        assert parent._connection is not None
        parent._connection._process.wait(60)
        pid, imported_by = Stage(written, parent=parent).run(name).result
    assert pid == imported_by
    assert logged(caplog, "isolation.not_preloaded")["imported"] == name
    assert "isolation.parent_died" not in caplog.messages


@pytest.mark.parametrize(
    "body",
    [
        "log = open(__file__ + '.log', 'a')",
        "thread = threading.Thread(target=int); thread.start(); thread.join()",
        "socket.create_server(('127.0.0.1', 0)).close()",
        "import subprocess; subprocess.run(['true'], check=True)",
    ],
)
def test_logs_and_what_was_closed_again_do_no_harm(module: Callable[[str], str], body: str) -> None:
    report = report_of([module(body)])
    assert (report.module, report.left, report.failed) == (None, [], {})


def test_a_module_that_fails_to_import_fails_its_own_attempts_only(
    module: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    broken, good = module("raise LookupError('no such thing')"), module("")
    with closing(PreloadedParent([broken, good])) as parent:
        stage = Stage(written, parent=parent)
        failed, (pid, imported_by) = stage.run(broken), stage.run(good).result
    assert (failed.error_type, failed.error) == ("LookupError", "no such thing")
    assert pid != imported_by
    line = logged(caplog, "isolation.import_failed")
    assert (line["imported"], line["error"]) == (broken, "LookupError: no such thing")


def test_a_module_whose_import_ends_the_process_ends_its_own_attempts_only(
    module: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    deadly, good = module("os._exit(5)"), module("")
    with closing(PreloadedParent([deadly, good])) as parent:
        stage = Stage(written, parent=parent)
        died, (pid, imported_by) = stage.run(deadly), stage.run(good).result
    assert (died.error_type, died.error_code) == ("ProcessDied", "exit 5")
    assert pid == imported_by
    line = logged(caplog, "isolation.parent_died")
    assert (line["code"], line["preloads"]) == (5, False)


def test_what_an_import_prints_is_printed_once(module: Callable[[str], str], capfd: pytest.CaptureFixture[str]) -> None:
    name = module("print('printed by the import')")
    with closing(PreloadedParent([name])) as parent:
        stage = Stage(written, parent=parent)
        assert len([stage.run(name) for _ in range(3)]) == 3
    assert capfd.readouterr().out.count("printed by the import") == 1


def test_when_it_dies_the_attempts_that_run_fail_and_the_next_ones_have_another(
    parent: PreloadedParent, tmp_path: Path
) -> None:
    stage = Stage(parent=parent)
    first = stage.run("look-around").result["imported by"]
    started = stage.start("wait", {"to": str(tmp_path / "mark"), "how": "gil"})
    os.kill(first, signal.SIGKILL)
    assert started.end().state is RunState.RETRYING
    assert until(lambda: living(started.group) == [], 60)
    run = stage.scheduler.get_run(started.run_id)
    assert (run.error_type, run.error_code) == ("ProcessDied", "parent died")
    second = stage.run("look-around").result
    assert second["imported by"] not in (first, second["pid"]), "it is preloaded as well"
    assert first not in children(os.getpid()), "reaped"


def test_what_is_sent_to_all_processes_ends_neither_it_nor_is_ignored_by_its_jobs(parent: PreloadedParent) -> None:
    stage = Stage(parent=parent)
    first = stage.run("look-around").result
    os.kill(first["imported by"], signal.SIGTERM)
    second = stage.run("look-around").result
    assert second["imported by"] == first["imported by"]
    assert second["terminates"]


def test_attempts_that_overlap_end_each_by_itself(parent: PreloadedParent, tmp_path: Path) -> None:
    stage = Stage(parent=parent)
    one, other = (stage.start("wait", {"to": str(tmp_path / name), "how": "swallows"}) for name in ("one", "other"))
    stage.take_over(one.run_id)
    stage.beat()
    assert one.end().action == "lost"
    assert (living(one.group), len(living(other.group))) == ([], 1)
    assert stage.run("add", {"a": 1, "b": 2}).state is RunState.SUCCEEDED
    stage.skip(61)
    assert other.end().state is RunState.RETRYING
    assert until(lambda: living(other.group) == [], 60)


def test_it_ends_without_a_word_when_its_answers_are_not_read(capfd: pytest.CaptureFixture[str]) -> None:
    parent = PreloadedParent([WORK])
    parent.start()
    connection = parent._connection
    assert connection is not None
    assert select.select([connection._socket], [], [], 60)[0], "the report of its imports is there"
    assert connection.close() == 0
    assert "Traceback" not in capfd.readouterr().err


def test_a_closed_one_starts_nothing_more(parent: PreloadedParent) -> None:
    before = children(os.getpid())
    stage = Stage(parent=parent)
    assert stage.run("add", {"a": 1, "b": 2}).state is RunState.SUCCEEDED
    parent.close()
    assert stage.run("add", {"a": 1, "b": 2}).error_type == "ProcessNotStarted"
    assert children(os.getpid()) == before
