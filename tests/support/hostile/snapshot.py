"""All that an installation in memory holds, as plain values: what was there before a refused call must be there after it."""

from __future__ import annotations

from typing import Any

from quarterjack.testing import Memory


def snapshot(memory: Memory) -> dict[str, Any]:
    """Tables, queues and bucket. Values in them are replaced and never changed in place, so a shallow copy is one."""
    held: dict[str, Any] = {
        table.suffix: {(of, key): row for of, key, row in rows} for table, rows in memory._tables.items()
    }
    queues = {str(stripe): queue for stripe, queue in memory.stripes.items()} | {"dead letters": memory.dead}
    held |= {name: [(message.id, message.body) for message in queue] for name, queue in queues.items()}
    return held | {"payloads": dict(memory._payloads)}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Where two snapshots differ."""
    return [name for name in before if before[name] != after[name]]
