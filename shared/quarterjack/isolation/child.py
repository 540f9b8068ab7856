"""The job's process: call the job's function and tell the worker how it ended. It has no services of its own; it asks the worker."""

from __future__ import annotations

import itertools
import logging
import mmap
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, NoReturn

from quarterjack import logs
from quarterjack.domain.job import Job
from quarterjack.domain.message import Message
from quarterjack.domain.names import RunRef
from quarterjack.domain.policies import Policies, Retry
from quarterjack.domain.redaction import Redact
from quarterjack.domain.run import RunRow, RunState, SiblingRows
from quarterjack.domain.tenants.profile import Governance
from quarterjack.errors import LeaseLost, QuarterjackError
from quarterjack.isolation.preload import JobAddress
from quarterjack.isolation.wire import (
    CANCELLED,
    FLAGS,
    apply_surroundings,
    line,
    pack_ended,
    packed_bytes,
    read_line,
    unpack_error,
)
from quarterjack.jobs import default_registry
from quarterjack.masking import of_line
from quarterjack.payload_types import payload_type_of
from quarterjack.ports.queues import RawMessage
from quarterjack.state.run_spec import RunSpec
from quarterjack.stores.siblings import CommitResult
from quarterjack.worker.delivery.visibility import InFlightMessage, Lease
from quarterjack.worker.execution.effects import Effects
from quarterjack.worker.execution.perform import call, failure_of, job_context
from quarterjack.worker.execution.run_store import RunStore
from quarterjack.worker.middleware import found_again
from quarterjack.worker.stages import Failed, LeasedRun, ReceivedMessage, RunDefinition


def work(talk: socket.socket, flags: int) -> NoReturn:
    """Read an order, carry it out and end the process."""
    lines = talk.makefile("rb")
    order = read_line(lines)
    if order is None:  # the worker wants nothing any more
        os._exit(1)
    logs.configure(readable=order["readable"])
    relay = Relay(talk, lines, mmap.mmap(flags, FLAGS, access=mmap.ACCESS_READ))
    retry = Retry(**order["retry"])
    try:
        apply_surroundings(order["surroundings"])
        leased = _leased(order, Policies(retry=retry, redact=Redact(**order["redact"])))
        context = job_context(leased, Effects(leased, relay), relay.remaining)
        with logs.RunFields(**leased.ids):
            ended = call(leased, context, ())
    except BaseException as problem:  # noqa: BLE001 (whatever it is, the worker is told)
        ended = Failed(failure_of(problem, retry, of_line))
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    if relay.is_mine:
        relay.tell(ended=pack_ended(ended))
    os._exit(isinstance(ended, Failed))  # a fork of the job's that came back here has nothing to say


def _leased(order: dict[str, Any], policies: Policies) -> LeasedRun:
    """The worker's leased run as far as a job can reach it."""
    place = JobAddress(**order["place"])
    run = RunRow(**order["run"] | {"ref": RunRef(*order["run"]["ref"]), "state": RunState.RUNNING})
    message = Message(run=run.ref, revision=run.revision, not_before=run.not_before, backfill=run.backfill)
    received = ReceivedMessage(
        delivery=RawMessage(body="", receipt="", receives=1),
        message=message,
        in_flight=InFlightMessage("", run.ref, lease=Lease(run=run)),
        definition=RunDefinition(),
    )
    found = place.find()
    kind = payload_type_of(found.function, place.job)
    known = (*default_registry.around, *found.middleware)
    layers = found_again(order["middleware"], known, place.job)
    job = Job(name=place.job, function=found.function, policies=policies, payload_type=kind, middleware=layers)
    return LeasedRun(
        received=received,
        message=message,
        in_flight=received.in_flight,
        job=job,
        spec=RunSpec(job=run.job, due=run.due, timezone=order["timezone"]),
        policies=policies,
        payload=order["payload"],
        governance=Governance(tenant=run.ref.tenant),
        run=run,
    )


class Relay(RunStore):
    """The child's end of the socket. Questions go one at a time, from whichever of the job's threads."""

    def __init__(self, talk: socket.socket, lines: BinaryIO, flags: mmap.mmap) -> None:
        self._talk, self._lines, self._flags = talk, lines, flags
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._pid = os.getpid()

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that the worker started, and not one that the job forked."""
        return os.getpid() == self._pid

    @property
    def cancelled(self) -> bool:
        return self._flags[CANCELLED] != 0

    def tell(self, **said: Any) -> None:
        """Say something that needs no answer."""
        self._check()
        with self._lock:
            self._talk.sendall(line(said))

    def ask(self, verb: str, **given: Any) -> Any:
        """Ask the worker and wait for its answer. Raises what that raised."""
        self._check()
        with self._lock:
            number = next(self._numbers)
            self._talk.sendall(line({"ask": verb, "number": number, "given": given}))
            answer = self._answer(number)
        if "error" in answer:
            raise unpack_error(answer["error"])
        return answer["value"]

    def keep(self, kind: str, name: str, text: str) -> bool:
        return bool(self.ask("keep", kind=kind, name=name, text=text))

    def commit(self, step: str, text: str, items: Sequence[Mapping[str, Any]]) -> CommitResult:
        return CommitResult(**self.ask("commit", step=step, text=text, items=packed_bytes(items)))

    def beside(self) -> SiblingRows:
        given = self.ask("beside")
        return SiblingRows(**given | {"asked": tuple(given["asked"])})

    def keep_large(self, text: str) -> str:
        return str(self.ask("keep_large", text=text))

    def get_large(self, key: str) -> str:
        return str(self.ask("get_large", key=key))

    def secret(self, name: str) -> str:
        return str(self.ask("secret", name=name))

    def remaining(self) -> float | None:
        left: float | None = self.ask("remaining")
        return left

    def job_name(self, function: object) -> str:
        return default_registry.name_of(function)

    def now(self) -> int:
        return int(self.ask("now"))

    def signal(self, name: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self.ask("signal", name=name)
        return found

    def time_out(self, name: str, at: int) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.ask("time_out", name=name, at=at)
        return found

    def submit_child(self, **request: Any) -> None:
        self.ask("submit_child", **request)

    def ends(self, run_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = self.ask("ends", run_ids=list(run_ids))
        return found

    def check_map(self, job: str, at_a_time: int, options: Mapping[str, Any]) -> bool:
        return bool(self.ask("check_map", job=job, at_a_time=at_a_time, options=dict(options)))

    def check_items(self, job: str, payloads: Sequence[str], first: int) -> None:
        self.ask("check_items", job=job, payloads=list(payloads), first=first)

    def map_state(self, step: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self.ask("map_state", step=step)
        return found

    def put_items(self, step: str, digest: str, first: int, payloads: Sequence[str]) -> None:
        self.ask("put_items", step=step, digest=digest, first=first, payloads=list(payloads))

    def begin_map(self, step: str, options: Mapping[str, Any], **given: Any) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self.ask("begin_map", step=step, options=dict(options), **given)
        return state

    def progress(self, fraction: float, stage: str | None) -> None:
        self.tell(progress=fraction, stage=stage)

    def _answer(self, number: int) -> dict[str, Any]:
        while (answer := read_line(self._lines)) is not None:
            if answer["number"] == number:  # else one that an exception kept the job from waiting for
                return answer
        raise LeaseLost("the worker is gone, and with it the lease; stop")

    def _check(self) -> None:
        if not self.is_mine:
            raise QuarterjackError(
                "ctx belongs to the process of the job: what that forks cannot use it; use it before or after"
            )
