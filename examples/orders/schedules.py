"""The shop's schedules, as they should be. The deployment runs ``python -m examples.orders.schedules``, as often as it likes."""

from __future__ import annotations

from typing import Any

from quarterjack import Scheduler
from quarterjack.errors import AlreadyExists

WANTED: dict[str, dict[str, Any]] = {
    "report-eu": {
        "job": "orders.report",
        "expression": "55 23 * * *",
        "timezone": "Europe/Paris",
        "payload": {"region": "eu"},
    },
    "report-us": {
        "job": "orders.report",
        "expression": "55 23 * * *",
        "timezone": "America/New_York",
        "payload": {"region": "us"},
    },
    "stock": {"job": "orders.import-stock", "expression": "15 */6 * * *", "payload": {"rows": 1_000}},
}


def bring_about(scheduler: Scheduler) -> None:
    """Create what is missing, change what differs, leave what is right alone: an update would be a new revision."""
    for name, wanted in WANTED.items():
        try:
            scheduler.create_schedule(name, **wanted)
        except AlreadyExists:
            present = scheduler.get_schedule(name)
            changes = {field: value for field, value in wanted.items() if getattr(present, field) != value}
            if changes:
                scheduler.update_schedule(name, **changes)


if __name__ == "__main__":
    bring_about(Scheduler(jobs="examples.orders"))
