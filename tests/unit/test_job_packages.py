"""What a user gives for a package of jobs: a file's name is answered with the module's, by everything that takes a package."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.cli.app import run
from quarterjack.cli.exits import ExitCode
from quarterjack.errors import InvalidInput, JobError
from quarterjack.job_packages import load
from quarterjack.local.installation import installation
from quarterjack.settings import Settings
from quarterjack.testing import Harness

HERE = Settings(endpoint="http://127.0.0.1:9", region="us-east-1")


@pytest.mark.parametrize(
    ("given", "module"),
    [
        ("hello.py", "hello"),
        ("./hello.py", "hello"),
        ("./hello", "hello"),
        ("pkg/hello.py", "pkg.hello"),
        ("pkg/hello", "pkg.hello"),
        ("pkg/", "pkg"),
        ("pkg\\hello.py", "pkg.hello"),
        ("pkg/__init__.py", "pkg"),
    ],
)
def test_a_file_is_answered_with_its_module(given: str, module: str) -> None:
    with pytest.raises(JobError) as problem:
        load(given)
    assert str(problem.value) == f"jobs={given!r} is the name of a file; give {module}, as in an import"


@pytest.mark.parametrize("jobs", [["shop", "mails"], ("shop",), 7, b"shop", object()])
def test_what_is_neither_a_package_nor_a_registry_is_refused(jobs: Any) -> None:
    makers: list[Callable[[], object]] = [
        lambda: Scheduler(jobs=jobs, settings=HERE),
        lambda: Harness(jobs, at=datetime(2026, 5, 4, tzinfo=UTC)),
    ]
    for make in makers:
        with pytest.raises(InvalidInput, match="pass one package") as refused:
            make()
        assert refused.value.field == "jobs"


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("/srv/app-1/pkg/hello.py", "give pkg.hello, as in an import, in /srv/app-1 or with it on PYTHONPATH"),
        ("../hello.py", "give hello, as in an import, in .. or with it on PYTHONPATH"),
        ("my-jobs.py", "is not the name of a package; give it as in an import: acme.jobs"),
        ("hello:report", "is not the name of a package; give it as in an import: acme.jobs"),
        ("", "is not the name of a package; give it as in an import: acme.jobs"),
    ],
)
def test_elsewhere_the_folder_is_named_and_without_a_module_the_form(given: str, answer: str) -> None:
    with pytest.raises(JobError) as problem:
        load(given)
    assert answer in str(problem.value)


def local() -> None:
    with installation(jobs=["hello.py"], stop=threading.Event()):
        raise AssertionError


@pytest.mark.parametrize("take", [lambda: Scheduler(settings=HERE, jobs="hello.py"), local])
def test_the_sdk_and_the_local_installation_say_it_before_anything_starts(take: Callable[[], object]) -> None:
    with pytest.raises(JobError, match="give hello, as in an import"):
        take()


@pytest.mark.parametrize(
    "words",
    [
        ["local", "--no-examples", "--jobs", "hello.py"],
        ["worker", "--jobs", "hello.py"],
        ["apply", "hello.py"],
        ["jobs", "publish", "hello.py"],
        ["export", "--jobs", "hello.py"],
    ],
)
def test_commands_say_it(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    assert run(words) == ExitCode.FAILED
    assert "give hello, as in an import" in "".join(capsys.readouterr())
