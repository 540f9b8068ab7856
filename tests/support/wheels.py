"""The wheel as users have it: one extra at a time, in an environment that holds nothing else and does not see the checkout."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

import pytest
from uv import find_uv_bin

ROOT = Path(__file__).parents[2]
CORE = "core"  # the package without any extra
INTERPRETER = os.environ.get(
    "QUARTERJACK_TEST_PYTHON", sys.executable
)  # a path, or a version that uv finds, such as 3.14

# Which packages and modules of the wheel each extra promises to import. The longest name that fits a module counts, so that a new
# module belongs to the core unless its package is listed here.
PROMISED: Mapping[str, Sequence[str]] = {
    CORE: ("quarterjack",),
    "api": ("quarterjack.console", "quarterjack.functions.api", "quarterjack.web"),
    "calendars": (),
    "cli": ("quarterjack.cli",),
    "explain": (),
    "functions": ("quarterjack.functions",),
    "infra": ("quarterjack.infra",),
    "local": ("quarterjack.local",),
    "metrics": (),
    "oidc": ("quarterjack.web.load_balancer",),
    "typed": ("quarterjack.payload_types.mended",),
    "web": ("quarterjack.console", "quarterjack.console.serving", "quarterjack.web"),
    "yaml": ("quarterjack.apply", "quarterjack.importers"),
}
# The fixtures of quarterjack.testing are for those who have pytest.
WITH_PYTEST: Sequence[str] = ("quarterjack.testing.plugin",)

_KEPT = re.compile(r"PIP_\w+|SSL_\w+|(CURL|REQUESTS)_CA_BUNDLE|\w+_PROXY", re.IGNORECASE)  # how pip reaches an index
_LAMBDA = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
_LAMBDA |= {"POWERTOOLS_METRICS_NAMESPACE": "Quarterjack", "POWERTOOLS_SERVICE_NAME": "quarterjack-function"}
# Imports everything that is named, then runs a program. The functions are called as in a bundle.
_RUNNER = """
import importlib, os, runpy, sys
sys.path.insert(0, os.path.abspath("bundle"))
program, *names = sys.argv[1:]
failed = []
for name in names:
    try:
        importlib.import_module(name)
    except BaseException as problem:
        failed.append(f"{name}: {type(problem).__name__}: {problem}")
if failed:
    sys.exit("cannot be imported:\\n" + "\\n".join(failed))
runpy.run_path(program, run_name="__main__")
foreign = {m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] == "quarterjack"}
foreign = {place for place in foreign if not place.startswith(sys.prefix)}
if foreign:
    sys.exit(f"not from the wheel: {foreign}")
"""


def owners(module: str) -> set[str]:
    """The extras that promise a module of the wheel, by its name; CORE is one of them."""
    listed = {*WITH_PYTEST, *(name for names in PROMISED.values() for name in names)}
    fitting = [name for name in listed if module == name or module.startswith(f"{name}.")]
    longest = max(fitting, key=len)
    return {extra for extra, names in PROMISED.items() if longest in names}


@dataclass(frozen=True)
class Wheel:
    """The built file."""

    path: Path

    @property
    def files(self) -> list[str]:
        with zipfile.ZipFile(self.path) as archive:
            return archive.namelist()

    @property
    def modules(self) -> list[str]:
        """The full names of all modules, as they are called when installed; without ``__main__``, which runs."""
        places = [PurePosixPath(name) for name in self.files if name.endswith(".py")]
        names = [".".join(place.with_suffix("").parts).removesuffix(".__init__") for place in places]
        return sorted(name for name in names if not name.endswith(".__main__"))

    @property
    def extras(self) -> set[str]:
        return set(HeaderParser().parsestr(self.text("METADATA")).get_all("Provides-Extra") or ())

    def text(self, name: str) -> str:
        """A file of its metadata."""
        with zipfile.ZipFile(self.path) as archive:
            (found,) = (each for each in archive.namelist() if each.endswith(f".dist-info/{name}"))
            return archive.read(found).decode()


def build(factory: pytest.TempPathFactory) -> Wheel:
    """The wheel of this checkout. Workers of one test run share it."""
    base = factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(place.glob("*.whl")):
            run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place), cwd=ROOT)
    (found,) = place.glob("*.whl")
    return Wheel(found)


class Environment:
    """A virtual environment at one path, made anew for each extra: bytecode, which is kept beside it, is compiled once for all."""

    def __init__(self, folder: Path, wheel: Wheel) -> None:
        self._folder, self._wheel = folder, wheel
        self._venv, self._bytecode = folder / "venv", folder / "bytecode"
        self._pins = folder / "pins.txt"
        self._pins.write_bytes((ROOT / "constraints.txt").read_bytes())  # it must not know where the checkout is

    def install(self, extra: str, *also: str) -> None:
        """Make it anew, with the wheel and one extra, and further packages."""
        self._uv("venv", "--quiet", "--clear", "--python", INTERPRETER, str(self._venv))
        wanted = str(self._wheel.path) if extra == CORE else f"{self._wheel.path}[{extra}]"
        python = str(self._venv / "bin" / "python")
        self._uv("pip", "install", "--quiet", "--python", python, "--constraint", str(self._pins), wanted, *also)

    def run(self, program: str, modules: Sequence[str], folder: Path) -> None:
        """Import modules and run a program (its text) in an empty folder. Raises AssertionError with what it said, if it fails."""
        (site,) = self._venv.glob("lib/python*/site-packages")
        folder.mkdir()
        (folder / "bundle").mkdir()
        (folder / "bundle" / "functions").symlink_to(site / "quarterjack" / "functions")
        place = self._folder / "program.py"
        place.write_text(program)
        named = [name.removeprefix("quarterjack.") if ".functions" in name else name for name in modules]
        python = (str(self._venv / "bin" / "python"), "-I", "-X", f"pycache_prefix={self._bytecode}")
        run(*python, "-c", _RUNNER, str(place), *named, cwd=folder, env=self._environ(folder))

    def _environ(self, home: Path) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
        kept.setdefault("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
        kept |= {"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(self._folder), **_LAMBDA}
        return kept | {"PYTHONPYCACHEPREFIX": str(self._bytecode)}  # of the programs that a program starts

    def _uv(self, *words: str) -> None:
        unset = ("PYTHONPATH", "VIRTUAL_ENV")
        environ = {name: value for name, value in os.environ.items() if name not in unset}
        run(find_uv_bin(), *words, cwd=self._folder, env=environ)


def run(*command: str, cwd: Path, env: Mapping[str, str] | None = None) -> None:
    """Run a command. Raises AssertionError with what it said, if it fails."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def sources() -> Iterator[tuple[str, Path]]:
    """Every module of the checkout that belongs into the wheel: its installed name, and its file."""
    rooms = (
        ("quarterjack", "shared/quarterjack"),
        ("quarterjack.functions", "functions"),
        ("quarterjack.infra", "infra"),
    )
    for package, folder in rooms:
        for place in sorted((ROOT / folder).rglob("*.py")):
            parts = place.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join((package, *parts)).removesuffix(".__init__"), place
