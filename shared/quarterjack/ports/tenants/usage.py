"""What a tenant uses of its limits: tokens of its rates, the count of its schedules, and what is counted again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from quarterjack.domain.tenants.limits import AcceptedRate, QuotaWord
from quarterjack.state.tenants.quota import Quota, QuotaCount

Count = Callable[[Quota], QuotaCount]  # counts for whoever has claimed to; raises any error of Quarterjack


@dataclass(frozen=True, kw_only=True)
class ScheduleCount:
    """The schedules of a tenant that are not deleted, as they were counted last, and what was armed since."""

    tenant: str
    schedules: int
    fires_per_hour: int  # of all these that are not completed, each in its densest hour
    version: int = 0  # raised by every change; 0: it was never counted
    counted_at: int = 0  # UTC ms


@dataclass(frozen=True, kw_only=True)
class UsageChange:
    """What arming a schedule adds to the count of its tenant, on condition that it stays within the limits."""

    tenant: str
    schedules: int  # 1 or 0
    fires_per_hour: int  # may be negative
    most_schedules: int | None  # the limits; None: there is none
    most_fires: int | None

    @property
    def grows(self) -> bool:
        """Whether it can be refused."""
        return self.schedules > 0 or self.fires_per_hour > 0

    def fits(self, count: ScheduleCount) -> bool:
        """Whether the limits hold after it; what does not grow fits."""
        schedules, fires = self.schedules, self.fires_per_hour
        is_few = schedules <= 0 or self.most_schedules is None or count.schedules + schedules <= self.most_schedules
        is_slow = fires <= 0 or self.most_fires is None or count.fires_per_hour + fires <= self.most_fires
        return is_few and is_slow


class TenantUsage(Protocol):
    """Of tenants with limits; nothing is read or written for others. Thread-safe: no tenant's requests wait for another's."""

    def take(self, tenant: str, rate: AcceptedRate, now: int) -> int:
        """Take a token (``now``: UTC ms): the milliseconds after which to come again; 0: it is taken.

        From tokens that this process has leased: one write a second. Fails open: if the table does not answer, everything is accepted
        for a second.
        """

    def left(self, tenant: str, rate: AcceptedRate, now: int) -> int:
        """The tokens that are in the bucket (``now``: UTC ms), without those that processes have leased. Raises Unavailable."""

    def count(self, tenant: str) -> ScheduleCount | None:
        """The count of a tenant; None: it was never counted. Raises Unavailable."""

    def put_count(self, count: ScheduleCount) -> bool:
        """Put a count of this ``version`` over the one before it; False if that is another one. Raises Unavailable."""

    def take_place(self, tenant: str, most: int, now: int, count: Count) -> int:
        """Take one of the places of runs that have not ended: the milliseconds after which to come again; 0: it is taken.

        From places that this process has taken: one write in five seconds. ``count`` is called where they have to be counted anew. Fails
        open: if the table or the history does not answer, everything is accepted for five seconds.
        """

    def give_back_place(self, tenant: str) -> None:
        """A place that was taken is not needed: the next run of this process gets it. No request."""

    def take_bytes(self, tenant: str, size: int, most: int, now: int, count: Count) -> int | None:
        """Take so many bytes; None: they are taken. Otherwise how many there would be. Fails open."""

    def quota(self, tenant: str, word: QuotaWord) -> Quota | None:
        """What was counted last, and taken since; None: it was never counted. Raises Unavailable."""
