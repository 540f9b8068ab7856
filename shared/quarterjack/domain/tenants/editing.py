"""Changes of a profile: from what an operator gives to the next profile. Pure; all errors are InvalidInput, and name the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from quarterjack.domain.names import check_tenant
from quarterjack.domain.tenants.access import OF_INSTALLATION, Role, Verb
from quarterjack.domain.tenants.limits import PLACED
from quarterjack.domain.tenants.profile import (
    ALL,
    INSTALLATION,
    MAX_GRANTS,
    MAX_PATTERNS,
    SHARED,
    Grant,
    TenantProfile,
    checked_jobs,
    checked_principal,
)
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.values import replace

MAX_TEXT = 16_000  # characters of all jobs and grants of a profile: it is read with every batch of a worker


def checked_holder(tenant: object) -> str:
    """Whose profile: a tenant's name, INSTALLATION, or ``~`` and the name of a tier."""
    if isinstance(tenant, str) and tenant.startswith(SHARED):
        check_tenant(tenant.removeprefix(SHARED))
        return tenant
    return check_tenant(tenant)


def checked_tier(tier: object) -> str:
    """The name of a tier, without ``~``."""
    if isinstance(tier, str) and tier.startswith(SHARED):
        remedy = f"leave the {SHARED!r} out: {tier.removeprefix(SHARED)!r}"
        raise InvalidInput("tier", tier, "is the name of a tier's profile", remedy)
    name = check_tenant(tier, "tier")
    if f"{SHARED}{name}" == INSTALLATION:
        remedy = "name a tier, e.g. 'gold': the installation's defaults count for all tenants"
        raise InvalidInput("tier", tier, "is the installation", remedy)
    return name


def checked_profile(profile: TenantProfile) -> TenantProfile:
    """The profile, if what it has is for whose it is, and it is not too large."""
    if profile.is_shared:
        whose = (
            "the installation"
            if profile.tenant == INSTALLATION
            else f"the tier {profile.tenant.removeprefix(SHARED)!r}"
        )
        for name in PLACED:
            if getattr(profile.limits, name) is not None:
                remedy = "set it of single tenants"
                raise InvalidInput(f"limits.{name}", getattr(profile.limits, name), f"is not for {whose}", remedy)
        if profile.tier is not None:
            raise InvalidInput("tier", profile.tier, f"is not for {whose}", "give it to single tenants")
        if profile.grants and profile.tenant != INSTALLATION:
            remedy = f"grant it for single tenants, or for all: tenant {INSTALLATION!r}"
            raise InvalidInput("tenant", profile.tenant, "is a tier, which has no grants", remedy)
    texts = [*(profile.jobs or ()), *(text for grant in profile.grants for text in (grant.to, *grant.can, *grant.jobs))]
    size = sum(map(len, texts))
    if size > MAX_TEXT:
        remedy = f"use at most {MAX_TEXT:,} characters for all jobs and grants, e.g. with patterns"
        raise InvalidInput("tenant", profile.tenant, f"would have a profile of {size:,} characters", remedy)
    return profile


def checked_grant(tenant: str, to: object, can: object, jobs: object) -> Grant:
    """A grant for a tenant's profile, or the installation's."""
    return Grant(to=checked_principal(to), can=_checked_can(tenant, can), jobs=_checked_patterns(jobs))


def _checked_can(tenant: str, can: object) -> tuple[str, ...]:
    given = (can,) if isinstance(can, str) else can
    known = [*map(str, Role), *map(str, Verb)]
    words = list(given) if isinstance(given, Iterable) else [given]
    remedy = f"use roles ({', '.join(Role)}) or verbs ({', '.join(Verb)})"
    if not words:
        raise InvalidInput("can", can, "names nothing", remedy)
    for word in words:
        if word not in known:
            near = get_close_matches(str(word), known, n=1)
            hint = f"did you mean {near[0]!r}? Else {remedy}" if near else remedy
            raise InvalidInput("can", word, "is neither a role nor a verb", hint)
        if tenant != INSTALLATION and word in OF_INSTALLATION:
            raise InvalidInput(
                "can", word, "is for the whole installation", f"grant it to the installation: tenant {INSTALLATION!r}"
            )
    return tuple(dict.fromkeys(map(str, words)))


def _checked_patterns(jobs: object) -> tuple[str, ...]:
    found = checked_jobs((jobs,) if isinstance(jobs, str) else jobs)
    if not found:
        raise InvalidInput("jobs", jobs, "names no job", f"name jobs or patterns, or leave it out for all ({ALL!r})")
    return tuple(dict.fromkeys(found))


def with_grant(profile: TenantProfile, grant: Grant) -> TenantProfile:
    """With a grant: what the principal can already do with the same jobs stays."""
    rest = [each for each in profile.grants if (each.to, each.jobs) != (grant.to, grant.jobs)]
    same = [each for each in profile.grants if each not in rest]
    can = tuple(dict.fromkeys([word for each in (*same, grant) for word in each.can]))
    if same and same[0].can == can:
        return profile
    if len(rest) >= MAX_GRANTS:
        raise InvalidInput(
            "to", grant.to, f"would be grant {MAX_GRANTS + 1}", f"use at most {MAX_GRANTS}; use patterns"
        )
    return checked_profile(replace(profile, grants=(*rest, replace(grant, can=can))))


def without_grant(
    profile: TenantProfile, to: str, can: Sequence[str] | None, jobs: Sequence[str] | None
) -> TenantProfile:
    """Without the grants to a principal, as it was written; or without some of their words, or only those with exactly these jobs.

    Raises NotFound if there is none.
    """
    kept = list[Grant]()
    for grant in profile.grants:
        is_meant = grant.to == to and (jobs is None or set(grant.jobs) == set(jobs))
        left = grant.can if not is_meant else tuple(word for word in grant.can if can is not None and word not in can)
        if left:
            kept.append(grant if left == grant.can else replace(grant, can=left))
    if tuple(kept) == profile.grants:
        to_whom = sorted({grant.to for grant in profile.grants})
        there = f"there are grants to {', '.join(map(repr, to_whom))}" if to_whom else "there are no grants"
        raise NotFound(f"to={to!r}: the profile of {profile.tenant!r} has no such grant; {there}")
    return replace(profile, grants=tuple(kept))


def with_jobs(
    profile: TenantProfile, default: Sequence[str] | None, add: Sequence[str], remove: Sequence[str]
) -> TenantProfile:
    """With some jobs more and some less than it has, or than the installation's ``default`` if it has none of its own."""
    present = profile.jobs if profile.jobs is not None else default
    if present is None:
        field = "add_jobs" if add else "remove_jobs"
        remedy = f"give jobs=, the list of those that it may run, e.g. {['report.*']}"
        raise InvalidInput(field, [*add, *remove], f"does not apply: {profile.tenant!r} may run all jobs", remedy)
    absent = [job for job in remove if job not in present]
    if absent:
        remedy = f"name some of {', '.join(map(repr, present))}" if present else "it may run none as it is"
        raise InvalidInput("remove_jobs", absent[0], f"is not among the jobs of {profile.tenant!r}", remedy)
    wanted = dict.fromkeys([*present, *add])
    jobs = tuple(job for job in wanted if job not in remove)
    if len(jobs) > MAX_PATTERNS:
        raise InvalidInput(
            "add_jobs", list(add), f"makes {len(jobs)} jobs", f"use at most {MAX_PATTERNS}; use patterns"
        )
    return checked_profile(replace(profile, jobs=jobs))
