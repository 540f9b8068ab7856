"""What the peers need, under ``build/peers``: a virtual environment for each, and Debian's packages of what is not installed.

Nothing of it comes into the project's environment, and ``make clean`` removes it. Whatever cannot be had is said and left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

HOME = Path("build/peers")
ROOT = HOME / "root"  # where Debian's packages are unpacked
_DEBS = HOME / "debs"
_LIBRARIES = ROOT / "usr/lib/x86_64-linux-gnu"
_PLACES = ("/usr/bin", "/usr/lib/postgresql/*/bin")
_LONG = 600  # seconds for an installation


class Missing(Exception):
    """Something cannot be had here."""


def environment(name: str, packages: Iterable[str]) -> Path:
    """The Python of a peer's own environment, with these packages; Missing with what pip said."""
    home = HOME.resolve() / name
    python, mark, wanted = home / "bin/python", home / "installed.txt", "\n".join(packages)
    if not mark.exists() or mark.read_text() != wanted:
        _run(sys.executable, "-m", "venv", "--clear", str(home))
        _run(str(python), "-m", "pip", "install", "--quiet", *packages)
        mark.write_text(wanted)
    return python


def program(name: str, package: str) -> Path:
    """A program, installed or unpacked from Debian's ``package``; Missing if neither can be had."""
    found = _find(name)
    if found is None:
        _unpack(package)
        found = _find(name)
    if found is None:
        raise Missing(f"{package} has no {name}")
    return found


def libraries() -> str:
    """The value of LD_LIBRARY_PATH with which unpacked programs find what came with them."""
    return str(_LIBRARIES.resolve())


def _find(name: str) -> Path | None:
    for place in _PLACES:
        for base in (Path("/"), ROOT.resolve()):
            hits = sorted(base.glob(f"{place.lstrip('/')}/{name}"))
            if hits:
                return hits[-1]
    return None


def _unpack(package: str) -> None:
    """Download a package with what it depends on and is not installed, and lay it all below ROOT."""
    if shutil.which("apt-get") is None:
        raise Missing(f"{package}: this is no Debian; install it, and it is used")
    (_DEBS / "partial").mkdir(parents=True, exist_ok=True)
    options = ("-o", f"Dir::Cache::archives={_DEBS.resolve()}", "-o", "Debug::NoLocking=1")
    _run("apt-get", "-qq", "-y", "--download-only", "--no-install-recommends", *options, "install", package)
    for deb in sorted(_DEBS.glob("*.deb")):
        _run("dpkg", "-x", str(deb), str(ROOT))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LONG)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Missing(f"{command[0]}: {said[-1] if said else done.returncode}")
