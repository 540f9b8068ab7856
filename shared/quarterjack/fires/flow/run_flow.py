"""The flow of a run, and all its caps, by its row and the revision that defines it."""

from __future__ import annotations

from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import freeze_key
from quarterjack.errors import NotFound
from quarterjack.fires.context import find_revision
from quarterjack.ports.services import Clock, Services
from quarterjack.state.run_spec import RunSpec, of_one_off, of_schedule
from quarterjack.state.tenants.caps import ConcurrencyCap, caps_of, flow_cap, frozen_caps


def caps_of_run(run: RunRow, services: Services, clock: Clock) -> tuple[ConcurrencyCap, ...]:
    """The caps of a run: by profiles, by its flow, and of what is frozen of its tenant. Raises Unavailable."""
    tenant, now, spec = run.ref.tenant, clock(), _spec(run, services)
    caps, flow = caps_of(services.tenants.governance(tenant, now), run.job), _flow_of(spec, tenant, services)
    caps = caps if flow is None else (*caps, flow)
    frozen = services.schedules.revisions([freeze_key(tenant)]).frozen.get(tenant)
    parts = () if frozen is None else frozen.parts_at(now)
    return caps if not parts or spec is None else (*caps, *frozen_caps(parts, spec, caps, tenant))


def flow_of_run(run: RunRow, services: Services) -> ConcurrencyCap | None:
    """The cap of a run by its flow; None: it has none, or what defines it is gone.

    A flow that only the job's code has is not seen here: a submission and a schedule store that of their job. Raises Unavailable.
    """
    return _flow_of(_spec(run, services), run.ref.tenant, services)


def _flow_of(spec: RunSpec | None, tenant: str, services: Services) -> ConcurrencyCap | None:
    if spec is None or spec.overrides.flow is None:
        return None
    flow, payload = spec.overrides.flow, spec.payload
    if flow.key is not None and payload is None and spec.payload_ref is not None:
        try:
            payload = services.payloads.get(tenant, spec.payload_ref)
        except NotFound:
            return None
    return flow_cap(tenant, spec.job, flow, payload)


def _spec(run: RunRow, services: Services) -> RunSpec | None:
    if run.ref.is_one_off:
        return of_one_off(run)
    revision = find_revision(run.ref.owner, run.defined_by or run.revision, services)
    return None if revision is None else of_schedule(run.ref, revision, run)
