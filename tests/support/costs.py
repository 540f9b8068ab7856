"""What each test costs in processor time.

``pytest -p tests.support.costs --costs build/costs`` measures, ``python -m tests.support.costs build/costs`` prints what costs most, and
``--write`` writes ``tests/long_tests.txt``: the functions that take turns. A function of which the measured run had only the cases of its
day keeps the cost that it has there, so a run of `make test` or of `make check` is enough.

Wall time says little on a machine that does other things, too. A process writes a file with a line of JSON for each test:
its phases and the fixtures that it has set up, each in seconds of the processor, of this process and of the children that
have ended. What the local cloud spends meanwhile (a process that goes on) is read from ``/proc``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import pytest

from tests.support.parts import DAYS, LONG, long_tests

_TICKS = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("costs").addoption("--costs", type=Path, help="folder for the processor seconds of each test")


def pytest_configure(config: pytest.Config) -> None:
    if (folder := config.getoption("costs")) is not None:
        folder.mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(Costs((folder / f"{os.getpid()}.jsonl").open("w")), "costs of tests")


class Costs:
    """Writes a line for each test."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._phases = dict[str, float]()
        self._fixtures = defaultdict[str, float](float)
        self._inner: list[float] = []  # what the fixtures have taken that the one being set up asked for

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        own, ended = _own(), _ended()
        answer = yield
        self._write(kind="collection", before=own, own=_own() - own, children=_ended() - ended)
        return answer

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        own, ended, living = _own(), _ended(), _living()
        self._fixtures.clear()
        answer = yield
        self._write(
            kind="test",
            id=item.nodeid,
            turn=item.get_closest_marker("turn") is not None,
            own=_own() - own,
            children=_ended() - ended,
            living=_living() - living,  # negative where one has ended, which is among the children then
            phases=self._phases,
            fixtures=dict(self._fixtures),
        )
        self._phases = {}
        return answer

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        return (yield from self._phase("setup"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        return (yield from self._phase("call"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        return (yield from self._phase("teardown"))

    def _phase(self, name: str) -> Generator[None, object, object]:
        before = _all()
        answer = yield
        self._phases[name] = _all() - before
        return answer

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        before = _all()
        self._inner.append(0)
        answer = yield
        took = _all() - before
        self._fixtures[fixturedef.argname] += took - self._inner.pop()
        if self._inner:
            self._inner[-1] += took
        return answer

    def pytest_sessionfinish(self) -> None:
        self._write(kind="end", own=_own(), children=_ended(), living=_living())
        self._out.close()

    def _write(self, **line: object) -> None:
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()


def _own() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _ended() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _all() -> float:
    return _own() + _ended()


_seen = dict[int, float]()  # processor seconds of each child that goes on, when it was met last


def _living() -> float:
    """Of the children that go on, and of theirs. One that a look at ``/proc`` misses counts as it did before, until it has ended."""
    _seen.update((child, _spent(child)) for child in _descendants(os.getpid()))
    for ended in [child for child in _seen if not Path(f"/proc/{child}").exists()]:
        del _seen[ended]
    return sum(_seen.values())


def _descendants(process: int) -> Iterator[int]:
    try:
        told = [(task / "children").read_text() for task in Path(f"/proc/{process}/task").iterdir()]
    except OSError:
        return
    for child in map(int, " ".join(told).split()):
        yield child
        yield from _descendants(child)


def _spent(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _seen.get(process, 0)
    return sum(map(int, fields[11:15])) / _TICKS  # and of its own children that have ended


# What checks the tree runs every day, whatever it costs.
_DAILY = ("test_imports.py", "test_house.py", "test_public_names.py", "test_private_names.py", "test_mutants.py")
_HEAD = """# Test functions that take a tenth of a second of processor time or more, with all their cases, the longest first. A third
# of them, and of the cases of each, is in `make test`, another third the next day; of those that take half a second or more
# a sixth. `make check` runs all but a part of some kinds (tests/support/parts.py). Written by `python -m tests.support.costs --write`.
"""


def main(folder: str, *, write: bool = False, most: int = 60) -> None:
    """Print what costs most: tests, files, functions with all their cases, fixtures."""
    lines = [json.loads(line) for path in Path(folder).glob("*.jsonl") for line in path.read_text().splitlines()]
    tests = [line for line in lines if line["kind"] == "test"]
    if write:
        LONG.write_text(_HEAD + "".join(f"{cost:6.1f} {name}\n" for name, cost in _long(tests, long_tests())))
    for line in lines:
        if line["kind"] != "test":
            sys.stdout.write(f"{line}\n")
    for name, key in (
        ("folders", lambda id_: "/".join(id_.split("/")[:3])),
        ("files", lambda id_: id_.split("::")[0]),
        ("functions", lambda id_: id_.split("[")[0]),
        ("tests", lambda id_: id_),
    ):
        _table(name, [(key(line["id"]), _cost(line)) for line in tests], most)
    _table("fixtures", [entry for line in tests for entry in line["fixtures"].items()], most)
    _bands([_cost(line) for line in tests])


def _long(tests: Sequence[Mapping[str, Any]], before: Mapping[str, float]) -> list[tuple[str, float]]:
    """The functions of the list and their costs, the longest first. ``before``: the costs of those whose cases were not all run."""
    sums, whole = defaultdict[str, float](float), set[str]()
    for line in tests:
        file, _, rest = line["id"].partition("::")
        if Path(file).name not in _DAILY:
            name = rest.partition("[")[0].rpartition("::")[2]
            sums[name] += _cost(line)
            if not line["turn"]:
                whole.add(name)
    costs = {**before, **{name: sums[name] for name in whole}}
    found = [(name, cost) for name, cost in costs.items() if cost >= min(DAYS)]
    return sorted(found, key=lambda each: (-each[1], each[0]))


def _cost(line: Mapping[str, Any]) -> float:
    return float(line["own"] + line["children"] + line["living"])


def _table(name: str, entries: Sequence[tuple[str, float]], most: int) -> None:
    sums, counts = defaultdict[str, float](float), defaultdict[str, int](int)
    for key, seconds in entries:
        sums[key] += seconds
        counts[key] += 1
    sys.stdout.write(f"\n{name}: {sum(sums.values()):.0f} s\n")
    for key in sorted(sums, key=lambda key: -sums[key])[:most]:
        sys.stdout.write(f"{sums[key]:8.2f} s {counts[key]:6}  {key}\n")


def _bands(seconds: Sequence[float]) -> None:
    edges = [0, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 1.5, 3, 10, 1e9]
    sys.stdout.write("\n")
    for low, high in itertools.pairwise(edges):
        band = [one for one in seconds if low <= one < high]
        sys.stdout.write(f"{low:5} to {high:5} s: {len(band):6} tests {sum(band):8.1f} s\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="build/costs")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    main(given.folder, write=given.write)
