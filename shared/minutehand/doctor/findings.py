"""Findings: the results of checks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Severity of a finding."""

    OK = "ok"  # as it should be
    WARN = "warn"  # it works, with a problem; or it could not be checked
    FAIL = "fail"  # something does not work


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one check of one thing."""

    check: str  # which one: configuration, tables, ticker …
    verdict: Severity
    what: str  # the observation
    remedy: str | None = None  # None if it is ok


def ok(check: str, what: str) -> Finding:
    return Finding(check=check, verdict=Severity.OK, what=what)


def warn(check: str, what: str, remedy: str) -> Finding:
    return Finding(check=check, verdict=Severity.WARN, what=what, remedy=remedy)


def fail(check: str, what: str, remedy: str) -> Finding:
    return Finding(check=check, verdict=Severity.FAIL, what=what, remedy=remedy)
