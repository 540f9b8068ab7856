"""A tenant's profile: which jobs it may run, and who may do what for it. Pure.

A tenant without a profile has the installation's defaults. The grants of the installation count for every tenant, in addition to its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache

from quarterjack.domain.tenants.limits import NO_LIMITS, TenantLimits
from quarterjack.errors import InvalidInput
from quarterjack.values import replace, value

SHARED = "~"  # before the name of a tier, where a profile names its tenant; in no tenant's name
INSTALLATION = "~installation"  # stands for a tenant in the profile of the installation
ALL = "*"  # a pattern that matches every job
MAX_GRANTS = 100  # of a profile
MAX_PATTERNS = 100  # jobs of a profile or a grant
MAX_PATTERN = 300  # characters
PRINCIPALS = ("iam:", "app:", "key:", "oidc:")  # what a principal begins with: see domain.audit
_DECIDED = 1_000  # jobs of which is remembered whether a tenant may run them
_JOBS = re.compile(r"[A-Za-z0-9._:@/*-]{1,200}")


class TenantState(StrEnum):
    """Whether work of a tenant is accepted and started."""

    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"  # nothing is accepted, nothing starts; what is due waits
    ERASING = "ERASING"  # its data is being removed: nothing is accepted, nothing starts
    ERASED = "ERASED"  # only the certificate is left; the name is not used again


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What principals may do, for the tenant in whose profile it is."""

    to: str  # principal, or pattern with `*`: "iam:arn:aws:sts::123456789012:assumed-role/deployer/*", "app:alice@acme"
    can: tuple[str, ...]  # names of roles and of verbs: see domain.tenants.access
    jobs: tuple[str, ...] = (ALL,)  # names and patterns of the jobs that it is limited to

    def is_to(self, principal: str) -> bool:
        """Whether it is a principal's."""
        return matches(self.to, principal)

    def covers(self, job: str | None) -> bool:
        """Whether it counts for a job; None: for all jobs at once."""
        return ALL in self.jobs if job is None else any(matches(pattern, job) for pattern in self.jobs)


@value(kw_only=True)
class TenantProfile:
    """A tenant, as its operators declare it."""

    tenant: str  # its name, INSTALLATION, or ``~`` and the name of a tier
    state: TenantState = TenantState.ACTIVE
    jobs: tuple[str, ...] | None = (
        None  # names and patterns of the jobs that it may run; None: those of the installation, or all
    )
    grants: tuple[Grant, ...] = ()
    tier: str | None = None  # whose jobs, queue and limits count where the tenant has none of its own
    queue: str | None = None  # declared queue of runs for which neither job nor caller names one; None: the default one
    limits: TenantLimits = NO_LIMITS  # its own; the installation's count where it has none
    description: str | None = None  # whose it is
    suspension_reason: str | None = None  # why it is suspended; None while it is not
    version: int = 0  # of the stored row; 0: not stored
    created_at: int = 0  # UTC ms
    updated_at: int = 0  # UTC ms

    @property
    def is_shared(self) -> bool:
        """Whether it is no tenant's, but holds what is common to many: the installation's, or a tier's."""
        return self.tenant.startswith(SHARED)

    @property
    def accepts(self) -> bool:
        """Whether work is accepted and started."""
        return self.state is TenantState.ACTIVE

    @property
    def is_erased(self) -> bool:
        """Whether its data is gone, or going."""
        return self.state in (TenantState.ERASING, TenantState.ERASED)

    def may_run(self, job: str, *, by_name: bool) -> bool:
        """Whether the tenant may run a job. With ``by_name``, patterns with `*` do not count: the job can do anything its payload says."""
        if self.jobs is None:
            return True
        return any(pattern == job if by_name else matches(pattern, job) for pattern in self.jobs)


@value(kw_only=True)
class Governance:
    """What holds for one tenant at one moment: its profile, its tier's and the installation's."""

    tenant: str
    own: TenantProfile | None = None  # None: it has none
    tier: TenantProfile | None = None  # None: it has none, or that has no profile
    installation: TenantProfile | None = None
    read_at: int = 0  # UTC ms
    _decided: dict[tuple[str, bool], bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def may_run(self, job: str, *, by_name: bool) -> bool:
        """As ``TenantProfile.may_run``; of each job decided once, because a worker asks before every start."""
        key = (job, by_name)
        known = self._decided.get(key)
        if known is None:
            if len(self._decided) >= _DECIDED:
                self._decided.clear()
            known = self._decided[key] = self.profile.may_run(job, by_name=by_name)
        return known

    @cached_property
    def profile(self) -> TenantProfile:
        """The tenant's profile, with jobs, queue and limits of its tier, then the installation's, where it has none of its own.

        Tiers and the installation are never suspended.

        So to suspend a tenant, or to give it a first grant, does not widen what it may run.
        """
        found = self.own or TenantProfile(tenant=self.tenant)
        for default in (self.tier, self.installation):
            if default is not None:
                jobs = default.jobs if found.jobs is None else found.jobs
                found = replace(found, jobs=jobs, queue=found.queue or default.queue)
        return replace(found, limits=self.limits)

    @cached_property
    def limits(self) -> TenantLimits:
        """The tenant's limits, with its tier's, then the installation's, for what it has none of its own."""
        own = NO_LIMITS if self.own is None else self.own.limits
        own = own if self.tier is None else own.in_tier(self.tier.limits)
        return own if self.installation is None else own.with_defaults(self.installation.limits)

    @property
    def grants(self) -> tuple[Grant, ...]:
        """The tenant's own and those of the installation. Without any, whoever has the IAM rights may do everything."""
        return tuple(
            grant for profile in (self.own, self.installation) if profile is not None for grant in profile.grants
        )


def matches(pattern: str, text: str) -> bool:
    """Whether a text is the pattern, in which each ``*`` stands for any characters. Takes time in proportion to both lengths."""
    first, *rest = _parts(pattern)
    if not rest:
        return text == first
    if not text.startswith(first):
        return False
    at, last = len(first), rest.pop()
    for part in rest:  # the leftmost place of each part leaves the most for those behind it
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - len(last) >= at and text.endswith(last)


@lru_cache(maxsize=1024)
def _parts(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split("*"))


def checked_jobs(jobs: object, field: str = "jobs") -> tuple[str, ...]:
    """Names and patterns of jobs. Raises InvalidInput."""
    given = _texts(jobs, field, "names and patterns of jobs, e.g. ['report.*', 'http.get']", MAX_PATTERNS)
    for pattern in given:
        if not _JOBS.fullmatch(pattern):
            raise InvalidInput(
                field, pattern, "is not a job's name or pattern", "use A-Z a-z 0-9 . _ : @ / - and *, e.g. 'report.*'"
            )
    return given


def checked_principal(to: object) -> str:
    """A principal, or a pattern of principals. Raises InvalidInput."""
    is_text = isinstance(to, str) and len(to) <= MAX_PATTERN and to.isprintable() and to == to.strip()
    if not is_text or not any(str(to).startswith(word) and len(str(to)) > len(word) for word in PRINCIPALS):
        remedy = f"begin it with {', '.join(PRINCIPALS[:-1])} or {PRINCIPALS[-1]}, e.g. 'app:alice@acme'"
        raise InvalidInput("to", to, "is no principal", remedy)
    return str(to)


def _texts(given: object, field: str, expected: str, most: int) -> tuple[str, ...]:
    found = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes, dict)) else [None]
    if len(found) > most or not all(isinstance(text, str) and text for text in found):
        raise InvalidInput(field, given, "is not a list of texts", f"use at most {most} {expected}")
    return tuple(map(str, found))
