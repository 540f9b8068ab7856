"""How the agenda is laid out: its shards, and which tenants have shards of their own and a weight. Pure.

Most tenants share the common shards. A very large one may have shards of its own: its entries are paged through and written apart, so
that they delay nobody's. What was reserved for a tenant stays so, used or not: entries may lie there for years.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from quarterjack.domain.names import RunRef
from quarterjack.errors import InvalidInput
from quarterjack.values import replace, value

MOST_SHARDS = 1024  # of an agenda: each is a query of every tick
MOST_PLACES = 500  # tenants with shards of their own or a weight: every tick reads all of them


@value(kw_only=True)
class TenantPlace:
    """What one tenant has of its own."""

    shards: tuple[int, ...] = ()  # reserved for it
    used: int = 0  # the first so many of these take its new entries; 0: it uses the common shards
    weight: int = 1  # message groups: for so many tenants it counts where SQS shares a queue out

    @property
    def is_plain(self) -> bool:
        """Whether it says no more than that the tenant exists."""
        return not self.shards and self.weight == 1


_PLAIN = TenantPlace()


@value(kw_only=True)
class AgendaLayout:
    """The shards of the agenda, which tickers read all. It only grows, so that an older one still leads to a shard that they read."""

    shards: int  # how many there are
    tables: str | None = None  # prefix of the tables that it was made or restored for; None: not known
    epoch: int = 0  # of the last restore; 0: there was none
    places: Mapping[str, TenantPlace] = field(default_factory=dict)  # by tenant

    @cached_property
    def common(self) -> tuple[int, ...]:
        """The shards of all tenants without shards of their own."""
        reserved = {shard for place in self.places.values() for shard in place.shards}
        return tuple(shard for shard in range(self.shards) if shard not in reserved)

    def shard_of(self, owner: str) -> int:
        """The shard for the entries of an owner (``tenant/name``): the same in every process and release, evenly distributed."""
        place = self.places.get(owner.partition("/")[0], _PLAIN)
        among = place.shards[: place.used] or self.common
        return among[zlib.crc32(owner.encode()) % len(among)]

    def weight_of(self, tenant: str) -> int:
        """For how many tenants a tenant counts."""
        return self.places.get(tenant, _PLAIN).weight

    def grown(self, wanted: int) -> AgendaLayout:
        """With at least so many common shards."""
        return replace(self, shards=self.shards + max(wanted - len(self.common), 0))

    def placed(self, tenant: str, shards: int, weight: int) -> AgendaLayout:
        """With so many shards of a tenant's own (0: the common ones), and its weight. Raises InvalidInput."""
        before = self.places.get(tenant, _PLAIN)
        new = max(shards - len(before.shards), 0)
        if self.shards + new > MOST_SHARDS:
            remedy = f"use at most {len(before.shards) + MOST_SHARDS - self.shards}"
            raise InvalidInput("limits.agenda_shards", shards, f"makes more than {MOST_SHARDS} in all", remedy)
        after = TenantPlace(shards=(*before.shards, *range(self.shards, self.shards + new)), used=shards, weight=weight)
        others = {name: place for name, place in self.places.items() if name != tenant}
        if not after.is_plain and len(others) >= MOST_PLACES:
            what = f"is one of more than {MOST_PLACES} with a weight or shards of its own"
            raise InvalidInput("tenant", tenant, what, "take weight and agenda_shards from another tenant first")
        places = others if after.is_plain else {**others, tenant: after}
        return replace(self, shards=self.shards + new, places=places)

    def places_as_text(self) -> str | None:
        """As it is stored; None: nobody has anything of its own. The reverse is ``parse_places``."""
        body = {name: [list(one.shards), one.used, one.weight] for name, one in sorted(self.places.items())}
        return json.dumps(body, separators=(",", ":")) if body else None


def parse_places(text: str | None) -> dict[str, TenantPlace]:
    """Raises what garbage raises."""
    body: Mapping[str, Any] = json.loads(text or "{}")
    return {
        str(name): TenantPlace(shards=tuple(map(int, shards)), used=int(used), weight=int(weight))
        for name, (shards, used, weight) in body.items()
    }


def group_of(run: RunRef, weight: int) -> str:
    """The message group of a run: its tenant, or one of as many groups as the tenant has weight."""
    return run.tenant if weight == 1 else f"{run.tenant}#{zlib.crc32(str(run).encode()) % weight}"
