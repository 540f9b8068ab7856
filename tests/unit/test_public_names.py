"""The package's front door: every public name is there, for a program and for a type checker, and costs what it needs only."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import minutehand
import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {
    "boto3",
    "botocore",
    "croniter",
    "dateutil",
    "holidays",
    "jsonschema_rs",
    "pynamodb",
    "ssl",
    "urllib3",
}
EAGER = {"errors"}


def loaded(code: str, *, whole: bool = False) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after ``code``; all modules if ``whole``."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)])}
    program = f"{code}\nimport sys; print(*{{name if {whole} else name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    return set(done.stdout.split())


def imported_for_types() -> Iterator[tuple[str, str]]:
    """Name and home of what ``if TYPE_CHECKING`` imports."""
    tree = ast.parse(Path(str(minutehand.__file__)).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("minutehand."):
            yield from ((alias.name, node.module.removeprefix("minutehand.")) for alias in node.names)


def test_a_type_checker_sees_what_a_program_gets() -> None:
    assert dict(imported_for_types()) == minutehand._HOMES
    assert set(minutehand.__all__) == set(minutehand._HOMES) | EAGER
    assert minutehand.__all__ == sorted(minutehand.__all__, key=lambda name: (not name.isupper(), name))


@pytest.mark.parametrize("name", minutehand.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(minutehand, name) is not None
    assert name in dir(minutehand)


def test_a_name_that_is_none_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'minutehand' has no attribute 'Shceduler'"):
        _ = minutehand.Shceduler  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Shceduler' from 'minutehand'"):
        exec("from minutehand import Shceduler")


@pytest.mark.parametrize("code", ["import minutehand", "from minutehand import Context, Retry, job"])
def test_to_declare_jobs_loads_no_library(code: str) -> None:
    assert not loaded(code) & HEAVY


def test_what_is_asked_for_is_loaded_then() -> None:
    assert not loaded("from minutehand import *") & HEAVY
    assert not loaded("from minutehand import Scheduler") & (HEAVY | {"tempfile"})
    assert {"botocore"} <= loaded(
        "from minutehand import Scheduler, Settings; Scheduler(settings=Settings(region='x'))"
    )


def test_a_scheduler_loads_nothing_of_the_history_before_it_is_asked() -> None:
    modules = loaded("from minutehand import Scheduler", whole=True)
    assert "minutehand.sdk.history.finding" in modules
    rooms = ("minutehand.why", "minutehand.history", "minutehand.historian", "minutehand.auditor")
    assert not {name for name in modules if name.startswith(rooms)}
    lazy = {"minutehand.ports.history.pages", "minutehand.sdk.history.worker_views", "minutehand.sdk.history.day_stats"}
    lazy |= {"minutehand.sdk.history.log_views"}
    assert not modules & (lazy | {"gzip"})


def run(*words: str) -> str:
    """A program that runs one command line, as the console script does."""
    return f"""
import contextlib, io, sys
from minutehand.cli import main
sys.argv = ["minutehand", *{words!r}]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main()
"""


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        (["--version"], {"rich", "pygments", "zoneinfo"}),
        (["--help"], {"pydantic", "zoneinfo"}),
        (["preview", "*/5 * * * *"], {"rich", "yaml", "pygments"}),
        (["--json", "preview", "*/5 * * * *"], {"rich", "yaml", "pygments"}),
    ],
)
def test_a_command_line_loads_what_its_command_needs(words: list[str], unneeded: set[str]) -> None:
    modules = loaded(run(*words), whole=True)
    assert "typer" in modules
    assert not modules & (HEAVY | unneeded)
    assert not modules & {
        "minutehand.sdk.scheduler",
        "minutehand.services",
        "minutehand.local",
        "minutehand.cli.schedules.group",
    }
    assert ("minutehand.timing" in modules) is ("preview" in words)
