"""The knobs of the alarms: whether, where to, and from what threshold on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import aws_sns as sns
from quarterjack.domain.names import check_flag
from quarterjack.errors import InvalidInput
from quarterjack.values import replace

from .spec import AlarmSpec, Severity
from .specs import SPECS

_LONGEST = 400  # characters of the address of the runbooks: a description has 1,024
_ADDRESS = re.compile(r"https?://[^\s,]+")
_DAY, _WEEK = 24 * 60, 7 * 24 * 60  # minutes that CloudWatch looks back: a week for values of an hour or more
_BY_ID = {spec.id: spec for spec in SPECS}


@dataclass(frozen=True, kw_only=True)
class AlarmChange:
    """What differs from an alarm's default; None: nothing. ``minutes``: how long it has to last, in whole periods of the alarm."""

    enabled: bool = True
    severity: Severity | str | None = None
    threshold: float | None = None  # in the unit that the reference names
    minutes: int | None = None


@dataclass(frozen=True, kw_only=True)
class AlarmSettings:
    """The alarms of an installation.

        AlarmSettings(changes={"slow-runs": AlarmChange(threshold=60_000), "waiting": AlarmChange(enabled=False)})

    ``enabled``: whether to make any. ``topic``: where they go; None makes one. ``topics``: by severity, where they go instead.
    ``changes``: by alarm, of which docs/reference/metrics.md has the table. ``runbooks``: the address below which you
    publish docs/runbooks, such as a wiki; each message then links its page. None: each message brings the first steps of its page along,
    as many as 1,024 characters hold. Raises InvalidInput.
    """

    enabled: bool = True
    topic: sns.ITopic | None = None
    topics: Mapping[Severity | str, sns.ITopic] = field(default_factory=dict)
    changes: Mapping[str, AlarmChange] = field(default_factory=dict)
    runbooks: str | None = None

    def __post_init__(self) -> None:
        check_flag("alarms.enabled", self.enabled)
        _check_address(self.runbooks)
        for severity in self.topics:
            _severity("alarms.topics", severity)
        for name, change in self.changes.items():
            if name not in _BY_ID:
                raise InvalidInput("alarms.changes", name, "is not an alarm", f"use one of {', '.join(sorted(_BY_ID))}")
            changed(_BY_ID[name], change)

    def specs(self) -> tuple[AlarmSpec, ...]:
        """The alarms that are to be made, as they are changed."""
        if not self.enabled:
            return ()
        found = ((spec, self.changes.get(spec.id, AlarmChange())) for spec in SPECS)
        return tuple(changed(spec, change) for spec, change in found if change.enabled)

    @classmethod
    def read(cls, text: str) -> AlarmSettings:
        """The settings from a text: ``on``, ``off``, or changes such as ``slow-runs.threshold=60000,no-audit.minutes=180,waiting=off``.

        ``runbooks=https://…`` among them is the address of the runbooks. Raises InvalidInput.
        """
        if text in ("on", "off"):
            return cls(enabled=text == "on")
        changes: dict[str, AlarmChange] = {}
        runbooks: str | None = None
        for part in text.split(","):
            where, _, value = part.strip().partition("=")
            if where == "runbooks":
                runbooks = value
                continue
            name, _, word = where.partition(".")
            changes[name] = replace(changes.get(name, AlarmChange()), **_read(part, word, value))
        return cls(changes=changes, runbooks=runbooks)


def _check_address(runbooks: str | None) -> None:
    """Raises InvalidInput for an address that cannot be opened at night."""
    if runbooks is None:
        return
    if not isinstance(runbooks, str) or len(runbooks) > _LONGEST or not _ADDRESS.fullmatch(runbooks):
        remedy = (
            f"give one of at most {_LONGEST} characters, e.g. https://wiki.example.com/quarterjack, or leave it out"
        )
        raise InvalidInput("alarms.runbooks", runbooks, "is not an address of pages", remedy)


def changed(spec: AlarmSpec, change: AlarmChange) -> AlarmSpec:
    """An alarm with its changes. Raises InvalidInput."""
    where = f"alarms.{spec.id}"
    check_flag(f"{where}.enabled", change.enabled)
    if change.severity is not None:
        spec = replace(spec, severity=_severity(f"{where}.severity", change.severity))
    if change.threshold is not None:
        if isinstance(change.threshold, bool) or not isinstance(change.threshold, int | float) or change.threshold < 0:
            raise InvalidInput(f"{where}.threshold", change.threshold, "is not a number from 0 on", f"give {spec.unit}")
        spec = replace(spec, threshold=change.threshold)
    return spec if change.minutes is None else _lasting(spec, change.minutes)


def _lasting(spec: AlarmSpec, minutes: int) -> AlarmSpec:
    where = f"alarms.{spec.id}.minutes"
    if spec.windows or (spec.values == 1 and spec.period > 1):
        raise InvalidInput(where, minutes, "cannot be set for this alarm", "leave it out; set its threshold")
    least, most = spec.period * spec.least_times, _WEEK if spec.period >= 60 else _DAY
    more = spec.values - spec.times
    most -= spec.period * more  # CloudWatch looks back so far, not only for those that count
    if (
        isinstance(minutes, bool)
        or not isinstance(minutes, int)
        or minutes % spec.period
        or not least <= minutes <= most
    ):
        raise InvalidInput(where, minutes, "does not fit", f"use a multiple of {spec.period} from {least} to {most:,}")
    times = minutes // spec.period
    return replace(spec, times=times, out_of=times + more)


def _severity(field: str, value: Severity | str) -> Severity:
    try:
        return Severity(value)
    except ValueError:
        raise InvalidInput(field, value, "is not a severity", f"use one of {', '.join(Severity)}") from None


def _read(part: str, word: str, value: str) -> dict[str, Any]:
    remedy = "write on, off, or e.g. slow-runs.threshold=60000,no-audit.minutes=180,lost.severity=P2,waiting=off"
    try:
        if word == "" and value in ("on", "off"):
            return {"enabled": value == "on"}
        return {word: {"threshold": float, "minutes": int, "severity": str}[word](value)}
    except (KeyError, ValueError):
        raise InvalidInput("alarms", part, "is not understood", remedy) from None
