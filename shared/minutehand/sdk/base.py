"""What every part of the SDK needs: the tenant, the services, the clock, the jobs."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Any

from minutehand.arguments import payload_text
from minutehand.errors import NotFound
from minutehand.flow.ports import Clock, Services
from minutehand.jobs import Registry, default_registry, load
from minutehand.model.message import INLINE_PAYLOAD
from minutehand.model.names import check_name, check_tenant, parse_run_id
from minutehand.model.policies import Overrides, Start
from minutehand.model.run import Run
from minutehand.services import connect, system_clock
from minutehand.settings import Settings, from_environment


class Unset(Enum):
    """An argument that was not given, where None means something."""

    UNSET = "unset"


UNSET = Unset.UNSET


class Base:
    """The state of a Scheduler."""

    def __init__(
        self,
        tenant: str | None = None,
        *,
        settings: Settings | None = None,
        endpoint: str | None = None,
        prefix: str | None = None,
        jobs: Registry | str | None = None,
        check_jobs: bool = True,
        services: Services | None = None,
        clock: Clock = system_clock,
    ) -> None:
        given = settings or from_environment()
        given = replace(given, endpoint=endpoint or given.endpoint, prefix=prefix or given.prefix)
        self.tenant = check_tenant(given.tenant if tenant is None else tenant)
        self._services = services or connect(given)
        self._clock = clock
        self._check_jobs = check_jobs
        self._jobs = load(jobs) if isinstance(jobs, str) else default_registry if jobs is None else jobs

    def _stored(self, payload: Any) -> tuple[str | None, str | None]:
        """A payload as it is kept: its text, or its key in the bucket if it is too large for a message."""
        text = payload_text(payload)
        if len(text) <= INLINE_PAYLOAD:
            return text, None
        return None, self._services.payloads.put(self.tenant, text)

    def _read(self, run_id: str) -> Run:
        ref = parse_run_id(run_id)
        run = self._services.ledger.read(ref) if ref.tenant == self.tenant else None
        if run is None:
            raise NotFound(f"run_id={run_id!r}: tenant {self.tenant!r} has no such run, or its retention is over")
        return run

    def _job_name(self, job: str) -> str:
        check_name(job, "job")
        return self._jobs.require(job).name if self._check_jobs else job

    def _resolved(self, job: str, given: Overrides) -> Overrides:
        """Overrides with the job's own ``start`` beside them: the ticker knows no jobs."""
        known = self._jobs.get(job)
        if given.start is None and known is not None and known.policies.start is not Start.PROMPT:
            return replace(given, start=known.policies.start)
        return given
