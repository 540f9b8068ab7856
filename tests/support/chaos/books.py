"""What the tables hold, copied into an installation in memory, so that the simulator's checker judges real tables as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quarterjack.aws import Client
from quarterjack.domain.names import RunRef
from quarterjack.dynamodb.items import to_row
from quarterjack.fires.context import FAR
from quarterjack.services import connect, system_clock
from quarterjack.settings import Settings
from quarterjack.stores.rows import run_of
from quarterjack.testing import Memory

_PAGE = 1_000


class Books:
    """Reads an installation directly, whatever its processes suffer."""

    def __init__(self, settings: Settings) -> None:
        self._services = connect(settings)
        self._client, self._table = Client("dynamodb", settings), settings.table("runs")

    def waiting(self, upto: int) -> list[str]:
        """Runs due up to then (UTC ms) that have not ended, or that are dead and nobody was told."""
        runs = [run_of(row) for row in self._rows() if row["key"][0] not in "#~"]
        due = [run for run in runs if run.due <= upto]
        return [str(run.ref) for run in due if not run.is_terminal or (run.state == "DEAD" and run.buried_at is None)]

    def copy(self) -> Memory:
        """All of it, as it is now."""
        memory = Memory(system_clock)
        for head in self._services.schedules.scan_heads("", limit=1_000)[0]:
            memory.put_head(head)
            for revision in self._services.schedules.history(head.owner):
                memory.put_revision(head.owner, revision.number, revision)
        for row in self._rows():
            memory.put_row(RunRef(row["owner"], row["key"]), row)
        for shard in range(self._services.agenda.layout(fresh=True).shards):
            self._copy_entries(shard, memory)
        return memory

    def quarantined(self) -> list[str]:
        """Entries that were moved aside."""
        shards = range(self._services.agenda.layout(fresh=True).shards)
        return [key for shard in shards for key in self._services.agenda.quarantined(shard)]

    def _copy_entries(self, shard: int, memory: Memory) -> None:
        after = None
        while True:
            page = self._services.agenda.due(shard, upto=FAR, after=after, limit=_PAGE)
            for entry in page.entries:
                memory.put_item(shard, entry.key, entry)
            after = page.last
            if after is None:
                return

    def _rows(self) -> Iterator[dict[str, Any]]:
        request: dict[str, Any] = {"TableName": self._table, "ConsistentRead": True}
        while True:
            answer = self._client.call("scan", **request)
            yield from (to_row(item) for item in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
