"""``make chaos FOR=600 SEED=1``: real processes over real HTTP while they are killed, stopped and cut off.

Ends with ``runs=… kills=… stops=… faults=… lost=… doubles=… (explained …) violations=…``, and with 1 if anything broke; then logs,
witness and timeline are left in ``build/chaos/``. The seed repeats what is done to whom and when, not how threads interleave.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.support.arguments import seconds
from tests.support.chaos.chaos_run import ChaosRun, brief, conditions, full
from tests.support.endpoints import session_cloud

BUILD = Path("build/chaos")
_SHOWN = 40  # violations


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--for", dest="seconds", type=seconds, default=60.0, help="seconds of torment (60); rest comes after"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what is done to whom")
    parser.add_argument("--hurried", action="store_true", help="a lease of 4 s instead of 60")
    parser.add_argument("--keep", action="store_true", help="leave logs and timeline of a clean siege as well")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it has stopped does not stay behind
    folder = (BUILD / str(given.seed)).resolve()
    plan = (brief if given.hurried else full)(given.seed, given.seconds)
    say(f"seed {given.seed}, {given.seconds:.0f} s, lease {plan.pace.lease:.0f} s, {conditions()}")
    with session_cloud() as cloud:
        verdict = ChaosRun(plan, cloud, folder, say).run()
    for repeat in verdict.repeats:
        say(f"twice: {repeat}")
    for line in verdict.report():
        say(line)
    for violation in verdict.violations[:_SHOWN]:
        say(f"VIOLATION {violation}")
    say(conditions())
    say(verdict.summary)
    if not verdict.violations and not given.keep:
        shutil.rmtree(folder)
    else:
        say(f"logs and timeline: {BUILD / str(given.seed)}")
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
