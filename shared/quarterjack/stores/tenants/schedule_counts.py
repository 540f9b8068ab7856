"""The count of a tenant's schedules: what arming one adds, and the row that the transaction changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterjack.domain.names import schedule_owner
from quarterjack.state.transition import Compare, Plus, all_of
from quarterjack.stores.rows import reads
from quarterjack.stores.tables import RUNS, Row, RowWrite
from quarterjack.values import value

COUNT = "~schedules"
_OWNER = "~limits"


@value(kw_only=True)
class ScheduleCount:
    """The schedules of a tenant that are not deleted, as they were counted last, and what was armed since."""

    tenant: str
    schedules: int
    fires_per_hour: int  # of all these that are not completed, each in its densest hour
    version: int = 0  # raised by every change; 0: it was never counted
    counted_at: int = 0  # UTC ms


@value(kw_only=True)
class UsageChange:
    """What arming a schedule adds to the count of its tenant, on condition that it stays within the limits."""

    tenant: str
    schedules: int  # 1 or 0
    fires_per_hour: int  # may be negative
    most_schedules: int | None  # the limits; None: there is none
    most_fires: int | None

    def fits(self, count: ScheduleCount) -> bool:
        """Whether the limits hold after it; what does not grow fits."""
        schedules, fires = self.schedules, self.fires_per_hour
        is_few = schedules <= 0 or self.most_schedules is None or count.schedules + schedules <= self.most_schedules
        is_slow = fires <= 0 or self.most_fires is None or count.fires_per_hour + fires <= self.most_fires
        return is_few and is_slow


def usage_write(change: UsageChange) -> RowWrite:
    """The part of a transaction that adds to the count, refused where a limit would not hold."""
    limits = [
        Compare(name, "<=", most - more)
        for name, more, most in (
            ("schedules", change.schedules, change.most_schedules),
            ("fires", change.fires_per_hour, change.most_fires),
        )
        if most is not None and more > 0
    ]
    added = {"schedules": change.schedules, "fires": change.fires_per_hour, "version": 1}
    row: dict[str, Any] = usage_key(change.tenant, COUNT) | {name: Plus(more) for name, more in added.items()}
    return RowWrite(table=RUNS, row=row, only_if=all_of(Compare("version", ">=", 1), *limits))


def usage_key(tenant: str, key: str) -> Row:
    """The key of a row of a tenant's usage."""
    return {"owner": schedule_owner(tenant, _OWNER), "key": key}


def count_row(count: ScheduleCount) -> Row:
    """A count as a row."""
    return usage_key(count.tenant, COUNT) | {
        "schedules": count.schedules,
        "fires": count.fires_per_hour,
        "version": count.version,
        "counted_at": count.counted_at,
    }


@reads("count {owner}#{key}")
def count_of(row: Mapping[str, Any]) -> ScheduleCount:
    """The reverse of ``count_row``. Raises Unreadable, TooNew."""
    return ScheduleCount(
        tenant=row["owner"].partition("/")[0],
        schedules=int(row["schedules"]),
        fires_per_hour=int(row["fires"]),
        version=int(row["version"]),
        counted_at=int(row["counted_at"]),
    )
