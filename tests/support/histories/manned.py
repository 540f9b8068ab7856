"""Workers that keep records of themselves, and what an answer may say of them.

The records are written by production's code, beside the calls of the history: no process yields for them, so that seeds stay the
histories that they were. What is right is told from the chronicle of the records' rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from quarterjack import Answer, Cause, Sentence
from quarterjack.daemon.worker_record import RecordKeeper, catalogue_of, process_identity
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.times import MINUTE
from quarterjack.state.worker_record import KEY, WorkerKind, WorkerRow, parse_record
from quarterjack.stores.records import record_of
from quarterjack.stores.tables import RUNS

from tests.support.histories.chronicle import Chronicle
from tests.support.histories.rich import Rich
from tests.support.histories.simulator import Faults, Process

SOURCE = "records of the workers"


class Manned(Rich):
    """Rich histories whose workers keep records, and publish the jobs that they know."""

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self._quiet = self.stage.memory.connect()  # it has no hook
        self._keepers: dict[int, tuple[RecordKeeper, Process]] = {}

    def _heartbeats(self) -> None:
        for key, (keeper, process) in list(self._keepers.items()):
            if process not in self.stage.processes:
                del self._keepers[key]
                if not process.dead:
                    keeper._write(stopped=True)
        beaten = {key: at for key, (_, _, at) in self.beats.items()}
        super()._heartbeats()
        for key, (process, worker, at) in self.beats.items():
            is_new = key not in self._keepers
            if is_new:
                self._keepers[key] = self._keeper(process, worker), process
            if (is_new or at != beaten.get(key)) and not vars(worker.heartbeat)["_lock"]._taken:
                self._keepers[key][0]._write()

    def _keeper(self, process: Process, worker: Any) -> RecordKeeper:
        identify = partial(
            process_identity, process.name, self.jobs, app_version=str, queue=DEFAULT_QUEUE, concurrency=self.at_hand
        )
        jobs = catalogue_of(self._quiet, self.jobs)
        keeper = RecordKeeper(self._quiet, WorkerKind.PROCESS, identify, process.clock, jobs)
        keeper._heartbeat = worker.heartbeat
        return keeper


def workers_of(chronicle: Chronicle, call: int) -> list[WorkerRow]:
    """The records as they were then."""
    rows = []
    for (_, key), events in chronicle.events[RUNS.suffix].items():
        known = [event.row for event in events if event.call <= call]
        if str(key).startswith(KEY) and known and known[-1] is not None:
            rows.append(parse_record(record_of(known[-1]).body))
    return rows


def misheard(answer: Answer, rows: Sequence[WorkerRow], now: int) -> Iterator[str]:
    """What an answer says of workers and is not so, by the records at ``now`` (UTC ms)."""
    if Cause.UNKNOWN_JOB in answer.causes:
        yield "every worker knows every job"
    there = [row for row in rows if row.stopped_at is None and now - row.seen_at <= MINUTE]
    for sentence in answer.sentences:
        if sentence.text.startswith("No worker of queue 'default' has a record") and rows:
            yield f"{len(rows)} workers have records: {sentence.text}"
        if sentence.source != SOURCE:
            continue
        if sentence.text.startswith("Worker "):
            yield from _of_one(sentence.text, rows)
        elif sentence.cause is Cause.NO_WORKER:
            yield from _of_none(sentence.text, rows, there)
        else:
            yield from _of_slots(sentence, there)


def _of_none(text: str, rows: Sequence[WorkerRow], there: Sequence[WorkerRow]) -> Iterator[str]:
    last = max((row.seen_at for row in rows), default=0)
    names = [row.identity.name for row in rows if row.seen_at == last]
    if there or not any(text.endswith(f"the last one was {name}.") for name in names):
        yield f"{len(there)} workers were there, and {names} were heard of last: {text}"


def _of_slots(sentence: Sentence, there: Sequence[WorkerRow]) -> Iterator[str]:
    """How many slots are taken; all of them is a cause."""
    taken, room = sum(row.at_hand for row in there), sum(row.identity.concurrency or 0 for row in there)
    right = [room, len(there)] if taken >= room else [len(there), taken, room]
    told = [int(number) for number in re.findall(r"\d+", sentence.text)]
    if not there or told != right or (sentence.cause is Cause.BUSY) != (taken >= room):
        yield f"{taken} of {room} slots of {len(there)} workers were taken: {sentence.text}"


def _of_one(text: str, rows: Sequence[WorkerRow]) -> Iterator[str]:
    """The worker of a run that fell silent."""
    name = text.split(" ", 2)[1]
    found = [row for row in rows if row.identity.name == name]
    if not found:
        yield f"no such worker has a record: {text}"
    elif ("and stopped in order" in text) != (found[0].stopped_at is not None):
        yield f"whether it stopped in order: {text}"
