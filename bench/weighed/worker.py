"""A worker process over so many no-op runs with payloads of 10 KB; messages and revisions are made up as they are asked for."""

from __future__ import annotations

import sys

from bench.stub import StubbedCloud, dump
from bench.tick import DUE, Case, revision, shard_of
from bench.weighed.scale import peak, say
from bench.work import Work, leased, message, run_all

WORK = Work("no-op, 10 KB payload", payload=10_000)


class Streamed(StubbedCloud):
    """Revisions by their owners."""

    def _revision(self, owner: str) -> bytes:
        sample = Case(WORK.name, "0 * * * *", payload=WORK.payload)
        found = revision(owner, shard_of(owner), sample) | {"job": {"S": WORK.job}}
        return dump(found) if "schedule-" in owner else b""


def main(runs: int) -> None:
    cloud = Streamed(run=leased(WORK, DUE), messages=(message(WORK, number, DUE).encode() for number in range(runs)))
    before = peak()
    run_all(WORK, cloud, runs)
    say(before_mb=before, peak_mb=peak())


if __name__ == "__main__":
    main(int(sys.argv[1]))
