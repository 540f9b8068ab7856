"""The SDK for operators of an installation: which tenants there are, what they may run, and who may act for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from quarterjack.arguments import MAX_DESCRIPTION, checked_text
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.names import check_secret, check_tenant, check_whole
from quarterjack.domain.queue import check_queue
from quarterjack.domain.tenants.access import Role, Verb, allowance, without_admin
from quarterjack.domain.tenants.editing import (
    checked_grant,
    checked_holder,
    checked_profile,
    checked_tier,
    with_grant,
    with_jobs,
    without_grant,
)
from quarterjack.domain.tenants.limits import NO_LIMITS, LimitValue, with_limits
from quarterjack.domain.tenants.profile import (
    ALL,
    INSTALLATION,
    SHARED,
    Governance,
    TenantProfile,
    checked_jobs,
    checked_principal,
)
from quarterjack.errors import InvalidInput, NotFound, shorten
from quarterjack.fires.acts import line_of
from quarterjack.fires.context import FireContext
from quarterjack.owner import tenants as acts
from quarterjack.ports.secrets import StoredSecret, storable_value
from quarterjack.sdk.connected import Connected
from quarterjack.sdk.tenants.breaking import BreakerMethods
from quarterjack.sdk.tenants.erasing import ErasureMethods
from quarterjack.sdk.tenants.figures import FigureMethods
from quarterjack.sdk.tenants.keys import KeyMethods
from quarterjack.sdk.tenants.tenant_views import Tenant, tenant_view

UNSET: Any = object()  # default of an argument for which None is a value
_NONE: Mapping[str, LimitValue | None] = {}  # limits that change
_VERSIONS = 10**15  # larger than every version


class Tenants(Connected, BreakerMethods, ErasureMethods, FigureMethods, KeyMethods):
    """The tenants of an installation.

    A tenant needs no profile: without one it has the defaults of the installation, which are in the profile of ``"~installation"``,
    and without that it may run all jobs. Changes take effect at once in this process and within 5 s in all others. Each has a line in
    the audit. The other arguments are those of ``Scheduler``. Any number of threads may share one.
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

    def grant(self, tenant: str, to: str, can: Sequence[str] | str, *, jobs: Sequence[str] | str = (ALL,)) -> Tenant:
        """Let a principal do something for a tenant; in the profile of ``"~installation"``: for every tenant.

        ``to`` is a principal as the audit shows it, or a pattern: ``"iam:arn:aws:sts::123456789012:assumed-role/deployer/*"``,
        ``"app:alice@acme"``. ``can`` are roles (viewer, operator, editor, admin, auditor) and verbs; ``jobs`` are names and patterns of
        the jobs to which it is limited. From the first grant of a tenant on whoever has none may do nothing there, so the first is
        refused if its caller could not give the next. What the principal can do by another grant stays.
        Raises InvalidInput, Conflict (it is erased), Forbidden, Unavailable.
        """
        holder = checked_holder(tenant)
        grant = checked_grant(holder, to, can, jobs)
        self._permit(Verb.GRANT, holder, what=f"grants of {shorten(grant.to, 300)}")
        detail = {"to": grant.to, "can": [*grant.can], "jobs": [*grant.jobs]}
        edited = acts.change(
            holder,
            AuditAct.GRANT,
            lambda profile: self._open_to_caller(profile, self._with_admin(with_grant(profile, grant))),
            self._context,
            grant=detail,
        )
        return tenant_view(edited)

    def revoke(
        self, tenant: str, to: str, *, can: Sequence[str] | str | None = None, jobs: Sequence[str] | str | None = None
    ) -> Tenant:
        """Take the grants to a principal away: all, some of their words (``can``), or those with exactly these ``jobs``.

        ``to`` is as it was granted. Without any grant left, whoever has the IAM rights may do everything for the tenant. Raises
        InvalidInput, NotFound (there is no such grant), Conflict (it is erased), Forbidden, Unavailable.
        """
        holder, principal = checked_holder(tenant), checked_principal(to)
        words = None if can is None else checked_grant(INSTALLATION, principal, can, (ALL,)).can
        only = None if jobs is None else checked_jobs((jobs,) if isinstance(jobs, str) else jobs)
        self._permit(Verb.GRANT, holder, what=f"grants of {shorten(principal, 300)}")
        detail = {"to": principal, "can": words and [*words], "jobs": only and [*only]}
        edited = acts.change(
            holder,
            AuditAct.REVOKE,
            lambda profile: self._with_admin(without_grant(profile, principal, words, only)),
            self._context,
            revoked={name: value for name, value in detail.items() if value},
        )
        return tenant_view(edited)

    # Secrets.

    def secrets(self, tenant: str) -> Sequence[StoredSecret]:
        """The secrets of a tenant without their values, by name. Raises InvalidInput, Forbidden, Misconfigured, Unavailable."""
        self._permit(Verb.SECRETS, check_tenant(tenant))
        return self.session.services.secrets.list(tenant)

    def set_secret(self, tenant: str, name: str, value: str) -> None:
        """Store a secret for the tenant's runs, or its new value: workers see it within five minutes.

        It is the SSM parameter ``/<prefix>/tenants/<tenant>/<name>``: of 4 characters to 4,096 bytes, without blanks around it.
        The audit has its name, in a line that is written before Parameter Store is asked. Raises InvalidInput, which does not show the
        value, Forbidden, Misconfigured, Unavailable.
        """
        place, text = check_secret(name), storable_value(value)
        self._permit(Verb.SECRETS, check_tenant(tenant), what=f"secret {shorten(place, 300)}")
        self._audit(AuditAct.SET_SECRET, tenant, place)
        self.session.services.secrets.put(tenant, place, text)

    def delete_secret(self, tenant: str, name: str) -> None:
        """Remove a secret of a tenant: runs that look it up fail from then on, some after five minutes.

        The audit has its name, in a line that is written before. Raises InvalidInput, NotFound, Forbidden, Misconfigured, Unavailable.
        """
        place = check_secret(name)
        self._permit(Verb.SECRETS, check_tenant(tenant), what=f"secret {shorten(place, 300)}")
        self._audit(AuditAct.DELETE_SECRET, tenant, place)
        if not self.session.services.secrets.delete(tenant, place):
            raise NotFound(f"name={name!r}: tenant {tenant!r} has no such secret")

    # Shared.

    def _audit(self, act: AuditAct, tenant: str, secret: str) -> None:
        """A line of what is done in Parameter Store, which no transaction reaches. Raises Unavailable: then it is not done."""
        self.session.services.audit.write(line_of(act, tenant, self._context, secret=secret))

    def _permit(self, verb: Verb, tenant: str, *, what: str | None = None) -> None:
        """Raises Forbidden unless the caller has a verb for a tenant. ``what`` is what it is to be used on, if not all of it."""
        self.session.gate.check(tenant, self.session.caller, verb, what=what)

    def _with_admin(self, profile: TenantProfile) -> TenantProfile:
        """A changed profile, if somebody can still give grants. Raises InvalidInput."""
        verb = without_admin(self._governance(profile))
        if verb is not None:
            command = f"`quarterjack tenants grant {profile.tenant} --to PRINCIPAL --can {Role.ADMIN}`"
            remedy = f"grant somebody {Role.ADMIN} of all jobs first: {command}; revoke the last admin after all other grants"
            raise InvalidInput("tenant", profile.tenant, f"would have grants, and nobody who may {verb}", remedy)
        return profile

    def _open_to_caller(self, before: TenantProfile, after: TenantProfile) -> TenantProfile:
        """A profile with a grant more, if its caller can still give grants after the first. Raises InvalidInput, Unavailable."""
        if before.grants:
            return after
        if self.session.caller.scope is not None:  # a key goes by no grants
            return after
        lacking = allowance(
            self._governance(after), self.session.gate.principals(self.session.caller), Verb.GRANT
        ).lacking(None)
        if lacking is not None:
            command = f"`quarterjack tenants grant {after.tenant} --to {lacking!r} --can {Role.ADMIN}`"
            remedy = f"give it to your own principal first, {command}, and take it back when the others have theirs"
            raise InvalidInput("to", after.grants[0].to, "would lock its caller out, with the first grant", remedy)
        return after

    def _governance(self, changed: TenantProfile) -> Governance:
        """What would hold for the tenant of a changed profile. Raises Unavailable."""
        if changed.tenant == INSTALLATION:
            return Governance(tenant=INSTALLATION, installation=changed)
        installation = self.session.services.tenants.profile(
            INSTALLATION
        )  # a tier has no grants, for which this is asked
        return Governance(tenant=changed.tenant, own=changed, installation=installation)

    @property
    def _context(self) -> FireContext:
        return self.session.context()

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
