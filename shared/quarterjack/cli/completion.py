"""Completion in a shell: of the words of an option, which are known here; of names of schedules, jobs, runs and queues, by one or
two bounded reads.

Whatever goes wrong there is nothing to complete: nothing is printed, and a cloud that does not answer is not waited for.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer

import quarterjack
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.local_installations import using
from quarterjack.settings import Settings, from_environment
from quarterjack.values import replace

if TYPE_CHECKING:
    from quarterjack import Scheduler

MOST = 50  # names that are offered
PATIENCE = 2.0  # seconds
_READ = 250  # schedules whose jobs are offered


def complete_schedules(context: typer.Context, incomplete: str) -> list[str]:
    """Names of schedules."""
    return _in_time(context, incomplete, _schedules)


def complete_jobs(context: typer.Context, incomplete: str) -> list[str]:
    """Names of jobs that workers know or schedules name."""
    return _in_time(context, incomplete, _jobs)


def complete_runs(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of runs: of a schedule after its ``#``, else the newest of all."""
    return _in_time(context, incomplete, _runs)


def complete_dead(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of dead runs."""
    return _in_time(context, incomplete, _dead)


def complete_queues(context: typer.Context, incomplete: str) -> list[str]:
    """Names of queues."""
    return _in_time(context, incomplete, _queues)


def complete_targets(context: typer.Context, incomplete: str) -> list[str]:
    """Names of schedules, and ids of runs once there is a ``/``."""
    return _in_time(context, incomplete, _targets)


def complete_pipelines(context: typer.Context, incomplete: str) -> list[str]:
    """Names of pipelines."""
    return _in_time(context, incomplete, _pipelines)


def complete_drawn(context: typer.Context, incomplete: str) -> list[str]:
    """Names of pipelines, and ids of runs once there is a ``/``."""
    return _in_time(context, incomplete, _drawn)


def complete_tasks(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the tasks of the run that was typed before."""
    run_id = (
        context.params.get("run_id") or context.params.get("name") or next(iter(context.args), "")
    )  # the second behind an option without its value
    return _in_time(context, incomplete, lambda settings, _: _tasks(settings, run_id))


def complete_words(parameter: str) -> Completer:
    """Completion of an option that takes one of a few words."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        # States are those of schedules or of runs, as the command's group has them.
        name = "run_state" if parameter == "state" and "schedules" not in context.command_path.split() else parameter
        return [word for word in _words()[name] if word.startswith(incomplete)]

    return complete


def _words() -> Mapping[str, Iterable[str]]:
    """The words of each option, from modules that few commands load."""
    from quarterjack.domain.history.entry import RunKind  # noqa: PLC0415 (as said)
    from quarterjack.domain.options import CatchUp, Overlap  # noqa: PLC0415
    from quarterjack.domain.policies import Backoff, Delivery, Priority, Start  # noqa: PLC0415
    from quarterjack.domain.run import RunState  # noqa: PLC0415
    from quarterjack.domain.schedule import ScheduleState  # noqa: PLC0415
    from quarterjack.sdk.pipelines.drawing import FORMS  # noqa: PLC0415
    from quarterjack.sdk.schedules.bulk import ACTIONS  # noqa: PLC0415
    from quarterjack.timing.exclusions import OnExcluded  # noqa: PLC0415
    from quarterjack.timing.zones.zone import Gap, Repeated  # noqa: PLC0415

    literals = {"on_excluded": OnExcluded, "gap": Gap, "repeated": Repeated}
    return {name: get_args(words) for name, words in literals.items()} | {
        "action": tuple(ACTIONS),
        "backoff": tuple(Backoff),
        "catch_up": tuple(CatchUp),
        "delivery": tuple(Delivery),
        "form": FORMS,
        "kind": tuple(RunKind),
        "overlap": tuple(Overlap),
        "priority": tuple(Priority),
        "run_state": tuple(RunState),
        "start": tuple(Start),
        "state": tuple(ScheduleState),
    }


Completer = Callable[[typer.Context, str], list[str]]
_WITH_WORDS = (
    *("action", "backoff", "catch_up", "delivery", "form", "gap", "kind"),
    *("on_excluded", "overlap", "priority", "repeated", "start", "state"),
)
# By the name of the parameter; the name of a schedule to create is nobody's yet.
COMPLETERS: Mapping[str, Completer] = {
    "job": complete_jobs,
    "name": complete_schedules,
    "pipeline": complete_pipelines,
    "queue": complete_queues,
    "run_id": complete_runs,
    "schedule": complete_schedules,
    "skip": complete_tasks,
    "target": complete_targets,
    "task": complete_tasks,
    **{name: complete_words(name) for name in _WITH_WORDS},
}
_OTHERS: Mapping[tuple[str, str], Completer | None] = {
    ("create", "name"): None,
    ("graph", "pipeline"): complete_drawn,
    ("redrive", "run_id"): complete_dead,
    ("show", "pipeline"): complete_drawn,
    ("why", "name"): complete_targets,
}


def completing(command: str, parameter: inspect.Parameter) -> inspect.Parameter:
    """A command's parameter, with completion if its name is one that is known here."""
    completer = _OTHERS.get((command, parameter.name), COMPLETERS.get(parameter.name))
    if completer is None or get_origin(parameter.annotation) is not Annotated:
        return parameter
    kind, *about = get_args(parameter.annotation)
    return parameter.replace(annotation=Annotated[(kind, *(_with(completer, one) for one in about))])


def _with(completer: Completer, info: Any) -> Any:
    """A copy of typer's information about a parameter, which other parameters may share."""
    if not hasattr(info, "autocompletion") or info.autocompletion is not None:
        return info
    found = copy(info)
    found.autocompletion = completer
    return found


def _in_time(context: typer.Context, incomplete: str, read: Callable[[Settings, str], Iterable[str]]) -> list[str]:
    """The names that ``read`` finds within PATIENCE, sorted. If the cloud does not answer, its thread ends with the process."""
    found: list[str] = []

    def look() -> None:
        with suppress(Exception), _local(context):
            names = {name for name in read(_settings(context), incomplete) if name.startswith(incomplete)}
            found.extend(sorted(names)[:MOST])

    thread = threading.Thread(target=look, name="completion", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return found[:]


def _local(context: typer.Context) -> AbstractContextManager[object]:
    """The local installation that --local chooses, if it is given."""
    which = context.find_root().params.get("local")
    return nullcontext() if which is None else using(which)


def _settings(context: typer.Context) -> Settings:
    """The settings of the environment and of the options before the command."""
    given = context.find_root().params
    named = {name: given[name] for name in ("tenant", "prefix") if given.get(name)}
    return replace(from_environment().at(given.get("endpoint")), **named)


def _scheduler(settings: Settings) -> Scheduler:
    return quarterjack.Scheduler(settings=settings)


def _schedules(settings: Settings, incomplete: str) -> Iterable[str]:
    return [one.name for one in _scheduler(settings).list_schedules(prefix=incomplete, limit=MOST).items]


def _jobs(settings: Settings, _: str) -> Iterable[str]:
    scheduler = _scheduler(settings)
    with suppress(Exception):  # the schedules may be readable all the same
        yield from (job.name for job in scheduler.jobs())
    yield from (one.job for one in scheduler.list_schedules(limit=_READ).items)


def _runs(settings: Settings, incomplete: str) -> Iterable[str]:
    owner, hash_, _ = incomplete.partition("#")
    _, _, schedule = owner.partition("/")
    of_schedule: dict[str, Any] = (
        {"name": schedule, "newest_first": True} if hash_ and not schedule.startswith("~") else {}
    )
    return [run.id for run in _scheduler(settings).list_runs(**of_schedule, limit=MOST).items]


def _dead(settings: Settings, _: str) -> Iterable[str]:
    return [run.id for run in _scheduler(settings).list_dead(limit=MOST).items]


def _queues(settings: Settings, _: str) -> Iterable[str]:
    from quarterjack.services import connect  # noqa: PLC0415 (completion alone needs it)

    return [DEFAULT_QUEUE, *connect(settings).work.names()]


def _targets(settings: Settings, incomplete: str) -> Iterable[str]:
    return _or_runs(_schedules, settings, incomplete)


def _or_runs(names: Callable[[Settings, str], Iterable[str]], settings: Settings, incomplete: str) -> Iterable[str]:
    """What is given by its name, or by the id of one of its runs."""
    if "#" not in incomplete:
        yield from names(settings, incomplete)
    if "/" in incomplete:
        yield from _runs(settings, incomplete)


def _pipelines(settings: Settings, incomplete: str) -> Iterable[str]:
    return [one.name for one in _scheduler(settings).list_pipelines(prefix=incomplete, limit=MOST).items]


def _drawn(settings: Settings, incomplete: str) -> Iterable[str]:
    return _or_runs(_pipelines, settings, incomplete)


def _tasks(settings: Settings, run_id: str) -> Iterable[str]:
    return [task.name for task in _scheduler(settings).pipeline_run(run_id).tasks]
