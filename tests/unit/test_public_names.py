"""The package's front door: every public name is there, for a program and for a type checker, and costs what it needs only."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import quarterjack

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
    tree = ast.parse(Path(str(quarterjack.__file__)).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("quarterjack."):
            yield from ((alias.name, node.module.removeprefix("quarterjack.")) for alias in node.names)


def test_a_type_checker_sees_what_a_program_gets() -> None:
    assert dict(imported_for_types()) == quarterjack._HOMES
    assert set(quarterjack.__all__) == set(quarterjack._HOMES) | EAGER
    assert quarterjack.__all__ == sorted(quarterjack.__all__, key=lambda name: (not name.isupper(), name))


@pytest.mark.parametrize("name", quarterjack.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(quarterjack, name) is not None
    assert name in dir(quarterjack)


def test_a_name_that_is_none_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'quarterjack' has no attribute 'Shceduler'"):
        _ = quarterjack.Shceduler  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Shceduler' from 'quarterjack'"):
        exec("from quarterjack import Shceduler")


@pytest.mark.parametrize("code", ["import quarterjack", "from quarterjack import Context, Retry, job"])
def test_to_declare_jobs_loads_no_library(code: str) -> None:
    assert not loaded(code) & HEAVY


def test_what_is_asked_for_is_loaded_then() -> None:
    assert not loaded("from quarterjack import *") & HEAVY
    assert not loaded("from quarterjack import Scheduler") & (HEAVY | {"tempfile"})
    assert {"botocore"} <= loaded(
        "from quarterjack import Scheduler, Settings; Scheduler(settings=Settings(region='x'))"
    )


def test_a_scheduler_loads_nothing_of_the_history_before_it_is_asked() -> None:
    modules = loaded("from quarterjack import Scheduler", whole=True)
    assert "quarterjack.sdk.history.finding" in modules
    rooms = ("quarterjack.why", "quarterjack.history", "quarterjack.historian", "quarterjack.auditor")
    assert not {name for name in modules if name.startswith(rooms)}
    lazy = {
        "quarterjack.stores.history.pages",
        "quarterjack.sdk.history.views",
        "quarterjack.sdk.history.day_stats",
    }
    lazy |= {"quarterjack.sdk.history.views"}
    assert not modules & (lazy | {"gzip"})


def test_a_scheduler_loads_few_modules_and_compiles_few_methods() -> None:
    """A frozen dataclass compiles six methods when it is imported, a value its constructor: only what users see is frozen."""
    code = """
import sys
from quarterjack import Scheduler, __all__ as public
ours = {name: module for name, module in sys.modules.items() if name.startswith("quarterjack")}
classes = {(each.__module__, each.__name__) for module in ours.values() for each in vars(module).values() if isinstance(each, type)
    and getattr(vars(each).get("__dataclass_params__"), "frozen", False) and getattr(vars(each)["__dataclass_params__"], "eq")}
print(len(ours), *{name for module, name in classes if name not in public and not module.startswith("quarterjack.sdk")})
"""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    modules, *frozen = done.stdout.split()
    assert int(modules) <= 200
    assert frozen == [], "use quarterjack.values.value"


def run(*words: str) -> str:
    """A program that runs one command line, as the console script does."""
    return f"""
import contextlib, io, sys
from quarterjack.cli import main
sys.argv = ["quarterjack", *{words!r}]
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
        "quarterjack.sdk.scheduler",
        "quarterjack.services",
        "quarterjack.local",
        "quarterjack.cli.schedules.group",
    }
    assert ("quarterjack.timing" in modules) is ("preview" in words)
