"""Who may do what: the verbs of the service layer, the roles that have them, and the decision. Pure.

``ROLES`` is the one table: the SDK, the command line and the API ask it, the reference prints it, and the tests are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from minutehand.domain.tenants.profile import Governance, Grant


class Verb(StrEnum):
    """What a caller does. One that concerns a job counts for that job; one that concerns many needs a grant for all jobs."""

    READ_SCHEDULES = "read-schedules"
    READ_RUNS = "read-runs"  # without payloads and results
    READ_PAYLOADS = "read-payloads"  # payloads, results, steps and the texts of errors
    READ_HISTORY = "read-history"  # statistics, transitions, why
    READ_INSTALLATION = "read-installation"  # jobs, queues, workers
    PREVIEW = "preview"
    PAUSE = "pause"
    RESUME = "resume"
    SKIP = "skip"
    TRIGGER = "trigger"
    CANCEL = "cancel"
    RETRY = "retry"
    RESCHEDULE = "reschedule"
    REPLAY = "replay"
    REDRIVE = "redrive"
    PURGE = "purge"
    FREEZE = "freeze"
    SUBMIT = "submit"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    BACKFILL = "backfill"
    READ_AUDIT = "read-audit"
    READ_ARCHIVE = "read-archive"
    REBUILD_HISTORY = "rebuild-history"
    READ_TENANT = "read-tenant"  # its profile
    GRANT = "grant"  # give and take the grants of one tenant
    SECRETS = "secrets"  # list, set and delete the secrets of one tenant; nobody reads them but its runs
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
    Verb.PAUSE,
    Verb.RESUME,
    Verb.SKIP,
    Verb.TRIGGER,
    Verb.CANCEL,
    Verb.RETRY,
    Verb.RESCHEDULE,
    Verb.REPLAY,
    Verb.REDRIVE,
    Verb.PURGE,
    Verb.FREEZE,
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
    {
        Verb.RESUME,
        Verb.TRIGGER,
        Verb.RETRY,
        Verb.RESCHEDULE,
        Verb.REPLAY,
        Verb.REDRIVE,
        Verb.SUBMIT,
        Verb.CREATE,
        Verb.UPDATE,
        Verb.BACKFILL,
    }
)
OF_INSTALLATION = frozenset({Verb.MANAGE_TENANTS, Verb.REBUILD_HISTORY})  # only the installation's grants give them


@dataclass(frozen=True, kw_only=True)
class MissingGrant:
    """Why a caller may not do something."""

    principal: str  # the one of the caller's that has no such grant
    tenant: str
    verb: Verb
    job: str | None  # None: it concerns all jobs
    roles: tuple[Role, ...]  # any of which has the verb, the least first


def verbs_of(can: Sequence[str]) -> frozenset[Verb]:
    """The verbs of names of roles and verbs; names of a later release are passed over."""
    found = set[Verb]()
    for name in can:
        if name in set(Role):
            found |= ROLES[Role(name)]
        elif name in set(Verb):
            found.add(Verb(name))
    return frozenset(found)


def missing(
    governance: Governance, principals: Sequence[str], verb: Verb, job: str | None = None
) -> MissingGrant | None:
    """The grant that a caller lacks; None: it may do it. Nobody needs a grant where there are none: IAM alone decides there.

    ``principals`` are the identity of the process, and the actor that it claims to act for, if any. Each needs a grant, so a claim
    never gives more than the identity has. A claimed actor needs one only if the grants name any claimed actor.
    """
    grants = _grants_for(governance, verb)
    if not grants and not _is_closed(governance, verb):
        return None
    names_actors = any(grant.to.startswith("app:") for grant in governance.grants)
    for principal in principals:
        if principal.startswith("app:") and not names_actors:
            continue
        if not any(grant.is_to(principal) and grant.covers(job) for grant in grants):
            roles = tuple(role for role in Role if verb in ROLES[role])
            return MissingGrant(principal=principal, tenant=governance.tenant, verb=verb, job=job, roles=roles)
    return None


def _grants_for(governance: Governance, verb: Verb) -> list[Grant]:
    """The grants that give a verb."""
    profile = governance.installation
    of_installation = () if profile is None else profile.grants
    given = of_installation if verb in OF_INSTALLATION else governance.grants
    return [grant for grant in given if verb in verbs_of(grant.can)]


def _is_closed(governance: Governance, verb: Verb) -> bool:
    """Whether a verb needs a grant at all."""
    profile = governance.installation
    return bool(profile is not None and profile.grants) if verb in OF_INSTALLATION else bool(governance.grants)
