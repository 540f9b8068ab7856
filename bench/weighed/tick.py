"""A tick of so many hourly fires, over a cloud that makes up entries and revisions as they are asked for."""

from __future__ import annotations

import sys
from array import array
from typing import Any

from quarterjack.domain.names import schedule_owner
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.dynamodb.items import to_item
from quarterjack.stores.rows import entry_row, shard_key
from quarterjack.ticker.tick import tick

from bench.stub import StubbedCloud, dump
from bench.tick import CASES, DUE, MINUTE, SHARDS, revision, shard_of, stubbed
from bench.weighed.scale import peak, say


class Streamed(StubbedCloud):
    """Schedules by their numbers."""

    def __init__(self, fires: int) -> None:
        super().__init__()
        self._numbers = {shard_key(shard): array("L") for shard in range(SHARDS)}
        for number in range(fires):
            self._numbers[shard_key(shard_of(_owner(number)))].append(number)

    def _query(self, asked: Any) -> bytes:
        shard = asked["ExpressionAttributeValues"][":0"]["S"]
        if shard not in self._numbers:  # marks, of which there are none
            return dump({"Items": []})
        numbers, most = self._numbers[shard], asked["Limit"]
        after = asked.get("ExclusiveStartKey", {}).get("entry", {}).get("S", "")
        first = numbers.index(int(after.rpartition("-")[2].partition("#")[0])) + 1 if after else 0
        page = [_entry(number, int(shard)) for number in numbers[first : first + most]]
        answer: dict[str, Any] = {"Items": [to_item(entry_row(entry)) for entry in page]}
        if first + most < len(numbers):
            answer["LastEvaluatedKey"] = {"shard": {"S": shard}, "entry": {"S": page[-1].key}}
        return dump(answer)

    def _revision(self, owner: str) -> bytes:
        return dump(revision(owner, shard_of(owner), CASES[0]))


def _owner(number: int) -> str:
    return schedule_owner("bench", f"schedule-{number:06d}")


def _entry(number: int, shard: int) -> AgendaEntry:
    return AgendaEntry(shard=shard, due=DUE, kind=EntryKind.CHAIN, id=f"{_owner(number)}#1", after=DUE - 1)


def main(fires: int) -> None:
    services, before = stubbed(Streamed(fires)), peak()
    report = tick(services, clock=lambda: DUE - MINUTE, holder="bench", budget=10**9)
    if report.handled.messages.sent != fires:
        raise SystemExit(f"the tick sent {report.handled.messages.sent} of {fires}")
    say(before_mb=before, peak_mb=peak())


if __name__ == "__main__":
    main(int(sys.argv[1]))
