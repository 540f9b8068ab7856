"""``make quick``: the tests nearest to a change, those that import what it touches first, in under a minute.

    python -m tools.quick [--base main] [--files 100] [--list] [-- arguments of pytest]

    changed    what git has as changed since the fork from BASE, commits and files without commit alike
    0          test files that are changed, and the folders of tests nearest to changed modules
    1          test files that import a changed module, directly or through tests/support
    2          the folders of tests nearest to modules that import a changed one

Of these at most so many files, in this order: the rest is told and left to `make test`. Long tests are in it on their day only.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
FILES = 100  # that two cores run in a minute: half a second of processor time each, and twenty for their start and collection
PACKAGES = {"quarterjack": Path("shared/quarterjack"), "functions": Path("functions"), "infra": Path("infra")}
# What holds for the whole tree and is quick to check.
ALWAYS = ("tests/unit/test_imports.py",)
# Where tests of a folder are elsewhere than in tests/unit under its name.
ELSEWHERE = {
    "infra": ("tests/infra",),
    "shared/quarterjack/dynamodb": ("tests/unit/dynamodb", "tests/contract"),
    "docs": ("tests/unit/docs",),
    "README.md": ("tests/unit/docs",),
    "Makefile": ("tests/unit/docs/test_commands.py",),
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="quick", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--base", default="main", help="branch or commit that the change is made to (main)")
    parser.add_argument("--files", type=int, default=FILES, help=f"of tests, at most ({FILES})")
    parser.add_argument("--list", action="store_true", help="print the files of tests, and run none")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    given = parser.parse_args(arguments)
    changed = changes(given.base)
    found = nearest(changed)
    chosen = [*dict.fromkeys([*ALWAYS, *found[: given.files]])]
    say(f"{len(changed)} files are changed since {given.base}, {len(found)} files of tests concern them")
    if len(found) > given.files:
        say(f"{len(found) - given.files} further away are left to make test; --files={len(found)} runs all")
    if given.list:
        say("\n".join(chosen))
        return 0
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", *given.pytest, *chosen]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 -- pytest, on our files


def changes(base: str) -> list[Path]:
    """The files that differ from the fork from ``base``, and those that git does not know yet. Raises SystemExit for an unknown base."""
    fork = _git("merge-base", base, "HEAD")
    if not fork:
        raise SystemExit(f"BASE={base!r}: git knows no such commit; use a branch, e.g. BASE=origin/main")
    told = [*_git("diff", "--name-only", fork[0]), *_git("ls-files", "--others", "--exclude-standard")]
    return sorted({Path(name) for name in told})


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607 -- as a developer has it
    return done.stdout.splitlines() if done.returncode == 0 else []


def nearest(changed: Iterable[Path], graph: grimp.ImportGraph | None = None) -> list[str]:
    """The files of tests that a change concerns, nearest first."""
    graph = graph or grimp.build_graph(*PACKAGES, "tests", cache_dir=str(ROOT / "build" / "grimp"))
    paths = list(changed)
    modules = {module for module in map(module_of, paths) if module in graph.modules}
    importers = Counter(one for module in modules for one in _importers(graph, module))
    found = [path for path in paths if is_test(path)]
    for path in paths:
        found += folder_of(path)
    found += sorted(path_of(module) for module in importers if is_test(path_of(module)))
    for module, _ in importers.most_common():
        found += folder_of(path_of(module))
    return [str(path) for path in dict.fromkeys(found) if (ROOT / path).exists()]


def _importers(graph: grimp.ImportGraph, module: str) -> Iterator[str]:
    """Modules that import one directly; what the tests share counts as part of those that import it."""
    for importer in graph.find_modules_that_directly_import(module):
        yield importer
        if importer.startswith("tests.support."):
            yield from graph.find_downstream_modules(importer)


def module_of(path: Path) -> str:
    """The dotted name of a file, ``""`` for one that is no module."""
    if path.suffix != ".py":
        return ""
    for package, folder in PACKAGES.items():
        if path.is_relative_to(folder):
            path = Path(package) / path.relative_to(folder)
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def path_of(module: str) -> Path:
    """The file of a module, relative to the checkout."""
    package, _, rest = module.partition(".")
    place = PACKAGES.get(package, Path(package)) / rest.replace(".", "/")
    return place / "__init__.py" if (ROOT / place).is_dir() else place.with_suffix(".py")


def is_test(path: Path) -> bool:
    return path.parts[0] == "tests" and path.name.startswith("test_") and path.suffix == ".py"


def folder_of(path: Path) -> list[Path]:
    """The files of tests in the folder nearest to a file: its own name under tests/unit, or that of a folder that it is in."""
    for place in (path, *path.parents):
        if str(place) in ELSEWHERE:
            return [file for folder in ELSEWHERE[str(place)] for file in _tests_in(Path(folder))]
    if not path.is_relative_to(PACKAGES["quarterjack"]):
        return []
    inner = path.relative_to(PACKAGES["quarterjack"])
    alone = Path("tests/unit") / inner.parent / f"test_{inner.name}"
    for folder in (alone, *(Path("tests/unit") / parent for parent in inner.parents if parent != Path())):
        if tests := _tests_in(folder):
            return tests
    return []


def _tests_in(folder: Path) -> list[Path]:
    place = ROOT / folder
    files = [place] if place.is_file() else place.rglob("test_*.py")
    return sorted(file.relative_to(ROOT) for file in files)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
