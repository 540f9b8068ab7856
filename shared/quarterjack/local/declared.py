"""The queues that a package of jobs declares, found by importing it in an interpreter of its own.

So a deployment does not import the package into its own process, and two packages of the same name can be read by one process. A
package whose text does not contain ``Queue`` declares none, and is not imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from quarterjack.domain.queue import Queue
from quarterjack.errors import JobError
from quarterjack.local.processes import inherited

_WORDS = (b"Queue", b".queue(")  # a declaration contains one of them
_TIMEOUT = 60.0  # seconds for the import
_PROGRAM = """
import json, sys
from quarterjack.job_packages import load
from quarterjack.jobs import default_registry
try:
    for package in sys.argv[2:]:
        load(package)
except Exception as problem:
    sys.exit(f"{type(problem).__name__}: {problem}")
with open(sys.argv[1], "w", encoding="utf-8") as answer:
    json.dump([vars(queue) for queue in default_registry.queues()], answer)
"""


def declared_queues(packages: Sequence[str], *, within: Path | None = None) -> tuple[Queue, ...]:
    """The queues that ``packages`` declare, in order of name; ``within`` is their folder (default: the working directory).

    Raises JobError if one that may declare queues cannot be imported.
    """
    path = [str(within or Path.cwd()), *sys.path]
    candidates = [package for package in packages if _may_declare(package, path)]
    if not candidates:
        return ()
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "queues.json")
        try:
            done = subprocess.run(  # noqa: S603 — our own interpreter and program
                [sys.executable, "-P", "-c", _PROGRAM, str(answer), *candidates],
                env={**inherited(), "PYTHONPATH": os.pathsep.join(path)},
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise JobError(f"jobs={candidates!r}: the import did not end within {_TIMEOUT:.0f} s") from None
        if done.returncode != 0 or not answer.exists():
            output = done.stderr.strip().splitlines() or ["no output"]
            _, said, text = output[-1].partition("JobError: ")  # of ours, and whole
            raise JobError(text if said else f"jobs={candidates!r}: importing failed: {output[-1]}")
        return tuple(Queue(**given) for given in json.loads(answer.read_text(encoding="utf-8")))


def _may_declare(package: str, path: Sequence[str]) -> bool:
    """Whether the text of a package contains a declaration; True if it is not found: the import then reports it."""
    tail = Path(*package.split("."))
    places = (place for root in path for place in (Path(root, tail), Path(root, tail).with_suffix(".py")))
    place = next((place for place in places if place.exists()), None)
    if place is None:
        return True
    sources = [place] if place.is_file() else place.rglob("*.py")
    return any(word in text for text in (source.read_bytes() for source in sources) for word in _WORDS)
