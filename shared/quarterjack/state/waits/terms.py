"""The terms of a wait for a signal: what its answer has to fit. They lie beside the run's row, so that its senders know them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from quarterjack.values import value


@value(kw_only=True)
class WaitTerms:
    """What a wait demands of its answer."""

    schema: Mapping[str, Any] | None = None  # a JSON Schema; None: any JSON value

    @property
    def text(self) -> str:
        """As it is stored: JSON."""
        return json.dumps({"schema": self.schema}, separators=(",", ":"))


def terms_of(text: str) -> WaitTerms:
    """The terms from their stored text."""
    return WaitTerms(**json.loads(text))
