"""The SDK for operators of an installation: which tenants there are, what they may run, and who may act for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from quarterjack.arguments import MAX_DESCRIPTION, checked_text
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.names import check_whole
from quarterjack.domain.queue import check_queue
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.editing import (
    checked_holder,
    checked_profile,
    checked_tier,
    with_jobs,
)
from quarterjack.domain.tenants.limits import NO_LIMITS, LimitValue, with_limits
from quarterjack.domain.tenants.profile import (
    INSTALLATION,
    SHARED,
    TenantProfile,
    checked_jobs,
)
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.owner import tenants as acts
from quarterjack.sdk.tenants.access import AccessMethods
from quarterjack.sdk.tenants.base import Tenant, tenant_view
from quarterjack.sdk.tenants.erasing import ErasureMethods
from quarterjack.sdk.tenants.figures import FigureMethods
from quarterjack.sdk.tenants.moving import MoveMethods
from quarterjack.values import replace

UNSET: Any = object()  # default of an argument for which None is a value
_NONE: Mapping[str, LimitValue | None] = {}  # limits that change
_VERSIONS = 10**15  # larger than every version


class Tenants(AccessMethods, ErasureMethods, FigureMethods, MoveMethods):
    """The tenants of an installation.

    A tenant needs no profile: without one it has the defaults of the installation, which are in the profile of ``"~installation"``,
    and without that it may run all jobs. Changes take effect at once in this process and within 5 s in all others. Each has an audit
    entry. The other arguments are those of ``Scheduler``. Any number of threads may share one.
    """

    # Reads.

    def check_operator(self) -> None:
        """Raises Forbidden unless the caller may see what concerns all tenants."""
        self._permit(Verb.READ_TENANT, INSTALLATION)

    def get(self, tenant: str) -> Tenant:
        """The profile of a tenant, or of ``"~installation"``. Raises InvalidInput, NotFound, Forbidden, Unavailable."""
        holder = checked_holder(tenant)
        self._permit(Verb.READ_TENANT, holder)
        found = self.session.services.tenants.profile(holder)
        if found is None:
            what = "the defaults of the installation hold for it"
            if holder.startswith(SHARED):
                what = "nothing counts for all tenants" if holder == INSTALLATION else "there is no such tier"
            raise NotFound(f"tenant={tenant!r} has no profile: {what}; create or set gives it one")
        return tenant_view(found)

    def list(self) -> Sequence[Tenant]:
        """All profiles, by name, those of the installation and of tiers first. Reads the whole table of profiles.

        Raises Forbidden, Unavailable.
        """
        self._permit(Verb.READ_TENANT, INSTALLATION)
        found = sorted(
            self.session.services.tenants.profiles(),
            key=lambda each: (each.tenant != INSTALLATION, not each.is_shared, each.tenant),
        )
        return [tenant_view(profile) for profile in found]

    # Changes.

    def create(
        self,
        tenant: str,
        *,
        jobs: Sequence[str] | None = None,
        tier: str | None = None,
        queue: str | None = None,
        description: str | None = None,
        limits: Mapping[str, LimitValue | None] = _NONE,
    ) -> Tenant:
        """Give a tenant a profile. Work of a tenant without one is accepted too, with the defaults of the installation.

        ``~gold`` as the tenant is the profile of the tier ``gold``, for the tenants with ``tier="gold"``. What a tenant does not have
        is as its tier has it, then as the installation has it.

        ``jobs`` are names and patterns (``report.*``) of the jobs that it may run; None: the default, or all. ``queue`` is for runs for
        which neither job nor caller names one. ``limits`` are numbers by name, as ``{"runs_per_second": 10}``, and the word of
        ``highest_priority``. Raises InvalidInput (a tier without a profile), AlreadyExists, Forbidden, Unavailable.
        """
        holder = checked_holder(tenant)
        profile = TenantProfile(
            tenant=holder,
            jobs=_jobs(jobs),
            tier=_tier(tier),
            queue=_queue(queue),
            description=_text("description", description),
        )
        profile = replace(profile, limits=with_limits(NO_LIMITS, limits))
        self._permit(Verb.MANAGE_TENANTS, holder)
        return tenant_view(acts.create(profile, self._context))

    def set(
        self,
        tenant: str,
        *,
        jobs: Sequence[str] | None = UNSET,
        add_jobs: Sequence[str] = (),
        remove_jobs: Sequence[str] = (),
        tier: str | None = UNSET,
        queue: str | None = UNSET,
        description: str | None = UNSET,
        limits: Mapping[str, LimitValue | None] = _NONE,
        expected_version: int | None = None,
    ) -> Tenant:
        """Change what is given of a profile; a tenant without one gets one. None stands for the installation's default.

        ``add_jobs`` and ``remove_jobs`` change the list instead of replacing it; a tenant without a list begins with the installation's.
        ``limits`` that are named become what is given, None the installation's; the others stay.
        A job that a tenant may no longer run does not start any more within 5 s. Raises InvalidInput, Conflict (it has not
        ``expected_version``, or is erased), Forbidden, Unavailable.
        """
        holder, expected = checked_holder(tenant), _version(expected_version)
        with_limits(NO_LIMITS, limits)  # refused before anything is read
        text = partial(_text, "description")
        given: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {
            "jobs": (jobs, _jobs),
            "tier": (tier, _tier),
            "queue": (queue, _queue),
            "description": (description, text),
        }
        new: dict[str, Any] = {name: check(value) for name, (value, check) in given.items() if value is not UNSET}
        more, less = checked_jobs(add_jobs, "add_jobs"), checked_jobs(remove_jobs, "remove_jobs")
        if "jobs" in new and (more or less):
            remedy = "give the whole list, or what is added to it and removed"
            raise InvalidInput("jobs", jobs, "replaces the list that add_jobs and remove_jobs change", remedy)
        self._permit(Verb.MANAGE_TENANTS, holder)

        def edit(profile: TenantProfile) -> TenantProfile:
            after = checked_profile(replace(profile, limits=with_limits(profile.limits, limits), **new))
            return with_jobs(after, self._default_jobs(holder), more, less) if more or less else after

        return tenant_view(acts.change(holder, AuditAct.SET_TENANT, edit, self._context, expected=expected))

    def suspend(self, tenant: str, *, reason: str | None = None) -> Tenant:
        """Accept no work of a tenant any more, and start none. ``reason`` says why, in refusals and wherever runs wait for it; left
        out, that of ``acting_as`` counts.

        Running attempts continue. Nothing is lost: what is due meanwhile starts after ``resume``, late, unless its deadline has passed.
        No run starts more than 5 s after this has returned. Raises InvalidInput, Conflict (it is erased), Forbidden, Unavailable.
        """
        holder, why = checked_holder(tenant), _text("reason", reason)
        self._permit(Verb.MANAGE_TENANTS, holder)
        return tenant_view(acts.suspend(holder, why, self._context))

    def resume(self, tenant: str) -> Tenant:
        """End the suspension of a tenant: its work is accepted within 5 s, and runs that waited start within five minutes.

        Raises InvalidInput, Conflict (it is erased), Forbidden, Unavailable.
        """
        holder = checked_holder(tenant)
        self._permit(Verb.MANAGE_TENANTS, holder)
        return tenant_view(acts.resume(holder, self._context))

    def _default_jobs(self, tenant: str) -> Sequence[str] | None:
        """The jobs of the installation, for a tenant without a list of its own."""
        default = None if tenant == INSTALLATION else self.session.services.tenants.profile(INSTALLATION)
        return None if default is None else default.jobs


def _jobs(jobs: object) -> tuple[str, ...] | None:
    return None if jobs is None else tuple(dict.fromkeys(checked_jobs(jobs)))


def _tier(tier: object) -> str | None:
    return None if tier is None else checked_tier(tier)


def _queue(queue: object) -> str | None:
    return None if queue is None else check_queue(queue)


def _text(field: str, value: object) -> str | None:
    return None if value is None else checked_text(field, value, MAX_DESCRIPTION)


def _version(version: object) -> int | None:
    return None if version is None else check_whole("expected_version", version, 0, _VERSIONS)
