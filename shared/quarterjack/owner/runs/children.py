"""A job submits a child: a one-off whose key follows from its parent and its step, so it exists once however often that is repeated."""

from __future__ import annotations

from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.names import PIPELINE, check_name
from quarterjack.domain.payload import size
from quarterjack.domain.policies import Overrides
from quarterjack.domain.run import RunRow, child_row
from quarterjack.domain.tenants.caller import role
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.errors import InvalidInput, KeyReused, NotFound
from quarterjack.fires.context import FireContext
from quarterjack.owner.limits import put_payload, take_place, throttle
from quarterjack.owner.runs.submit import SameTime, submit
from quarterjack.ports.services import Clock, Services
from quarterjack.state.waits.asked import child_ref
from quarterjack.values import replace, value


@value(kw_only=True)
class ChildRequest:
    """A child that a job asks for."""

    number: int  # among the children of its parent, from 1
    step: str  # its name among them
    job: str
    payload: str  # JSON text
    policies: Overrides  # as ``JobTerms.policies`` gives them
    queue: str | None  # name of its declared queue; None: the default one


def _awaited(job: str, tenant: str, services: Services) -> str | None:
    """Of the job of a pipeline the tasks that its run waits for. Raises InvalidInput, Unavailable."""
    if not job.startswith(PIPELINE):
        return None
    from quarterjack.fires.pipelines.rows import awaited_by  # noqa: PLC0415 (who has no pipeline does not load it)

    try:
        return awaited_by(tenant, job.removeprefix(PIPELINE), services)
    except NotFound as problem:
        raise InvalidInput("job", job, str(problem), "publish the pipeline first") from None


def submit_child(parent: RunRow, request: ChildRequest, services: Services, clock: Clock) -> None:
    """Submit a child that is due now; nothing is done if it exists.

    Raises InvalidInput, Throttled (the tenant's ``runs_per_second`` or ``waiting_runs``), LimitExceeded, Unavailable.
    """
    tenant, now = parent.ref.tenant, clock()
    check_name(request.job, "job")
    if parent.ref == child_ref(parent.ref, request.step):
        raise InvalidInput("step", request.step, "names the run itself", "give the child another step")
    refused = throttle(tenant, RateWord.RUNS, services, now) or take_place(tenant, services, now, has_history=True)
    if refused is not None:
        raise refused
    context = FireContext(services=services, clock=clock, caller=role("worker"))
    ref = child_ref(parent.ref, request.step)
    is_small = size(request.payload) <= INLINE_PAYLOAD
    overrides = request.policies.encode()
    run = replace(
        child_row(
            ref,
            parent.ref,
            request.number,
            job=request.job,
            overrides=overrides,
            queue=request.queue,
            app_version=parent.app_version,
            now=now,
        ),
        payload=request.payload if is_small else None,
        payload_ref=None if is_small else put_payload(ref, request.payload, context),
        awaits=_awaited(request.job, tenant, services),
    )
    try:
        submit(run, context, same_time=SameTime.ANY)
    except KeyReused:  # by an earlier call of this job, whose payload was another one; that call counts
        return
