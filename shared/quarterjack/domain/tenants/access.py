"""Who may do what: the verbs of the service layer, the roles that have them, and the decision. Pure.

``ROLES`` is the one table: the SDK, the command line and the API ask it, the reference prints it, and the tests are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from quarterjack.domain.names import MAP, PIPELINE
from quarterjack.domain.tenants.caller import CLAIMED, AccessScope, Caller
from quarterjack.domain.tenants.profile import ALL, INSTALLATION, Governance, Grant, matches
from quarterjack.values import value


class Verb(StrEnum):
    """What a caller does. One that concerns a job counts for that job; one that concerns many needs a grant for all jobs."""

    READ_SCHEDULES = "read-schedules"  # their definitions, without payloads
    READ_RUNS = "read-runs"  # without payloads and results
    READ_PAYLOADS = "read-payloads"  # payloads, results, steps and the texts of errors
    READ_LOGS = "read-logs"  # log lines of runs, which may hold what their payloads hold
    READ_HISTORY = "read-history"  # statistics, transitions, why
    READ_INSTALLATION = "read-installation"  # jobs, queues, workers
    PREVIEW = "preview"  # next fires of an expression or a schedule
    PAUSE = "pause"  # schedules and backfills
    RESUME = "resume"  # schedules and backfills
    SKIP = "skip"  # the next fire of a schedule
    TRIGGER = "trigger"  # run a schedule now
    CANCEL = "cancel"  # runs and backfills
    RETRY = "retry"  # start the next attempt of a waiting run now
    SIGNAL = "signal"  # answer a run that waits
    RESCHEDULE = "reschedule"  # move a one-off to another time, queue or priority
    REPLAY = "replay"  # repeat an ended run
    REDRIVE = "redrive"  # repeat runs that failed for good
    PURGE = "purge"  # take failed runs off the list
    FREEZE = "freeze"  # start no run of the tenant for a time, and end that
    SUBMIT = "submit"  # run a job once
    CREATE = "create"  # schedules
    UPDATE = "update"  # schedules and their tags
    DELETE = "delete"  # schedules
    BACKFILL = "backfill"  # run the fires of a past interval
    READ_AUDIT = "read-audit"  # who did what, and what was refused
    READ_ARCHIVE = "read-archive"  # every transition of runs
    RESEND = "resend"  # send waiting runs to the work queues again: a grant of the installation only
    REBUILD_HISTORY = "rebuild-history"  # write the history anew: a grant of the installation only
    SET_VERSION = "set-version"  # make an application version the latest: a grant of the installation only
    RESTORE = "restore"  # `quarterjack restore plan` and `run`: a grant of the installation only
    READ_TENANT = "read-tenant"  # its profile, and its API keys without their texts
    GRANT = "grant"  # give and take the grants and API keys of one tenant
    SECRETS = "secrets"  # list, set and delete the secrets of one tenant; nobody reads them but its runs
    DUMP = "dump"  # write everything of a tenant to a file, payloads too
    LOAD = "load"  # put what such a file holds into the installation: a grant of the installation only
    MANAGE_TENANTS = "manage-tenants"  # create, set, suspend, resume, erase: a grant of the installation only


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"
    AUDITOR = "auditor"


_VIEWER = frozenset({Verb.READ_SCHEDULES, Verb.READ_RUNS, Verb.READ_HISTORY, Verb.READ_INSTALLATION, Verb.PREVIEW})
_OPERATOR = _VIEWER | {
    Verb.READ_PAYLOADS,
    Verb.READ_LOGS,
    Verb.PAUSE,
    Verb.RESUME,
    Verb.SKIP,
    Verb.TRIGGER,
    Verb.CANCEL,
    Verb.RETRY,
    Verb.SIGNAL,
    Verb.RESCHEDULE,
    Verb.REPLAY,
    Verb.REDRIVE,
    Verb.PURGE,
    Verb.FREEZE,
    Verb.RESEND,
    Verb.SET_VERSION,
}
_EDITOR = _OPERATOR | {Verb.SUBMIT, Verb.CREATE, Verb.UPDATE, Verb.DELETE, Verb.BACKFILL}
_AUDITOR = _VIEWER | {Verb.READ_AUDIT, Verb.READ_ARCHIVE, Verb.READ_TENANT}

ROLES: Mapping[Role, frozenset[Verb]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.EDITOR: _EDITOR,
    Role.ADMIN: frozenset(Verb),
    Role.AUDITOR: _AUDITOR,
}
ACCEPTS = frozenset(  # what makes new work, and is refused while a tenant is suspended
    {Verb.SUBMIT, Verb.CREATE, Verb.UPDATE, Verb.BACKFILL, Verb.TRIGGER, Verb.RESUME}
    | {Verb.RETRY, Verb.RESCHEDULE, Verb.REPLAY, Verb.REDRIVE}
)
# Only the installation's grants give them.
OF_INSTALLATION = frozenset(
    {Verb.LOAD, Verb.MANAGE_TENANTS, Verb.REBUILD_HISTORY, Verb.RESEND, Verb.RESTORE, Verb.SET_VERSION}
)


@value(kw_only=True)
class MissingGrant:
    """Why a caller may not do something."""

    principal: str  # the one of the caller's that has no such grant
    tenant: str
    verb: Verb
    job: str | None  # None: it concerns all jobs, or its job is not said
    roles: tuple[Role, ...]  # any of which has the verb, the least first


@value(kw_only=True)
class Allowance:
    """For which jobs a caller has a verb."""

    # Of each principal that needs a grant: it, and the patterns of the jobs that its grants name. Empty: none is needed.
    limits: tuple[tuple[str, frozenset[str]], ...] = ()

    def covers(self, job: str | None) -> bool:
        """Whether the caller has the verb for a job; None: for all jobs at once. A job's grants are those of its maps."""
        return self.lacking(job) is None

    def lacking(self, job: str | None) -> str | None:
        """The principal that has no grant for a job (None: for all jobs); None: each has one."""
        name = (job or "").removeprefix(MAP)
        for principal, patterns in self.limits:
            if ALL not in patterns and (job is None or not any(matches(pattern, name) for pattern in patterns)):
                return principal
        return None

    @property
    def nobody(self) -> str | None:
        """The principal that does not have the verb for a single job; None: each has it for some."""
        return next((principal for principal, patterns in self.limits if not patterns), None)


EVERYTHING = Allowance()  # where nobody needs a grant


def principals_of(caller: Caller, identity: Callable[[], str]) -> tuple[str, ...]:
    """Who needs grants for what a caller does: the identity of the process, and the actor that the application claims.

    An actor that Quarterjack itself has found out (``key:``, ``oidc:``) stands alone: the process that asks for it is the
    installation's. A role of the installation needs none. ``identity`` is called only if it counts.
    """
    if caller.is_system:
        return ()
    actor = caller.actor
    if actor is not None and not actor.startswith(CLAIMED):
        return (actor,)
    return (identity(),) if actor is None else (identity(), actor)


def verbs_of(can: Iterable[str]) -> frozenset[Verb]:
    """The verbs of names of roles and verbs; names of a later release are passed over."""
    return frozenset().union(*map(_verbs_named, can))


@lru_cache(maxsize=1024)  # a profile may name anything
def _verbs_named(name: str) -> frozenset[Verb]:
    if name in Role.__members__.values():
        return ROLES[Role(name)]
    return frozenset({Verb(name)} if name in Verb.__members__.values() else ())


def roles_with(verb: Verb) -> tuple[Role, ...]:
    """The roles that have a verb, the least first."""
    return tuple(sorted((role for role in Role if verb in ROLES[role]), key=lambda role: len(ROLES[role])))


def needs_grant(governance: Governance, verb: Verb) -> bool:
    """Whether anybody needs a grant for a verb. Where there are none IAM alone decides."""
    return bool(_grants(governance, verb))


def scoped(scope: AccessScope, tenant: str, verb: Verb) -> Allowance:
    """For which jobs a caller has a verb that brings along what it may do. Verbs of the whole installation are in no scope."""
    gives = scope.tenant == tenant and verb in verbs_of(scope.grant.can) - OF_INSTALLATION
    return Allowance(limits=((scope.grant.to, frozenset(scope.grant.jobs if gives else ())),))


def allowance(governance: Governance, principals: Sequence[str], verb: Verb, *, closed: bool = False) -> Allowance:
    """For which jobs a caller has a verb: the first of the ``principals`` is the identity of its process, as ``principals_of`` says.

    Each needs a grant, so a claim never gives more than the identity has. A claimed actor needs one only if the grants name any
    claimed actor. ``closed``: also where there are no grants at all.
    """
    grants = _grants(governance, verb)
    if not grants and not closed:
        return EVERYTHING
    names_actors = any(grant.to.startswith(CLAIMED) for grant in grants)
    giving = [grant for grant in grants if verb in verbs_of(grant.can)]
    return Allowance(
        limits=tuple(
            (principal, frozenset(pattern for grant in giving if grant.is_to(principal) for pattern in grant.jobs))
            for principal in principals
            if names_actors or not principal.startswith(CLAIMED)
        )
    )


def missing_grant(tenant: str, principal: str, verb: Verb, job: str | None) -> MissingGrant:
    """That a principal lacks a verb."""
    return MissingGrant(principal=principal, tenant=tenant, verb=verb, job=job, roles=roles_with(verb))


def without_admin(governance: Governance) -> Verb | None:
    """The verb that nobody would have for all jobs although grants are needed, so that nobody could give one any more; None: all is well.

    A claimed actor alone is nobody: the identity of its process needs the grant, too. Of the installation's profile: of this one.
    """
    of_installation = governance.tenant == INSTALLATION
    for verb in (Verb.GRANT, Verb.MANAGE_TENANTS) if of_installation else (Verb.GRANT,):
        grants = _grants(governance, verb)
        if grants and not any(_suffices(grant, verb) for grant in grants):
            return verb
    return None


def _suffices(grant: Grant, verb: Verb) -> bool:
    """Whether a grant lets somebody use a verb for all jobs by itself: a claim needs its process's too, and keys go by no grants."""
    return verb in verbs_of(grant.can) and grant.covers(None) and not grant.to.startswith((CLAIMED, "key:"))


def _grants(governance: Governance, verb: Verb) -> tuple[Grant, ...]:
    """The grants among which one has to give the verb."""
    if verb not in OF_INSTALLATION:
        return governance.grants
    of_installation = () if governance.installation is None else governance.installation.grants
    # Where the installation has none, a tenant that has some is closed all the same.
    return of_installation or governance.grants


NOT_GRANTED = "job not granted"  # the reason of a run that is DEAD because its tenant may not run its job
KIND = "JobNotGranted"  # of its failure: what dead runs are found and redriven by


def job_problem(governance: Governance, job: str, *, by_name: bool) -> str | None:
    """Why the tenant may not run a job, and its remedy; None: it may.

    ``by_name``: the job does whatever its payload says, so that no pattern gives it (``Job.by_name``).
    """
    if job.startswith(PIPELINE):  # it does nothing but start its tasks, and each of them is asked about
        return None
    job = job.removeprefix(MAP)
    if governance.may_run(job, by_name=by_name):
        return None
    why = f"tenant {governance.tenant!r} may not run job {job!r}"
    if by_name and governance.may_run(job, by_name=False):
        why = f"{why}: what it does is for its payload to say, so a pattern such as * does not give it"
    return f"{why}; ask an operator of the installation for it"


def grant_command(tenant: str, job: str) -> str:
    """What an operator runs to give a tenant a job."""
    return f"quarterjack tenants set {tenant} --add-job {job}"


# Of an erased tenant: its certificate, and what its audit still proves.
_OF_ERASED = frozenset({Verb.READ_TENANT, Verb.MANAGE_TENANTS, Verb.READ_AUDIT})


def not_served(governance: Governance) -> str | None:
    """Why nothing of the tenant starts, and the tenant's remedy; None: it is served."""
    profile, tenant = governance.profile, governance.tenant
    if profile.accepts:
        return None
    if profile.is_erased:
        return f"tenant {tenant!r} is {profile.state}: nothing of it is accepted or started any more; its name is not used again"
    why = f" ({profile.suspension_reason})" if profile.suspension_reason else ""
    return f"tenant {tenant!r} is suspended{why}; ask an operator of the installation to resume it"


def resume_command(governance: Governance) -> str | None:
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
