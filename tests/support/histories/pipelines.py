"""Histories of pipelines: random graphs whose definitions change, while processes die, and owners cancel, skip, retry and replay.

Tasks have priorities, over queues with lanes; some map a job over a list. In one history of three the tenant has a cap.

The oracle knows the rows of tasks alone, and no mark: a task begins only when its join holds by the rows of the tasks before it; at the
end, what ran is what the graph of the run's own revision demands; nothing begins after a cancellation has returned; every run ends.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from quarterjack import Context, Retry, Scheduler, Tenants
from quarterjack.domain.names import MAP, parse_run_id
from quarterjack.domain.pipelines.graph import Graph, Task
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import HOUR
from quarterjack.errors import Permanent, UnknownJobWarning
from quarterjack.fires.pipelines.rows import PipelineRow, read_pipeline
from quarterjack.state.pipelines.decide import BROKEN, ref_by_mark
from quarterjack.state.waits.park import LETTERS
from quarterjack.testing import Detail

from tests.support.histories.history import History
from tests.support.histories.simulator import Faults, Process

OUTER, INNER = ("p0", "p1", "p2"), "inner"
ACTS = (
    ("publish", 14),
    ("start", 34),
    ("cancel", 7),
    ("cancel task", 4),
    ("skip", 15),
    ("retry", 15),
    ("replay", 3),
    ("other", 8),
)
_YOUNG = HOUR  # ms: a run of a pipeline that is younger may go on
_WIDE = 0.08  # chance that a graph has more tasks than one row has marks
_CAPPED = 0.33  # chance that the tenant has a cap
Tasks = dict[str, dict[str, Any]]


class Pipelines(History):
    """One seed, one history."""

    expressions: tuple[str, ...] = ("rate(50 minutes)",)
    between: tuple[int, ...] = (0, 1, 5, 20)
    quiet = 2 * HOUR  # the timer of a wait checks it at intervals that grow
    priorities = True

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.wrong: list[str] = []
        self.asked: set[str] = set()  # runs whose cancellation was asked for
        self.cancelled: dict[str, int] = {}  # runs, and UTC ms at which their cancellation had returned
        self.published: dict[tuple[str, int], Tasks] = {}  # by name and revision, as far as the answer came
        self.graphs: dict[str, PipelineRow] = {}  # by what runs await
        self.reader = self.stage.memory.connect()  # of the oracle: its calls are no calls of the history
        often = Retry(max_attempts=50, base=5.0, cap=30.0)
        for name, job in (("good", self._good), ("bad", self._bad), ("maybe", self._maybe)):
            self.jobs.job(name, retry=often)(job)
        self.stage.observer = self._look
        self.capped = self.dice.random() < _CAPPED
        if self.capped:
            limits = {"concurrent_runs": self.dice.randint(2, 5), "concurrent_runs:maybe": 1}
            Tenants(services=self.reader, clock=lambda: self.stage.now).set("acme", limits=limits)
            self.stage.count("capped")

    # Jobs.

    def _good(self, ctx: Context, payload: object) -> object:
        self._begins(ctx)
        self.stage.yield_until(self.stage.now + self.dice.choice([0, 0, 500, 5_000, 40_000]))
        if self.dice.random() < 0.04 and ctx.attempt < 10:
            raise RuntimeError("not this time")
        return {"n": self.dice.randint(0, 3)}

    def _bad(self, ctx: Context, payload: object) -> object:
        self._good(ctx, payload)
        raise Permanent("as it was told")

    def _maybe(self, ctx: Context, payload: object) -> object:
        found = self._good(ctx, payload)
        if self.dice.random() < 0.4:
            raise Permanent("as the dice said")
        return found

    # Owners.

    def _graph(self, *, inner: bool) -> Tasks:
        dice, tasks = self.dice, Tasks()
        is_wide = dice.random() < _WIDE and not inner and not self.capped  # under a cap it would take hours
        count = dice.randint(101, 140) if is_wide else dice.randint(1, 8)
        for number in range(count):
            before = dice.sample(range(number), min(number, dice.choice((0, 1, 1, 2, 3))))
            tasks[f"t{number}"] = self._task([f"t{each}" for each in sorted(before)], inner=inner, wide=is_wide)
        return tasks

    def _task(self, after: list[str], *, inner: bool, wide: bool) -> dict[str, Any]:
        dice = self.dice
        task: dict[str, Any] = {"job": dice.choice(("good",) * (40 if wide else 6) + ("bad", "maybe"))}
        if not inner and not wide and dice.random() < 0.12:
            task = {"pipeline": INNER if dice.random() < 0.95 else "nothing"}
        elif not wide and dice.random() < 0.1:
            task["map"] = {"over": [*range(dice.randint(0, 4))], "at_a_time": dice.randint(1, 3)}
        if dice.random() < 0.2:
            task["priority"] = dice.choice(("high", "low"))
        if after:
            task["after"] = after
            task["join"] = dice.choice(("all", "all", "all", "any", "none_failed", "done"))
            one = dice.choice(after)
            if dice.random() < 0.15:
                task["when"] = dice.choice((f'{one}.state == "SUCCEEDED"', f"{one}.result == None", "1 > 2"))
            if dice.random() < 0.2 and "map" not in task:
                task["payload"] = dice.choice((f"${{{one}.state}}", f"${{{one}.result}}", f"${{{one}.result.n}}"))
        if dice.random() < 0.15:
            task["optional"] = True
        return task

    def _act(self, act: str, owner: Scheduler, name: str) -> None:
        words, weights = zip(*ACTS, strict=True)
        word = self.dice.choices(words, weights)[0]
        self.stage.count(f"acts {word}")
        match word:
            case "publish":
                self._publish(owner, self.dice.choice((*OUTER, INNER)))
            case "start":
                self._start(owner, self.dice.choice(OUTER))
            case "cancel":
                self._cancel(owner, self._some(lambda run: run.job.startswith("pipeline:")))
            case "cancel task":
                self._cancel(owner, self._some(lambda run: run.parent is not None and run.fence > 0))
            case "skip":
                self._skip(owner)
            case "retry":
                self._again(owner, retry=True)
            case "replay":
                self._again(owner, retry=False)
            case _:
                super()._act(act, owner, name)

    def _publish(self, owner: Scheduler, name: str) -> None:
        tasks = self._graph(inner=name == INNER)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownJobWarning)  # some tasks name a pipeline that does not exist
            done = owner.upsert_schedule(
                name,
                f"pipeline:{name}",
                self.dice.choice(("manual", "manual", *self.expressions)),
                tasks=tasks,
                on_task_failure=self.dice.choice(("halt", "continue")),
            )
        self.published[name, done.schedule.revision] = tasks

    def _start(self, owner: Scheduler, name: str) -> None:
        if not any(head.name == name for head in self.stage.memory.heads()):
            self._publish(owner, name)
        if self.dice.random() < 0.5:
            owner.trigger(name)
        else:
            owner.submit(f"pipeline:{name}", {"n": 1}, delay=self.dice.choice((0, 0, 0, 30)))

    def _some(self, wanted: Any) -> RunRow | None:
        """One of these runs, mostly one that goes on."""
        runs = [run for run in self.stage.memory.runs() if wanted(run)]
        lively = [run for run in runs if not run.is_terminal]
        found = lively if lively and self.dice.random() < 0.9 else runs
        return self.dice.choice(found) if found else None

    def _cancel(self, owner: Scheduler, run: RunRow | None) -> None:
        if run is None:
            return
        run_id = str(run.ref)
        self.asked.add(run_id)
        done = owner.cancel_run(run_id)
        if done.state in ("CANCELLED", "RUNNING"):
            self.cancelled.setdefault(run_id, self.stage.now)
            self.stage.count(f"cancelled {done.state}")

    def _skip(self, owner: Scheduler) -> None:
        run = self._some(lambda run: run.job.startswith("pipeline:"))
        pipeline = None if run is None else self._pipeline(run)
        if run is not None and pipeline is not None:
            owner.skip_task(str(run.ref), self.dice.choice(pipeline.graph.tasks).name)
            self.stage.count("skipped")

    def _again(self, owner: Scheduler, *, retry: bool) -> None:
        runs = [run for run in self.stage.memory.runs() if run.job.startswith("pipeline:") and run.is_terminal]
        failed = [run for run in runs if run.state is RunState.DEAD]
        if not runs:
            return
        run = self.dice.choice(failed or runs)
        if not retry:
            owner.replay_run(str(run.ref))
            return
        pipeline, skip = self._pipeline(run), list[str]()
        if pipeline is not None and self.dice.random() < 0.2:
            skip = [self.dice.choice(pipeline.graph.tasks).name]
        owner.retry_pipeline(str(run.ref), skip=skip, idempotency_key=f"again{self.dice.randint(0, 40)}")
        self.stage.count("retried")

    # What is seen.

    def _look(self, process: Process, detail: Detail) -> None:
        known = len(self.seen.leases)
        self.seen.look(process, detail)
        for lease in [*self.seen.leases.values()][known:]:
            run = self.stage.memory.row(lease.ref)
            if run is not None and run.get("parent") is not None:
                self.stage.count("task runs")
                self.stage.count("maps", run["job"].startswith(MAP))
                if lease.fence == 1:
                    self._begun(str(lease.ref), run)

    def _begun(self, run_id: str, row: Mapping[str, Any]) -> None:
        """The first lease of a task: its join holds by the rows of those before it."""
        above = self.reader.ledger.read(parse_run_id(row["parent"]))
        pipeline = None if above is None else self._pipeline(above)
        if pipeline is None:
            return
        number = int(row["child_no"])
        ends = self._ends(pipeline)
        join = pipeline.graph.task(number).join
        before = [ends.get(each) for each in pipeline.graph.edges[number - 1]]
        if _verdict(str(join), before) is not True:
            self.wrong.append(f"against its join: {run_id} by {join} with {before}")

    def _pipeline(self, run: RunRow) -> PipelineRow | None:
        """A run with its graph, as its revision has it."""
        if run.awaits is None:
            return None
        known = self.graphs.get(run.awaits)
        found = (
            read_pipeline(run, self.reader)
            if known is None
            else PipelineRow(run, known.name, known.revision, known.definition)
        )
        if found is not None:
            self.graphs.setdefault(run.awaits, found)
        return found

    def _rows(self, pipeline: PipelineRow) -> dict[int, RunRow]:
        """The rows of tasks, by number; of a repeated run those of the earlier one that it takes over."""
        marks = self.reader.waits.ends(pipeline.run.ref, range(1, len(pipeline.graph.tasks) + 1))
        kept = pipeline.run.replay_of is not None
        refs = {
            number: ref_by_mark(pipeline.run.ref, pipeline.name, task.name, marks.get(number, " ") if kept else " ")
            for number, task in enumerate(pipeline.graph.tasks, 1)
        }
        found = self.reader.ledger.look([*refs.values()]).found
        return {number: found[ref] for number, ref in refs.items() if ref in found}

    def _ends(self, pipeline: PipelineRow) -> dict[int, str]:
        """How tasks have ended: s, f, x (never starts) or b (never starts, as one above has failed), by their rows, else by the graph."""
        rows, ends = self._rows(pipeline), dict[int, str]()
        passed = self._passed_over(pipeline)
        for number, before in enumerate(pipeline.graph.edges, 1):
            row, task = rows.get(number), pipeline.graph.task(number)
            above = [ends.get(each) for each in before]
            turn, never = _verdict(str(task.join), above), "b" if {"f", "b"} & {*above} else "x"
            if number in passed or (row is not None and row.reason == "skipped by its owner"):
                if turn is not None:
                    ends[number] = "s" if turn else never
            elif row is not None and row.is_terminal:
                ends[number] = _end(task, row)
            elif row is None and turn is False:
                ends[number] = never
        return ends

    def _passed_over(self, pipeline: PipelineRow) -> set[int]:
        """Tasks without a row in a repeated run that count as ends: passed over, or optional and never made. Their marks alone say so."""
        if pipeline.run.replay_of is None:
            return set()
        marks = self.reader.waits.ends(pipeline.run.ref, range(1, len(pipeline.graph.tasks) + 1))
        task = pipeline.graph.task
        return {
            number
            for number, mark in marks.items()
            if mark == LETTERS[RunState.SKIPPED] or (mark[0] == BROKEN and task(number).optional)
        }

    # Verdicts.

    def _violations(self) -> list[str]:
        found = [text for text in super()._violations() if not self._is_expected(text)]
        return [*found, *self.wrong, *self._after_cancel(), *self._not_as_demanded(), *self._other_revisions()]

    def _is_expected(self, text: str) -> bool:
        """What the oracle of plain histories does not know: runs that owners cancelled, and pipelines that are young."""
        word, _, about = text.partition(": ")
        run_id = about.split()[0]
        if word in ("lost", "lost one-off"):
            return run_id in self.asked
        row = self.stage.memory.row(parse_run_id(run_id)) if word == "unfinished" else None
        return row is not None and bool(row["due"] > self.stage.now - _YOUNG)

    def _after_cancel(self) -> list[str]:
        """No attempt of a run that was cancelled, or of what is below it, begins after the call has returned."""
        above = {str(run.ref): run.parent for run in self.stage.memory.runs()}
        return [
            f"after cancel: {lease.ref} fence {lease.fence} at +{lease.at - at} ms, of {one}"
            for lease in self.seen.leases.values()
            for one in _chain(str(lease.ref), above)
            if (at := self.cancelled.get(one)) is not None and lease.at > at
        ]

    def _not_as_demanded(self) -> list[str]:
        """Of each run of a pipeline that ended by itself: what ran is what its graph demands by the ends of tasks."""
        found = list[str]()
        for run in self.stage.memory.runs():
            pipeline = self._pipeline(run) if run.job.startswith("pipeline:") else None
            if pipeline is None:
                continue
            self.stage.count(f"pipelines {run.state}")
            if run.state in (RunState.SUCCEEDED, RunState.DEAD):
                found += [f"not as demanded: {run.ref} {text}" for text in self._judged(pipeline)]
        return found

    def _judged(self, pipeline: PipelineRow) -> list[str]:
        graph, rows, ends = pipeline.graph, self._rows(pipeline), self._ends(pipeline)
        left = [number for number in range(1, len(graph.tasks) + 1) if number not in ends]
        found = [f"ended although task {number} {_seen(rows.get(number))}" for number in left]
        failed = "f" in ends.values()
        if failed != (pipeline.run.state is RunState.DEAD):
            found.append(f"is {pipeline.run.state} with {ends}")
        for number, row in rows.items():
            before = [ends.get(each) for each in graph.edges[number - 1]]
            if row.started_at is not None and _verdict(str(graph.task(number).join), before) is not True:
                found.append(f"task {number} ran with {before}")
            if row.state is RunState.SKIPPED and "has failed" in (row.reason or "") and not (graph.halts and failed):
                found.append(f"task {number} was not started although nothing halted")
        return found

    def _other_revisions(self) -> list[str]:
        """Each revision has the tasks with which it was published, and each run those of its revision."""
        found = list[str]()
        for (name, revision), tasks in self.published.items():
            known = self.graphs.get(f"tasks:{name}@{revision}")
            if known is not None and not _is_same(known.graph, tasks):
                found.append(f"another graph: {name}@{revision}")
        for run in self.stage.memory.runs():
            if run.job.startswith("pipeline:") and run.ref.schedule is not None and run.awaits is not None:
                wanted = f"tasks:{run.ref.schedule}@{run.defined_by or run.revision}"
                if run.awaits != wanted:
                    found.append(f"another revision: {run.ref} awaits {run.awaits}, not {wanted}")
        return found


def _verdict(join: str, before: list[str | None]) -> bool | None:
    """Whether a task starts by the ends of those before it; None: that is open. Written for the oracle alone."""
    if not before:
        return True
    match join:
        case "any":
            return True if "s" in before else None if None in before else False
        case "all":
            return False if {"f", "x", "b"} & {*before} else None if None in before else True
        case "none_failed":
            return False if {"f", "b"} & {*before} else None if None in before else True
    return None if None in before else True


def _end(task: Task, row: RunRow) -> str:
    if row.state is RunState.SUCCEEDED:
        return "s"
    if row.state is RunState.SKIPPED and not (row.reason or "").startswith("cannot be made"):
        return "x"
    return "s" if task.optional else "f"


def _seen(row: RunRow | None) -> str:
    return "has no run" if row is None else f"is {row.state}"


def _chain(run_id: str, above: Mapping[str, str | None]) -> list[str]:
    """A run and those above it."""
    found, at = list[str](), above.get(run_id)
    found.append(run_id)
    while at is not None:
        found.append(at)
        at = above.get(at)
    return found


def _is_same(graph: Graph, tasks: Tasks) -> bool:
    return {task.name: (task.job, task.pipeline, task.after) for task in graph.tasks} == {
        name: (task.get("job"), task.get("pipeline"), tuple(task.get("after", ()))) for name, task in tasks.items()
    }
