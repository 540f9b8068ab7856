"""One step of a pass in the buckets (a page of a folder, or of the inbox, whose objects have lines of several tenants) or among secrets.

An object of the inbox is put again without the tenant's lines, under the key that follows from its new content, and only then removed.
A process that dies in between leaves both; the next pass removes the old one, and readers leave lines out that come twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from quarterjack.domain.history.archive_keys import INBOX, rewritten_key, tenant_prefix
from quarterjack.domain.history.archive_lines import pack_raw, unpack_raw
from quarterjack.domain.tenants.erasure import DataKind, ErasurePlace, Kept, SweepRules, Swept
from quarterjack.errors import Unreadable
from quarterjack.ports.buckets import Lock, ObjectVersion
from quarterjack.ports.services import Services

_SECRETS = 50  # that one step removes: Parameter Store takes few requests a second
_KINDS = {
    ErasurePlace.PAYLOADS: DataKind.PAYLOAD,
    ErasurePlace.RESULTS: DataKind.RESULT,
    ErasurePlace.ARCHIVE: DataKind.ARCHIVED,
}


def sweep(place: ErasurePlace, cursors: Sequence[str | None], rules: SweepRules, services: Services) -> Swept:
    """One step: what it found, and where the next one goes on. Raises Unavailable: repeat it with the same cursors."""
    if place is ErasurePlace.INBOX:
        return _sweep_inbox(cursors[0] or "", rules, services)
    if place is ErasurePlace.SECRETS:
        return _sweep_secrets(cursors[0] or "", rules, services)
    if place in _KINDS:
        return _sweep_folder(place, cursors[0] or "", rules, services)
    return services.erasures.sweep(place, cursors, rules)


def folder_of(place: ErasurePlace, tenant: str) -> str:
    """What the keys of a tenant's objects begin with."""
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
    """Whether an object has lines of the tenant; then what is left of it is stored."""
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
