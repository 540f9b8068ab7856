"""The terms of a wait for a signal: what its answer has to fit, how long it lasts without a heartbeat.

They lie beside the run's row, so that its senders know them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from quarterjack.values import value


@value(kw_only=True)
class WaitTerms:
    """What a wait demands of its answer and of who brings it."""

    schema: Mapping[str, Any] | None = None  # a JSON Schema; None: any JSON value
    heartbeat: int | None = None  # ms without a heartbeat after which the wait ends; None: it needs none
    ends_at: int | None = None  # UTC ms at which the wait ends whatever happens
    leased_by: int | None = (
        None  # UTC ms at which the run is leased at the latest, because its deadline is over; None: none
    )

    @property
    def text(self) -> str:
        """As it is stored: JSON."""
        return json.dumps(vars(self), separators=(",", ":"))


def terms_of(text: str) -> WaitTerms:
    """The terms from their stored text."""
    return WaitTerms(**json.loads(text))


def after_heartbeat(terms: WaitTerms, now: int) -> tuple[int, int]:
    """The end of a wait after a heartbeat, and from when its run may be leased (UTC ms). ``terms`` have a heartbeat."""
    wake_at = now + (terms.heartbeat or 0)
    wake_at = wake_at if terms.ends_at is None else min(wake_at, terms.ends_at)
    return wake_at, wake_at if terms.leased_by is None else min(wake_at, terms.leased_by)
