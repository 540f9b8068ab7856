"""Redrive: replay dead runs, each once.

The replay's id follows from the dead run's id and fence, so redriving twice, or again after a crash, finds the first replay. The replay
is submitted before the index is marked: after a crash in between, the next call finds it and only marks the index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from minutehand.concurrency.token_bucket import StopSignal, TokenBucket
from minutehand.domain.dead_run import FAILED, DeadRunRow, dead_run_row
from minutehand.domain.names import RunRef, one_off_ref
from minutehand.domain.run import RunRow, RunState
from minutehand.errors import AlreadyExists, Conflict, MinutehandError, Unavailable
from minutehand.fires.current import run_must_exist
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
    dry_run: bool = False  # check only, submit nothing
    allow_repeat: bool = False  # LOST runs too, although their jobs may have done their work
    rate: float = 50.0  # runs a second at the most
    stop: StopSignal  # waits between two runs
    on_progress: Callable[[int], object] = lambda handled: None  # gets the number of runs handled so far


@dataclass(kw_only=True)
class RedriveResult:
    """The dead runs that were redriven."""

    runs: list[DeadRunRow] = field(default_factory=list)  # each with the id of its replay, except on a dry run
    failed: dict[str, str] = field(default_factory=dict)  # run id to the reason why the run cannot be replayed
    cursor: str | None = None  # where the next call goes on; None: all were handled

    @property
    def handled(self) -> int:
        return len(self.runs) + len(self.failed)


def redrive_one(ref: RunRef, how: Redriving) -> DeadRunRow:
    """Redrive one run. Raises NotFound, Conflict unless it failed for good, AlreadyExists if it was redriven with another payload."""
    run = run_must_exist(ref, how.services.ledger.read(ref))
    if run.state not in FAILED:
        raise Conflict(
            f"run_id={str(ref)!r}: it is {run.state}, not DEAD, LOST or EXPIRED; replay_run() repeats any run that has ended"
        )
    return _redrive(dead_run_row(run), run, how)


def redrive_all(
    tenant: str, wanted: DeadRunFilter, how: Redriving, *, limit: int | None, cursor: str | None
) -> RedriveResult:
    """Redrive the wanted runs, newest first. A run that cannot be replayed stops no other. Raises Unavailable: call again to go on.

    A replay that dies meanwhile is newer than all runs that are still to be redriven, so the same call does not redrive it.
    """
    done, last, pace = RedriveResult(), None, TokenBucket(how.rate, how.clock, how.stop)
    for dead in dead_runs(tenant, wanted, how.services, before=key_before(cursor, tenant)):
        if last is not None and (done.handled == limit or not pace.go_on(wait=not how.dry_run)):
            done.cursor = cursor_after(last)
            break
        _redrive_listed(dead, how, done)
        how.on_progress(done.handled)
        last = dead
    return done


def _redrive_listed(dead: DeadRunRow, how: Redriving, done: RedriveResult) -> None:
    """Redrive one of many; if it cannot be replayed, the reason goes to ``failed``."""
    try:
        run = run_must_exist(dead.run, how.services.ledger.read(dead.run))
        done.runs.append(_redrive(dead, run, how))
    except Unavailable as problem:
        raise Unavailable(f"{len(done.runs)} runs are redriven; call again to go on: {problem}") from problem
    except MinutehandError as problem:
        done.failed[str(dead.run)] = str(problem)


def _redrive(dead: DeadRunRow, run: RunRow, how: Redriving) -> DeadRunRow:
    """Submit the replay of one run and mark the run's line in the index; the line."""
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
    """The id of the replay: the same for the same death."""
    death = hashlib.sha256(f"{run.ref}#{run.fence}".encode()).hexdigest()
    return one_off_ref(run.ref.tenant, f"redrive-{death[:32]}")
