"""The Pythons that are promised are those that are tested."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.parts import sample
from tools import debian_python, pythons
from tools.import_all import import_all
from tools.pythons import PROMISED, Ended, Result, Share, commands, main

ROOT = Path(__file__).parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OLDEST = min(PROMISED, key=lambda version: int(version.partition(".")[2]))


def test_the_table_is_that_of_the_classifiers() -> None:
    prefix = "Programming Language :: Python :: "
    named = [line.removeprefix(prefix) for line in PROJECT["project"]["classifiers"] if line.startswith(prefix)]
    assert named == list(PROMISED)


def test_style_and_types_are_those_of_the_oldest() -> None:
    assert PROJECT["project"]["requires-python"] == f">={OLDEST}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{OLDEST.replace('.', '')}"
    assert PROJECT["tool"]["mypy"]["python_version"] == OLDEST


def test_make_check_tests_them() -> None:
    recipe = re.search(r"^check: .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    assert "pythons" in recipe[1]


def test_what_the_newest_one_runs_is_there() -> None:
    assert PROMISED["3.14"] is Share.SUITES
    words = [str(word) for command in commands(Share.SUITES, Path("bin")) for word in command]
    places = [word.partition("::")[0] for word in words if word.startswith("tests/")]
    assert {"tests/unit", "tests/contract"} < set(places)
    assert all((ROOT / place).exists() for place in places)


def test_every_command_of_an_interpreter_is_its_own() -> None:
    for share in Share:
        assert {Path(str(command[0])).parent for command in commands(share, Path("bin"))} == {Path("bin")}


# --- where there is none ---


def test_an_interpreter_that_cannot_be_had_is_named_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # neither an interpreter nor apt
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setattr(pythons, "BUILD", tmp_path / "build")
    monkeypatch.setattr(pythons, "_patchelf", lambda: tmp_path / "patchelf")
    assert main(["3.99"]) == 0
    said = capsys.readouterr()
    assert re.search(r"^Python 3\.99: NOT TESTED: none on the path; uv .+; Debian: .+", said.err, re.MULTILINE)
    assert main(["3.99", "--required", "3.99"]) == 1
    assert main(["3.99", "--required", "all"]) == 1
    assert main(["3.99", "--required", "3.14"]) == 1  # it was not even looked for
    assert not [place for place in (tmp_path / "build").rglob("*") if place.name.startswith("python3")]


def test_one_that_failed_is_not_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    results = [
        Result(version="3.12", text="3.12.1, smoke: 5 passed", ended=Ended.PASSED),
        Result(version="3.13", text="FAILED: pytest …", ended=Ended.FAILED),
    ]
    assert pythons._told(results[:1], []) == 0
    assert pythons._told(results, []) == 1
    said = capsys.readouterr()
    assert "Python 3.12: 3.12.1, smoke: 5 passed" in said.out
    assert "Python 3.13: FAILED" in said.err


def test_an_interpreter_that_does_not_run_is_not_taken(tmp_path: Path) -> None:
    broken = tmp_path / "python3.14"
    broken.write_text("#!/bin/sh\nkill -SEGV $$\n")
    broken.chmod(0o755)
    assert not debian_python.runs(broken)
    assert not debian_python.runs(tmp_path / "missing")
    assert debian_python.runs(Path(sys.executable))


def test_the_shims_of_a_version_manager_are_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "versions" / "3.12.1" / "bin").mkdir(parents=True)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/shims:/usr/bin")
    assert list(pythons._search_path()) == ["/usr/bin", str(tmp_path / "versions" / "3.12.1" / "bin")]


# --- what they run ---


def test_each_function_is_in_the_sample_and_each_case_in_its_turn() -> None:
    ids = ["test_a", *(f"test_b[{case}]" for case in "vwxyz"), "test_c[1]", "test_c[2]"]
    for turn in range(5):
        kept = sample(ids, 2, turn=turn)
        assert {name.partition("[")[0] for name in kept} == {"test_a", "test_b", "test_c"}
        assert len(kept) == 5
    assert set().union(*(sample(ids, 2, turn=turn) for turn in range(5))) == set(ids)
    assert sample(ids, 9) == set(ids)


def test_a_package_that_cannot_be_imported_ends_the_import_of_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("sound", "sound/inner", "broken", "broken/inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "sound" / "__main__.py").write_text("raise SystemExit(1)")
    (tmp_path / "broken" / "inner" / "__init__.py").write_text("import no_such_module_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert import_all("sound") == 1
    with pytest.raises(ImportError, match="no_such_module_at_all"):
        import_all("broken")
