"""Methods of ``Tenants`` about who may do what: grants, API keys, and the secrets that runs look up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.names import check_secret, check_tenant
from quarterjack.domain.tenants.access import Role, Verb, allowance, without_admin
from quarterjack.domain.tenants.api_key import ApiKey, check_key_name
from quarterjack.domain.tenants.editing import checked_grant, checked_holder, with_grant, without_grant
from quarterjack.domain.tenants.profile import (
    ALL,
    INSTALLATION,
    Governance,
    TenantProfile,
    checked_jobs,
    checked_principal,
)
from quarterjack.domain.times import DAY, from_ms, to_ms
from quarterjack.errors import InvalidInput, NotFound, shorten
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.owner import tenants as acts
from quarterjack.owner.api_keys import create_key, revoke_key
from quarterjack.ports.secrets import StoredSecret, storable_value
from quarterjack.sdk.tenants.base import Tenant, TenantsBase, tenant_view
from quarterjack.sdk.views import view_of


@dataclass(frozen=True, kw_only=True)
class KeyView:
    """An API key, without its text."""

    tenant: str
    id: str  # "<name>.<slot>"
    name: str  # who uses it: the audit has its acts as "key:<name>"
    can: Sequence[str]  # roles and verbs
    jobs: Sequence[str]  # names and patterns of the jobs that it is limited to
    created_at: datetime  # UTC
    created_by: str  # as in the audit
    expires_at: datetime | None  # UTC; None: it does not expire
    last_used_on: date | None  # UTC; None: it has not been used


@dataclass(frozen=True, kw_only=True)
class NewKey:
    """A key that was made just now."""

    key: KeyView
    text: str = field(repr=False)  # what its user sends: shown this once, and stored nowhere


class AccessMethods(TenantsBase):
    """An API key acts in the HTTP API as ``key:<name>``, for one tenant, and may do what the key says and nothing else."""

    # Grants.

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

    # API keys.

    def create_key(
        self,
        tenant: str,
        name: str,
        can: Sequence[str] | str,
        *,
        jobs: Sequence[str] | str = (ALL,),
        expires_at: datetime | None = None,
        seen: Sequence[str] | None = None,
    ) -> NewKey:
        """Make a key for ``name``, which says who uses it. Two of a name may be valid at once: make the new one, use it, revoke the old.

        ``can`` are roles (viewer, operator, editor, admin, auditor) and verbs; ``jobs`` are names and patterns of the jobs to which it is
        limited; ``expires_at`` is aware. ``seen`` are the ids of the tenant's keys as the caller saw them: a call that is sent twice makes
        one key. Raises InvalidInput, Conflict (the name has two valid keys, or one that was not seen), Forbidden, Unavailable.
        """
        holder, scope = check_tenant(tenant), checked_grant(tenant, f"key:{check_key_name(name)}", can, jobs)
        until = None if expires_at is None else to_ms(expires_at, "expires_at")
        if until is not None and until <= self.session.clock():
            raise InvalidInput("expires_at", expires_at, "is over", "give a time ahead, or leave it out for no end")
        if seen is not None and (isinstance(seen, str) or not all(isinstance(each, str) for each in seen)):
            raise InvalidInput("seen", seen, "are not ids of keys", "pass those of keys(tenant), e.g. ['crm.1']")
        self._permit(Verb.GRANT, holder, what=f"API key {shorten(name, 300)}")
        key, text = create_key(
            holder, name, can=scope.can, jobs=scope.jobs, expires_at=until, seen=seen, context=self._context
        )
        return NewKey(key=_view(key), text=text)

    def keys(self, tenant: str) -> Sequence[KeyView]:
        """The keys of a tenant, by name, expired ones too. Raises InvalidInput, Forbidden, Unavailable."""
        holder = check_tenant(tenant)
        self._permit(Verb.READ_TENANT, holder)
        return [_view(key) for key in self.session.services.api_keys.keys(holder)]

    def revoke_key(self, tenant: str, key: str) -> KeyView:
        """Remove a key (its ``id``, "crm.1"): no process takes it later than 5 s after this has returned.

        Raises InvalidInput, NotFound, Conflict (it was replaced meanwhile), Forbidden, Unavailable.
        """
        holder = check_tenant(tenant)
        if not isinstance(key, str) or not key:
            raise InvalidInput("key", key, "is not the id of a key", "use the id of a listed key, e.g. 'crm.1'")
        self._permit(Verb.GRANT, holder, what=f"API key {shorten(key, 300)}")
        return _view(revoke_key(holder, key, self._context))

    # Secrets.

    def secrets(self, tenant: str) -> Sequence[StoredSecret]:
        """The secrets of a tenant without their values, by name. Raises InvalidInput, Forbidden, Misconfigured, Unavailable."""
        self._permit(Verb.SECRETS, check_tenant(tenant))
        return self.session.services.secrets.list(tenant)

    def set_secret(self, tenant: str, name: str, value: str) -> None:
        """Store a secret for the tenant's runs, or its new value: workers see it within five minutes.

        It is the SSM parameter ``/<prefix>/tenants/<tenant>/<name>``: of 4 characters to 4,096 bytes, without blanks around it.
        An audit entry with its name is written before Parameter Store is asked. Raises InvalidInput, which does not show the
        value, Forbidden, Misconfigured, Unavailable.
        """
        place, text = check_secret(name), storable_value(value)
        self._permit(Verb.SECRETS, check_tenant(tenant), what=f"secret {shorten(place, 300)}")
        self._audit(AuditAct.SET_SECRET, tenant, place)
        self.session.services.secrets.put(tenant, place, text)

    def delete_secret(self, tenant: str, name: str) -> None:
        """Remove a secret of a tenant: runs that look it up fail from then on, some after five minutes.

        An audit entry with its name is written before. Raises InvalidInput, NotFound, Forbidden, Misconfigured, Unavailable.
        """
        place = check_secret(name)
        self._permit(Verb.SECRETS, check_tenant(tenant), what=f"secret {shorten(place, 300)}")
        self._audit(AuditAct.DELETE_SECRET, tenant, place)
        if not self.session.services.secrets.delete(tenant, place):
            raise NotFound(f"name={name!r}: tenant {tenant!r} has no such secret")

    def _audit(self, act: AuditAct, tenant: str, secret: str) -> None:
        """An audit entry of what is done in Parameter Store, which no transaction reaches. Raises Unavailable: then it is not done."""
        self.session.services.audit.write(audit_entry(act, tenant, self._context, secret=secret))

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


def _view(key: ApiKey) -> KeyView:
    last_used = None if key.used_on is None else from_ms(key.used_on * DAY).date()
    return view_of(KeyView, key, last_used_on=last_used)
