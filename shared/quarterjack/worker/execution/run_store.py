"""What lies beside a leased run: rows in the ledger, large texts in the bucket. Each write is conditional on the lease's fence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterjack.domain.run import SiblingRows
from quarterjack.stores.siblings import BesideKind, CommitResult
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.delivery.visibility import JobProgress
from quarterjack.worker.stages import LeasedRun


class RunStore:
    """What lies beside a leased run, in the ledger and the bucket."""

    def __init__(self, worker: WorkerContext, leased: LeasedRun) -> None:
        self._worker, self._leased = worker, leased

    def keep(self, kind: str, name: str, text: str) -> bool:
        """Record it under the lease's fence; False if the lease is lost."""
        worker, run = self._worker, self._leased.run
        expires, beside = worker.expires_with(run), BesideKind(kind)
        kept = worker.services.siblings.keep(
            run.ref, fence=run.fence, kind=beside, name=name, text=text, expires=expires
        )
        if not kept:
            self._leased.in_flight.lose()
        return kept

    def commit(self, step: str, text: str, items: Sequence[Mapping[str, Any]]) -> CommitResult:
        """Record a step with a job's own items under the lease's fence."""
        worker, run = self._worker, self._leased.run
        expires = worker.expires_with(run)
        result = worker.services.siblings.commit(
            run.ref, fence=run.fence, step=step, text=text, expires=expires, items=items
        )
        if result == CommitResult():
            self._leased.in_flight.lose()
        return result

    def beside(self) -> SiblingRows:
        """The recorded steps and the last checkpoint."""
        return self._worker.services.siblings.read(self._leased.run.ref)

    def keep_large(self, text: str) -> str:
        """Put it into the bucket; its key."""
        return self._worker.services.payloads.keep(self._leased.run.ref.tenant, text)

    def get_large(self, key: str) -> str:
        """The text of that key."""
        return self._worker.services.payloads.get(self._leased.run.ref.tenant, key)

    def secret(self, name: str) -> str:
        """The value of a secret of the run's tenant, which is masked from now on."""
        tenant = self._leased.run.ref.tenant
        value = self._worker.services.secrets.get(tenant, name)
        self._leased.hide(value, name, tenant=tenant)
        return value

    def remaining(self) -> float | None:
        """Seconds until the process's time limit."""
        return self._worker.remaining()

    def progress(self, fraction: float, stage: str | None) -> None:
        """Note it for the next heartbeat."""
        self._leased.in_flight.progress = JobProgress(fraction=fraction, stage=stage)

    @property
    def cancelled(self) -> bool:
        return self._leased.in_flight.cancel_seen is not None
