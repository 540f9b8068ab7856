"""The command line. It needs the extra ``minutehand[cli]``; the SDK does not."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from minutehand.errors import MinutehandError

_FAILED = 1  # exit code when Minutehand refuses or cannot; the parser of arguments ends with 2


def main() -> None:
    """Run the command line with ``sys.argv``; the process ends with the command's exit code."""
    if find_spec("typer") is None or find_spec("rich") is None:
        sys.exit("minutehand: the command line is not installed; run: pip install 'minutehand[cli]'")
    from minutehand.cli.app import app  # noqa: PLC0415  # needs what was just looked for

    try:
        app(prog_name="minutehand")
    except MinutehandError as problem:
        print(f"error: {problem}", file=sys.stderr)  # noqa: T201  # a command line prints
        sys.exit(_FAILED)
