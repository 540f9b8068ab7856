"""The context in which agenda entries are handled."""

from __future__ import annotations

from dataclasses import dataclass, field

from minutehand.concurrency.write_budget import WriteBudget
from minutehand.fires.plan import REACH
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services


@dataclass(frozen=True, kw_only=True)
class FireContext:
    """The services, the time, and the limits of one tick or of one change by an owner."""

    services: Services
    clock: Clock
    reach: int = REACH  # ms beyond the look-ahead that a chain's plan may cover
    trace: str | None = None  # trace header that the messages carry
    write_budget: WriteBudget = field(default_factory=WriteBudget)  # write units that the claims may take
