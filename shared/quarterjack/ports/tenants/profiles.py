"""Profiles of tenants, and what holds for a tenant at a moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from quarterjack.domain.agenda_layout import AgendaLayout
from quarterjack.domain.audit import AuditLineRow
from quarterjack.domain.tenants.profile import Governance, TenantProfile
from quarterjack.domain.times import SECOND

BELIEVED = 5 * SECOND  # how long a process goes by a profile that it has read


class TenantStore(Protocol):
    """Profiles. A change is conditional on the version that was read. A process remembers what it read, for 5 s; thread-safe."""

    def governance(self, tenant: str, now: int, *, longest: int = BELIEVED) -> Governance:
        """What holds for a tenant, read at most ``longest`` ms before ``now`` (UTC ms, by the caller's clock).

        Raises Unavailable, and Unreadable for a profile that is none, or of a later release.
        """

    def profile(self, tenant: str) -> TenantProfile | None:
        """The profile as it is stored now; None if there is none. Raises Unavailable, Unreadable."""

    def profiles(self) -> Iterator[TenantProfile]:
        """All profiles, the installation's included, in any order; one that cannot be read is logged and left out."""

    def put(
        self,
        profile: TenantProfile,
        *,
        expected: int,
        line: AuditLineRow | None = None,
        layout: tuple[AgendaLayout, AgendaLayout] | None = None,
    ) -> bool:
        """One transaction: put a profile, with ``version`` one more than expected, in place of the stored one, and the line of the act.

        With ``layout``, the layout of the agenda as it was read, and as it will be, the latter as well. False, and nothing is
        written, if the stored version is not ``expected`` (0: there is no profile yet), or the layout is another one by now. This
        process goes by the new profile at once, the others within 5 s. Raises Unavailable.
        """
