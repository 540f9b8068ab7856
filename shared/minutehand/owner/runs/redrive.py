"""Redrive: replay dead runs, each once.

The replay's id follows from the dead run's id and fence, so redriving twice, or again after a crash, finds the replay that is there.
It is submitted first and marked in the index then: dying in between costs the next call a look at it, no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from minutehand.concurrency.token_bucket import StopSignal, TokenBucket
from minutehand.domain.dead_run import FAILED, DeadRunRow, dead_run_row
from minutehand.domain.names import RunRef, one_off_ref
from minutehand.domain.run import RunRow, RunState
from minutehand.errors import AlreadyExists, Conflict, MinutehandError, NotFound, Unavailable
from minutehand.owner.runs.dead import DeadRunFilter, cursor_after, dead_runs, key_before
from minutehand.owner.runs.replay import Stored, plan, replay
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services


@dataclass(frozen=True, kw_only=True)
class Redriving:
    """How dead runs are redriven."""

    services: Services
    clock: Clock
    payload: Stored | None = None  # instead of each run's own
    dry_run: bool = False  # look only
    allow_repeat: bool = False  # what is LOST too, although it may have done its work
    rate: float = 50.0  # runs a second at the most
    stop: StopSignal  # waits between two runs
    on_progress: Callable[[int], object] = lambda looked_at: None  # how many were looked at by now


@dataclass(kw_only=True)
class RedriveResult:
    """What was redriven."""

    runs: list[DeadRunRow] = field(default_factory=list)  # each with the id of its replay, but on a dry run
    failed: dict[str, str] = field(default_factory=dict)  # runs by id that cannot be replayed, and why
    cursor: str | None = None  # where to go on if it ended early; None: all was looked at

    @property
    def looked_at(self) -> int:
        return len(self.runs) + len(self.failed)


def redrive_one(ref: RunRef, how: Redriving) -> DeadRunRow:
    """Redrive one run. Raises NotFound, Conflict unless it failed for good, AlreadyExists if it was redriven with another payload."""
    run = _read(ref, how.services)
    if run.state not in FAILED:
        raise Conflict(
            f"run_id={str(ref)!r}: it is {run.state}, not DEAD, LOST or EXPIRED; replay_run() repeats any run that has ended"
        )
    return _redrive(dead_run_row(run), run, how)


def redrive_all(
    tenant: str, wanted: DeadRunFilter, how: Redriving, *, limit: int | None, cursor: str | None
) -> RedriveResult:
    """Redrive what is wanted, newest first. What cannot be replayed stops no other. Raises Unavailable: call again to go on.

    A replay that dies meanwhile is newer than all that is still to be looked at, so the same call does not redrive it.
    """
    done, last, pace = RedriveResult(), None, TokenBucket(how.rate, how.clock, how.stop)
    for dead in dead_runs(tenant, wanted, how.services, before=key_before(cursor, tenant)):
        if last is not None and (done.looked_at == limit or not pace.go_on(wait=not how.dry_run)):
            done.cursor = cursor_after(last)
            break
        _redrive_listed(dead, how, done)
        how.on_progress(done.looked_at)
        last = dead
    return done


def _redrive_listed(dead: DeadRunRow, how: Redriving, done: RedriveResult) -> None:
    """One of many; why it cannot be replayed, if so, is noted."""
    try:
        done.runs.append(_redrive(dead, _read(dead.run, how.services), how))
    except Unavailable as problem:
        raise Unavailable(f"{len(done.runs)} runs are redriven; call again to go on: {problem}") from problem
    except MinutehandError as problem:
        done.failed[str(dead.run)] = str(problem)


def _redrive(dead: DeadRunRow, run: RunRow, how: Redriving) -> DeadRunRow:
    """One run: its line, marked."""
    if run.state is RunState.LOST and not how.allow_repeat:
        raise Conflict(
            f"run_id={str(run.ref)!r}: it is LOST: it was to be run at most once, and nobody knows how far its job came; "
            "pass allow_repeat=True to run it again all the same"
        )
    ref = replay_ref(run)
    if how.dry_run:
        plan(run, ref, how.services, how.clock(), payload=how.payload)
        return dead
    try:
        again = replay(run, ref, how.services, how.clock, payload=how.payload)
    except AlreadyExists as problem:
        how.services.dead_index.mark(dead, redriven_as=str(ref))
        raise AlreadyExists(
            f"run_id={str(run.ref)!r}: it was redriven already, with another payload, as {ref}; replay_run() repeats it anew"
        ) from problem
    how.services.dead_index.mark(dead, redriven_as=str(again.ref))
    return replace(dead, redriven_as=str(again.ref))


def replay_ref(run: RunRow) -> RunRef:
    """The run that redriving makes: the same for the same death."""
    death = hashlib.sha256(f"{run.ref}#{run.fence}".encode()).hexdigest()
    return one_off_ref(run.ref.tenant, f"redrive-{death[:32]}")


def _read(ref: RunRef, services: Services) -> RunRow:
    run = services.ledger.read(ref)
    if run is None:
        raise NotFound(f"run_id={str(ref)!r}: there is no such run, or its retention is over")
    return run
