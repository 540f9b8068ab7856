"""DBOS: a workflow that starts another one and waits for its result, so many times; the times between their starts, as JSON (ms)."""

from __future__ import annotations

import itertools
import json
import sys
import time

from dbos import DBOS

starts: list[float] = []


def _link(number: int) -> int:
    starts.append(time.time() * 1_000)
    return number


def main() -> None:
    database, links = sys.argv[1], int(sys.argv[2])
    DBOS(config={"name": "peer", "system_database_url": database, "console_log_level": "WARNING"})
    link = DBOS.workflow(name="link")(_link)

    def linked(length: int) -> int:
        return sum(DBOS.start_workflow(link, 1).get_result() for _ in range(length))

    chain = DBOS.workflow(name="chain")(linked)
    DBOS.launch()
    for length in (5, links):  # the first one warms the process
        starts.clear()
        assert DBOS.start_workflow(chain, length).get_result() == length
    sys.stdout.write(json.dumps([second - first for first, second in itertools.pairwise(starts)]))
    sys.stdout.flush()
    DBOS.destroy()


if __name__ == "__main__":
    main()
