"""The record of a worker process: what it is, what it knows, which runs it has at hand; and what its silence means. Pure.

    seen, runs at hand        BUSY         a process says so every 20 s, a Lambda environment while it has messages; a run that has run
                                           for two seconds is in a record before it has run for eight
    seen, none                IDLE
    left in order             STOPPED
    silent for a minute       VANISHED     of a Lambda environment only if the ledger says that it left a run behind: AWS freezes it
                                           after each batch, and then it says nothing

A record is at most some 12 KB, whatever the worker does: a write is billed by size.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quarterjack.domain.names import RunRef, is_builtin, parse_run_id
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND
from quarterjack.state.lease import has_live_lease

PERIOD = 20 * SECOND  # between two writes of one process, at least
NEWS = 5 * SECOND  # likewise, if a run has begun since the last one that the record does not name
SETTLED = 2 * SECOND  # for which a run has run before it is news: most have ended by then, and cost no write
WATCH = 2 * SECOND  # between two looks for news, which read nothing
RESTING = 5 * MINUTE  # between two writes of a Lambda environment whose batches are short, at least
SILENT = MINUTE  # after which a worker that says nothing has vanished
KEPT = DAY  # after its last write
KEPT_IDLE = HOUR  # of a Lambda environment with nothing at hand: AWS may have ended it at any time since
MOST_RUNS = 50  # runs listed
_RUNS_TEXT = 8_000  # characters of JSON for them
_JOBS_TEXT = 2_000  # characters of names of jobs; of the others there are hashes
_HASH = 8  # characters of the hash of a name
_MOST_NAMES = 5  # of jobs that a worker was given and does not know, and of versions without a worker
_MOST_HASHES = 250
OWN_QUEUE = (  # the remedy of two applications whose workers get each other's messages
    'give each application a queue of its own (Queue("shop"), @job(…, queue="shop"), `quarterjack worker --queue shop`), '
    "or an installation of its own (QUARTERJACK_PREFIX)"
)
_SHARDS = (
    16  # of the records: 10,000 workers write 31 records a second and shard, of a few KB; a partition takes 1,000 KB
)


class WorkerKind(StrEnum):
    PROCESS = "process"  # polls until it is told to stop
    FUNCTION = "function"  # an execution environment of a Lambda function


class WorkerState(StrEnum):
    BUSY = "BUSY"  # it has runs at hand
    IDLE = "IDLE"  # it has none
    STOPPED = "STOPPED"  # it has left in order
    VANISHED = "VANISHED"  # it has said nothing for a minute: crashed, killed, stalled or cut off


@dataclass(frozen=True, kw_only=True)
class RunAtHand:
    """A run that a worker holds the lease of."""

    ref: RunRef
    job: str
    fence: int  # of the lease
    started_at: int  # UTC ms of the lease
    progress: float | None = None  # 0 to 1, as its job reported it
    stage: str | None = None  # likewise


@dataclass(frozen=True, kw_only=True)
class JobNames:
    """The jobs that a worker knows: by name as far as they fit, the others by a hash of each, those beyond as a number."""

    names: Sequence[str] = ()  # sorted
    hashes: str = ""  # of eight characters each
    count: int = 0  # of all

    @classmethod
    def of(cls, names: Iterable[str]) -> JobNames:
        """As many names as fit, in their order."""
        all_names = sorted(names)
        listed, left = list[str](), _JOBS_TEXT
        for name in all_names:
            left -= len(name)
            if left < 0:
                break
            listed.append(name)
        rest = all_names[len(listed) :][:_MOST_HASHES]
        return cls(names=tuple(listed), hashes="".join(map(_hash, rest)), count=len(all_names))

    def knows(self, job: str) -> bool | None:
        """Whether the worker knows a job; None if the record does not say."""
        hashed = (self.hashes[start : start + _HASH] for start in range(0, len(self.hashes), _HASH))
        if job in self.names or is_builtin(job) or _hash(job) in hashed:
            return True
        return False if len(self.names) + len(self.hashes) // _HASH >= self.count else None


def _hash(name: str) -> str:
    return f"{zlib.crc32(name.encode()):0{_HASH}x}"


@dataclass(frozen=True, kw_only=True)
class GivenBack:
    """The messages that a worker gave back for one reason."""

    count: int = 0  # messages since the worker started; a run that comes again counts again
    names: Sequence[str] = ()  # jobs or versions of the last of them, the newest last, at most five
    last_at: int = 0  # UTC ms of the last one; 0: there was none

    def plus(self, names: Sequence[str], now: int) -> GivenBack:
        """With further messages, one for each of these ``names``."""
        kept = tuple(dict.fromkeys(reversed((*self.names, *names))))[:_MOST_NAMES][::-1]
        return GivenBack(count=self.count + len(names), names=kept, last_at=now) if names else self


@dataclass(frozen=True, kw_only=True)
class WorkerIdentity:
    """What does not change while a worker lives."""

    name: str  # unique: of a process, as in the rows of its runs; of a Lambda environment, its log stream
    kind: WorkerKind
    host: str  # host name, or name of the function
    version: str  # of this package
    app_version: str | None = None  # its application version
    queue: str = DEFAULT_QUEUE  # that it receives from
    concurrency: int | None = None  # runs at the same time; None: as many as Lambda gives it
    jobs: JobNames = field(default_factory=JobNames)
    started_at: int  # UTC ms


@dataclass(frozen=True, kw_only=True)
class WorkerRow:
    """The record as it is stored."""

    identity: WorkerIdentity
    seen_at: int  # UTC ms of this write
    handled: int = 0  # messages since it started
    at_hand: int = 0  # runs
    runs: Sequence[RunAtHand] = ()  # the oldest of these, as many as fit
    unknown: GivenBack = field(
        default_factory=GivenBack
    )  # by job: it does not know it, as another application uses its queue, too
    unserved: GivenBack = field(default_factory=GivenBack)  # by application version: no worker of it was alive
    invocation: str | None = None  # of a Lambda environment: the request that it worked on, as in the rows of its runs
    stopped_at: int | None = None  # UTC ms

    def lacks(self, runs: Iterable[RunAtHand]) -> bool:
        """Whether it should name one of these runs and does not. A record that has no room for all of its runs lacks none."""
        if self.at_hand > len(self.runs):
            return False
        named = {(run.ref, run.fence) for run in self.runs}
        return any((run.ref, run.fence) not in named for run in runs)

    @property
    def expires(self) -> int:
        """UTC ms after which it is not shown any more."""
        resting = self.identity.kind is WorkerKind.FUNCTION and not self.at_hand
        return self.seen_at + (KEPT_IDLE if resting else KEPT)

    def state(self, now: int, left_behind: bool) -> WorkerState:  # noqa: FBT001 (one of two arguments)
        """``left_behind``: the ledger says that a run of it is RUNNING and its lease is over; asked of Lambda environments only."""
        silent = now - self.seen_at > SILENT
        if self.stopped_at is not None:
            return WorkerState.STOPPED
        if silent and (left_behind or self.identity.kind is WorkerKind.PROCESS):
            return WorkerState.VANISHED
        return WorkerState.BUSY if self.at_hand and not silent else WorkerState.IDLE

    def runs_to_ask(self, now: int) -> Sequence[RunAtHand]:
        """The runs whose rows say whether a silent Lambda environment has vanished."""
        resting = self.identity.kind is WorkerKind.FUNCTION and now - self.seen_at > SILENT
        return self.runs if resting else ()


def is_left_behind(at_hand: RunAtHand, row: RunRow | None, now: int) -> bool:
    """Whether a run is still as its worker had it, and the lease is over."""
    if row is None or row.state is not RunState.RUNNING or row.fence != at_hand.fence:
        return False
    return not has_live_lease(row, now)


# Its place.


def owners() -> list[str]:
    """The partitions of the records. No tenant's: ``~`` begins no name."""
    return [_owner(shard) for shard in range(_SHARDS)]


def owner_of(name: str) -> str:
    return _owner(zlib.crc32(name.encode()) % _SHARDS)


def _owner(shard: int) -> str:
    return f"~quarterjack/~workers-{shard:02d}"


KEY = "~worker~"  # a key is this and the worker's name


# Its body.


def fitting(runs: Iterable[RunAtHand]) -> tuple[RunAtHand, ...]:
    """The runs that a record lists: the oldest first, as those are looked for."""
    listed, left = list[RunAtHand](), _RUNS_TEXT
    for run in sorted(runs, key=lambda each: (each.started_at, each.ref))[:MOST_RUNS]:
        left -= len(json.dumps(_run_body(run)))
        if left < 0:
            break
        listed.append(run)
    return tuple(listed)


def record_body(row: WorkerRow) -> dict[str, Any]:
    """The body of the record, as JSON values."""
    given = {name: value for name, value in vars(row.identity).items() if value is not None}
    own = {name: value for name, value in vars(row).items() if value is not None and name != "identity"}
    nested = {
        "jobs": vars(row.identity.jobs),
        "runs": [_run_body(run) for run in row.runs],
        "unknown": vars(row.unknown),
        "unserved": vars(row.unserved),
    }
    return given | own | nested


def _run_body(run: RunAtHand) -> dict[str, Any]:
    return {name: str(value) if name == "ref" else value for name, value in vars(run).items() if value is not None}


_OWN = ("seen_at", "handled", "at_hand", "invocation", "stopped_at")


def parse_record(body: Mapping[str, Any]) -> WorkerRow:
    """The reverse of ``record_body``; what a later release has added is passed over. Raises any of GARBAGE for another body."""
    identity = WorkerIdentity(
        kind=WorkerKind(body["kind"]),
        queue=str(body["queue"]),
        concurrency=body.get("concurrency"),
        jobs=JobNames(
            names=tuple(body["jobs"]["names"]), hashes=str(body["jobs"]["hashes"]), count=int(body["jobs"]["count"])
        ),
        started_at=int(body["started_at"]),
        name=str(body["name"]),
        host=str(body["host"]),
        version=str(body["version"]),
        app_version=body.get("app_version"),
    )
    given = {name: body[name] for name in _OWN if name in body}
    return WorkerRow(
        identity=identity,
        runs=tuple(map(_parse_run, body["runs"])),
        unknown=_parse_given_back(body.get("unknown", {})),
        unserved=_parse_given_back(body.get("unserved", {})),
        **given,
    )


def _parse_given_back(body: Mapping[str, Any]) -> GivenBack:
    names = tuple(str(name) for name in body.get("names", ()))
    return GivenBack(count=int(body.get("count", 0)), names=names, last_at=int(body.get("last_at", 0)))


def _parse_run(body: Mapping[str, Any]) -> RunAtHand:
    return RunAtHand(
        ref=parse_run_id(body["ref"]),
        job=body["job"],
        fence=body["fence"],
        started_at=body["started_at"],
        progress=body.get("progress"),
        stage=body.get("stage"),
    )
