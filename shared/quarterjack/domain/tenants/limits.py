"""The limits of a tenant's profile. Pure; all errors are InvalidInput, and name the remedy.

Two words: *throttling* delays (the caller comes back after some seconds), *limiting* refuses (until somebody frees or raises something).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from quarterjack.domain.names import word
from quarterjack.domain.policies import Priority
from quarterjack.errors import InvalidInput
from quarterjack.values import replace, value

FASTEST = 100_000.0  # acts a second: ten microseconds for each
SLOWEST = 0.001  # acts a second: 3.6 an hour
MOST = 1_000_000_000  # of what is counted
MOST_WAITING = 1_000_000  # of what is counted run by run
MOST_BYTES = 10**15


JOB_CAP = "concurrent_runs:"  # before the name of a job: how many of its runs have a lease at a time
MAX_JOB_CAPS = 100  # of a profile

LimitValue = float | str  # a number; of highest_priority its word
WORDS: Mapping[str, type[StrEnum]] = {"highest_priority": Priority}  # limits that are words
_RANGES: Mapping[str, tuple[float, float]] = {
    "breaker_percent": (1, 100),
    "concurrent_runs": (1, MOST),
    "concurrency_strict": (0, 1),
    "weight": (1, 10),
    "agenda_shards": (0, 512),
    "waiting_runs": (1, MOST_WAITING),
    "kept_bytes": (0, MOST_BYTES),
}
PLACED = ("weight", "agenda_shards")  # those that are in the layout of the agenda too: of single tenants alone
_JOB = re.compile(r"[A-Za-z0-9._:@/-]{1,200}")


class RateWord(StrEnum):
    """What is throttled: a bucket of tokens for each tenant."""

    RUNS = "runs"  # runs that are accepted: submit, trigger, replay, retry, redrive, the start of a backfill
    CHANGES = "changes"  # acts that arm: create, update, resume; and skip, tag, reschedule


class QuotaWord(StrEnum):
    """What is counted again and again: nothing writes what ends or goes."""

    WAITING_RUNS = "waiting_runs"
    KEPT_BYTES = "kept_bytes"


@value()
class AcceptedRate:
    """A tenant's rate, as its profile and the installation's say it."""

    word: RateWord
    per_second: float
    burst: int  # acts that may come at once: never less than those of one second, which a process takes together


@value(kw_only=True)
class TenantLimits:
    """None: the installation's; there: no limit."""

    runs_per_second: float | None = None  # runs that are accepted
    runs_burst: int | None = None  # that may come at once; least and default: those of a second
    changes_per_second: float | None = None  # acts that arm schedules
    changes_burst: int | None = None  # likewise
    schedules: int | None = None  # that are not deleted
    fires_per_hour: int | None = None  # of all these, each in its densest hour
    backfill_fires: int | None = None  # of one backfill
    waiting_runs: int | None = None  # single runs, triggers, replays and runs of backfills that have not ended
    kept_bytes: int | None = None  # of large payloads, results and checkpoints in the bucket
    breaker_percent: int | None = None  # of failed attempts at which a job's circuit breaker opens
    highest_priority: Priority | None = None  # of its runs: what asks for more is refused, what inherits more gets this
    concurrent_runs: int | None = None  # runs that have a lease at a time
    concurrency_strict: int | None = (
        None  # 1: no run starts while its permits cannot be read or written; 0 and default: runs start
    )
    weight: int | None = None  # for how many tenants it counts where SQS shares a queue out; default: one
    agenda_shards: int | None = None  # of its own; 0 and default: it shares the common ones
    # The same of single jobs, each as ``concurrent_runs:JOB`` where limits are given. In a tenant's profile: of its own runs of the
    # job; in the installation's: of all tenants' runs together.
    job_caps: Mapping[str, int] = field(default_factory=dict)

    def with_defaults(self, default: TenantLimits) -> TenantLimits:
        """With the installation's where there is none of its own, but for jobs: the installation's count all tenants together."""
        if default is self or default == NO_LIMITS:
            return self
        return self._before(default, {})

    def in_tier(self, tier: TenantLimits) -> TenantLimits:
        """With its tier's where there is none of its own. Those of jobs are of each tenant, too."""
        return self._before(tier, tier.job_caps)

    def _before(self, other: TenantLimits, job_caps: Mapping[str, int]) -> TenantLimits:
        found: dict[str, Any] = other._numbers() | self._numbers()
        return TenantLimits(**found, job_caps={**job_caps, **self.job_caps})

    def given(self) -> dict[str, LimitValue]:
        """Those that are set, by name."""
        return self._numbers() | {f"{JOB_CAP}{job}": most for job, most in sorted(self.job_caps.items())}

    def _numbers(self) -> dict[str, LimitValue]:
        return {name: getattr(self, name) for name in NAMES if getattr(self, name) is not None}

    def rate(self, word: RateWord) -> AcceptedRate | None:
        """How fast the tenant may act; None: as fast as it likes."""
        per_second: float | None = getattr(self, f"{word}_per_second")
        if per_second is None:
            return None
        burst: int | None = getattr(self, f"{word}_burst")
        return AcceptedRate(word, per_second, max(burst or 1, math.ceil(per_second)))


NO_LIMITS = TenantLimits()
_FIELD = "limits"  # of errors
NAMES = tuple(one.name for one in fields(TenantLimits) if one.name != "job_caps")


def with_limits(present: TenantLimits, given: object) -> TenantLimits:
    """The limits after a change: those that are named become what is given, None the installation's; all others stay."""
    if not isinstance(given, Mapping):
        remedy = "give a mapping, e.g. {'runs_per_second': 10, 'schedules': 200}"
        raise InvalidInput(_FIELD, given, "is not a mapping of limits", remedy)
    checked: dict[str, Any] = {}
    job_caps = dict(present.job_caps)
    for name, wanted in given.items():
        if isinstance(name, str) and name.startswith(JOB_CAP):
            job = _job(name)
            job_caps.pop(job, None)
            if wanted is not None:
                job_caps[job] = int(_number("concurrent_runs", wanted, called=name))
            continue
        if name not in NAMES:
            near = get_close_matches(str(name), NAMES, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"use {', '.join(NAMES)} or {JOB_CAP}JOB"
            raise InvalidInput(_FIELD, name, "is no limit", remedy)
        checked[name] = None if wanted is None else _checked(name, wanted)
    if len(job_caps) > MAX_JOB_CAPS:
        remedy = f"name at most {MAX_JOB_CAPS} jobs, or set concurrent_runs for all of them together"
        raise InvalidInput(_FIELD, f"{len(job_caps)} jobs", "have a limit of their own", remedy)
    return replace(present, **checked, job_caps=job_caps)


def stored_limits(given: Mapping[str, Any]) -> TenantLimits:
    """The reverse of ``TenantLimits.given``; names that only a later release knows are left out."""
    numbers: dict[str, Any] = {
        name: WORDS[name](value) if name in WORDS else value for name, value in given.items() if name in NAMES
    }
    jobs = {name.removeprefix(JOB_CAP): int(value) for name, value in given.items() if name.startswith(JOB_CAP)}
    return TenantLimits(**numbers, job_caps=jobs)


def typed_limits(given: Iterable[str]) -> dict[str, LimitValue | None]:
    """Limits as people write them: NAME=NUMBER, or its word, or NAME=default for the installation's. ``with_limits`` checks them."""
    found: dict[str, LimitValue | None] = {}
    for text in given:
        name, _, value = (part.strip() for part in text.partition("="))
        if name in found:
            raise InvalidInput(_FIELD, text, f"is a second {name}", "give each limit once")
        if name in WORDS and value != "default":
            found[name] = value
            continue
        try:
            number = None if value == "default" else float(value.replace("_", "?"))  # Python would take 1_000
        except ValueError:
            remedy = "write NAME=NUMBER, e.g. schedules=200, or NAME=default for the installation's"
            raise InvalidInput(_FIELD, text, "is no limit", remedy) from None
        found[name] = int(number) if number is not None and number.is_integer() else number
    return found


def _checked(name: str, value: Any) -> LimitValue:
    return word(WORDS[name], f"{_FIELD}.{name}", value) if name in WORDS else _number(name, value)


def _job(name: str) -> str:
    job = name.removeprefix(JOB_CAP)
    if not _JOB.fullmatch(job):
        raise InvalidInput(_FIELD, name, "names no job", f"write {JOB_CAP}JOB, e.g. '{JOB_CAP}report.daily'")
    return job


def _number(name: str, value: object, *, called: str | None = None) -> float:
    where, is_rate = f"{_FIELD}.{called or name}", name.endswith("_per_second")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    kinds = (int, float) if is_rate else (int,)
    least, most = (SLOWEST, FASTEST) if is_rate else _RANGES.get(name, (1 if name.endswith("_burst") else 0, MOST))
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        kind = "number" if is_rate else "whole number"
        remedy = f"use {least:g} to {most:,.0f}, or None, on the command line `default`, for none of its own"
        raise InvalidInput(where, value, f"is no {kind} in range", remedy)
    return value
