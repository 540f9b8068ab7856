"""An eraser in a process of its own, to be killed: it tells after each call how much is removed, and what it has cost."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from quarterjack import Tenants
from quarterjack.aws.client import Client
from quarterjack.domain.tenants import erasure
from quarterjack.domain.times import SECOND
from quarterjack.errors import Unavailable

SHORT = 2 * SECOND  # in place of 16 minutes: nothing else is under way


class Meter:
    """Counts requests, and write units as rows below 1 KB take them: two in a transaction."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        call = Client._called

        def counted(client: Client, operation: str, arguments: dict[str, Any], attempts: int | None) -> dict[str, Any]:
            self.counts["requests"] += 1
            self.counts[operation] += 1
            self.counts["write units"] += _units(operation, arguments)
            return call(client, operation, arguments, attempts)

        Client._called = counted  # type: ignore[assignment,method-assign]


def _units(operation: str, arguments: Mapping[str, Any]) -> int:
    if operation == "batch_write_item":
        return sum(len(items) for items in arguments["RequestItems"].values())
    if operation == "transact_write_items":
        return 2 * len(arguments["TransactItems"])
    return int(operation in ("put_item", "update_item", "delete_item"))


def main(tenant: str) -> None:
    erasure.BELIEF, erasure.QUIET = 0, SHORT
    meter, tenants = Meter(), Tenants(via="cli")
    while True:
        try:
            found = tenants.erase(tenant, confirm=tenant, budget=0.1)
        except Unavailable:  # the local cloud is one process: it may be slow to answer
            meter.counts["repeated calls"] += 1
            continue
        told = {"removed": sum(found.removed.values()), "ended": found.ended_at is not None, "cost": meter.counts}
        print(json.dumps(told), flush=True)  # noqa: T201 (the test reads it)
        if found.ended_at is not None:
            return
        sys.stdin.readline()  # until the test lets it go on, or kills it


if __name__ == "__main__":
    main(sys.argv[1])
