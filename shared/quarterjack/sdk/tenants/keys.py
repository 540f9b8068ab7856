"""The SDK for the API keys of tenants: create, list, revoke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from quarterjack.domain.names import check_tenant
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.api_key import ApiKey, check_key_name
from quarterjack.domain.tenants.editing import checked_grant
from quarterjack.domain.tenants.profile import ALL
from quarterjack.domain.times import DAY, from_ms, to_ms
from quarterjack.errors import InvalidInput, shorten
from quarterjack.fires.context import FireContext
from quarterjack.owner.api_keys import create_key, revoke_key
from quarterjack.sdk.session import Session


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


class KeyMethods:
    """API keys: who has one acts in the HTTP API as ``key:<name>``, for one tenant, and may do what the key says and nothing else."""

    session: Session

    @property
    def _context(self) -> FireContext:
        raise NotImplementedError

    def _permit(self, verb: Verb, tenant: str, *, what: str | None = None) -> None:
        raise NotImplementedError

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


def _view(key: ApiKey) -> KeyView:
    return KeyView(
        tenant=key.tenant,
        id=key.id,
        name=key.name,
        can=key.can,
        jobs=key.jobs,
        created_at=from_ms(key.created_at),
        created_by=key.created_by,
        expires_at=None if key.expires_at is None else from_ms(key.expires_at),
        last_used_on=None if key.used_on is None else from_ms(key.used_on * DAY).date(),
    )
