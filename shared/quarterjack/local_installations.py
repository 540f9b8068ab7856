"""The installations of ``quarterjack local`` that run on this machine, as files in the user's state folder tell.

Each running installation has one file, ``<host>.<pid>.json``, which its process keeps locked. The lock ends with the process, however
that ends: a file without a lock is stale, and the next reader removes it. The files contain access keys, so folder and files belong to the
user alone. Nothing uses an installation by itself: errors name it, and ``--local`` chooses it.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from quarterjack.errors import Misconfigured
from quarterjack.posix import fcntl
from quarterjack.settings import names_profile, state_folder, without_installation

# The command line says these two in words of its own.
OFFER = 'set its variables in this shell: eval "$(quarterjack local --env)"'
CHOICE = 'choose one and set its variables in this shell: eval "$(quarterjack --local=PORT local --env)"'
_START = "or run an installation on this machine: quarterjack local"


@dataclass(frozen=True, kw_only=True)
class RunningInstallation:
    prefix: str  # of its tables and queues
    port: int  # of its cloud, on loopback
    pid: int  # of the process `quarterjack local`
    folder: str  # its logs, and its data if they are kept
    variables: Mapping[str, str]  # environment variables with which another process uses it

    @property
    def label(self) -> str:
        """How lists show it."""
        return f"prefix {self.prefix}, port {self.port}, process {self.pid}, logs in {self.folder}"


def export_line(variables: Mapping[str, str]) -> str:
    """The shell command that sets ``variables``."""
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())


@contextmanager
def published(installation: RunningInstallation, folder: Path | None = None) -> Iterator[None]:
    """Let other processes of this user find ``installation`` for the time of the block. Raises OSError if the folder cannot be written."""
    folder = folder or _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    path = folder / f"{os.uname().nodename}.{installation.pid}.json"
    with _scanned(folder):  # nobody reads between creation and lock
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            json.dump(vars(installation), file, default=dict)
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            file.close()
            raise
    with file:
        try:
            yield
        finally:
            with suppress(OSError):  # the folder may be gone
                path.unlink(missing_ok=True)


def running_installations(folder: Path | None = None) -> Sequence[RunningInstallation]:
    """The user's local installations that run on this machine, in order of port. It removes files whose process has ended."""
    folder = folder or _folder()
    found = list[RunningInstallation | None]()
    with suppress(OSError), _scanned(folder):
        found += [_read(path) for path in folder.glob("*.json") if path.name.startswith(f"{os.uname().nodename}.")]
    return sorted(filter(None, found), key=lambda each: each.port)


def chosen(which: str, folder: Path | None = None) -> RunningInstallation:
    """The running installation with ``which`` as prefix or port; with "" the only one. Raises Misconfigured."""
    running, given = running_installations(folder), f"--local={which}" if which else "--local"
    if not running:
        raise Misconfigured(f"{given}: no local installation runs on this machine; start one: quarterjack local")
    fitting = [one for one in running if which in ("", one.prefix, str(one.port))]
    if len(fitting) == 1:
        return fitting[0]
    problem = f"{len(fitting)} local installations fit" if fitting else "no local installation has this prefix or port"
    listed = "; ".join(one.label for one in fitting or running)
    raise Misconfigured(f"{given}: {problem}; give --local=PREFIX or --local=PORT of one that runs: {listed}")


@contextmanager
def using(which: str, folder: Path | None = None) -> Iterator[RunningInstallation]:
    """Let this process use the installation that is ``chosen``, and no other, for the time of the block."""
    one, before = chosen(which, folder), dict(os.environ)
    _set_environ(without_installation() | dict(one.variables))
    try:
        yield one
    finally:
        _set_environ(before)


def _set_environ(wanted: Mapping[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


def no_place(problem: object) -> Misconfigured:
    """The error of a process that knows neither region nor endpoint. It names the local installations that run on this machine."""
    text = f"AWS_REGION and AWS_ENDPOINT_URL are not set ({str(problem).rstrip('.')}); set AWS_REGION to the region of your stack"
    return Misconfigured(f"{text}, {local_remedy() or _START}")


def local_remedy() -> str | None:
    """How a process reaches the local installation that runs on this machine; None without one, or if the user has named a profile."""
    running = () if names_profile() else running_installations()
    if not running:
        return None
    if len(running) == 1:
        return f"or use the local installation that runs on this machine ({running[0].label}): {OFFER}"
    listed = "; ".join(one.label for one in running)
    return f"or use one of the local installations that run on this machine ({listed}): {CHOICE}"


def _folder() -> Path:
    return state_folder() / "local"


@contextmanager
def _scanned(folder: Path) -> Iterator[None]:
    """The folder for this process alone. Raises OSError if there is none, or if it belongs to another user."""
    if sys.platform == "win32":  # no `quarterjack local` there
        raise OSError
    handle = os.open(folder, os.O_RDONLY)
    try:
        if os.fstat(handle).st_uid != os.getuid():
            raise PermissionError(folder)
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _read(path: Path) -> RunningInstallation | None:
    """The installation of a file; None, and the file is removed, if its process has ended."""
    with path.open() as file:
        if _is_locked(file):
            try:
                given: Any = json.load(file)
                return RunningInstallation(**given)
            except (ValueError, TypeError):  # of another release
                return None
    path.unlink(missing_ok=True)
    return None


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False
