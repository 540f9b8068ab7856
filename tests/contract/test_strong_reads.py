"""Every read asks for a strongly consistent one: eventual reads that lag are a fault that this protocol excludes by construction.

The requests are recorded where they leave, so that nothing between a verb and the wire can forget it. A scan or query without
``ConsistentRead`` is eventually consistent by default (API reference of DynamoDB), and so are the keys of a BatchGetItem.
"""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

import pytest
from quarterjack.auditor.audit import audit
from quarterjack.aws.transport import Transport
from quarterjack.local.cloud import LocalCloud
from quarterjack.testing.cloud import fresh_settings

from tests.support.forms import START, Story

READS = {"get_item", "query", "scan", "batch_get_item", "transact_get_items"}


@pytest.mark.cloud
def test_every_read_is_strongly_consistent(local_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    call = Transport.call

    def recorded(self: Transport, operation: str, arguments: dict[str, Any], **how: Any) -> dict[str, Any]:
        seen.append((operation, arguments))
        return call(self, operation, arguments, **how)

    monkeypatch.setattr(Transport, "call", recorded)
    story = Story(fresh_settings(local_cloud))
    story.tell()
    look(story)
    audit(story.services, clock=story.clock, segments=1)
    reads = [(operation, asked) for operation, asked in seen if operation in READS]
    lagging = [(operation, asked) for operation, asked in reads if not is_strong(operation, asked)]
    assert {operation for operation, _ in reads} == READS - {"transact_get_items"}
    assert [asked["TableName"].rpartition("-")[2] for _, asked in lagging] == ["runs"] * len(lagging)
    assert all("TotalSegments" in asked for _, asked in lagging), "only the walk over the ledger's parts may lag"
    assert "select" not in " ".join(statements(seen)).lower(), "PartiQL reads are eventually consistent unless asked"


def look(story: Story) -> None:
    """Every read of the SDK."""
    owner = story.owner
    for name in ("daily", "late", "stops"):
        owner.get_schedule(name)
        owner.describe_schedule(name)
        owner.list_backfills(name)
        for run in owner.list_runs(name).items:
            owner.get_run(run.id)
    owner.list_schedules(tag="team")
    owner.list_dead(since=START.astimezone(UTC) - timedelta(hours=1), include_redriven=True)
    owner.frozen()
    owner.export_declared()


def is_strong(operation: str, asked: dict[str, Any]) -> bool:
    if operation == "batch_get_item":
        return all(of_table.get("ConsistentRead") is True for of_table in asked["RequestItems"].values())
    return asked.get("ConsistentRead") is True


def statements(seen: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [
        s["Statement"]
        for operation, asked in seen
        if operation == "batch_execute_statement"
        for s in asked["Statements"]
    ]
