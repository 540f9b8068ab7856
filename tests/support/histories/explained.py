"""Explained histories: owners do all that they may, under all faults, and ask why, in the middle and at the end, about every fire.

Every verdict must be what the chronicle of the history says. An answer that was put together while others acted must be right at one
instant between its question and its return.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from quarterjack import Answer, Cause, Rule, Scheduler, Verdict
from quarterjack.domain.names import RunRef, parse_run_id, schedule_owner
from quarterjack.domain.options import OverlapWord
from quarterjack.domain.times import HOUR, MINUTE, SECOND, from_ms, to_ms
from quarterjack.errors import Conflict, QuarterjackError, Unavailable
from quarterjack.state.backpressure import Limits
from quarterjack.testing.memory.installation import RETENTION
from quarterjack.timing import fires, timetable

from tests.support.histories.chronicle import Chronicle
from tests.support.histories.history import EXPRESSIONS
from tests.support.histories.manned import SOURCE, Manned, misheard, workers_of
from tests.support.histories.rich import ACTS, JOBS, owner_time
from tests.support.histories.simulator import Faults, Process
from tests.support.histories.truth import Truth, unfounded
from tests.support.scenes.world import NOON

NAMES = (*JOBS, "line")  # the last one lets one run go at a time
POLICIES: tuple[OverlapWord, ...] = ("skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other")
MOST = 60  # fires of a schedule that are asked about at the end
SAMPLE = 3  # instants of a schedule that are asked about in the middle
OUTAGE = 0.2  # chance at each tick that no other one comes for some minutes
RULES: tuple[dict[str, Any], ...] = (
    {"expression": "* * * * *", "exclude": ("*/3 12 * * *",)},
    {"expression": "*/2 * * * *", "window": 45},
    {"expression": "rate(20 seconds)", "max_fires": 5},
    {"expression": "* * * * *", "start": from_ms(NOON + 2 * MINUTE), "end": from_ms(NOON + 4 * MINUTE)},
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question of a process, and its answer."""

    name: str
    at: int  # UTC ms
    began: int  # calls
    ended: int
    since: int  # UTC ms, by the stage's clock
    until: int
    skew: int  # ms by which the asking clock is off
    answer: Answer


class Explained(Manned):
    """One seed, one history of some minutes."""

    busy = 5 * MINUTE
    between = (1, 5, 10, 20)

    def __init__(self, seed: int, faults: Faults) -> None:
        if seed % 4 == 0:
            self.limits, self.crew = Limits(depth=4), 1
        super().__init__(seed, faults)
        self.chronicle = Chronicle(self.stage)
        self._look_before = self.stage.observer
        self.stage.observer = self._look_twice
        self.wrong: list[str] = []
        self.asked: list[Asked] = []
        self.verdicts: Counter[Verdict] = Counter()
        self.heard: Counter[str] = Counter()  # sentences about workers, by their causes
        self.next_question = NOON + 20 * SECOND

    def _look_twice(self, process: Process, detail: Any) -> None:
        self.chronicle.look(process, detail)
        self._look_before(process, detail)

    def judged(self) -> list[str]:
        """The questions of the end are asked before the stage closes; other promises are judged by other kinds."""
        self.run()
        return self.wrong

    def durations(self) -> dict[str, list[int]]:
        """Reads of the answers, under the name of each verdict: there is nothing that takes time."""
        found = {f"answered {verdict}": [0] * number for verdict, number in sorted(self.verdicts.items())}
        return found | {f"heard {what}": [0] * number for what, number in sorted(self.heard.items())}

    def _violations(self) -> list[str]:
        self._ask_about_all(MOST)
        self.stage.now = NOON + self.dice.choice([self.busy // 2, self.busy, HOUR]) + RETENTION
        self.stage.memory.expire()
        self._ask_about_all(SAMPLE)
        for asked in self.asked:
            self._judge_between(asked)
        return self.wrong

    def rest(self) -> None:
        """Enough workers come to get it all done."""
        super().rest()
        self.crew = 6

    def _arrivals(self, quiet: bool) -> None:
        due = not self.resting and self.stage.now >= self.next_tick
        if due and self.stage.strikes("outage", OUTAGE):
            self.next_tick += self.dice.choice([2, 4]) * MINUTE
        super()._arrivals(quiet)
        if self.stage.now >= self.next_question:
            self.next_question = self.stage.now + (10 * MINUTE if self.resting else 20 * SECOND)
            self._ask_about_all(SAMPLE)
            if not self.resting:
                self.stage.process("asker", self._ask_amid)

    # What owners do.

    def _owner(self, process: Process) -> None:
        owner = Scheduler("acme", jobs=self.jobs, services=process.services, clock=process.clock)
        act = self.dice.choice(tuple(MORE))
        name = self.dice.choice(NAMES if act in _ANY else tuple(JOBS))
        if not self.stage.strikes(f"act {act}", 1.0):
            return
        self.stage.tell(process, f"wants: {act} {name}")
        try:
            MORE[act](self, owner, name)
        except QuarterjackError as problem:
            self.stage.tell(process, f"is refused: {problem}")
            self.stage.count("refused acts")
        else:
            self.stage.tell(process, f"done: {act} {name}")

    def _options(self) -> Any:
        """Some runs have little time to start, and some schedules run beside others."""
        more: dict[str, Any] = {"shadow": self.dice.random() < 0.05}
        return super()._options() | more | ({"deadline": 20.0} if self.dice.random() < 0.2 else {})

    def _line(self, owner: Scheduler, name: str) -> None:
        policy = self.dice.choice(POLICIES)
        owner.upsert_schedule("line", "work", self.dice.choice(EXPRESSIONS[:3]), overlap=policy, buffer=5)

    def _ruled(self, owner: Scheduler, name: str) -> None:
        owner.upsert_schedule(name, JOBS[name], Rule(**self.dice.choice(RULES)))

    def _freeze(self, owner: Scheduler, name: str) -> None:
        owner.freeze(from_ms(owner_time(owner) + self.dice.choice([20, 60, 150]) * SECOND))

    def _thaw(self, owner: Scheduler, name: str) -> None:
        owner.thaw()

    def _fill(self, owner: Scheduler, name: str) -> None:
        until = owner_time(owner) - self.dice.choice([0, 60]) * SECOND
        start = from_ms(until - self.dice.choice([60, 200]) * SECOND)
        owner.backfill(name, start, from_ms(until), concurrency=3, dry_run=False)

    def _stop_filling(self, owner: Scheduler, name: str) -> None:
        for found in owner.list_backfills(name):
            if found.ended_at is None:
                owner.cancel_backfill(name, str(found.id))

    def _stop(self, owner: Scheduler, name: str) -> None:
        if self.dice.random() < 0.5:
            owner.pause_schedule(name, drain=True)
        else:
            owner.delete_schedule(name, drain=self.dice.random() < 0.5)

    # Questions at one instant.

    def _ask_about_all(self, most: int) -> None:
        stage = self.stage
        owner = Scheduler("acme", services=stage.memory.connect(), clock=lambda: stage.now)
        for head in stage.memory.heads():
            truth = self._truth(head.name, stage.calls, stage.now)
            instants = self._instants(head.name)
            for at in instants if len(instants) <= most else sorted(self.dice.sample(instants, most)):
                self._ask(owner, truth, at)
        for run in stage.memory.runs():
            if not run.ref.is_fire and self.dice.random() < most / MOST:
                self._ask_of_run(owner, run.ref)

    def _instants(self, name: str) -> list[int]:
        """All fires of all revisions of a schedule up to three minutes from now, those of its runs, and some instants that may be none."""
        owner, until = schedule_owner("acme", name), self.stage.now + 3 * MINUTE
        until = min(until, NOON + self.busy + 6 * MINUTE)
        found = {run.due for run in self.stage.memory.runs(owner) if run.ref.is_fire}
        for revision in self.stage.memory.revisions(owner):
            table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
            upto = until if self.dice.random() < 0.3 else revision.bound(until)
            found |= set(fires(table, revision.active_from, upto))
        random = self.dice
        return sorted(found | {random.randint(NOON - MINUTE, until) for _ in range(3)})

    def _truth(self, name: str, call: int, now: int) -> Truth:
        return Truth(self.chronicle, "acme", name, call, now, self.faults.skew)

    def _ask(self, owner: Scheduler, truth: Truth, at: int) -> None:
        answer = owner.why(truth.name, from_ms(at))
        right = self._right(truth, at, answer)
        about = f"{truth.owner} at {at} (+{(at - NOON) / SECOND:.3f} s)"
        self._judge(about, answer, right)
        ref = None if answer.run_id is None else parse_run_id(answer.run_id)
        events = [] if ref is None else self.chronicle.of_run(ref, truth.call)
        self._hear(about, answer)
        if ref is not None:
            self.wrong += [f"cause: {what}: {about}: {answer}" for what in unfounded(answer, events, self.faults.skew)]
            self.wrong += [f"attempt: {what}: {about}: {answer}" for what in self._untold(answer, ref)]
        if Cause.FREEZE in answer.causes and not self.chronicle.frozen("acme", max(at, NOON), truth.now):
            self.wrong.append(f"cause: nobody froze the tenant: {about}: {answer}")

    def _hear(self, about: str, answer: Answer) -> None:
        """What an answer says of workers is so, by their records."""
        said = {one.cause for one in answer.sentences if one.source == SOURCE}
        self.heard.update("workers at hand" if cause is None else str(cause) for cause in said)
        rows = workers_of(self.chronicle, self.stage.calls) if said or "No worker of queue" in str(answer) else []
        self.wrong += [f"workers: {what}: {about}" for what in misheard(answer, rows, self.stage.now)]

    def _untold(self, answer: Answer, ref: RunRef) -> Iterator[str]:
        """Failed attempts of a run that its answer does not tell of."""
        for attempt in self.stage.memory.connect().siblings.attempts(ref):
            begins = f"Attempt {attempt.number} began on {attempt.worker} at "
            told = [one for one in answer.sentences if one.source == f"attempt {attempt.number} of run {ref}"]
            if not any(one.text.startswith(begins) for one in told):
                yield f"number {attempt.number} by {attempt.worker}"

    def _right(self, truth: Truth, at: int, answer: Answer) -> set[Verdict]:
        """A question about a whole second may be answered about the first fire in it."""
        assert answer.at is not None
        about = to_ms(answer.at, "at")
        if about != at:
            assert at % SECOND == 0
            assert at < about < at + SECOND
        return truth.of_fire(about)

    def _ask_of_run(self, owner: Scheduler, ref: RunRef) -> None:
        truth = self._truth(ref.owner.partition("/")[2], self.stage.calls, self.stage.now)
        answer, events = owner.why_run(str(ref)), self.chronicle.of_run(ref, self.stage.calls)
        self._judge(str(ref), answer, truth.of_run(ref))
        self._hear(str(ref), answer)
        self.wrong += [f"cause: {what}: {ref}: {answer}" for what in unfounded(answer, events, self.faults.skew)]

    def _judge(self, about: str, answer: Answer, right: set[Verdict]) -> None:
        self.verdicts[answer.verdict] += 1
        if answer.verdict not in right:
            self.wrong.append(
                f"verdict: {about}: {answer.verdict} and not {sorted(right)} at +{(self.stage.now - NOON) / SECOND:.0f} s: {answer}"
            )

    # Questions amid faults.

    def _ask_amid(self, process: Process) -> None:
        stage = self.stage
        owner = Scheduler("acme", services=process.services, clock=process.clock)
        heads = stage.memory.heads()
        if not heads:
            return
        name = self.dice.choice(heads).name
        at = self.dice.choice(self._instants(name))
        began, since = stage.calls, stage.now
        try:
            answer = owner.why(name, from_ms(at))
        except (Conflict, Unavailable):
            stage.count("unanswered questions")
            return
        self.asked.append(
            Asked(
                name=name,
                at=at,
                began=began,
                ended=stage.calls,
                since=since,
                until=stage.now,
                skew=process.skew,
                answer=answer,
            )
        )

    def _judge_between(self, asked: Asked) -> None:
        """Right at one instant between question and answer, by the asking clock."""
        owner = schedule_owner("acme", asked.name)
        right: set[Verdict] = set()
        for call in (asked.began, *self.chronicle.changes(owner, asked.began, asked.ended)):
            right |= {Verdict.UNKNOWN} if "The agenda could not be read" in str(asked.answer) else set()
            for now in (asked.since, asked.until):
                right |= self._right(self._truth(asked.name, call, now + asked.skew), asked.at, asked.answer)
        if "The audit could not be read" in str(asked.answer) and Verdict.DELETED in right:
            right.add(Verdict.PAUSED)  # a drained revision alone does not tell the two apart, and the answer says so
        self._judge(f"{owner} at {asked.at}, calls {asked.began} to {asked.ended}", asked.answer, right)


_ANY = (
    "pause",
    "resume",
    "delete",
    "trigger",
    "skip_next",
    "cancel",
    "cancel next",
    "retry",
    "replay",
    "stop",
    "fill",
    "stop filling",
)
MORE: dict[str, Callable[[Any, Scheduler, str], None]] = {
    **ACTS,
    "line": Explained._line,
    "line again": Explained._line,
    "ruled": Explained._ruled,
    "freeze": Explained._freeze,
    "thaw": Explained._thaw,
    "stop": Explained._stop,
    "fill": Explained._fill,
    "stop filling": Explained._stop_filling,
}
