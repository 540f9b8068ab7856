"""The command line. It needs the extra ``cli``; the SDK does not."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import redirect_stderr, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from quarterjack.extras import install_remedy

COMPLETES = "_QUARTERJACK_COMPLETE"  # the variable by which a shell asks for completions
INTERRUPTED = 130  # exit code after Ctrl-C, as shells have it


def main() -> None:
    """Run the command line with ``sys.argv``; the process ends with the command's exit code."""
    if COMPLETES in os.environ:
        _complete()
    try:
        code = _run()
    except KeyboardInterrupt:  # during an import; within a command, typer has made it a code
        code = INTERRUPTED
    if code == INTERRUPTED:
        _exit_at_once(code)
    sys.exit(code)


def _complete() -> NoReturn:
    """Answer a shell that asks for completions: with nothing else, whatever happens, and without waiting for threads."""
    logging.disable()
    code: object = 1
    with Path(os.devnull).open("w", encoding="utf-8") as nothing, redirect_stderr(nothing):
        try:
            code = _run()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:  # noqa: BLE001, S110 (Ctrl-C, too: a prompt is no place for a traceback)
            pass
    _exit_at_once(code if isinstance(code, int) else 1)


def _run() -> int:
    if find_spec("typer") is None or find_spec("rich") is None:
        sys.exit(f"quarterjack: the command line is not installed; run: {install_remedy('cli')}")
    from quarterjack.cli.app import run  # noqa: PLC0415  # needs typer and rich

    return run(sys.argv[1:])


def _exit_at_once(code: int) -> NoReturn:
    """End without the interpreter's own clean-up: a second Ctrl-C would break it off with a traceback.

    And Python ends with the signal instead of a code, if it saw a KeyboardInterrupt come out of ``exec``, as in a dataclass's making.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)
