"""The check of a caller's grants at the door: before anything of the tenant is read but its profile.

What an SDK checks, a caller with the IAM rights to write the tables can leave out: grants order what honest callers may do. The worker's
check of the tenant's jobs, the API and IAM are what holds for others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from quarterjack.concurrency.forks import HoldsLocks
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.tenants.access import (
    EVERYTHING,
    OF_INSTALLATION,
    Allowance,
    MissingGrant,
    Verb,
    allowance,
    forbids,
    grant_command,
    missing_grant,
    needs_grant,
    principals_of,
    resume_command,
    scoped,
)
from quarterjack.domain.tenants.caller import UNKNOWN_IDENTITY, Caller
from quarterjack.domain.tenants.profile import INSTALLATION, Governance, TenantProfile
from quarterjack.domain.times import MINUTE
from quarterjack.errors import Forbidden, JobNotGranted, QuarterjackError, TenantSuspended, Unavailable
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.context import FireContext
from quarterjack.ports.services import Clock, Services

log = logging.getLogger(__name__)

MOST_DENIALS = 60  # entries of refusals that a process writes in a minute
RUN_JOB = "run-job"  # stands for a verb in the entry of a job that the tenant may not run
TENANT = "tenant"  # and for its principal, where the caller claims no actor: nobody of the tenant may
_REMEMBERED = 1_000  # allowances that a process knows
_MOST_WHAT = 300  # characters of what was refused, which a caller may have made up

_beside: ContextVar[bool] = ContextVar("beside", default=False)


@contextmanager
def asked_beside() -> Iterator[None]:
    """Within this, in this thread, refusals have no entry: a page asks what nobody has asked for, to show what there is."""
    token = _beside.set(True)
    try:
        yield
    finally:
        _beside.reset(token)


_Profiles = tuple[TenantProfile | None, TenantProfile | None]  # a tenant's own, and the installation's


class DenialSampler(HoldsLocks):
    """Which refusals get an entry: of each principal, tenant and verb one a minute, and at most 60 a minute in all. Thread-safe."""

    def __init__(self) -> None:
        self._since = 0  # UTC ms: where the minute began
        self._seen: dict[tuple[str, str, str], int] = {}  # refusals in this minute
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()

    def takes(self, tenant: str, principal: str, verb: str, now: int) -> bool:
        """Whether this refusal gets an entry."""
        key = (tenant, principal, str(verb))
        with self._lock:
            if not 0 <= now - self._since < MINUTE:
                self._since = now
                self._seen.clear()
            is_new = key not in self._seen and len(self._seen) < MOST_DENIALS
            if is_new:
                self._seen[key] = now
            return is_new


DENIALS = DenialSampler()  # of this process, whatever Schedulers it makes


class AccessGate:
    """What callers may do, by the profiles as they were read at most five seconds ago. Thread-safe."""

    def __init__(self, services: Services, clock: Clock) -> None:
        self._services, self._clock = services, clock
        # By tenant, principals and verb: the profiles from which it follows; single operations of a dict need no lock.
        self._known: dict[tuple[str, tuple[str, ...], Verb], tuple[_Profiles, Allowance]] = {}

    def governance(self, tenant: str) -> Governance:
        """What holds for a tenant. Raises Unavailable, Unreadable."""
        return self._services.tenants.governance(tenant, self._clock())

    def allowance(self, tenant: str, caller: Caller, verb: Verb) -> Allowance:
        """For which jobs of a tenant a caller has a verb. Raises Unavailable, Unreadable.

        Where nobody needs a grant, STS is not asked who calls.
        """
        if caller.is_system:
            return EVERYTHING
        if caller.scope is not None:
            return scoped(caller.scope, tenant, verb)
        governance = self.governance(tenant)
        if not needs_grant(governance, verb) and not caller.is_remote:
            return EVERYTHING
        principals = self.principals(caller)
        profiles, key = (governance.own, governance.installation), (tenant, principals, verb)
        known = self._known.get(key)
        if known is not None and known[0][0] is profiles[0] and known[0][1] is profiles[1]:
            return known[1]
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        found = allowance(governance, principals, verb, closed=caller.is_remote)
        self._known[key] = profiles, found
        return found

    def principals(self, caller: Caller) -> tuple[str, ...]:
        """Who needs grants for what a caller does. Raises Unavailable."""
        return principals_of(caller, self._identity)

    def _identity(self) -> str:
        """Raises Unavailable if it is not known: nothing is granted to somebody unknown."""
        identity = self._services.identity()
        if identity.startswith(UNKNOWN_IDENTITY):
            raise Unavailable(
                f"STS does not say who calls ({identity}), and this tenant's callers need grants; nothing was done, try again"
            )
        return identity

    def check(
        self, tenant: str, caller: Caller, verb: Verb, job: str | None = None, *, what: str | None = None
    ) -> None:
        """Raises Forbidden unless a caller has a verb for a job; None: for all jobs. Then TenantSuspended, as the tenant's state is.

        ``what`` ("schedule 'x'") is in the entry of the refusal, here and below.
        """
        principal = self.allowance(tenant, caller, verb).lacking(job)
        if principal is not None:
            raise self.refusal(caller, missing_grant(tenant, principal, verb, job), _needed(job), what)
        self._check_state(tenant, verb)

    def check_some(self, tenant: str, caller: Caller, verb: Verb, *, what: str | None = None) -> Allowance:
        """The jobs for which a caller has a verb. Raises Forbidden if there is none, and then as ``check``."""
        found = self.allowance(tenant, caller, verb)
        if found.nobody is not None:
            raise self.refusal(caller, missing_grant(tenant, found.nobody, verb, None), "", what)
        self._check_state(tenant, verb)
        return found

    def check_seen(self, tenant: str, caller: Caller, verb: Verb, job: str | None, what: str) -> None:
        """Raises Forbidden unless a caller has a verb for the job of ``what`` ("schedule 'x'", "run 'y'"); None: there is no such thing.

        A caller with grants for some jobs only is told the same of what is missing and of what has another job.
        """
        found = self.check_some(tenant, caller, verb, what=what)
        principal = found.lacking(None)
        if principal is None or (job is not None and found.covers(job)):
            return
        lacking = missing_grant(tenant, principal, verb, None)
        about = f", {what}: it is not there, or its job is none of those that the grants name"
        raise self.refusal(caller, lacking, about, what)

    def _check_state(self, tenant: str, verb: Verb) -> None:
        """Only to a caller who has the verb: the state of a tenant is nobody else's matter."""
        governance = self.governance(tenant)
        why = forbids(governance, verb)
        if why is not None:
            raise TenantSuspended(f"{why}; nothing was done", tenant=tenant, command=resume_command(governance))

    def refusal(self, caller: Caller, lacking: MissingGrant, about: str, what: str | None = None) -> Forbidden:
        """The error, after an entry in the audit if it is this one's turn, and the caller has asked for it."""
        self._audit(lacking.tenant, caller, lacking.principal, lacking.verb, lacking.job, what)
        return Forbidden(
            f"{lacking.principal!r} may not {lacking.verb} for {_named(lacking.tenant)}{about}; nothing was done. "
            f"The role {' or '.join(lacking.roles)} may: ask somebody who may {Verb.GRANT} there for it",
            principal=lacking.principal,
            verb=lacking.verb,
            tenant=lacking.tenant,
            job=lacking.job,
            command=_command(caller, lacking),
        )

    def job_refusal(self, tenant: str, caller: Caller, job: str, problem: str) -> JobNotGranted:
        """The error about a job that the tenant may not run, whoever asks; after an entry in the audit, likewise."""
        self._audit(tenant, caller, caller.actor or TENANT, RUN_JOB, job)
        return JobNotGranted(problem, tenant=tenant, job=job, command=grant_command(tenant, job))

    def _audit(
        self, tenant: str, caller: Caller, principal: str, verb: str, job: str | None, what: str | None = None
    ) -> None:
        """An entry of the refusal. The refusal does not depend on it: the caller's role may have no right to write for this tenant."""
        if _beside.get():
            return
        log.warning("access.denied", extra={"tenant": tenant, "principal": principal, "verb": str(verb)})
        try:
            is_erased = self.governance(tenant).profile.is_erased  # of such a tenant nothing is written any more
        except QuarterjackError:
            is_erased = False
        if is_erased or not DENIALS.takes(tenant, principal, verb, self._clock()):
            return
        context = FireContext(services=self._services, clock=self._clock, caller=caller)
        detail: dict[str, Any] = {"verb": str(verb), "job": job, "principal": principal}
        if what is not None:
            detail["of"] = what[:_MOST_WHAT]
        try:
            self._services.audit.write(audit_entry(AuditAct.DENY, tenant, context, **detail))
        except QuarterjackError as problem:
            log.warning("access.denial_not_written", extra={"tenant": tenant, "error": str(problem)})


def _command(caller: Caller, lacking: MissingGrant) -> str:
    """What gives what is missing. What a key may do is said when it is made."""
    gives = f"--can {lacking.roles[0]}" + ("" if lacking.job is None else f" --jobs {lacking.job!r}")
    if caller.scope is not None:
        name = lacking.principal.partition(":")[2]
        return f"quarterjack --tenant {lacking.tenant} keys create {name} {gives}"
    holder = INSTALLATION if lacking.verb in OF_INSTALLATION else lacking.tenant
    return f"quarterjack tenants grant {holder} --to {lacking.principal!r} {gives}"


def _needed(job: str | None) -> str:
    return " and all its jobs" if job is None else f" and job {job!r}"


def _named(tenant: str) -> str:
    return "the installation" if tenant == INSTALLATION else f"tenant {tenant!r}"
