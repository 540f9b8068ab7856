"""What lies beside a leased run: rows in the ledger, large texts in the bucket. Each write is conditional on the lease's fence."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quarterjack.domain.names import parse_run_id
from quarterjack.domain.policies import Overrides
from quarterjack.domain.run import RESULT_LOST, RunRow, SiblingRows
from quarterjack.errors import InvalidInput, NotFound, Permanent, Unavailable
from quarterjack.owner.runs.children import ChildRequest, submit_child
from quarterjack.state.waits.asked import child_ref
from quarterjack.state.waits.park import tasks_text
from quarterjack.stores.siblings import BESIDE, BesideKind, CommitResult
from quarterjack.stores.waits import SignalRow
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.delivery.visibility import JobProgress
from quarterjack.worker.stages import LeasedRun

_GONE: Mapping[str, Any] = {"state": "gone", "result": None, "error": "its row has left the ledger"}

if TYPE_CHECKING:
    from quarterjack.state.waits.window import ItemWindow


log = logging.getLogger(__name__)


def _unchecked(why: str) -> None:
    log.warning("jobs.payload_unchecked", extra={"why": why})


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

    def job_name(self, function: object) -> str:
        """The name under which a function is registered as a job. Raises InvalidInput."""
        return self._worker.jobs.name_of(function)

    def now(self) -> int:
        """The worker's clock: UTC ms."""
        return self._worker.clock()

    def signal(self, name: str) -> Mapping[str, Any] | None:
        """The signal of that name: ``payload`` (JSON text; None: none came in time), ``at`` (UTC ms), ``channel``; None: there is none."""
        found = self._worker.services.waits.signal(self._leased.run.ref, name)
        return None if found is None else {"payload": found.payload, "at": found.at, "channel": found.channel}

    def time_out(self, name: str, at: int) -> Mapping[str, Any]:
        """Record that no signal of that name came until ``at`` (UTC ms), unless one has come meanwhile; what is recorded."""
        none = SignalRow(payload=None, at=at)
        if not self._worker.services.waits.put_signal(self._leased.run.ref, name, none):
            return self.signal(name) or {"payload": None, "at": none.at}
        return {"payload": None, "at": none.at}

    def submit_child(self, *, number: int, step: str, job: str, payload: str, options: Mapping[str, Any]) -> None:
        """Submit a child. Raises InvalidInput, Throttled, LimitExceeded, Unavailable."""
        worker = self._worker
        self._check_payload(job, payload)
        policies, queue = self._terms(job, options)
        request = ChildRequest(number=number, step=step, job=job, payload=payload, policies=policies, queue=queue)
        self._leased.submitted.append(child_ref(self._leased.run.ref, step))
        submit_child(self._leased.run, request, worker.services, worker.clock)

    def _check_payload(self, job: str, text: str) -> None:
        """Raises InvalidInput for a payload (JSON text) that a submission of the job by a Scheduler would be refused for."""
        self._worker.terms.payloads.new(job, json.loads(text), text, _unchecked)

    def _terms(self, job: str, options: Mapping[str, Any]) -> tuple[Overrides, str | None]:
        """Policies and queue of runs of the job: ``options`` are those that its caller gave. Raises InvalidInput, Unavailable."""
        tenant, terms = self._leased.run.ref.tenant, self._worker.terms
        policies = terms.policies(tenant, job, Overrides.from_dict(dict(options)))
        return policies, terms.queue_name(tenant, job, options.get("queue"))

    def check_map(self, job: str, at_a_time: int, options: Mapping[str, Any]) -> bool:
        """Whether items of that job have a type or a schema to fit. Raises InvalidInput for what the tenant may not have."""
        from quarterjack.owner.runs.maps import check_map  # noqa: PLC0415 (who maps nothing loads none)

        check_map(self._leased.run.ref.tenant, at_a_time, self._worker.services, self._worker.clock())
        self._terms(job, options)
        return self._worker.terms.payloads.looks_at_new(job)

    def check_items(self, job: str, payloads: Sequence[str], first: int) -> None:
        """Raises InvalidInput for a payload (JSON text) that the job does not take; ``first``: the index of the first."""
        for index, text in enumerate(payloads, first):
            try:
                self._check_payload(job, text)
            except InvalidInput as problem:
                field = f"items[{index}]" + problem.field.removeprefix("payload")
                raise InvalidInput(field, problem.value, problem.problem, problem.remedy) from None

    def map_state(self, step: str) -> Mapping[str, Any] | None:
        """A map of the run: ``job``, ``digest`` and number (``size``) of its items, whether it ``stops`` at a failure and ``is_over``,
        and the number of its ``first_failed`` item; None: it has not begun. Raises Unavailable.
        """
        from quarterjack.owner.runs.maps import map_window  # noqa: PLC0415 (as above)

        window = map_window(self._leased.run.ref, step, self._worker.services)
        return None if window is None else _map_state(window)

    def put_items(self, step: str, digest: str, first: int, payloads: Sequence[str]) -> None:
        """Store items of a map; ``first``: the number of the first. Raises InvalidInput, LimitExceeded, Unavailable."""
        from quarterjack.owner.runs.maps import put_items  # noqa: PLC0415 (as above)

        put_items(self._leased.run, step, digest, first, payloads, self._worker.services, self._worker.clock)

    def begin_map(self, step: str, options: Mapping[str, Any], **given: Any) -> Mapping[str, Any]:
        """Begin a map whose items are stored, or check one that has begun; its state. Raises InvalidInput, Unavailable."""
        from quarterjack.owner.runs.maps import begin_map  # noqa: PLC0415 (as above)

        worker, (policies, queue) = self._worker, self._terms(given["job"], options)
        self._leased.mapped.append(step)
        begun = begin_map(self._leased.run, step, policies, worker.services, worker.clock, queue=queue, **given)
        return _map_state(begun)

    def ends(self, run_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Of these runs those that have ended, by id: ``state``, ``result`` (JSON text or None), ``error``. Raises Unavailable."""
        refs = [parse_run_id(run_id) for run_id in run_ids]
        looked = self._worker.services.ledger.look(refs)
        if looked.unanswered:
            raise Unavailable(
                f"{len(looked.unanswered)} children could not be read; the run goes on at its next attempt"
            )
        ended = {str(ref): self._end(run) for ref, run in looked.found.items() if run.is_terminal}
        return ended | {str(ref): _GONE for ref in refs if ref not in looked.found}

    def _end(self, run: RunRow) -> Mapping[str, Any]:
        result, address = run.result, run.result_ref
        if address == RESULT_LOST:
            return {**_GONE, "error": "its result was lost when the tables were restored"}
        if address == BESIDE:
            result = self._worker.services.siblings.read(run.ref).result
        elif address is not None:
            result = self.get_large(address)
        error = run.reason if run.failure is None else f"{run.failure.kind}: {run.failure.message}"
        return {"state": str(run.state), "result": result, "error": error or ""}

    def own_tasks(self) -> str:
        """What the run of a schedule with tasks awaits. Raises Permanent."""
        revision = self._leased.received.definition.defined_by
        if revision is None:
            raise Permanent(f"run {self._leased.run.ref} is of no pipeline: trigger the schedule that has the tasks")
        return tasks_text(revision[0].partition("/")[2], revision[1])

    def tasks(self) -> Mapping[str, Any]:
        """How the tasks of a pipeline have ended: see ``fires.pipelines.ends_of_tasks``. Raises Unavailable."""
        from quarterjack.fires.pipelines.rows import ends_of_tasks  # noqa: PLC0415 (who has no pipeline does not load it)

        try:
            return ends_of_tasks(self._leased.run, self._worker.services)
        except NotFound as problem:
            raise Permanent(f"nothing says any more which tasks it has: {problem}") from None

    def progress(self, fraction: float, stage: str | None) -> None:
        """Note it for the next heartbeat."""
        self._leased.in_flight.progress = JobProgress(fraction=fraction, stage=stage)

    @property
    def cancelled(self) -> bool:
        return self._leased.in_flight.cancel_seen is not None


def _map_state(window: ItemWindow) -> Mapping[str, Any]:
    names = ("job", "digest", "size", "stops", "is_over", "first_failed")
    return {name: getattr(window, name) for name in names}
