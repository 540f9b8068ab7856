"""What an owner does with the run of a pipeline: look at its tasks, skip one that has not begun, repeat what did not succeed.

A repeated run is a new run under the same revision. It begins with the marks of the tasks that have succeeded, and with where their runs
are, so nothing of them runs again, and no end of the earlier run counts for a task of the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.names import PIPELINE, RunRef
from quarterjack.domain.run import RunRow, RunState
from quarterjack.errors import Conflict, InvalidInput, KeyReused, NotFound, Unavailable, shorten
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.context import FireContext
from quarterjack.fires.parking import notify_waiting
from quarterjack.fires.pipelines.advance import task_row
from quarterjack.fires.pipelines.rows import PipelineRow, read_pipeline
from quarterjack.owner.runs.redrive import Check, replay
from quarterjack.ports.services import Services
from quarterjack.state.pipelines.decide import PASSED_OVER, NextTasks, decide, inherited
from quarterjack.state.waits.park import LETTERS, tasks_text
from quarterjack.values import replace, value

_SKIPPED = "skipped by its owner"
_SUCCEEDED = LETTERS[RunState.SUCCEEDED]


@value(kw_only=True)
class PipelineState:
    """The run of a pipeline as its rows tell it."""

    pipeline: PipelineRow
    marks: Mapping[int, str]  # of the tasks that have ended, by number
    decision: NextTasks  # what follows from them
    rows: Mapping[int, RunRow]  # the runs of tasks that have begun, by number
    hidden: Collection[int] = ()  # numbers of the tasks whose values the caller may not read


def pipeline_of_run(run: RunRow, services: Services) -> PipelineRow:
    """The pipeline of a run, also if it has not begun. Raises InvalidInput, NotFound, Unavailable."""
    if not run.job.startswith(PIPELINE):
        remedy = "pass the id of a run whose job begins with pipeline:, as trigger() of a pipeline returned it"
        raise InvalidInput("run_id", str(run.ref), f"is a run of job {run.job!r}, and of no pipeline", remedy)
    if run.awaits is None:
        name = run.job.removeprefix(PIPELINE) if run.ref.schedule is None else run.ref.schedule
        run = replace(run, awaits=tasks_text(name, run.defined_by or run.revision))
    found = read_pipeline(run, services)
    if found is None:
        raise NotFound(f"run_id={str(run.ref)!r}: nothing says which tasks it has")
    return found


def look_at(run: RunRow, services: Services) -> PipelineState:
    """The tasks of a pipeline's run: one read of marks, one of rows. Raises InvalidInput, NotFound, Unavailable."""
    pipeline = pipeline_of_run(run, services)
    marks = pipeline.marks(services)
    refs = pipeline.refs(services, marks)
    looked = services.ledger.look([*refs.values()])
    if looked.unanswered:
        raise Unavailable(f"the tasks of run {run.ref} could not be read; try again")
    rows = {number: looked.found[ref] for number, ref in refs.items() if ref in looked.found}
    return PipelineState(pipeline=pipeline, marks=marks, decision=decide(pipeline.graph, marks), rows=rows)


def skip_task(run: RunRow, name: str, context: FireContext) -> RunRow:
    """Skip a task that has not begun: when it would start, the tasks after it go on. The pipeline's run as it is then.

    Raises InvalidInput, NotFound, Conflict (it has begun, or the run has ended), Unavailable.
    """
    services, clock = context.services, context.clock
    pipeline = pipeline_of_run(run, services)
    number = number_of(pipeline, name)
    if run.is_terminal:
        raise _ended(run, name)
    marks = pipeline.marks(services)
    if number not in marks and number in decide(pipeline.graph, marks).ends:
        raise Conflict(
            f"task={name!r}: it never starts, since tasks before it did not end as it asks; nothing was done"
        )
    now = clock()
    wanted = replace(task_row(pipeline, number, now), state=RunState.SKIPPED, reason=_SKIPPED, ended_at=now)
    audit = audit_entry(AuditAct.SKIP, str(run.ref), context, task=name)
    there = services.ledger.put(replace(wanted, actor=audit.actor), audit, within=run.ref)
    if there is not None and there.ref == run.ref:  # it has ended since it was read
        raise _ended(there, name)
    if there is not None and not (there.state is RunState.SKIPPED and there.reason == _SKIPPED):
        raise Conflict(
            f"task={name!r}: its run {there.ref} is {there.state}, so it cannot be skipped"
            + ("" if there.is_terminal else "; cancel_run() ends it")
        )
    chunk = services.waits.mark_ended(run.ref, number, now, PASSED_OVER)
    return notify_waiting(run.ref, services, clock, chunk=chunk, ended=number) or run


def _ended(run: RunRow, name: str) -> Conflict:
    return Conflict(
        f"run_id={str(run.ref)!r}: it is {run.state}; retry_pipeline() with {name!r} in skip repeats it without"
    )


def retry(original: RunRow, ref: RunRef, skip: Collection[str], context: FireContext, *, check: Check) -> RunRow:
    """Repeat what did not succeed of a pipeline's run, as a new run ``ref``; what is in ``skip`` is passed over.

    Raises InvalidInput, Conflict (it has not ended, or has succeeded), NotFound, KeyReused, Unavailable.
    """
    services = context.services
    pipeline = pipeline_of_run(original, services)
    if not original.is_terminal:
        problem = f"it is {original.state}, and its tasks go on; retry it once it has ended, or cancel it first"
        raise Conflict(f"run_id={str(original.ref)!r}: {problem}")
    if original.state is RunState.SUCCEEDED and not skip:
        raise Conflict(f"run_id={str(original.ref)!r}: it has succeeded; replay_run() runs all of it again")
    passed = {number_of(pipeline, name, f"skip[{place}]") for place, name in enumerate(skip)}
    seen = pipeline.marks(services)
    for place, name in enumerate(skip):
        if seen.get(pipeline.graph.numbers[name], " ")[0] == _SUCCEEDED:
            raise Conflict(f"skip[{place}]={name!r}: the task has succeeded; leave it out")
    seen |= dict.fromkeys(passed, PASSED_OVER)
    marks = inherited(pipeline.graph, seen, original.ref)

    def write_marks(run: RunRow) -> None:
        check(run)
        what = " without ".join([str(original.ref), *map(str, sorted(passed))])
        if not services.waits.take_over(ref, marks, what, context.clock()):
            problem = f"run {ref} does not repeat {original.ref} without these tasks"
            raise KeyReused(f"idempotency_key: {problem}; use another key")
        if marks:
            kept = [task_ref_ for number, task_ref_ in pipeline.refs(services).items() if number in marks]
            services.waits.prolong(None, kept, until=context.clock() + services.retention)

    return replay(original, ref, context, check=write_marks)


def number_of(pipeline: PipelineRow, name: str, field: str = "task") -> int:
    """The number of a task. Raises NotFound."""
    number = pipeline.graph.numbers.get(name) if isinstance(name, str) else None
    if number is None:
        known = ", ".join([*pipeline.graph.numbers][:10])
        raise NotFound(f"{field}={shorten(name)}: pipeline {pipeline.name!r} has no such task; its tasks are {known}")
    return number
