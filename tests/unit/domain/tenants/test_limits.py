"""Limits of a profile: names, numbers, and what the installation's fill in."""

from __future__ import annotations

import pytest
from quarterjack.domain.tenants.limits import (
    NO_LIMITS,
    RateWord,
    TenantLimits,
    stored_limits,
    typed_limits,
    with_limits,
)
from quarterjack.domain.tenants.profile import INSTALLATION, Governance, TenantProfile
from quarterjack.errors import InvalidInput


def test_a_change_names_what_it_changes() -> None:
    first = with_limits(NO_LIMITS, {"runs_per_second": 2.5, "schedules": 10})
    assert first == TenantLimits(runs_per_second=2.5, schedules=10)
    assert with_limits(first, {"schedules": None, "fires_per_hour": 0}) == TenantLimits(
        runs_per_second=2.5, fires_per_hour=0
    )
    assert with_limits(first, {}) == first
    assert first.given() == {"runs_per_second": 2.5, "schedules": 10}


def test_a_limit_of_a_job_is_named_with_it() -> None:
    first = with_limits(NO_LIMITS, {"concurrent_runs": 9, "concurrent_runs:report.daily": 2, "concurrent_runs:a:b": 1})
    assert first == TenantLimits(concurrent_runs=9, job_caps={"report.daily": 2, "a:b": 1})
    assert first.given() == {"concurrent_runs": 9, "concurrent_runs:a:b": 1, "concurrent_runs:report.daily": 2}
    assert stored_limits(first.given() | {"of_a_later_release": 1}) == first
    after = with_limits(first, {"concurrent_runs:a:b": None, "concurrent_runs:report.daily": 3})
    assert after == TenantLimits(concurrent_runs=9, job_caps={"report.daily": 3})
    assert with_limits(after, {"concurrent_runs:report.daily": None, "concurrent_runs": None}) == NO_LIMITS
    assert typed_limits(["concurrent_runs:a:b=4"]) == {"concurrent_runs:a:b": 4}
    many = {f"concurrent_runs:j{n}": 1 for n in range(101)}
    with pytest.raises(InvalidInput, match="name at most 100 jobs"):
        with_limits(NO_LIMITS, many)


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"concurrent_runs": 0}, "limits.concurrent_runs", "use 1 to"),
        ({"concurrent_runs:report": 0}, "limits.concurrent_runs:report", "use 1 to"),
        ({"concurrent_runs:": 1}, "limits", "write concurrent_runs:JOB"),
        ({"concurrent_runs:a b": 1}, "limits", "write concurrent_runs:JOB"),
        ({"concurrent_runs:*": 1}, "limits", "write concurrent_runs:JOB"),
        ({"waiting_runs": -1}, "limits.waiting_runs", "use 1 to 1,000,000, or None"),
        ({"waiting_runs": 1_000_001}, "limits.waiting_runs", "use 1 to 1,000,000, or None"),
        ({"kept_bytes": 0.5}, "limits.kept_bytes", "use 0 to 1,000,000,000,000,000, or None"),
        ({"kept_bytes": "5 GB"}, "limits.kept_bytes", "use 0 to"),
        ({"concurrency_strict": 2}, "limits.concurrency_strict", "use 0 to 1"),
        ({"shedules": 1}, "limits", "did you mean 'schedules'"),
        ({"x": 1}, "limits", "use runs_per_second, runs_burst"),
        ([("schedules", 1)], "limits", "give a mapping"),
        ({"schedules": 1.5}, "limits.schedules", "use 0 to 1,000,000,000"),
        ({"schedules": -1}, "limits.schedules", "use 0 to"),
        ({"schedules": True}, "limits.schedules", "use 0 to"),
        ({"schedules": "10"}, "limits.schedules", "use 0 to"),
        ({"runs_burst": 0}, "limits.runs_burst", "use 1 to"),
        ({"runs_per_second": 0}, "limits.runs_per_second", "use 0.001 to 100,000"),
        ({"runs_per_second": float("nan")}, "limits.runs_per_second", "use 0.001 to"),
        ({"runs_per_second": 10**6}, "limits.runs_per_second", "use 0.001 to"),
    ],
)
def test_what_is_no_limit_is_refused(given: object, field: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        with_limits(NO_LIMITS, given)
    assert refused.value.field == field


def test_a_rate_has_at_least_a_second_of_burst() -> None:
    found = TenantLimits(runs_per_second=2.5, runs_burst=1, changes_per_second=0.1, changes_burst=20)
    runs, changes = found.rate(RateWord.RUNS), found.rate(RateWord.CHANGES)
    assert runs is not None
    assert changes is not None
    assert (runs.per_second, runs.burst) == (2.5, 3)
    assert (changes.per_second, changes.burst) == (0.1, 20)
    assert NO_LIMITS.rate(RateWord.RUNS) is None


def test_the_installation_fills_in_what_is_missing() -> None:
    default = TenantProfile(tenant=INSTALLATION, limits=TenantLimits(schedules=5, runs_per_second=1))
    own = TenantProfile(tenant="acme", limits=TenantLimits(schedules=50))
    governed = Governance(tenant="acme", own=own, installation=default)
    assert governed.limits == governed.profile.limits == TenantLimits(schedules=50, runs_per_second=1)
    assert Governance(tenant="beta", installation=default).limits == default.limits
    assert Governance(tenant="acme", own=own).limits == own.limits
    assert Governance(tenant="beta").limits == NO_LIMITS


def test_the_installations_limit_of_a_job_is_no_tenants_own() -> None:
    default = TenantProfile(tenant=INSTALLATION, limits=TenantLimits(concurrent_runs=5, job_caps={"report": 7}))
    own = TenantProfile(tenant="acme", limits=TenantLimits(job_caps={"report": 2}))
    assert Governance(tenant="acme", own=own, installation=default).limits == TenantLimits(
        concurrent_runs=5, job_caps={"report": 2}
    )
    assert Governance(tenant="beta", installation=default).limits == TenantLimits(concurrent_runs=5)


def test_limits_as_they_are_typed() -> None:
    typed = typed_limits(["runs_per_second=0.5", " schedules = 200", "fires_per_hour=default"])
    assert typed == {"runs_per_second": 0.5, "schedules": 200, "fires_per_hour": None}
    for wrong in ("schedules", "schedules=", "schedules=many"):
        with pytest.raises(InvalidInput, match="write NAME=NUMBER"):
            typed_limits([wrong])
