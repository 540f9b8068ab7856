"""python -m bench PART [arguments]: one part of the figures, or all of them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

_HELPERS = ("meter", "report", "stub")


def parts() -> list[str]:
    """The modules of this folder that measure something."""
    names = [place.stem for place in Path(__file__).parent.glob("[a-z]*.py")]
    return sorted(name for name in names if name not in _HELPERS)


def main() -> None:
    chosen, arguments = sys.argv[1:2], sys.argv[2:]
    known = parts()
    if chosen and chosen[0] not in known:
        raise SystemExit(f"bench: no part {chosen[0]!r}; choose one of {', '.join(known)}")
    for name in chosen or known:
        importlib.import_module(f"bench.{name}").main(arguments)


if __name__ == "__main__":
    main()
