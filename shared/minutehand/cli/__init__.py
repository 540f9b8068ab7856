"""The command line. It needs the extra ``minutehand[cli]``; the SDK does not."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line with ``sys.argv``; the process ends with the command's exit code."""
    if find_spec("typer") is None or find_spec("rich") is None:
        sys.exit("minutehand: the command line is not installed; run: pip install 'minutehand[cli]'")
    from minutehand.cli.app import run  # noqa: PLC0415  # needs typer and rich

    sys.exit(run(sys.argv[1:]))
