"""python -m bench [PART [arguments]]: one part of the figures, or all but ``growth``. ``python -m bench PART --help``: its arguments."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from bench.progress import say

_HELPERS = ("meter", "progress", "report", "stub")
_HOURS = ("growth",)  # when asked for alone


def parts() -> dict[str, str]:
    """The modules of this folder that measure something, and those of folders of their own, by name."""
    here = Path(__file__).parent
    found = {place.stem: f"bench.{place.stem}" for place in here.glob("[a-z]*.py") if place.stem not in _HELPERS}
    found |= {place.parent.name: f"bench.{place.parent.name}.part" for place in here.glob("*/part.py")}
    return dict(sorted(found.items()))


def main() -> None:
    chosen, arguments = sys.argv[1:2], sys.argv[2:]
    known = parts()
    if chosen in (["-h"], ["--help"]):
        print(f"{__doc__}\nPART is one of {', '.join(known)}.")
        return
    if chosen and chosen[0] not in known:
        raise SystemExit(f"bench: no part {chosen[0]!r}; choose one of {', '.join(known)}")
    for name in chosen or [name for name in known if name not in _HOURS]:
        say(f"bench {name}")
        importlib.import_module(known[name]).main(arguments)


if __name__ == "__main__":
    main()
