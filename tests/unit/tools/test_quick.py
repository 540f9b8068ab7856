"""`make quick` runs what is near to a change."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest

from tools import quick


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*quick.PACKAGES, "tests", cache_dir=None)


def test_the_nearest_folder_comes_first_and_then_those_that_import(graph: grimp.ImportGraph) -> None:
    found = quick.nearest([Path("shared/quarterjack/clock.py")], graph)
    assert found[0] == "tests/unit/test_clock.py"
    importers = {
        module.rpartition(".")[2]
        for module in graph.find_modules_that_directly_import("quarterjack.clock")
        if ".test_" in module
    }
    assert importers <= {Path(name).stem for name in found}


def test_a_changed_test_comes_before_all_others(graph: grimp.ImportGraph) -> None:
    changed = "tests/unit/timing/test_peers.py"
    assert quick.nearest([Path("shared/quarterjack/clock.py"), Path(changed)], graph)[0] == changed


def test_what_tests_share_concerns_all_that_import_it_at_any_distance(graph: grimp.ImportGraph) -> None:
    found = quick.nearest([Path("tests/support/histories/simulator.py")], graph)
    assert "tests/proof/test_recorded.py" in found
    assert not any(name.startswith("tests/unit/timing") for name in found)


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("shared/quarterjack/timing/__init__.py", "tests/unit/timing/"),
        ("infra/app.py", "tests/infra/"),
        ("docs/tutorial.md", "tests/unit/docs/"),
        ("shared/quarterjack/dynamodb/__init__.py", "tests/unit/dynamodb/"),
    ],
)
def test_a_file_has_a_folder_of_tests(file: str, folder: str, graph: grimp.ImportGraph) -> None:
    assert quick.nearest([Path(file)], graph)[0].startswith(folder)


def test_a_file_that_nothing_tests_concerns_none(graph: grimp.ImportGraph) -> None:
    assert quick.nearest([Path("LICENSE")], graph) == []


def test_a_module_and_its_file_are_the_same_both_ways() -> None:
    for file in ("shared/quarterjack/clock.py", "tests/support/api.py", "infra/__init__.py"):
        assert quick.path_of(quick.module_of(Path(file))) == Path(file)


def test_an_unknown_base_is_refused_with_the_remedy() -> None:
    with pytest.raises(SystemExit, match="BASE='no-such-branch': git knows no such commit; use a branch"):
        quick.changes("no-such-branch")
