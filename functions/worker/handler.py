"""The worker: runs the jobs of a batch of messages."""

from __future__ import annotations

import os
from collections import deque
from functools import cache, partial
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from quarterjack.daemon.own_version import own_version, registrar_of
from quarterjack.daemon.worker_record import RecordKeeper, catalogue_of, function_identity
from quarterjack.daemon.worker_shell import tell_unusable_secrets
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.times import SECOND
from quarterjack.errors import Misconfigured
from quarterjack.job_packages import load
from quarterjack.jobs import Registry
from quarterjack.services import system_clock
from quarterjack.settings import from_environment
from quarterjack.signals.catalogue import counted
from quarterjack.signals.worker import WorkerFigures
from quarterjack.state.worker_record import WorkerKind
from quarterjack.worker.stages import LeasedRun
from quarterjack.worker.versions import OwnVersion

from functions.observe import around_run, emit, logger, metrics, named, services
from functions.worker.batch import work_off

end_process = os._exit
PartialResponse = dict[str, list[dict[str, str]]]  # the messages that Lambda must not delete


def handler(event: dict[str, Any], context: LambdaContext) -> PartialResponse:
    """Run a batch; then, if the thread of a job was left running, end the process, so that Lambda starts another.

    By then every run is settled and its message deleted, so that the error that Lambda sees repeats nothing.
    """
    ended: tuple[PartialResponse, bool] = _run(event, context)
    response, abandoned = ended
    if abandoned:
        end_process(1)
    return response


@logger.inject_lambda_context
@metrics.log_metrics
def _run(event: dict[str, Any], context: LambdaContext) -> tuple[PartialResponse, bool]:
    """The messages that stay in the queue, as the others are deleted already; and whether a job's thread was abandoned."""
    begun = deque[LeasedRun]()  # any thread appends
    done, abandoned = work_off(
        event["Records"],
        services(),
        _jobs,
        name=context.aws_request_id,
        started=begun.extend,
        around=around_run,
        remaining=lambda: context.get_remaining_time_in_millis() / SECOND,
        keeper=lambda: _keeper(context.function_name, context.log_stream_name),
        own_version=_version,
    )
    emit([*_figures().of_starts(begun), *_figures().of_ends(done.values())])
    if abandoned:
        logger.error("worker.recycling")
    kept = [message for message, (_, outcome) in done.items() if not outcome.gone]
    return {"batchItemFailures": [{"itemIdentifier": message} for message in kept]}, abandoned


@cache
def _jobs() -> Registry:
    package = from_environment().jobs
    if package is None:
        raise Misconfigured("QUARTERJACK_JOBS is not set; set it to the package whose jobs this worker runs")
    try:
        jobs = load(package)
    except BaseException as problem:  # a package may call sys.exit when it is imported
        emit(counted(JobsNotImported=1))
        logger.exception("jobs.not_imported", jobs=package, error=f"{type(problem).__name__}: {problem}")
        raise
    tell_unusable_secrets(jobs)
    return jobs


@cache
def _keeper(function: str, log_stream: str) -> RecordKeeper:
    """Of the record of this environment, which there is with the history only, and of what it says in the catalogue of jobs."""
    settings, ours = from_environment(), services()
    queue = settings.work_queue or DEFAULT_QUEUE
    version = _version()
    identify = partial(function_identity, function, log_stream, _jobs(), app_version=version.name, queue=queue)
    return RecordKeeper(
        ours,
        WorkerKind.FUNCTION,
        identify if settings.history else None,
        system_clock,
        catalogue_of(ours, _jobs()),
        registrar_of(ours, version),
    )


@cache
def _version() -> OwnVersion:
    return own_version(_jobs(), from_environment())


def _figures() -> WorkerFigures:
    return WorkerFigures(_jobs, named(), _version().name)
