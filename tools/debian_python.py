"""A CPython of Debian's testing or unstable suite, unpacked into a folder and run from there. Needs apt; neither root nor a chroot.

    apt's mirror ─► packages, signatures checked ─► unpacked into a folder ─► that folder's loader and libraries written into the binary

A newer suite has a newer glibc than this machine, so the interpreter is started by the loader that came with it. Apart from
that it is an ordinary program: it sees this machine's files, `sys.executable` names it, virtual environments are made of it.
Its own path is written into it: a folder that was moved is made anew.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

SUITES = ("testing", "unstable")
_BESIDE = "libstdc++6"  # wheels in C++ link with it
_SECONDS = 600  # for one command
_RELEASE = re.compile(r"^'(\S+)/dists/([^/']+)/InRelease'", re.MULTILINE)
_KEYRINGS = tuple(Path("/usr/share/keyrings", f"debian-archive-keyring.{ending}") for ending in ("pgp", "gpg"))
_PARTS = "import bz2, ctypes, lzma, sqlite3, ssl, zlib"  # modules that need a library of the folder

# apt works in a folder of its own: this machine's packages and lists stay as they are. A mirror may be a snapshot whose
# Release file has expired; its signature is checked all the same.
_APT = """\
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "-";
Dir::Etc::preferencesparts "-";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Debug::NoLocking "true";
"""


class CannotBeMade(Exception):
    """This machine cannot get that interpreter from Debian. The text says why."""


def make(version: str, folder: Path, patchelf: Path) -> Path:
    """The path of that interpreter, e.g. of ``3.14``, in a new folder. Raises CannotBeMade and then leaves no folder.

    The folder's path is absolute. ``patchelf`` is newer than 0.18, whose CPythons crash.
    """
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    for left in (folder, unfinished):
        shutil.rmtree(left, ignore_errors=True)
    try:
        _fetch(version, _own_apt(unfinished / "apt"))
        for package in sorted((unfinished / "apt" / "cache" / "archives").glob("*.deb")):
            _run("dpkg-deb", "--extract", package, unfinished / "root")
        (unfinished / "root").rename(folder)
        return _bound(folder, version, patchelf)
    except CannotBeMade:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def runs(interpreter: Path) -> bool:
    """Whether it starts and finds its libraries."""
    try:
        _run(interpreter, "-c", _PARTS)
    except CannotBeMade:
        return False
    return True


def _own_apt(folder: Path) -> Path:
    for needed in ("state/lists/partial", "cache/archives/partial"):
        (folder / needed).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "apt.conf").write_text(_APT.format(folder=folder), encoding="utf-8")
    return folder


def _fetch(version: str, apt: Path) -> None:
    mirror, reasons = _mirror(), []
    keyring = next((f" [signed-by={place}]" for place in _KEYRINGS if place.exists()), "")
    packages = (f"python{version}", f"python{version}-venv", _BESIDE)
    for suite in SUITES:
        (apt / "sources.list").write_text(f"deb{keyring} {mirror} {suite} main\n", encoding="utf-8")
        try:
            _run("apt-get", "-qq", "update", apt=apt)
            _run("apt-get", "-qq", "--yes", "--download-only", "install", *packages, apt=apt)
        except CannotBeMade as error:
            reasons.append(f"{suite}: {error}")
        else:
            return
    raise CannotBeMade("; ".join(reasons))


def _mirror() -> str:
    """The address from which this machine's apt takes its own release of Debian."""
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise CannotBeMade("this is not Debian") from None
    here = {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
    if here.get("ID") != "debian":
        raise CannotBeMade("this is not Debian")
    for address, suite in _RELEASE.findall(_run("apt-get", "update", "--print-uris", "-o", "Debug::NoLocking=true")):
        if suite in (here.get("VERSION_CODENAME"), *SUITES):
            return str(address)
    raise CannotBeMade("apt's sources name no mirror of Debian")


def _bound(folder: Path, version: str, patchelf: Path) -> Path:
    """Write the folder's loader and libraries into its interpreter."""
    interpreter = folder / "usr" / "bin" / f"python{version}"
    loaders = sorted((folder / "usr" / "lib").glob("*/ld-linux*.so.*"))
    if len(loaders) != 1:
        raise CannotBeMade(f"one loader expected, found {[loader.name for loader in loaders]}")
    loader, libraries = loaders[0], loaders[0].parent
    # RPATH, not RUNPATH: it holds for the libraries of libraries as well.
    _run(patchelf, "--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries, interpreter)
    _run(interpreter, "-c", _PARTS)
    return interpreter


def _run(*command: str | Path, apt: Path | None = None) -> str:
    words = [str(word) for word in command]
    environment = os.environ | ({} if apt is None else {"APT_CONFIG": str(apt / "apt.conf")})
    try:
        done = subprocess.run(  # noqa: S603 -- commands of this module
            words, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBeMade(f"{words[0]}: {error}") from error
    if done.returncode:
        last = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
        raise CannotBeMade(f"{' '.join(words[:3])} …: {last}")
    return done.stdout
