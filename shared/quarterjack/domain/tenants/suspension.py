"""What a tenant's state forbids, in words: the same at every door, in ``why``, for a waiting run and by the doctor. Pure."""

from __future__ import annotations

from quarterjack.domain.tenants.access import ACCEPTS, Verb
from quarterjack.domain.tenants.profile import Governance

_OF_ERASED = frozenset(
    {Verb.READ_TENANT, Verb.MANAGE_TENANTS, Verb.READ_AUDIT}
)  # its certificate, and what its audit still proves


def not_served(governance: Governance) -> str | None:
    """Why nothing of the tenant starts, and the tenant's remedy; None: it is served."""
    profile, tenant = governance.profile, governance.tenant
    if profile.accepts:
        return None
    if profile.is_erased:
        return f"tenant {tenant!r} is {profile.state}: nothing of it is accepted or started any more; its name is not used again"
    why = f" ({profile.suspension_reason})" if profile.suspension_reason else ""
    return f"tenant {tenant!r} is suspended{why}; ask an operator of the installation to resume it"


def command_for(governance: Governance) -> str | None:
    """What an operator runs to end the suspension; None: nothing ends it."""
    return None if governance.profile.is_erased else f"quarterjack tenants resume {governance.tenant}"


def forbids(governance: Governance, verb: Verb) -> str | None:
    """Why a verb is refused because of the tenant's state; None: it is not.

    A suspended tenant takes no new work; what it has may be seen, paused and cancelled. Of an erased one its profile is left, and the
    digests of its audit.
    """
    profile = governance.profile
    if profile.accepts or verb in _OF_ERASED or not (profile.is_erased or verb in ACCEPTS):
        return None
    return not_served(governance)
