"""What the tasks of a pipeline have to be, as far as this process knows their jobs."""

from __future__ import annotations

import json

from quarterjack.domain.names import PIPELINE
from quarterjack.domain.options import Options
from quarterjack.domain.pipelines.expressions import references_in
from quarterjack.domain.pipelines.graph import Graph, Task
from quarterjack.domain.pipelines.reading import check_pipeline_name, graph_of
from quarterjack.domain.policies import Overrides
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import InvalidInput
from quarterjack.sdk.caller_access import CallerAccess
from quarterjack.sdk.job_checks import JobChecks
from quarterjack.values import replace


def checked_tasks(
    name: str, job: str, options: Options, policies: Overrides, checks: JobChecks, access: CallerAccess
) -> tuple[Graph, Options]:
    """The graph of a pipeline, and its options, each task with the queue and the priority that its job has.

    Raises InvalidInput, Forbidden, JobNotGranted.

    Who makes a pipeline has its tasks run, and so needs to be able to submit each of their jobs.
    """
    if options.tasks is None:
        raise InvalidInput("job", job, "is the job of a pipeline, which has tasks", "give tasks={…}, or another job")
    if not job.startswith(PIPELINE):
        raise InvalidInput("tasks", "…", f"do not go with job {job!r}", "leave job out: a pipeline runs its tasks")
    check_pipeline_name(name)
    if job != f"{PIPELINE}{name}":
        raise InvalidInput("job", job, "is the job of another pipeline", f"write {PIPELINE}{name}")
    for word in ("retry", "timeout", "delivery"):
        given = getattr(policies, word)
        if given is not None:
            remedy = "give it to the tasks; deadline bounds the whole"
            raise InvalidInput(word, given, "is of a task: the run of a pipeline only waits for its tasks", remedy)
    graph = graph_of(options.tasks, halts=True)
    return graph, replace(options, tasks=_stored([_checked(task, checks, access) for task in graph.tasks]))


def _checked(task: Task, checks: JobChecks, access: CallerAccess) -> Task:
    path = f"tasks.{task.name}"
    try:
        if task.job is None:
            access.check(Verb.SUBMIT, task.runs)
            return task
        access.check(Verb.SUBMIT, task.job)
        checks.check_job("job", task.job, task.job)
        checks.may_run(task.job)
        policies = replace(
            checks.with_job_words(task.job, task.policies), flow=None
        )  # its worker knows that of the job
        queue = checks.queue_name(task.job, task.queue)
        _check_payloads(task, task.job, checks)
    except InvalidInput as problem:
        raise problem.about(f"{path}.{problem.field}") from None
    return replace(task, policies=policies, queue=queue)


def _check_payloads(task: Task, job: str, checks: JobChecks) -> None:
    """The payload of a task, or the items that it maps, where they have no references. Raises InvalidInput."""
    if task.map is None:
        given = [("payload", task.payload)]
    else:
        given = (
            [(f"map.over[{place}]", item) for place, item in enumerate(task.map.over)]
            if isinstance(task.map.over, list)
            else []
        )
    for path, payload in given:
        if any(references_in(payload, path)):
            continue
        try:
            checks.check_payload(job, payload, json.dumps(payload))
        except InvalidInput as problem:
            raise problem.about(f"{path}{problem.field.removeprefix('payload')}") from None


def _stored(tasks: list[Task]) -> str:
    return json.dumps({task.name: task.as_dict() for task in tasks}, separators=(",", ":"))
