"""python -m bench.hurried worker --jobs … : a process of Quarterjack whose lease is HURRY_LEASE seconds (heartbeat a third)."""

from __future__ import annotations

import os
import sys

import bench.hurried.wrong_clock  # noqa: F401 (before anything reads the clock)

# isort: split
from quarterjack.cli import main
from quarterjack.domain.times import SECOND

import functions.worker.batch  # noqa: F401 (so that its constants are replaced too)
from bench.hurried.messages import FOLDER, count_messages


def hurry(lease: float, skew: float = 1.0) -> None:
    """Replace the constants of the lease in every module that has them; ``lease`` and ``skew`` in seconds.

    They are constants because no installation should change them; so this is how a bench does.
    """
    values = {
        "LEASE": int(lease * SECOND),
        "HEARTBEAT": int(lease * SECOND / 3),
        "HELD": int(lease * SECOND * 5 / 4),
        "SENT": int(lease * SECOND * 2),
        "SKEW": int(skew * SECOND),
        "HIDDEN": int(lease + skew) + 1,
    }
    for name, module in list(sys.modules.items()):
        if name.startswith(("quarterjack.", "functions.")):
            for constant, value in values.items():
                if hasattr(module, constant):
                    setattr(module, constant, value)


if __name__ == "__main__":
    hurry(float(os.environ["HURRY_LEASE"]))
    if FOLDER in os.environ:
        count_messages(os.environ[FOLDER])
    main()
