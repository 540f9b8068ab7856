"""The SDK for the erasure of a tenant: calls of bounded length, each of which goes on where the one before stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from quarterjack.domain.names import check_flag, check_tenant
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import SECOND, from_ms
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.sdk.tenants.base import TenantsBase

if TYPE_CHECKING:  # who erases nobody loads nothing of it
    from quarterjack.domain.tenants.erasure import Erasure
    from quarterjack.eraser.erase import Survey

_BUDGET = 15.0  # seconds of one call, so that it fits into a request of an API
_LONGEST = 600  # seconds


@dataclass(frozen=True, kw_only=True)
class ErasureProgress:
    """Where the erasure of a tenant stands."""

    tenant: str
    began_at: datetime  # UTC
    ended_at: datetime | None  # UTC; None: it goes on, call again
    number: int  # of the present pass over all tables and buckets; the last one finds nothing
    place: (
        str | None
    )  # what is being gone through: "agenda", "runs", "archive" …; None: it waits for ``resume_at``, or has ended
    removed: Mapping[str, int]  # so far, by kind
    running: int  # runs that workers still have, and were asked to end
    resume_at: datetime | None  # UTC, before which a further call does nothing; None: call at once, or never again
    certificate: (
        Mapping[str, Any] | None
    )  # what was removed, and what remains, where, until when and why; None: it goes on


@dataclass(frozen=True, kw_only=True)
class ErasureCount:
    """What an erasure would remove, as far as it was counted."""

    tenant: str
    found: Mapping[str, int]  # by kind
    running: int  # runs that workers have
    is_complete: bool  # False: pass it to ``count_erasure``, which goes on
    survey: Survey  # how far it has come


class ErasureMethods(TenantsBase):
    def count_erasure(
        self, tenant: str, so_far: ErasureCount | None = None, *, budget: float = _BUDGET
    ) -> ErasureCount:
        """Count what ``erase`` would remove, for about ``budget`` seconds; it writes nothing.

        It reads all tables. Pass the result on until it is complete. Raises InvalidInput, Forbidden, Unavailable.
        """
        from quarterjack.eraser.erase import Survey, survey  # noqa: PLC0415 (see above)

        name, until = check_tenant(tenant), self._until(budget)
        self._permit(Verb.MANAGE_TENANTS, name)
        found = survey(name, self._context, until=until, so_far=Survey() if so_far is None else so_far.survey)
        return _counted(name, found)

    def erase(self, tenant: str, confirm: str, *, again: bool = False, budget: float = _BUDGET) -> ErasureProgress:
        """Remove everything of a tenant, for good: schedules, runs, history, archive, payloads and the texts of its audit.

        The first call begins: 5 s after it nothing of the tenant is accepted or started any more, its running attempts are asked to
        end, and this cannot be undone. Each call works for about ``budget`` seconds (at most 600) and goes on where the last one
        stopped, whoever made it: call until ``ended_at`` is there, not before ``resume_at``. It takes 16 minutes at least, as what was
        under way has to end. ``confirm`` must be the tenant's name. With ``again`` a tenant that was erased is gone through anew, for
        what may have come since, such as objects whose lock is over. Raises InvalidInput, Conflict, Forbidden, Unavailable and
        Misconfigured: then call again.
        """
        from quarterjack.eraser.erase import advance, begin  # noqa: PLC0415 (see above)

        name, until = check_tenant(tenant), self._until(budget)
        check_flag("again", again)
        if confirm != name:
            raise InvalidInput(
                "confirm", confirm, "is not the name of the tenant", f"pass confirm={name!r} to erase it"
            )
        self._permit(Verb.MANAGE_TENANTS, name)
        context = self._context
        return _progress(advance(begin(name, context, again=again), context, until=until), self.session.clock())

    def erasure(self, tenant: str) -> ErasureProgress:
        """Where the erasure of a tenant stands, with its certificate if it has ended.

        Raises InvalidInput, NotFound, Forbidden, Unavailable.
        """
        name = check_tenant(tenant)
        self._permit(Verb.READ_TENANT, name)
        found = self.session.services.erasures.read(name)
        if found is None:
            raise NotFound(f"tenant={tenant!r}: nobody has asked for its erasure")
        return _progress(found, self.session.clock())

    def _until(self, budget: object) -> int:
        """UTC ms at which a call ends."""
        if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 <= budget <= _LONGEST:
            remedy = f"use seconds from 0 to {_LONGEST}, e.g. {_BUDGET}"
            raise InvalidInput("budget", budget, "is not a length of a call", remedy)
        return self.session.clock() + int(budget * SECOND)


def _counted(tenant: str, found: Survey) -> ErasureCount:
    from quarterjack.domain.tenants.erasure import Kept  # noqa: PLC0415 (see above)

    return ErasureCount(
        tenant=tenant,
        found={str(kind): count for kind, count in found.found.items() if count},
        running=found.kept.get(Kept.RUNNING, 0),
        is_complete=found.position.is_end,
        survey=found,
    )


def _progress(erasure: Erasure, now: int) -> ErasureProgress:
    from quarterjack.domain.tenants.certificate import document_of  # noqa: PLC0415 (see above)
    from quarterjack.domain.tenants.erasure import Kept  # noqa: PLC0415

    is_waiting = not erasure.is_certified and erasure.next_at > now
    is_at_work = not (is_waiting or erasure.is_certified or erasure.position.is_end)
    return ErasureProgress(
        tenant=erasure.tenant,
        began_at=from_ms(erasure.began_at),
        ended_at=from_ms(erasure.ended_at or 0) if erasure.is_certified else None,
        number=erasure.number,
        place=str(erasure.position.at[0]) if is_at_work else None,
        removed={str(kind): count for kind, count in erasure.removed.items() if count},
        running=erasure.kept.get(Kept.RUNNING, 0),
        resume_at=from_ms(erasure.next_at) if is_waiting else None,
        certificate=document_of(erasure) if erasure.is_certified else None,
    )
