"""Caps: how many runs may have a lease at a time, or start a minute, and which caps a run has. Pure.

a tenant's profile      concurrent_runs, concurrent_runs:JOB       one record for all caps of the tenant
the installation's      concurrent_runs:JOB                        one record for each
the policy ``flow``     of a job, a schedule or a submission       one record for each key
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from quarterjack.domain.names import schedule_owner
from quarterjack.domain.policies import Priority
from quarterjack.domain.policies.flow import MOST_AT_A_TIME, Flow, FlowOrder, flow_digest, flow_label
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.schedule import FrozenKind, FrozenPart
from quarterjack.domain.tenants.limits import NO_LIMITS
from quarterjack.domain.tenants.profile import INSTALLATION, Governance
from quarterjack.state.run_spec import RunSpec

FLOW = "~flow"  # the records of flows lie under owners that begin so, which spreads them over the table
ALL = "*"  # stands for all jobs of a tenant; in no job's name
PERMITS = "~permits"
SHARED = "~caps"  # the key of the record that the caps of a tenant share
EVERYBODY = "~quarterjack"  # stands for a tenant in the caps of jobs over all tenants


@dataclass(frozen=True, kw_only=True)
class ConcurrencyCap:
    """How many runs have a lease at a time: of a tenant, of a tenant and job, of a job of all tenants, or of a key of a flow."""

    tenant: str  # or EVERYBODY
    job: str  # or ALL; of a flow the digest of its key
    most: int | None  # None: there is no cap any more, and what is left of its wait queue goes on
    strict: bool = False  # whether runs wait while its permits cannot be read or written
    flow: Flow | None = None  # a flow's
    label: str = ""  # of a flow's key, for people
    of_job: str = field(
        default="", compare=False
    )  # of a flow with a name: the digest that its job's own key would have
    paused_until: int = 0  # of a part that is frozen: UTC ms up to which none of its runs starts
    since: int = 0  # the same: UTC ms of the act that says so

    @property
    def owner(self) -> str:
        """The owner of its record."""
        return schedule_owner(self.tenant, PERMITS if self.flow is None else f"{FLOW}{self.job[:2]}")

    @property
    def key(self) -> str:
        """The key of its record, which the caps of a tenant share."""
        return f"~{self.job}" if self.tenant == EVERYBODY or self.flow is not None else SHARED

    @property
    def record(self) -> str:
        """Names its record."""
        return f"{self.owner}#{self.key}"

    @property
    def id(self) -> str:
        """Names it: in entries of its queue and in logs."""
        return f"{self.owner}#~{self.job}"

    @property
    def wait_queue(self) -> str:
        """The partition of the agenda in which its runs wait, unless they are ordered by priority."""
        return f"queue#{self.id}"

    @property
    def wait_queues(self) -> tuple[str, ...]:
        """The partitions of the agenda in which its runs wait, those first that get permits first."""
        return tuple(dict.fromkeys(self.wait_queue_of(priority) for priority in Priority))

    def wait_queue_of(self, priority: Priority) -> str:
        """The partition in which a run of a priority waits."""
        by_priority = self.flow is not None and self.flow.order is FlowOrder.PRIORITY
        return f"{self.wait_queue}#{priority.rank}" if by_priority else self.wait_queue


@dataclass(frozen=True)
class PermitHold:
    """A permit that a run has."""

    cap: ConcurrencyCap
    holder: str  # the name in the cap's record under which it was taken: of the process, or of a flow the run's id


def caps_of(governance: Governance, job: str) -> tuple[ConcurrencyCap, ...]:
    """The caps of a job of a tenant, in the order in which everybody asks them: who is refused by the narrower takes none of the wider."""
    installation, limits = governance.installation, governance.limits
    if installation is None and limits is NO_LIMITS:
        return ()
    found = [
        (governance.tenant, job, limits.job_caps.get(job)),
        (governance.tenant, ALL, limits.concurrent_runs),
        (EVERYBODY, job, None if installation is None else installation.limits.job_caps.get(job)),
    ]
    return tuple(
        ConcurrencyCap(tenant=tenant, job=of, most=most, strict=bool(limits.concurrency_strict))
        for tenant, of, most in found
        if most is not None
    )


_UNNAMED = Flow(at_a_time=1)


def flow_cap(tenant: str, job: str, flow: Flow, payload: str | None) -> ConcurrencyCap:
    """The cap of a run with this payload (JSON text) by the flow of its job, schedule or submission."""
    key = flow.key_of(payload)
    label = flow_label(flow, job, key)
    digest = flow_digest(flow, job, key)
    of_job = digest if flow.name is None else flow_digest(_UNNAMED, job, key)
    return ConcurrencyCap(
        tenant=tenant,
        job=digest,
        most=flow.at_a_time,
        strict=flow.strict,
        flow=flow,
        label=label,
        of_job=of_job,
    )


def frozen_cap(tenant: str, part: FrozenPart) -> ConcurrencyCap:
    """The cap of a part of a tenant's runs that is frozen, or starts at a rate since it no longer is."""
    flow = Flow(name=f"frozen:{part.kind}", per_minute=part.per_minute, strict=True)
    digest = flow_digest(flow, "", part.value)
    return ConcurrencyCap(
        tenant=tenant,
        job=digest,
        most=None,
        strict=True,
        flow=flow,
        label=part.label,
        paused_until=part.until,
        since=part.since,
    )


def frozen_caps(
    parts: Iterable[FrozenPart], spec: RunSpec, caps: Iterable[ConcurrencyCap], tenant: str
) -> Iterator[ConcurrencyCap]:
    """The caps of the parts that a run belongs to, by what it executes and by its other caps."""
    values = {FrozenKind.JOB: {spec.job}, FrozenKind.QUEUE: {spec.queue or DEFAULT_QUEUE}}
    values[FrozenKind.KEY] = {digest for cap in caps if cap.flow is not None for digest in (cap.job, cap.of_job)}
    return (frozen_cap(tenant, part) for part in parts if part.value in values[part.kind])


def flow_named(identity: str) -> ConcurrencyCap:
    """The cap of a flow's id without its terms, which its record has: as if they were lost, and what waits goes on. Raises ValueError."""
    owner, _, key = identity.partition("#")
    if not key.startswith("~") or not owner.endswith(f"/{FLOW}{key[1:3]}"):
        raise ValueError(f"{identity!r} names no key of a flow")
    lost = Flow(at_a_time=MOST_AT_A_TIME)
    return ConcurrencyCap(tenant=owner.partition("/")[0], job=key[1:], most=lost.at_a_time, flow=lost)


def is_of_flow(identity: str) -> bool:
    """Whether this is the id of a flow's cap."""
    return f"/{FLOW}" in identity.partition("#")[0]


def cap_named(identity: str, governance: Governance) -> ConcurrencyCap:
    """The cap of an id, as profiles have it now. ``governance`` is its tenant's, or the installation's. Raises ValueError."""
    owner, _, key = identity.partition("#")
    tenant, _, word = owner.partition("/")
    if word != PERMITS or not key.startswith("~") or not tenant:
        raise ValueError(f"{identity!r} names no concurrency cap")
    job, limits = key[1:], governance.limits
    if tenant == EVERYBODY:
        most = None if governance.installation is None else governance.installation.limits.job_caps.get(job)
    elif job == ALL:
        most = limits.concurrent_runs
    else:
        most = limits.job_caps.get(job)
    return ConcurrencyCap(tenant=tenant, job=job, most=most, strict=bool(limits.concurrency_strict))


def governed_by(identity: str) -> str:
    """The tenant whose profile has the cap of an id."""
    tenant = identity.partition("/")[0]
    return INSTALLATION if tenant == EVERYBODY else tenant
