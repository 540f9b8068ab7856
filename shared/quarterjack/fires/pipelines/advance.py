"""Advance the run of a pipeline: start the tasks that its ended tasks allow, and see whether all have ended.

    end of a task ─► its mark ─► what follows from all marks ─► claims of tasks ─► their messages
                                                             └► all have ended: the pipeline's run is woken, and its slice ends it

Whoever ends a task's run calls this before it lets go of what would bring the end back (``fires.parking.tell_end``), so does the worker
that parks the pipeline's run, and the ticker, at intervals: it finds tasks whose claimer died before it sent them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.payload import size
from quarterjack.domain.pipelines.expressions import NoValue, holds
from quarterjack.domain.pipelines.graph import DEEPEST, Graph
from quarterjack.domain.run import RunRow, RunState, child_row
from quarterjack.errors import NotFound, QuarterjackError, Unavailable
from quarterjack.fires.claim import one_off_message, put_runs, send
from quarterjack.fires.pipelines.rows import PipelineRow, awaited_by
from quarterjack.fires.pipelines.values import Values, made_of
from quarterjack.ports.services import Clock, Services
from quarterjack.state.pipelines.decide import HALTED, NOT_HELD, NOT_MADE, PASSED_OVER, End, NextTasks, decide, mark_of
from quarterjack.state.run_spec import own_overrides
from quarterjack.stores.waits import CHUNK
from quarterjack.values import replace

_PROBLEM = 300  # characters of the reason why a task could not be made


def advance(
    pipeline: PipelineRow,
    services: Services,
    clock: Clock,
    *,
    rows: bool = False,
    chunk: Mapping[int, str] | None = None,
    ended: int | None = None,
) -> bool:
    """Start what may start; whether all tasks have ended. Raises Unavailable: what brought the caller here has to come again.

    ``ended``: the number of a task that has just ended, ``chunk``: the marks of its hundred. ``rows``: read the rows of tasks without a
    mark as well, and send the messages of those that wait again.
    """
    graph = pipeline.graph
    marks = dict(chunk) if chunk is not None and len(graph.tasks) <= CHUNK else pipeline.marks(services)
    asked = None if rows or ended is None else {ended}  # None: every task
    begun = frozenset[int]()
    if rows:
        missing, begun = _looked(pipeline, marks, services, clock)
        marks |= missing
    while True:
        decision = decide(graph, marks)
        chosen = _chosen(graph, decision, _reached(graph, decision, marks, asked), begun)
        new = _carried_out(pipeline, chosen, marks, services, clock)
        if not new:
            return decision.is_over
        services.waits.mark_items(pipeline.run.ref, new, clock())
        marks |= new
        asked = None if asked is None else set(new)


def send_left(pipeline: PipelineRow, marks: Mapping[int, str], ended: int, services: Services, clock: Clock) -> None:
    """Send the tasks behind one that has ended, after their pipeline: their claimer may have died, and a worker cancels them.

    Raises Unavailable.
    """
    behind = [
        number for number, before in enumerate(pipeline.graph.edges, 1) if ended in before and number not in marks
    ]
    looked = services.ledger.look([pipeline.ref(number) for number in behind])
    if looked.unanswered:
        raise Unavailable(f"the tasks of run {pipeline.run.ref} could not be read; try again")
    _send([run for run in looked.found.values() if run.state is RunState.QUEUED], services, clock)


def _reached(graph: Graph, decision: NextTasks, marks: Mapping[int, str], asked: set[int] | None) -> set[int] | None:
    """The tasks whose ends are new: those of ``asked``, and those behind them that are over by that and never had a run."""
    if asked is None:
        return None
    found = set(asked)
    for number in sorted(number for number in decision.ends if marks.get(number, PASSED_OVER)[0] == PASSED_OVER):
        if not found.isdisjoint(graph.edges[number - 1]):
            found.add(number)
    return found


def _looked(
    pipeline: PipelineRow, marks: Mapping[int, str], services: Services, clock: Clock
) -> tuple[dict[int, str], frozenset[int]]:
    """The marks that are missing, of tasks whose ends nobody could mark; and the tasks that have a run.

    Those that wait for a worker are sent again.
    """
    decision = decide(pipeline.graph, marks)
    refs = {number: pipeline.ref(number) for number in (*decision.start, *decision.close)}
    looked = services.ledger.look([*refs.values()])
    if looked.unanswered:
        raise Unavailable(f"the tasks of run {pipeline.run.ref} could not be read; try again")
    found = {number: looked.found[ref] for number, ref in refs.items() if ref in looked.found}
    missing = {number: mark_of(run) for number, run in found.items() if run.is_terminal}
    if missing:
        services.waits.mark_items(pipeline.run.ref, missing, clock())
    _send([run for run in found.values() if run.state is RunState.QUEUED], services, clock)
    return missing, frozenset(found)


def _chosen(graph: Graph, decision: NextTasks, asked: set[int] | None, begun: frozenset[int]) -> NextTasks:
    """What of a decision is to be carried out: what follows from the ends of ``asked``, for tasks that are not known to have a run.

    Of several failures that with the lowest number closes all that could start: not each of them, as others may be many. Its process
    sees it alone, or its message comes back.
    """
    failed = [number for number, end in decision.ends.items() if end is End.FAILED]
    closes_all = asked is not None and bool(failed) and min(failed) in asked
    start = _behind(graph, decision.start, asked)
    close = _behind(graph, decision.close, None if closes_all else asked)
    return replace(
        decision,
        start=tuple(number for number in start if number not in begun),
        close=tuple(number for number in close if number not in begun),
    )


def _carried_out(
    pipeline: PipelineRow, decision: NextTasks, marks: Mapping[int, str], services: Services, clock: Clock
) -> dict[int, str]:
    """Claim and send the tasks of a decision; the marks of those that never start.

    These have a row, too, so that no process starts one of them that has seen fewer ends: a task would run that others took for skipped.
    """
    now = clock()
    runs = [_not_started(task_row(pipeline, number, now), HALTED, now) for number in decision.close]
    if decision.start:
        values = Values(pipeline, marks, decision, services)
        values.read(pipeline.graph.task(number) for number in decision.start)
        runs += [_made(pipeline, number, values, services, clock) for number in decision.start]
    there = _claimed_and_sent(runs, services, clock)
    return {run.child_no: mark_of(run) for run in there if run.child_no is not None and run.is_terminal}


def _behind(graph: Graph, numbers: Sequence[int], asked: set[int] | None) -> list[int]:
    """Of these tasks those that come after one of ``asked``; None: all."""
    return [number for number in numbers if asked is None or not asked.isdisjoint(graph.edges[number - 1])]


def _not_started(run: RunRow, reason: str, now: int) -> RunRow:
    return replace(run, state=RunState.SKIPPED, reason=reason, ended_at=now)


def task_row(pipeline: PipelineRow, number: int, now: int) -> RunRow:
    """The row that claims a task."""
    task, run = pipeline.graph.task(number), pipeline.run
    policies = task.policies
    if policies.priority is None:
        policies = replace(policies, priority=own_overrides(pipeline.definition.overrides, run.overrides).priority)
    overrides, ref = policies.encode(), pipeline.ref(number)
    return child_row(
        ref, run.ref, number, job=task.runs, overrides=overrides, queue=task.queue, app_version=run.app_version, now=now
    )


def _made(pipeline: PipelineRow, number: int, values: Values, services: Services, clock: Clock) -> RunRow:
    """The run of a task that may start: QUEUED, or SKIPPED if it does not."""
    task, now = pipeline.graph.task(number), clock()
    run = task_row(pipeline, number, now)
    try:
        if task.when is not None and not holds(task.when, values):
            return _not_started(run, NOT_HELD, now)
        text = made_of(task.template, values)
        if task.pipeline is not None:
            run = replace(run, awaits=_within(pipeline, task.pipeline, services))
        is_small = size(text) <= INLINE_PAYLOAD
        if is_small:
            return replace(run, payload=text)
        return replace(run, payload_ref=services.payloads.put(run.ref, text))
    except NoValue as problem:
        return _not_started(run, f"{NOT_MADE}{problem}"[:_PROBLEM], now)


def _within(pipeline: PipelineRow, name: str, services: Services) -> str:
    """What the run of a pipeline within this one awaits. Raises NoValue, Unavailable."""
    above, run = 1, pipeline.run
    while run.parent is not None and above <= DEEPEST:
        found = services.ledger.read(parse_run_id(run.parent))
        if found is None:
            break
        run, above = found, above + 1
    if above >= DEEPEST:
        raise NoValue(f"pipeline {name!r} would be {above + 1} deep; pipelines may be {DEEPEST} deep in each other")
    try:
        return awaited_by(pipeline.run.ref.tenant, name, services)
    except NotFound as problem:
        raise NoValue(str(problem)) from None


def _claimed_and_sent(runs: Sequence[RunRow], services: Services, clock: Clock) -> list[RunRow]:
    """Claim tasks under their keys; their rows as they are. A key that exists QUEUED is sent again: its claimer may have died.

    Raises Unavailable.
    """
    if not runs:
        return []
    answers = put_runs(runs, services.ledger)
    lost = Unavailable("the ledger did not answer for all tasks; they are claimed again")
    there = list[RunRow]()
    for run in runs:
        answer = answers.get(run.ref, lost)
        if isinstance(answer, QuarterjackError):
            raise answer
        there.append(answer or run)
    _send([run for run in there if run.state is RunState.QUEUED], services, clock)
    return there


def _send(runs: Sequence[RunRow], services: Services, clock: Clock) -> None:
    if runs and not all(send([one_off_message(run) for run in runs], services.work, clock)):
        raise Unavailable("the work queue did not take the messages of all tasks; they are sent again")
