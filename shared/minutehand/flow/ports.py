"""What the flow needs of the outside world. ``store`` and ``queue`` implement it over AWS, ``testing`` in memory.

Answers of batches are per item: what is in neither part of an answer was not answered (throttled, timed out), although it was
asked again with backoff; the caller leaves it for later. Single calls raise ``Unavailable`` instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from minutehand.flow.abreast import Traffic
from minutehand.flow.allowance import Allowance
from minutehand.model.dead import DeadRun
from minutehand.model.entry import Entry
from minutehand.model.freeze import Freeze
from minutehand.model.letter import DeadLetter
from minutehand.model.message import Message
from minutehand.model.names import RunRef
from minutehand.model.notice import Notice
from minutehand.model.quick import quick
from minutehand.model.run import Attempt, Beside, Run
from minutehand.model.schedule import Head, Revision, ScheduleState
from minutehand.runs.clauses import Clause
from minutehand.runs.pressure import Limits, Load
from minutehand.runs.transitions import Transition

Clock = Callable[[], int]  # UTC ms
RevisionKey = tuple[str, int]  # owner, number


@dataclass(frozen=True, kw_only=True)
class Revisions:
    """Answer to a batch read of revisions: a key that is neither found nor unanswered nor broken does not exist."""

    found: Mapping[RevisionKey, Revision] = field(default_factory=dict)
    unanswered: frozenset[RevisionKey] = frozenset()
    broken: Mapping[RevisionKey, Exception] = field(default_factory=dict)  # items that cannot be read as a revision
    frozen: Mapping[str, Freeze] = field(default_factory=dict)  # by tenant, where freeze_key() was among the keys
    read_at: int = 0  # UTC ms, by the clock of whoever read them


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Answer to claims: created now, or there already. A ref in none of the three was not answered."""

    created: frozenset[RunRef] = frozenset()
    existing: Mapping[RunRef, Run] = field(default_factory=dict)
    unreadable: frozenset[RunRef] = frozenset()  # there already, as a row that this release cannot read as a run


@dataclass(frozen=True, kw_only=True)
class Looked:
    """Answer to a look at runs: a ref that is neither found nor unanswered has no row."""

    found: Mapping[RunRef, Run] = field(default_factory=dict)
    unanswered: frozenset[RunRef] = frozenset()  # or there as a row that this release cannot read as a run


@quick
@dataclass(frozen=True, kw_only=True)
class Moved:
    """Answer to one transition: whether it was applied, and the row as it is now (None: there is none)."""

    applied: bool
    run: Run | None


@dataclass(frozen=True, kw_only=True)
class Note:
    """What an incident writes of a schedule, all of it or nothing; see ``incidents``."""

    head: Head  # as it shall be: its state, note and failures
    expected: int  # version of the head that it follows from
    revision: Revision | None = None  # the current one, whose ``failing`` changes
    closes: bool = False  # its end is set as well
    dead: DeadRun | None = None  # put into the index of dead runs, where it must not be yet
    expires: int = 0  # UTC ms of that line
    entries: Sequence[Entry] = ()  # put into the agenda
    records: Sequence[Record] = ()  # put beside the runs


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some rows in a stable order and where to go on; ``cursor`` is None at the end."""

    items: Sequence[Any]
    cursor: str | None = None


@dataclass(frozen=True, kw_only=True)
class DuePage:
    """Agenda entries in order of due time. ``broken`` are keys of items that are no entries; they are left in place."""

    entries: Sequence[Entry]
    broken: Sequence[str] = ()
    newer: Sequence[str] = ()  # keys of entries of a later schema, which that release's ticker handles
    last: str | None = None  # key to go on after; None at the end


class Schedules(Protocol):
    """Heads and revisions."""

    def head(self, tenant: str, name: str) -> Head | None:
        """The head, read strongly; a deleted one too."""

    def revisions(self, keys: Iterable[RevisionKey]) -> Revisions:
        """Revisions, read strongly in batches; and with them the freezes of the tenants whose ``freeze_key`` is among the keys."""

    def freeze(self, freeze: Freeze) -> None:
        """Put a tenant's freeze, instead of one that is there; one that has ended is none. Raises Unavailable."""

    def arm(
        self,
        head: Head,
        *,
        expected: int,
        previous: Revision | None,
        revision: Revision,
        entry: Entry | None,
        expect: Entry | None = None,
        token: Record | None = None,
    ) -> bool:
        """One transaction: close ``previous`` if given, put ``revision``, its first ``entry`` and ``expect``, move the head.

        ``token``, if given, is put beside, as ``Records.write`` would. False if that is refused, or the head's version is no
        longer ``expected`` (0: there is no head yet); then nothing was written.
        """

    def close(
        self,
        head: Head,
        *,
        expected: int,
        revision: Revision | None,
        entry: Entry | None = None,
        token: Record | None = None,
    ) -> bool:
        """One transaction: move the head, set ``active_until`` and ``closed_by`` of its ``revision``, put ``entry``. As ``arm``.

        The revision must be open, or closed as DRAINED (a drain that becomes a pause).
        """

    def note(self, note: Note) -> bool:
        """One transaction. False if the head has moved, the revision to close is not open, or the line is there: nothing is written."""

    def complete(self, tenant: str, name: str, *, revision: int, now: int, to: ScheduleState) -> bool:
        """The current revision has no further fire: an ACTIVE head of that revision becomes COMPLETED, or DELETED."""

    def history(self, owner: str) -> Iterator[Revision]:
        """A schedule's revisions, newest first, read strongly and as far as they are asked for."""

    def page(self, tenant: str, *, prefix: str, limit: int, cursor: str | None) -> Page:
        """Heads of a tenant in order of name, deleted ones included; reads what it returns and no more."""

    def all_heads(self) -> Iterator[Head]:
        """Every head of every tenant, for the auditor."""


class BesideKind(StrEnum):
    """What a job leaves beside its run's row."""

    STEP = "step"  # the result of one step; recorded once
    CHECKPOINT = "checkpoint"  # the state to go on from; each replaces the last
    RESULT = "result"  # a result too large for the row


class Ledger(Protocol):
    """Runs."""

    def claim(self, runs: Sequence[Run]) -> Claimed:
        """Put each run unless its key exists."""

    def begin(self, runs: Sequence[Run]) -> Mapping[RunRef, Moved]:
        """Put runs under their first lease, each unless its key exists. A ref that is absent from the answer was not answered.

        One that was put although the answer got lost is known by its lease's token, and counts as applied.
        """

    def move(self, ref: RunRef, transition: Transition) -> Moved:
        """Apply one transition. A write that took effect although its answer got lost counts as applied."""

    def move_all(self, moves: Sequence[tuple[RunRef, Transition]]) -> Mapping[RunRef, bool]:
        """Apply many transitions in batches: True applied, False refused, absent not answered."""

    def lease_all(
        self, leases: Sequence[tuple[RunRef, Transition]], *, known: Collection[RunRef] = ()
    ) -> Mapping[RunRef, Moved]:
        """Take leases of many runs, each one's ``first``, in batches. A ref that is absent from the answer was not answered.

        Of ``known`` runs the row need not come back with a lease that was taken; with a refusal it does.
        """

    def read(self, ref: RunRef) -> Run | None:
        """One run, read strongly, its payload included."""

    def look(self, refs: Sequence[RunRef]) -> Looked:
        """Many runs, read strongly in batches, without the payloads that lie beside them."""

    def never_leased(self, owner: str, *, after: int | None, upto: int | None = None) -> Iterator[Run]:
        """QUEUED runs of a schedule with fires in ``(after, upto]`` (UTC ms; None: unbounded), read strongly."""

    def window(self, owner: str, *, after: int, upto: int) -> Iterator[Run]:
        """All runs of a schedule with fires in ``(after, upto]``, oldest first."""

    def unfinished(self, *, segment: int, segments: int) -> Iterator[Run]:
        """Every run of one segment of the ledger that has not ended, read eventually: for the auditor."""

    def latest(self, owner: str, *, upto: int) -> Iterator[Run]:
        """Runs of a schedule with fires up to then, newest first; read as far as they are asked for."""

    def succeeded(self, owner: str, *, after: int, upto: int) -> Iterator[Run]:
        """SUCCEEDED runs of a schedule with fires in ``(after, upto]``, newest first; read as far as they are asked for."""

    def page(
        self, owner: str, *, after: int | None, upto: int | None, limit: int, cursor: str | None, newest_first: bool
    ) -> Page:
        """Runs of a schedule in order of fire time."""

    def submit(self, run: Run) -> Run | None:
        """Put a one-off with its payload unless its key exists; the existing run, or None if this one was put."""

    def record(self, attempt: Attempt) -> None:
        """Put the immutable row of a failed attempt."""

    def attempts(self, ref: RunRef) -> Sequence[Attempt]:
        """The failed attempts of a run, oldest first."""

    def keep(self, ref: RunRef, *, fence: int, kind: BesideKind, name: str, text: str, expires: int) -> bool:
        """Put what a job leaves beside its run, in one transaction with the check that the fence still holds the run.

        False, and nothing written, if it does not, or if a STEP of that name is there. ``expires`` is UTC ms.
        """

    def beside(self, ref: RunRef) -> Beside:
        """All that lies beside a run, in one query."""


class Agenda(Protocol):
    """The durable to-do list."""

    def shards(self, *, fresh: bool = False) -> int:
        """How many shards there are: from the config item, which is made from the settings on first use.

        The number only grows, so one read earlier still leads to a shard that tickers read; they ask for a ``fresh`` one.
        """

    def lock(self, shard: int, *, holder: str, now: int, until: int) -> bool:
        """Take a shard's lock until then; False while somebody else has it. It saves duplicate work, no more."""

    def unlock(self, shard: int, *, holder: str) -> None:
        """Give the lock back if it is still the holder's."""

    def due(self, shard: int, *, upto: int, after: str | None, limit: int) -> DuePage:
        """Entries with ``due <= upto``, oldest first, read strongly."""

    def put(self, entries: Sequence[Entry]) -> frozenset[str]:
        """Put entries; the keys that were accepted."""

    def remove(self, entries: Sequence[Entry]) -> frozenset[str]:
        """Delete handled entries; the keys that were accepted."""

    def fail(self, entry: Entry) -> int:
        """Count a failure on an entry that is still there; how many it has now (0: it is gone)."""

    def quarantine(self, entry: Entry, *, reason: str, now: int) -> None:
        """Move an entry aside, where ``due`` does not see it and the auditor does."""

    def quarantined(self, shard: int) -> Sequence[str]:
        """Keys of the entries that were moved aside."""


@dataclass(frozen=True)
class Parcel:
    """A message and the seconds (0 to 900) that the queue holds it back."""

    message: Message
    delay: int


@quick
@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A message as received."""

    body: str  # as sent
    receipt: str  # handle for this delivery
    receives: int  # how often it was delivered, this one included
    id: str = ""  # SQS's message id


class WorkQueue(Protocol):
    """The work queues, as one process sees them: it sends to all of them and takes from one, whose ``stripes`` it takes in turn."""

    @property
    def stripes(self) -> int:
        """How many SQS queues the queue that this process takes from consists of, as far as it knows."""

    def count_stripes(self) -> int:
        """How many there are: whoever takes from a queue has to know all of them. Raises Unavailable."""

    def send(self, parcels: Sequence[Parcel]) -> Sequence[bool]:
        """Send each message to its stripe of the queue that it names, in batches: for each, whether it was accepted.

        A declared queue that is not there accepts nothing, and stops no other; that of the default one is Misconfigured. What
        would go to a stripe that is not there goes to the first.
        """

    def load(self, queues: Collection[str | None]) -> dict[str | None, Sequence[Load]]:
        """What the stripes of these queues hold (None: the default one), about; those that do not answer are left out."""

    def names(self) -> Sequence[str]:
        """The declared queues that exist, sorted; the default one is not among them."""

    def receive(self, *, most: int, wait: float, visibility: int, stripe: int = 0) -> Sequence[Delivery]:
        """Up to ``most`` messages of a stripe, waiting ``wait`` seconds for the first, hidden from others for ``visibility`` seconds."""

    def hide(self, receipts: Sequence[str], seconds: int) -> None:
        """Hide received messages for so many seconds from now (0: show them). What is gone already is passed over."""

    def delete(self, receipt: str) -> None:
        """Delete a received message now; one that is gone already is passed over."""

    def erase(self, receipts: Sequence[str]) -> None:
        """Delete received messages in batches; as ``delete``."""


class DeadQueue(Protocol):
    """The dead-letter queue."""

    def send(self, letter: DeadLetter) -> None:
        """Send a verdict."""

    def receive(self, *, most: int, wait: float) -> Sequence[Delivery]:
        """Up to ``most`` dead letters."""

    def delete(self, receipt: str) -> None:
        """Delete a recorded letter."""


class DeadIndex(Protocol):
    """Which runs are dead: a line a run, written by the undertaker alone, so that only dead runs pay for it."""

    def put(self, dead: DeadRun, *, expires: int) -> bool:
        """Put a line until ``expires`` (UTC ms); False, and nothing written, if it is there."""

    def read(
        self, tenant: str, *, after: int, upto: int, only: Clause | None, before: str | None, page: int | None
    ) -> Iterator[DeadRun]:
        """A tenant's runs that died in ``(after, upto]`` (UTC ms), newest first, read as far as they are asked for.

        ``only``: those whose line meets it. ``before``: those beyond this key. ``page``: lines of one query (None: as many as fit).
        """

    def mark(self, dead: DeadRun, *, redriven_as: str) -> bool:
        """Note the id of the run that repeats it; False if the line is gone."""

    def remove(self, dead: Sequence[DeadRun]) -> frozenset[str]:
        """Delete lines; the keys that were accepted."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A small JSON document beside an owner's runs. Its version decides races; its key begins with ``~``."""

    owner: str  # "tenant/name", or "tenant/~word" for what is the tenant's
    key: str  # "~slot", "~backfill~id" …
    version: int  # 1, 2, 3 …
    body: Mapping[str, Any]  # JSON-able
    expires: int | None = None  # UTC ms after which it may go


class Records(Protocol):
    """What the flow has to remember beside runs: who holds a slot, how far a backfill is, what a client token stands for."""

    def read(self, owner: str, key: str) -> Record | None:
        """One, read strongly."""

    def write(self, record: Record) -> bool:
        """Put it if the version there is one less (version 1: if nothing is there). True as well if it is there just so already."""

    def remove(self, record: Record) -> bool:
        """Delete it if it still has this version; True as well if it is gone already."""

    def listed(self, owner: str, prefix: str) -> Iterator[Record]:
        """Those whose keys begin so, in order of key, read strongly."""


class Notices(Protocol):
    """Topics that owners of schedules listen to."""

    def publish(self, topic: str, notice: Notice) -> None:
        """Publish to an SNS topic (its ARN). Raises Unavailable, Misconfigured."""


class Payloads(Protocol):
    """Payloads too large for a message."""

    def put(self, tenant: str, text: str) -> str:
        """Store JSON text; its key."""

    def keep(self, tenant: str, text: str) -> str:
        """Store what a worker leaves, a result or checkpoint, as JSON text; its key."""

    def get(self, key: str) -> str:
        """The JSON text behind a key."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """All of it, wired."""

    schedules: Schedules
    ledger: Ledger
    agenda: Agenda
    work: WorkQueue
    dead: DeadQueue
    dead_index: DeadIndex
    payloads: Payloads
    records: Records
    notices: Notices
    retention: int  # ms for which ended runs stay in the ledger; nothing older is ever claimed
    limits: Limits = field(default_factory=Limits)  # past which the ticker holds a queue back
    traffic: Traffic = field(default_factory=Traffic)  # what they had to hold back
    allowance: Allowance = field(default_factory=Allowance)  # writes that claims may take; a tick has its own
    wait: Callable[[float], object] = threading.Event().wait  # so many seconds, in the thread that asks
