"""A traceback as the author of a job reads it: without the frames of this package, which called the job."""

from __future__ import annotations

import re
from pathlib import Path

import quarterjack
from quarterjack.cli.shell import Shell
from quarterjack.sdk.views import Run

_PACKAGE = Path(quarterjack.__file__).parent
_FRAME = re.compile(r'(?P<indent>[ |+]*)  File "(?P<path>[^"]+)", line \d+')
_HEADER = "Traceback (most recent call last):"


def show_traceback(shell: Shell, run: Run) -> None:
    """The traceback of the last failed attempt, if there is one; with --json the run has it."""
    last = run.failed_attempts[-1] if run.failed_attempts else None
    if last is None or not last.traceback or shell.as_json:
        return
    shell.say("")
    shell.say(f"attempt {last.number}:", style="bold")
    shell.say(of_the_job(last.traceback))


def of_the_job(text: str) -> str:
    """The traceback without our frames; of an error that our frames alone raised, its last lines."""
    kept, skipping = list[str](), None
    for line in text.rstrip().splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            skipping = frame["indent"] if _is_ours(frame["path"]) else None
        elif skipping is not None and not line.startswith(f"{skipping}    "):
            skipping = None
        if skipping is None:
            kept.append(line)
    return "\n".join(line for at, line in enumerate(kept) if not _is_empty(kept, at))


def _is_ours(path: str) -> bool:
    """Whether the file is one of this package, wherever the worker has it installed."""
    _, found, inside = path.replace("\\", "/").rpartition("/quarterjack/")
    return bool(found) and (_PACKAGE / inside).is_file()


def _is_empty(lines: list[str], at: int) -> bool:
    """Whether a line announces frames, and none are left."""
    return lines[at].endswith(_HEADER) and not (at + 1 < len(lines) and _FRAME.match(lines[at + 1]))
