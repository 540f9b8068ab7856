"""API keys: create, revoke, and find out whose a text is."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Sequence

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.tenants.api_key import (
    ALPHABET,
    LENGTH,
    SLOTS,
    ApiKey,
    check_key_name,
    digest_of_key,
    key_text,
    parse_key,
)
from quarterjack.domain.times import DAY
from quarterjack.errors import Conflict, NotFound, QuarterjackError
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.context import FireContext
from quarterjack.ports.services import Services

log = logging.getLogger(__name__)


def create_key(
    tenant: str,
    name: str,
    *,
    can: Sequence[str],
    jobs: Sequence[str],
    expires_at: int | None,
    context: FireContext,
    seen: Collection[str] | None = None,
) -> tuple[ApiKey, str]:
    """A new key, and its text, which is stored nowhere. Raises InvalidInput, Conflict, Unavailable.

    Conflict: the name has two valid keys, or one that is not among the ids that were ``seen`` (None: whatever there is).
    """
    now, store = context.clock(), context.services.api_keys
    valid = [key for key in store.keys(tenant) if key.name == check_key_name(name) and key.is_valid(now)]
    new = [key.id for key in valid if seen is not None and key.id not in seen]
    if new:
        raise Conflict(
            f"name={name!r}: somebody has made {', '.join(new)} meanwhile, maybe this call before; list the keys, then decide"
        )
    taken = {key.slot for key in valid}
    for slot in SLOTS:
        if slot in taken:
            continue
        text = key_text(tenant, name, slot, "".join(secrets.choice(ALPHABET) for _ in range(LENGTH)))
        key = ApiKey(
            tenant=tenant,
            name=name,
            slot=slot,
            digest=digest_of_key(text),
            can=tuple(can),
            jobs=tuple(jobs),
            created_at=now,
            created_by=actor_of(context),
            expires_at=expires_at,
        )
        limits = {"can": list(can), "jobs": list(jobs), "expires_at": expires_at}
        if store.put(key, audit_entry(AuditAct.CREATE_KEY, tenant, context, key=key.id, limits=limits)):
            return key, text
    raise Conflict(
        f"name={name!r}: tenant {tenant!r} has two valid keys of that name; revoke the one that is not used any more"
    )


def revoke_key(tenant: str, key_id: str, context: FireContext) -> ApiKey:
    """Remove a key: within 5 s nobody takes it any more. Raises NotFound, Conflict (it was replaced meanwhile), Unavailable."""
    store = context.services.api_keys
    found = next((key for key in store.keys(tenant) if key.id == key_id), None)
    if found is None:
        raise NotFound(
            f"key={key_id!r}: tenant {tenant!r} has no such key; `quarterjack keys list` shows those there are"
        )
    if not store.revoke(found, audit_entry(AuditAct.REVOKE_KEY, tenant, context, key=found.id)):
        raise Conflict(f"key={key_id!r}: another call removed or replaced it; list the keys, then decide")
    return found


def authenticate(text: str, services: Services, now: int) -> ApiKey | None:
    """The key whose text this is; None for any text that is no valid key. Raises Unavailable: then nobody knows.

    The day of its use is noted once a day; that this fails refuses nobody.
    """
    parsed = parse_key(text)
    if parsed is None:
        return None
    tenant, name, slot = parsed
    key = services.api_keys.key(tenant, name, slot, now)
    if key is None or not key.fits(text) or not key.is_valid(now):
        return None
    if key.used_on != now // DAY:
        try:
            services.api_keys.mark_used(key, now // DAY)
        except QuarterjackError as problem:
            log.warning("api_key.use_not_noted", extra={"tenant": tenant, "key": key.id, "error": str(problem)})
    return key
