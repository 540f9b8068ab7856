"""Erase a tenant, in calls of bounded length: begin, advance, certify. A process may die anywhere, and two may do the same.

    begin     one transaction: the tenant is ERASING and listed as gone; from then on nothing of it is accepted or started
    advance   pass after pass over all places, one step after the other; the position is saved after each step
    certify   the certificate is put into the archive's bucket, then one transaction writes its row and the state ERASED

| a process dies | then |
|---|---|
| between a step and its save | the step is repeated, and finds less; the certificate lacks its counts, at most a page of each part |
| between the two objects of the inbox | both are there: the next pass removes the old one, and readers drop duplicates |

An object of the inbox has lines of several tenants. It is written again without the tenant's lines, under the key of its new content, and
only then removed.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.archive_objects import INBOX, pack_raw, rewritten_key, tenant_prefix, unpack_raw
from quarterjack.domain.tenants.certificate import certificate_key, packed
from quarterjack.domain.tenants.erasure import DataKind, Erasure, ErasurePlace, ErasurePosition, Kept, SweepRules, Swept
from quarterjack.domain.tenants.profile import TenantProfile, TenantState
from quarterjack.errors import Conflict, Unreadable
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.context import FireContext
from quarterjack.ports.buckets import Lock, ObjectVersion
from quarterjack.ports.services import Services
from quarterjack.values import replace

log = logging.getLogger(__name__)

_ROUNDS = 5  # times that a profile may change between the read and the write


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Counts of rows and objects that an erasure would remove, so far."""

    position: ErasurePosition = field(default_factory=ErasurePosition)
    found: Mapping[DataKind, int] = field(default_factory=dict)
    kept: Mapping[Kept, int] = field(default_factory=dict)


def survey(tenant: str, context: FireContext, *, until: int, so_far: Survey) -> Survey:
    """Count on until about ``until`` (UTC ms); it writes nothing. Raises Unavailable."""
    clock, began_at = context.clock, context.clock()
    counted = Erasure(tenant=tenant, id="", since=began_at, began_at=began_at, actor="", position=so_far.position)
    counted = replace(counted, removed=so_far.found, kept=so_far.kept)
    while not counted.position.is_end:
        place, cursors = counted.position.at
        rules = replace(counted.rules(clock()), is_dry=True)
        counted = counted.after(sweep(place, cursors, rules, context.services))
        if clock() >= until:
            break
    return Survey(position=counted.position, found=counted.removed, kept=counted.kept)


def begin(tenant: str, context: FireContext, *, again: bool = False) -> Erasure:
    """Begin the erasure of a tenant, unless it has begun; one that has ended is only begun ``again`` if that is asked for.

    When it returns, nothing of the tenant is accepted or started any more, 5 s later. Raises Conflict, Unavailable.
    """
    store = context.services.erasures
    for _ in range(_ROUNDS):
        known, now = store.read(tenant), context.clock()
        if known is not None and not (again and known.is_certified):
            return known
        wanted = _begun(tenant, known, context, now)
        audit = audit_entry(AuditAct.ERASE_TENANT, tenant, context, erasure=wanted.id, step="begun")
        if store.write(wanted, _profile(tenant, TenantState.ERASING, context, now), audit):
            log.warning("erase.begun", extra={"tenant": tenant, "erasure": wanted.id, "actor": wanted.actor})
            return wanted
    raise Conflict(f"tenant {tenant!r}: its profile changed {_ROUNDS} times meanwhile; call again")


def _begun(tenant: str, known: Erasure | None, context: FireContext, now: int) -> Erasure:
    word, actor, reason = secrets.token_hex(8), actor_of(context), context.caller.reason
    if known is not None:
        return replace(known.again(word, now, actor, reason), version=known.version + 1)
    return Erasure(tenant=tenant, id=word, since=now, began_at=now, actor=actor, reason=reason, version=1)


def _profile(tenant: str, state: TenantState, context: FireContext, now: int) -> TenantProfile:
    """The tenant's next profile: from the begin of the erasure on its jobs and grants are not needed."""
    present = context.services.tenants.profile(tenant)
    if present is None:
        return TenantProfile(tenant=tenant, state=state, version=1, created_at=now, updated_at=now)
    bare = TenantProfile(tenant=tenant, state=state, created_at=present.created_at, updated_at=now)
    return replace(bare, version=present.version + 1)


def advance(erasure: Erasure, context: FireContext, *, until: int) -> Erasure:
    """Work until about ``until`` (UTC ms), to the erasure's end, or until it must wait for ``next_at``.

    Every call gets further, also one without time. Raises Unavailable, Misconfigured: call again, and it goes on there.
    """
    clock = context.clock
    while not erasure.is_certified and clock() >= erasure.next_at:
        erasure = _step(erasure, context)
        if clock() >= until:
            break
    return erasure


def _step(erasure: Erasure, context: FireContext) -> Erasure:
    now = context.clock()
    if erasure.ended_at is not None:
        return _certify(erasure, context)
    if erasure.is_clean:
        return _saved(replace(erasure, ended_at=now), context)
    if erasure.number == 0 or erasure.position.is_end:
        return _saved(erasure.next_pass(now), context)
    place, cursors = erasure.position.at
    return _saved(erasure.after(sweep(place, cursors, erasure.rules(now), context.services)), context)


def _saved(erasure: Erasure, context: FireContext) -> Erasure:
    """Save where it stands. If another process was first, go on where that one stands."""
    store, wanted = context.services.erasures, replace(erasure, version=erasure.version + 1)
    if store.save(wanted):
        return wanted
    return _present(erasure.tenant, context)


def _present(tenant: str, context: FireContext) -> Erasure:
    found = context.services.erasures.read(tenant)
    if found is None:
        raise Conflict(f"tenant {tenant!r}: the row of its erasure is gone; call again to begin anew")
    return found


def _certify(erasure: Erasure, context: FireContext) -> Erasure:
    """Put the certificate into the bucket, then end the erasure. The object is the same at every repetition."""
    services, tenant = context.services, erasure.tenant
    if services.archive.is_on:
        services.archive.put_new(certificate_key(tenant, erasure.id), packed(erasure))
    ended = replace(erasure, is_certified=True, version=erasure.version + 1)
    audit = audit_entry(AuditAct.ERASE_TENANT, tenant, context, erasure=erasure.id, step="ended")
    if services.erasures.write(ended, _profile(tenant, TenantState.ERASED, context, context.clock()), audit):
        log.warning("erase.ended", extra={"tenant": tenant, "erasure": erasure.id, "passes": erasure.number})
        return ended
    return _present(tenant, context)


_SECRETS = 50  # that one step removes: Parameter Store takes few requests a second
_KINDS = {
    ErasurePlace.PAYLOADS: DataKind.PAYLOAD,
    ErasurePlace.RESULTS: DataKind.RESULT,
    ErasurePlace.ARCHIVE: DataKind.ARCHIVED,
}


def sweep(place: ErasurePlace, cursors: Sequence[str | None], rules: SweepRules, services: Services) -> Swept:
    """One step. Returns its counts, and the cursors of the next one. Raises Unavailable: repeat it with the same cursors."""
    if place is ErasurePlace.INBOX:
        return _sweep_inbox(cursors[0] or "", rules, services)
    if place is ErasurePlace.SECRETS:
        return _sweep_secrets(cursors[0] or "", rules, services)
    if place in _KINDS:
        return _sweep_folder(place, cursors[0] or "", rules, services)
    return services.erasures.sweep(place, cursors, rules)


def folder_of(place: ErasurePlace, tenant: str) -> str:
    """The prefix of the keys of a tenant's objects."""
    return tenant_prefix(tenant) if place is ErasurePlace.ARCHIVE else f"{place}/{tenant}/"


def _sweep_folder(place: ErasurePlace, cursor: str, rules: SweepRules, services: Services) -> Swept:
    page = services.objects.page(folder_of(place, rules.tenant), cursor)
    swept = Swept(cursors=(page.cursor,))
    locks = () if rules.is_dry else services.objects.remove(page.versions)
    _count_locks(locks, swept)
    kept = {(lock.object.key, lock.object.version) for lock in locks}
    swept.found[_KINDS[place]] += sum((each.key, each.version) not in kept for each in page.versions)
    return swept


def _sweep_secrets(cursor: str, rules: SweepRules, services: Services) -> Swept:
    names = [secret.name for secret in services.secrets.list(rules.tenant) if secret.name > cursor]
    page = names[:_SECRETS]
    for name in () if rules.is_dry else page:
        services.secrets.delete(rules.tenant, name)
    swept = Swept(cursors=(page[-1] if len(names) > len(page) else None,))
    swept.found[DataKind.PARAMETER] += len(page)
    return swept


def _count_locks(locks: Sequence[Lock], swept: Swept) -> None:
    swept.kept[Kept.LOCKED] += len(locks)
    swept.locked_until = max((lock.until for lock in locks if lock.until is not None), default=None)


# The inbox.


def _sweep_inbox(cursor: str, rules: SweepRules, services: Services) -> Swept:
    page = services.objects.page(INBOX, cursor)
    swept, gone = Swept(cursors=(page.cursor,)), list[ObjectVersion]()
    for each in page.versions:
        if not each.is_marker and _forget(each, rules, swept, services):
            gone.append(each)
    if gone and not rules.is_dry:
        _count_locks(services.objects.remove(gone), swept)
    swept.found[DataKind.INBOX] += len(gone)
    return swept


def _forget(each: ObjectVersion, rules: SweepRules, swept: Swept, services: Services) -> bool:
    """Whether an object has lines of the tenant; then its other lines are stored anew."""
    content = services.objects.read(each)
    try:
        lines = [] if content is None else unpack_raw(content)
    except Unreadable:
        swept.kept[Kept.DAMAGED] += 1
        return False
    others = [line for line in lines if line.tenant != rules.tenant]
    if len(others) == len(lines):
        return False
    if others and each.is_latest and not rules.is_dry:
        rest = pack_raw(others)
        services.archive.put({rewritten_key(each.key, rest): rest})
    return True
