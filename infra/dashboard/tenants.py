"""Which tenants contribute most, as rules of CloudWatch's Contributor Insights over the lines `run.started` and `run.ended`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LATE = 2_000  # ms after its time that a run is late
_WAITED = 60_000  # ms that say that a run had a backlog before it


@dataclass(frozen=True)
class TenantRule:
    """The tenants by the number of lines that fit ``filters``, or by the sum of ``value``, a field of these lines."""

    name: str
    filters: tuple[Mapping[str, Any], ...]
    value: str | None = None


def _event(name: str) -> Mapping[str, Any]:
    return {"Match": "$.message", "In": [name]}


RULES = (
    TenantRule("Starts", (_event("run.started"),)),
    TenantRule(
        "Lateness", (_event("run.started"), {"Match": "$.lateness_ms", "GreaterThan": _LATE}), value="$.lateness_ms"
    ),
    TenantRule("Errors", (_event("run.ended"), {"Match": "$.error_type", "IsPresent": True})),
    TenantRule("Backlog", (_event("run.started"), {"Match": "$.lateness_ms", "GreaterThan": _WAITED})),
)


def rule_body(rule: TenantRule, groups: Sequence[str]) -> dict[str, Any]:
    """In the form of CloudWatch's own rules, version 1."""
    contribution: dict[str, Any] = {"Keys": ["$.tenant"], "Filters": [dict(each) for each in rule.filters]}
    if rule.value is not None:
        contribution["ValueOf"] = rule.value
    return {
        "Schema": {"Name": "CloudWatchLogRule", "Version": 1},
        "LogGroupNames": list(groups),
        "LogFormat": "JSON",
        "Contribution": contribution,
        "AggregateOn": "Count" if rule.value is None else "Sum",
    }
