"""A rule: when a schedule is due, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from minutehand.errors import ExpressionError
from minutehand.schedule import zones
from minutehand.schedule.expressions import parse

_LONGEST = 512  # characters of an expression


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """When a schedule is due. Checked on construction: ``ExpressionError`` names the field, the position and the remedy."""

    expression: str  # cron, rate(…) or at(…)
    timezone: str = "UTC"  # an IANA name

    def __post_init__(self) -> None:
        zones.check_name(self.timezone)
        if not isinstance(self.expression, str):
            raise ExpressionError("expression", self.expression, "not a text", "write '*/5 * * * *', rate(5 minutes) or at(2026-12-24T18:00:00)")
        if len(self.expression) > _LONGEST:
            raise ExpressionError("expression", self.expression, f"longer than {_LONGEST} characters", "split it into several schedules")
        parse(self.expression)

    def as_dict(self) -> dict[str, Any]:
        """What differs from the defaults, ready for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name) != field.default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Rule:
        """The inverse of ``as_dict``; ``ExpressionError`` for a key that no rule has."""
        known = {field.name for field in fields(cls)}
        for name in values:
            if name not in known:
                raise ExpressionError("rule", name, "no such field", "give " + ", ".join(sorted(known)))
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


@lru_cache(maxsize=4096)
def from_json(text: str) -> Rule:
    """A rule stored as JSON; the same text gives the same rule without parsing it again."""
    return Rule.from_dict(json.loads(text))
