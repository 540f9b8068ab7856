"""Profiles of tenants in the rows of their table, and what a process remembers of them.

    <tenant>         #profile    its profile
    ~<tier>          #profile    a tier's: the defaults of the tenants whose profiles name it
    ~installation    #profile    the installation's: the defaults of tenants without a profile, and grants that count for all

Workers read profiles, and the application versions, in the batches in which they read revisions; see ``ScheduleStore.revisions``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import is_
from typing import Any

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.tenants.agenda_layout import AgendaLayout
from quarterjack.domain.tenants.limits import NO_LIMITS, stored_limits
from quarterjack.domain.tenants.profile import INSTALLATION, SHARED, Governance, Grant, TenantProfile, TenantState
from quarterjack.domain.times import SECOND
from quarterjack.errors import Unavailable, Unreadable
from quarterjack.state.transition import Absent, Compare
from quarterjack.stores.agenda import layout_put
from quarterjack.stores.audit import transact
from quarterjack.stores.rows import present, readable, reads
from quarterjack.stores.tables import TENANTS, Row, RowTables, RowWrite, TableRow
from quarterjack.stores.tenants.app_versions import KEY, AppVersionStore
from quarterjack.values import replace, value

log = logging.getLogger(__name__)

PROFILE = "#profile"
# Age from which a profile is read anew with a batch that is read anyway: it does not lapse while a run waits for its instant.
_ALONG = 2 * SECOND
_EARLY = 4 * SECOND  # age from which one thread reads it anew while the others go on with what is known
_MOST = 10_000  # profiles that a process remembers
_TEXTS = ("tier", "queue", "description", "suspension_reason")  # attributes named as the fields
_NUMBERS = ("version", "created_at", "updated_at")  # likewise


@value()
class _Known:
    """What was read of one tenant."""

    at: int  # UTC ms, before the request
    profile: TenantProfile | None  # None: it has none


BELIEVED = 5 * SECOND  # how long a process goes by a profile that it has read


class TenantStore:
    """Profiles. A change is conditional on the version that was read. A process remembers a profile for 5 s; thread-safe."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables
        self.app_versions = AppVersionStore(tables)
        self._known: dict[str, _Known] = {}  # by tenant; single operations of a dict need no lock
        self._composed: dict[str, tuple[tuple[_Known, ...], Governance]] = {}  # by tenant, with what it was made of
        self._reading: set[str] = set()  # tenants whose profiles some thread reads early

    # What holds for a tenant.

    def governance(self, tenant: str, now: int, *, longest: int = BELIEVED) -> Governance:
        """What holds for a tenant, read at most ``longest`` ms before ``now`` (UTC ms, by the caller's clock).

        Raises Unavailable, and Unreadable for a profile that is none, or of a later release.
        """
        known = self._believed(tenant, now, longest)
        if known is None:
            return self._read(tenant, now)
        if now - known.read_at < _EARLY or tenant in self._reading:
            return known
        self._reading.add(tenant)
        try:
            return self._read(tenant, now)
        except Unavailable as problem:
            log.warning("tenant.unread", extra={"tenant": tenant, "error": str(problem)})
            return known
        finally:
            self._reading.discard(tenant)

    def _read(self, tenant: str, now: int) -> Governance:
        known = self._known.get(tenant)
        asked = (tenant, INSTALLATION, *(() if known is None else _tier_of(known)))
        while True:
            rows, unread = self._tables.read_across("governance", [*keys_of(dict.fromkeys(asked)), KEY])
            if unread:
                raise Unavailable(f"the profile of tenant {tenant!r} could not be read; try again")
            profiles = {row["tenant"]: profile_of(row) for _, row in self.app_versions.learn(rows, now)}
            found = self._learn({name: profiles.get(name) for name in asked}, now)
            tier = _tier_of(found[tenant])
            if all(name in found for name in tier):
                return self._joined(tenant, *(found[name] for name in (tenant, INSTALLATION, *tier)))
            asked = (tenant, INSTALLATION, *tier)  # the profile names a tier that this process did not know of

    def _believed(self, tenant: str, now: int, longest: int = BELIEVED) -> Governance | None:
        """What holds by what was read at most so many ms ago."""
        own, installation = self._known.get(tenant), self._known.get(INSTALLATION)
        if own is None or installation is None:
            return None
        tier = [self._known.get(name) for name in _tier_of(own)]
        parts = [own, installation, *(part for part in tier if part is not None)]
        if None in tier or not 0 <= now - min(part.at for part in parts) <= longest:
            return None
        return self._joined(tenant, *parts)

    def _joined(self, tenant: str, own: _Known, installation: _Known, tier: _Known | None = None) -> Governance:
        """One object as long as nothing is read anew: who derives something from it may remember that."""
        parts = (own, installation) if tier is None else (own, installation, tier)
        known = self._composed.get(tenant)
        if known is not None and len(known[0]) == len(parts) and all(map(is_, known[0], parts)):
            return known[1]
        made = Governance(
            tenant=tenant,
            own=own.profile,
            tier=None if tier is None else tier.profile,
            installation=installation.profile,
            read_at=min(part.at for part in parts),
        )
        self._composed[tenant] = parts, made
        return made

    def _learn(self, profiles: Mapping[str, TenantProfile | None], at: int) -> dict[str, _Known]:
        """Remember what was read; of too many tenants only what is still believed."""
        if len(self._known) >= _MOST:
            for name, known in list(self._known.items()):
                if not 0 <= at - known.at <= BELIEVED:
                    self._forget(name)
        found = {name: _Known(at, profile) for name, profile in profiles.items()}
        self._known.update(found)
        return found

    def _forget(self, tenant: str) -> None:
        self._known.pop(tenant, None)
        self._composed.pop(tenant, None)

    # With a batch of other rows.

    def along(self, tenants: Collection[str], now: int) -> list[TableRow]:
        """The keys to read with a batch, so that ``governed`` knows what holds for these tenants."""
        known_ones = (known for name in tenants if (known := self._known.get(name)) is not None)
        tiers = {name for known in known_ones for name in _tier_of(known)}
        wanted = sorted({*tenants, *tiers, INSTALLATION}) if tenants else []
        due = [name for name in wanted if (known := self._known.get(name)) is None or not 0 <= now - known.at < _ALONG]
        return [*keys_of(due), *(self.app_versions.along(now) if now else ())]

    def governed(
        self,
        tenants: Collection[str],
        read: Iterable[TableRow],
        unread: Iterable[TableRow],
        keys: Iterable[TableRow],
        now: int,
    ) -> dict[str, Governance]:
        """What holds for tenants, by what a batch read of the ``keys`` of ``along``; a tenant of which that is not known is missing."""
        asked = {key["tenant"] for table, key in keys if table is TENANTS}
        failed = {key["tenant"] for table, key in unread if table is TENANTS}
        if KEY in keys and KEY not in unread:
            read = self.app_versions.learn(read, now)
        found: dict[str, TenantProfile | None] = dict.fromkeys(asked - failed)
        for table, row in read:
            if table is TENANTS:
                try:
                    found[row["tenant"]] = profile_of(row)
                except Unreadable as problem:
                    log.error("tenant.unreadable", extra={"tenant": row["tenant"], "error": str(problem)})
                    del found[row["tenant"]]
                    self._forget(row["tenant"])
        self._learn(found, now)
        believed = ((tenant, self._believed(tenant, now)) for tenant in tenants)
        return {tenant: governance for tenant, governance in believed if governance is not None}

    # Profiles.

    def profile(self, tenant: str) -> TenantProfile | None:
        """The profile as it is stored now; None if there is none. Raises Unavailable, Unreadable."""
        rows, unread = self._tables.read_across("profile", keys_of([tenant]))
        if unread:
            raise Unavailable(f"the profile of {tenant!r} could not be read; try again")
        return profile_of(rows[0][1]) if rows else None

    def profiles(self) -> Iterator[TenantProfile]:
        """All profiles, the installation's included, in any order; one that cannot be read is logged and left out."""
        rows = self._tables.scan("profiles", TENANTS, only=Compare("item", "=", PROFILE))
        return readable(rows, profile_of, "tenant.unreadable")

    def put(
        self,
        profile: TenantProfile,
        *,
        expected: int,
        audit: AuditEntryRow | None = None,
        layout: tuple[AgendaLayout, AgendaLayout] | None = None,
    ) -> bool:
        """One transaction: put a profile, with ``version`` one more than expected, in place of the stored one, and ``audit``.

        With ``layout``, the layout of the agenda as it was read, and as it will be, the latter as well. False, and nothing is
        written, if the stored version is not ``expected`` (0: there is no profile yet), or the layout is another one by now. This
        process goes by the new profile at once, the others within 5 s. Raises Unavailable.
        """
        only_if = Compare("version", "=", expected) if expected else Absent("tenant")
        stored = replace(profile, version=expected + 1)
        writes = [RowWrite(table=TENANTS, row=profile_row(stored), only_if=only_if, kind="put")]
        if layout is not None:
            writes.append(layout_put(layout[1], layout[0]))
        self._forget(profile.tenant)
        done = transact(self._tables, "put_profile", writes, f"the profile of {profile.tenant}", audit)
        self._forget(profile.tenant)  # another thread may have read it meanwhile
        return done


def _tier_of(known: _Known) -> tuple[str, ...]:
    """The name of the profile of the tier of a tenant; none if it has none."""
    tier = None if known.profile is None else known.profile.tier
    return () if tier is None else (f"{SHARED}{tier}",)


# Rows.


def key_of(tenant: str) -> Row:
    return {"tenant": tenant, "item": PROFILE}


def keys_of(tenants: Iterable[str]) -> list[TableRow]:
    return [(TENANTS, key_of(tenant)) for tenant in tenants]


def profile_row(profile: TenantProfile) -> Row:
    """A profile as a row; lists are JSON."""
    return present(
        {name: getattr(profile, name) for name in (*_TEXTS, *_NUMBERS)}
        | {
            **key_of(profile.tenant),
            "state": str(profile.state),
            "jobs": None if profile.jobs is None else json.dumps(profile.jobs),
            "limits": json.dumps(profile.limits.given()) if profile.limits != NO_LIMITS else None,
            "grants": json.dumps([vars(grant) for grant in profile.grants]) if profile.grants else None,
        }
    )


@reads("profile {tenant}")
def profile_of(row: Mapping[str, Any]) -> TenantProfile:
    """A profile from its row; attributes of a later release are ignored. Raises Unreadable, TooNew."""
    same: dict[str, Any] = {name: str(row[name]) for name in _TEXTS if name in row}
    same |= {name: int(row[name]) for name in _NUMBERS}
    return TenantProfile(
        **same,
        tenant=row["tenant"],
        state=TenantState(row["state"]),
        jobs=tuple(json.loads(row["jobs"])) if "jobs" in row else None,
        limits=stored_limits(json.loads(row.get("limits", "{}"))),
        grants=tuple(_grant(given) for given in json.loads(row.get("grants", "[]"))),
    )


def _grant(given: Mapping[str, Any]) -> Grant:
    return Grant(to=given["to"], can=tuple(given["can"]), jobs=tuple(given["jobs"]))
