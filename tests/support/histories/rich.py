"""Rich histories: owners do all that they may, jobs have steps and slices or fail for good, and an auditor comes by.

Judged twice: by ``lease_oracle``, which watches leases, and by ``checker``, which knows no protocol.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from quarterjack import Context, Retry, Scheduler
from quarterjack.auditor.audit import audit
from quarterjack.domain.names import RunRef, fire_ref, schedule_owner
from quarterjack.domain.run import RunState
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.times import MINUTE, SECOND, from_ms, to_ms
from quarterjack.errors import Continue, QuarterjackError

from tests.support.histories.checker import Observed, Start, Stop, violations
from tests.support.histories.history import History
from tests.support.histories.simulator import Faults, Process
from tests.support.scenes.world import NOON

JOBS = {"a": "work", "b": "steps", "once": "once", "c": "sliced", "d": "frail"}  # by the name of the schedule
NEVER = "0 0 1 1 *"  # what everything is changed to when the history comes to rest
SETTLED = 5 * MINUTE  # after the busy time: what is due until then is judged
REST = 75 * MINUTE  # afterwards: late messages, stalls, leases and the auditor's patience are over
AUDITS = (10, 25, 40, 55)  # minutes of the rest
SLICES = 3


class Rich(History):
    """One seed, one history with everything in it."""

    audits: tuple[int, ...] = AUDITS  # minutes of the rest
    rest_for = REST
    patience = 10.0  # seconds of owners

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        patient = Retry(max_attempts=50, base=5.0, cap=30.0)
        self.jobs.job("steps", delivery="exactly_once", start="exact", retry=patient)(self._steps_of)
        self.jobs.job("sliced", retry=patient)(self._sliced)
        self.jobs.job("frail", retry=Retry(max_attempts=2, base=5.0))(self._frail)
        self.seen.stage.observer = self._look
        self.observed = Observed(once={"once"}, skew=faults.skew)
        self.results: dict[str, set[int]] = defaultdict(set)  # of a recorded step, by run: what attempts got for it
        self.effects = 0
        self.calls_of: dict[str, tuple[int, int]] = {}  # triggered runs: calls made when it was asked for, and accepted
        self.stops: list[
            tuple[str, int, int, int]
        ] = []  # owner, revision, calls made when it was asked for, UTC ms after
        self.going = True

    def _run(self) -> list[str]:
        stage = self.stage
        try:
            self._live(NOON + self.busy)
            self.rest()
            self.going = False
            stage.process("owner", self._come_to_rest)
            for minutes in self.audits:
                self._live(NOON + self.busy + minutes * MINUTE)
                stage.process("auditor", lambda process: audit(process.services, clock=process.clock))
            self._live(NOON + self.busy + self.rest_for)
            return self._violations()
        finally:
            stage.close()

    # What jobs do.

    def _begins(self, ctx: Context) -> None:
        self.observed.begun.append((ctx.run_id, ctx.attempt, self.stage.now))
        self.seen.begun(ctx.run_id)

    def _steps_of(self, ctx: Context, payload: object) -> None:
        self._begins(ctx)
        self._take_time()
        self.results[ctx.run_id].add(ctx.step("charge", self._effect))
        self._take_time()
        if self.dice.random() < 0.1:
            raise RuntimeError("after the step")

    def _effect(self) -> int:
        self.effects += 1
        self.stage.yield_until(self.stage.now + self.dice.choice([0, 100, 30_000]))
        return self.effects

    def _sliced(self, ctx: Context, payload: object) -> None:
        self._begins(ctx)
        done = 0 if ctx.resume is None else int(ctx.resume)
        self._take_time()
        if done < SLICES:
            ctx.checkpoint(done + 1)
            raise Continue

    def _frail(self, ctx: Context, payload: object) -> None:
        self._begins(ctx)
        self._take_time()
        if self.dice.random() < 0.6:
            raise ValueError("as so often")

    def _take_time(self) -> None:
        self.stage.yield_until(self.stage.now + self.dice.choice([0, 0, 500, 5_000, 40_000]))

    # What owners do.

    def _owner(self, process: Process) -> None:
        owner = Scheduler(
            self._tenant(), jobs=self.jobs, services=process.services, clock=process.clock, patience=self.patience
        )
        name = self.dice.choice(tuple(JOBS))
        act = self.dice.choice(tuple(ACTS))
        if not self.stage.strikes(f"act {act}", 1.0):
            return
        self.stage.tell(process, f"wants: {act} {name}")
        try:
            self._do(act, owner, name)
        except QuarterjackError as problem:
            self.stage.tell(process, f"is refused: {problem}")
            self.stage.count("refused acts")
        else:
            self.stage.tell(process, f"done: {act} {name}")

    def _tenant(self) -> str:
        """Whose owner acts."""
        return "acme"

    def _do(self, act: str, owner: Scheduler, name: str) -> None:
        getattr(self, ACTS[act].__name__)(owner, name)

    def _submit(self, owner: Scheduler, name: str) -> None:
        self.one_offs += 1
        run = owner.submit(
            JOBS[name], delay=self.dice.choice([0, 0, 30, 300, 1_000]), idempotency_key=f"k{self.one_offs}"
        )
        self.observed.submitted[run.id] = int(run.due.timestamp() * 1_000)

    def _create(self, owner: Scheduler, name: str) -> None:
        owner.create_schedule(name, JOBS[name], self.dice.choice(self.expressions), **self._options())

    def _update(self, owner: Scheduler, name: str) -> None:
        owner.update_schedule(name, expression=self.dice.choice(self.expressions), **self._options())

    def _upsert(self, owner: Scheduler, name: str) -> None:
        owner.upsert_schedule(name, JOBS[name], self.dice.choice(self.expressions))

    def _options(self) -> Any:
        late = {
            "catch_up": self.dice.choice(["all", "latest", "none"]),
            "catch_up_window": self.dice.choice([60, 600, 1800]),
        }
        return late | {"automatic_backfill": self.dice.random() < 0.2}

    def _pause(self, owner: Scheduler, name: str) -> None:
        asked = self.stage.calls
        until = from_ms(owner_time(owner) + self.dice.choice([60, 200]) * SECOND) if self.dice.random() < 0.3 else None
        stopped = owner.pause_schedule(name, until=until)
        self.stops.append((schedule_owner(owner.tenant, name), stopped.revision, asked, self.stage.now))

    def _resume(self, owner: Scheduler, name: str) -> None:
        owner.resume_schedule(name)

    def _delete(self, owner: Scheduler, name: str) -> None:
        asked = self.stage.calls
        before = owner.get_schedule(name).revision
        owner.delete_schedule(name)
        self.stops.append((schedule_owner(owner.tenant, name), before, asked, self.stage.now))

    def _trigger(self, owner: Scheduler, name: str) -> None:
        asked = self.stage.calls
        self.one_offs += 1
        run = owner.trigger(name, idempotency_key=f"t{self.one_offs}")  # one of ours, so that a seed is a history
        self.calls_of[run.id] = (asked, self.stage.calls)
        self.observed.submitted[run.id] = int(run.due.timestamp() * 1_000)

    def _skip_next(self, owner: Scheduler, name: str) -> None:
        owner.skip_next(name)

    def _some_run(self, owner: Scheduler, name: str, *states: RunState) -> str | None:
        runs = [
            str(run.ref) for run in self.stage.memory.runs(schedule_owner(owner.tenant, name)) if run.state in states
        ]
        return self.dice.choice(runs) if runs else None

    def _cancel(self, owner: Scheduler, name: str) -> None:
        run_id = self._some_run(owner, name, RunState.QUEUED, RunState.RUNNING, RunState.RETRYING, RunState.CONTINUED)
        if run_id is not None:
            owner.cancel_run(run_id)
            self.observed.stops.append(Stop(what=run_id, at=self.stage.now))

    def _cancel_next(self, owner: Scheduler, name: str) -> None:
        """The next fire, if it was claimed already."""
        for moment in owner.preview(name, count=1):
            run_id = str(fire_ref(schedule_owner(owner.tenant, name), to_ms(moment, "moment")))
            if owner.cancel_run(run_id).cancel_requested:  # not what a change of the schedule took back before
                self.observed.stops.append(Stop(what=run_id, at=self.stage.now))

    def _retry(self, owner: Scheduler, name: str) -> None:
        run_id = self._some_run(owner, name, RunState.RETRYING)
        if run_id is not None:
            self.observed.hastened.add(run_id)
            owner.retry_run(run_id)

    def _replay(self, owner: Scheduler, name: str) -> None:
        run_id = self._some_run(owner, name, RunState.SUCCEEDED, RunState.DEAD)
        if run_id is not None:
            self.one_offs += 1
            run = owner.replay_run(run_id, idempotency_key=f"r{self.one_offs}")
            self.observed.submitted[run.id] = self.stage.now

    def _redrive(self, owner: Scheduler, name: str) -> None:
        owner.redrive(job=JOBS[name], rate=1_000.0)

    def _come_to_rest(self, process: Process) -> None:
        owner = Scheduler("acme", jobs=self.jobs, services=process.services, clock=process.clock)
        for head in self.stage.memory.heads():
            if head.state is ScheduleState.ACTIVE:
                owner.update_schedule(head.name, expression=NEVER)

    # What is seen, and what must hold.

    def _look(self, process: Process, detail: Any) -> None:
        known = len(self.seen.leases)
        self.seen.look(process, detail)
        if len(self.seen.leases) > known:
            for lease in list(self.seen.leases.values())[known:]:
                start = Start(run_id=str(lease.ref), attempt=lease.attempt, at=lease.at, process=lease.by)
                self.observed.starts.append(start)
        for ref in detail.items if detail.verb == "release" else ():
            self._given_back(ref)

    def _given_back(self, ref: RunRef) -> None:
        """A lease ahead that came to nothing was no start; if its job had begun after all, the next one is a second."""
        row = self.stage.memory.row(ref)
        if row is None or row["state"] != RunState.RETRYING or "started_at" in row:
            return
        attempt = row["attempt"] + 1
        leases = [s for s in self.observed.starts if (s.run_id, s.attempt) == (str(ref), attempt)]
        begins = [b for b in self.observed.begun if b[:2] == (str(ref), attempt)]
        if len(leases) > len(begins):
            self.observed.starts.remove(leases[-1])

    def _violations(self) -> list[str]:
        seen, observed = self.seen, self.observed
        observed.excused |= {str(lease.ref) for lease, _, _ in seen.stolen()}
        found = violations(observed, self.stage.memory, NOON + self.busy + SETTLED)
        found += seen._doubles(self.faults.skew)
        found += [f"early: {ref} by {ms} ms" for ref, ms in seen.ahead() if ms > self.faults.skew]
        found += self._after_stop()
        return found + [
            f"two results of one step: {run_id} {got}" for run_id, got in self.results.items() if len(got) > 1
        ]

    def _after_stop(self) -> list[str]:
        """A trigger that was asked for before the stop had returned may count as coming after it."""
        return [
            f"after stop: {lease.ref} of revision {lease.revision} at +{lease.at - at} ms"
            for owner, revision, asked, at in self.stops
            for lease in self.seen.leases.values()
            if lease.ref.owner == owner
            and lease.revision <= revision
            and lease.attempt == 1
            and lease.fence == 1
            and lease.at > at
            and self.calls_of.get(str(lease.ref), (0, asked if lease.ref.is_fire else self.stage.calls))[1] <= asked
        ]


class Brief(Rich):
    """The same in five minutes."""

    busy = 5 * MINUTE
    between = (1, 5, 20, 40)


ACTS: dict[str, Callable[[Rich, Scheduler, str], None]] = {
    "submit": Rich._submit,
    "submit one": Rich._submit,
    "create": Rich._create,
    "create one": Rich._create,
    "update": Rich._update,
    "upsert": Rich._upsert,
    "pause": Rich._pause,
    "resume": Rich._resume,
    "delete": Rich._delete,
    "trigger": Rich._trigger,
    "skip_next": Rich._skip_next,
    "cancel": Rich._cancel,
    "cancel next": Rich._cancel_next,
    "retry": Rich._retry,
    "replay": Rich._replay,
    "redrive": Rich._redrive,
}


def owner_time(owner: Scheduler) -> int:
    """UTC ms by that owner's clock."""
    return owner.session.clock()
