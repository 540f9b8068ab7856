"""Writes the Python file with the jobs that imported schedules name."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping

_COMMANDS = '''\
"""The job that the schedules from {source} name: it runs their commands.

    quarterjack apply schedules.yaml --jobs jobs     # by this file's name, without .py
    quarterjack worker --jobs jobs

A payload is the command as a line of shell (command:) or as a list (argv:), and what differs from the worker's own: environment,
directory (else the user's home), shell, stdin, user, timeout in seconds. A run succeeds with exit code 0 and keeps the end of the
output; any other exit code is a failed attempt, which is not repeated unless you say retry=.

On a worker process each run has a process group of its own, which its timeout, a cancellation and a lost worker end. On Lambda
there is no process of its own and no other user, the disk is read-only but for /tmp, 15 minutes are the most, and the programs must
be in the package or image. So for Lambda:

1. put the programs and scripts beside this file, or into the function's image;
2. take user: out of the payloads, and set HOME: /tmp in their environment: a command starts in HOME;
3. give what may take longer to a worker process: a queue of its own and `quarterjack worker --queue` beside the stack.
"""

from quarterjack.ready_jobs.command import command_job

command = command_job("{job}")  # e.g. timeout=3600: seconds of one attempt; retry=Retry(max_attempts=3)
'''


_TARGETS = '''\
"""The jobs that the schedules from {source} name: they call what EventBridge called.

    quarterjack apply schedules.yaml --jobs jobs     # by this file's name, without .py
    quarterjack worker --jobs jobs

The worker's role needs the permission to call them.
"""

{imports}

{body}
'''
_UNWRITTEN = '''
@job("{name}")
def {function}(ctx: Context, payload: object) -> None:
    """To be written: {what}. Its schedules are paused until you take paused: true out."""
    raise Permanent("the job {name} is not written yet")
'''

_TASKS = '''\
"""The jobs that the schedules from {source} name: each calls its task of Celery, directly, in Quarterjack's worker.

    quarterjack apply schedules.yaml --jobs jobs     # by this file's name, without .py
    quarterjack worker --jobs jobs

No broker is needed any more. What a task returns is the run's result, what it raises fails the attempt.
"""

from typing import Any

{imports}

app.loader.import_default_modules()  # registers the tasks, as a worker of Celery does


def call(task: str, payload: dict[str, Any] | None) -> Any:
    given = payload or {{}}
    return app.tasks[task](*given.get("args", ()), **given.get("kwargs", {{}}))

{body}
'''
_TASK = """
@job({job})
def {function}(ctx: Context, payload: dict[str, Any] | None) -> Any:
    return call({task}, payload)
"""


_OPERATORS = '''\
"""The jobs that the tasks of {source} name. They are still to be written: fill them in, then take paused: true out of the schedules.

    quarterjack apply schedules.yaml --jobs jobs     # by this file's name, without .py
    quarterjack worker --jobs jobs

What a job returns is the result of its task: ${{TASK.result}} in the payload of a later one.
"""

{imports}

{body}
'''
_EMPTY = '''
@job({name})
def {function}(ctx: Context, payload: object) -> None:
    """It does nothing: it joins the tasks before it."""
'''


def for_commands(source: str, job: str) -> str:
    """The job that runs commands."""
    return _COMMANDS.format(source=_plain(source), job=job)


def for_targets(source: str, ready: Mapping[str, tuple[str, Mapping[str, str]]], unwritten: Mapping[str, str]) -> str:
    """Jobs that call targets (ARN and parameters by name), and those that are still to be written (what they call by name)."""
    imports = ["from quarterjack import Context, job", "from quarterjack.errors import Permanent"] if unwritten else []
    imports += ["from quarterjack.ready_jobs.targets import target_job"] if ready else []
    taken: set[str] = set()
    calls = [
        f"{_function(name, taken)} = target_job({_quoted(name)}, {_quoted(arn)}"
        + (f", parameters={_quoted(parameters)})" if parameters else ")")
        for name, (arn, parameters) in ready.items()
    ]
    written = [
        _UNWRITTEN.format(name=name, function=_function(name, taken), what=_plain(what))
        for name, what in unwritten.items()
    ]
    body = "\n".join([*calls, *(f"\n{text.strip()}\n" for text in written)])
    return _TARGETS.format(source=_plain(source), imports="\n".join(imports), body=body).rstrip() + "\n"


def for_tasks(module: str, app: str | None, tasks: Mapping[str, str], queues: Iterable[str]) -> str:
    """Jobs that call tasks of Celery (by the jobs' names), and the queues that their schedules name."""
    imports = [
        _import_of(module, app) if app else "from celery import current_app as app",
        f"from quarterjack import Context, {'Queue, ' if queues else ''}job",
        *([f"\napp = {app}"] if app and not app.isidentifier() else []),
    ]
    taken = {"app", "call", "job"}
    declared = "".join(f"\nQueue({_quoted(name)})" for name in sorted(queues))
    jobs = [
        _TASK.format(job=_quoted(job), function=_function(job, taken), task=_quoted(task))
        for job, task in tasks.items()
    ]
    body = "\n".join([*([f"{declared}\n"] if declared else []), *jobs])
    return _TASKS.format(source=_plain(module), imports="\n".join(imports), body=body).rstrip() + "\n"


def for_operators(source: str, jobs: Mapping[str, str]) -> str:
    """Jobs that are still to be written: what each is to do, by name; "": nothing."""
    imports = ["from quarterjack import Context, job"]
    imports += ["from quarterjack.errors import Permanent"] if any(jobs.values()) else []
    taken = {"job"}
    parts = list[str]()
    for name, what in jobs.items():
        function = _function(name, taken)
        given = {"function": function, "name": name if what else _quoted(name)}
        parts.append((_UNWRITTEN if what else _EMPTY).format(**given, what=_plain(what)).strip("\n"))
    body = "\n\n\n".join(parts)
    return _OPERATORS.format(source=_plain(source), imports="\n".join(imports), body=f"\n{body}").rstrip() + "\n"


def with_names(source: str, schedules: str, jobs: str) -> str:
    """The source of jobs, whose docstring names commands, with the names of these two files."""
    named = source.replace(" schedules.yaml --jobs jobs ", f" {schedules} --jobs {jobs} ", 1)
    return named.replace("worker --jobs jobs\n", f"worker --jobs {jobs}\n", 1)


def _import_of(module: str, app: str) -> str:
    """The import of an app, which may be an expression: ``create_app()``."""
    if app.isidentifier():
        return f"from {module} import {app}" + ("" if app == "app" else " as app")
    return f"from {module} import {re.split(r'[.(]', app, maxsplit=1)[0]}"


def _function(name: str, taken: set[str]) -> str:
    """A Python identifier for a job."""
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower() or "job"
    if not found.isidentifier() or keyword.iskeyword(found):
        found = f"job_{found}"
    while found in taken:
        found += "_"
    taken.add(found)
    return found


def _quoted(given: object) -> str:
    return json.dumps(given, ensure_ascii=False)


def _plain(text: str) -> str:
    """A text that is safe in a docstring."""
    return text.replace("\\", "/").replace('"', "'")
