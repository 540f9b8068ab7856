"""The limits of ADR 0031, so that a room stays one that a newcomer can read: sizes of folders and modules, names, circles of imports.

``KNOWN`` lists what is over a limit today. It only shrinks: an exception that is no longer needed fails its test.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

PACKAGE = Path(__file__).parents[2] / "shared" / "quarterjack"
MODULES = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
MOST_MODULES = 14  # of a folder, beside its `__init__`
MOST_LINES = 300  # of a module
MOST_PARTIALS = 6  # in the worker: each hides a hop from who follows a run
TOP = "."  # the folder of what belongs to no room
_CLASS = re.compile(r"^ *class ([A-Za-z]\w*)", re.MULTILINE)
KNOWN: Mapping[str, set[str]] = {
    "folders": set(),
    "lines": set(),
    "classes": set(),
    "circles": set(),
    "partials": set(),
}


def crowded(paths: Iterable[str], most: int = MOST_MODULES) -> set[str]:
    """Folders with more modules than that. Modules at the top stand for themselves: no room holds them."""
    counts = Counter(str(Path(path).parent) for path in paths if not path.endswith("__init__.py"))
    return {folder for folder, count in counts.items() if count > most and folder != TOP}


def long(sources: Mapping[str, str], most: int = MOST_LINES) -> set[str]:
    """Modules with more lines than that."""
    return {path for path, text in sources.items() if text.count("\n") > most}


def twice(sources: Mapping[str, str]) -> set[str]:
    """Public names of classes that stand more than once."""
    names = (name for text in sources.values() for name in _CLASS.findall(text))
    return {name for name, count in Counter(names).items() if count > 1}


def circles(imports: Mapping[str, set[str]]) -> set[str]:
    """Modules that import each other, directly or by others: each circle as "a > b > a", without what leads into it."""
    found, left = set[str](), {module: set(targets) for module, targets in imports.items()}
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as problem:
            circle = [*reversed(problem.args[1])][:-1]
            start = circle.index(min(circle))
            ordered = circle[start:] + circle[:start]
            found.add(" > ".join([*ordered, ordered[0]]))
            left[ordered[0]] = left[ordered[0]] - {ordered[1]}
        else:
            return found


def imports_of(package: str) -> Mapping[str, set[str]]:
    """Who imports whom, imports for types alone and inside of functions included."""
    graph = grimp.build_graph(package, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def partials(sources: Mapping[str, str], most: int = MOST_PARTIALS) -> set[str]:
    """The number of callables that the worker passes on with some of their arguments, if it is more than that."""
    count = sum(text.count("partial(") for path, text in sources.items() if path.startswith("worker/"))
    return {str(count)} if count > most else set()


@pytest.mark.parametrize(
    ("limit", "over"),
    [
        ("folders", lambda: crowded(MODULES)),
        ("lines", lambda: long(MODULES)),
        ("classes", lambda: twice(MODULES)),
        ("circles", lambda: circles(imports_of("quarterjack"))),
        ("partials", lambda: partials(MODULES)),
    ],
)
def test_the_house_keeps_its_limits(limit: str, over: Callable[[], set[str]]) -> None:
    found = over()
    assert sorted(found - KNOWN[limit]) == [], f"over the limit of {limit}"
    assert sorted(KNOWN[limit] - found) == [], f"these exceptions of {limit} are not needed any more: remove them"


def test_what_is_over_a_limit_is_found() -> None:
    assert crowded([f"room/{name}.py" for name in ("__init__", "a", "b", "c")], most=2) == {"room"}
    assert crowded([f"room/{name}.py" for name in ("__init__", "a", "b")], most=2) == set()
    assert long({"a.py": "\n" * 3, "b.py": "\n" * 2}, most=2) == {"a.py"}
    assert twice({"a.py": "class A: ...\nclass _B: ...", "b.py": "class A: ...\nclass _B: ..."}) == {"A"}
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {"b > c > b"}
    assert circles({"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}) == {"a > b > a", "a > c > a"}
    assert circles({"a": {"b"}, "b": set()}) == set()
    calls = {"worker/a.py": "partial(f, 1)\npartial(g)", "sdk/b.py": "partial(f)"}
    assert (partials(calls, most=1), partials(calls, most=2)) == ({"2"}, set())
