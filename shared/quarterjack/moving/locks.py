"""Grants of a dump must not lock out who loads it: principals of another account are often nobody here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quarterjack.domain.tenants.access import Verb, allowance, without_admin
from quarterjack.domain.tenants.profile import Governance, TenantProfile
from quarterjack.errors import InvalidInput
from quarterjack.values import replace, value


@value(kw_only=True)
class LockOut:
    """Who loads, and whether grants are loaded."""

    principals: Callable[[], Sequence[str]]  # of the caller; asked only if there are grants
    with_grants: bool = True

    def without_grants(self, profile: TenantProfile) -> TenantProfile:
        """The profile as it is loaded."""
        return profile if self.with_grants else replace(profile, grants=())

    def check(self, governance: Governance, profile: TenantProfile) -> None:
        """Raises InvalidInput if nobody, or not the caller, could give grants under a new profile."""
        if not profile.grants:
            return
        lacking = allowance(governance, self.principals(), Verb.GRANT).lacking(None)
        remedy = "grant yourself admin of the installation first, or load without grants (--without-grants)"
        if lacking is not None:
            raise InvalidInput("grants", f"of {profile.tenant}", f"would lock {lacking!r} out, who loads them", remedy)
        if (verb := without_admin(governance)) is not None:
            raise InvalidInput("grants", f"of {profile.tenant}", f"leave nobody who may {verb}", remedy)
