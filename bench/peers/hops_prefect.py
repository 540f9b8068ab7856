"""Prefect: a flow that calls another one and waits for its result, so many times; the times between their starts, as JSON (ms).

Over the server that Prefect starts for one process, with its SQLite database.
"""

from __future__ import annotations

import itertools
import json
import sys
import time

from prefect import flow

starts: list[float] = []


def _link(number: int) -> int:
    starts.append(time.time() * 1_000)
    return number


def main() -> None:
    link = flow(name="link")(_link)

    def linked(length: int) -> int:
        return sum(link(1) for _ in range(length))

    chain = flow(name="chain")(linked)
    for length in (5, int(sys.argv[1])):  # the first one warms the process
        starts.clear()
        assert chain(length) == length
    sys.stdout.write(json.dumps([second - first for first, second in itertools.pairwise(starts)]))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
