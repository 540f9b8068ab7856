"""Code uses the private names of its own object alone. ruff's SLF001 holds it; here stands that no exception from it comes back."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "shared" / "quarterjack"
# `_getframe` is Python's way to the caller's frame; `forks` calls a hook of its own base class; the emulator has no other way in.
ALLOWED = {"jobs.py", "pipelines.py", "sdk/known_jobs.py", "concurrency/forks.py"}
WITHOUT_DETOURS = ("sdk", "web", "console", "daemon", "cli")


def exceptions(source: str) -> int:
    return sum("noqa" in line and "SLF001" in line for line in source.splitlines())


def detours(source: str) -> Iterator[str]:
    """Private names that are reached by ``vars(thing)["_name"]``, ``vars(thing).update(_name=…)``, or ``getattr(thing, "_name")``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Subscript(value=ast.Call(func=ast.Name(id="vars")), slice=ast.Constant(value=str(name))):
                found = [name]
            case ast.Call(func=ast.Name(id="getattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_]):
                found = [name]
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="vars")), attr="update"), keywords=words):
                found = [word.arg or "" for word in words]
            case _:
                continue
        yield from (name for name in found if name.startswith("_") and not name.startswith("__"))


def test_no_module_reaches_into_private_names() -> None:
    sources = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    found = {name for name, source in sources.items() if exceptions(source) and not name.startswith("local/")}
    assert found == ALLOWED
    for name in ALLOWED - {"concurrency/forks.py"}:
        lines = [line for line in sources[name].splitlines() if exceptions(line)]
        assert all("sys._getframe(" in line for line in lines), name
    around = {name: [*detours(sources[name])] for name in sources if name.startswith(WITHOUT_DETOURS)}
    assert {name: names for name, names in around.items() if names} == {}


def test_only_tests_and_benchmarks_are_free_of_the_rule() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert rules["select"] == ["ALL"]
    assert "SLF001" not in rules["ignore"]
    assert {place for place, codes in rules["per-file-ignores"].items() if "SLF001" in codes} == {
        "tests/**",
        "bench/**",
    }


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('vars(owner)["_services"] = 1', ["_services"]),
        ("vars(owner).update(_services=1, tenant=2)", ["_services"]),
        ('getattr(owner, "_services")', ["_services"]),
        ('setattr(owner, "_services", 1)', ["_services"]),
        ('vars(kind)["__doc__"]; getattr(owner, "tenant"); owner["_x"]', []),
    ],
)
def test_a_detour_is_found(source: str, names: list[str]) -> None:
    assert [*detours(source)] == names
