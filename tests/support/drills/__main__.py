"""``python -m tests.support.drills [NAME …] [--page docs/explanation/drills.md]``: run drills, and write their rows into the page.

Ends with 1 if a run was lost, started twice without an explanation, or any other promise was broken; then nothing is written, and logs,
witness and timeline are in ``build/drills/``.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import sys
from pathlib import Path

from tests.support.chaos.__main__ import say
from tests.support.chaos.chaos_run import conditions
from tests.support.drills.page import row, written
from tests.support.drills.registry import DRILLS
from tests.support.drills.siege import conduct
from tests.support.endpoints import session_cloud

BUILD = Path("build/drills").resolve()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *DRILLS], help=f"of {', '.join(DRILLS)}; all")
    parser.add_argument("--page", type=Path, help="the page whose table gets the rows")
    parser.add_argument("--keep", action="store_true", help="leave logs and timeline of a clean drill as well")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it has stopped does not stay behind
    results = []
    with session_cloud() as cloud:
        for name in given.names or DRILLS:
            folder = BUILD / name.replace(" ", "-")
            say(f"{name}: {conditions()}")
            result = conduct(DRILLS[name], cloud, folder, say)
            results.append(result)
            for line in (
                *result.verdict.report(),
                *map(str, result.verdict.repeats),
                *result.violations,
                result.summary,
            ):
                say(line)
            if result.violations or given.keep:
                say(f"logs and timeline: {folder}")
            else:
                shutil.rmtree(folder)
    say("\n".join(map(row, results)))
    if any(result.violations for result in results):
        return 1
    if given.page:
        given.page.write_text(written(given.page.read_text(encoding="utf-8"), results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
