"""Secrets in variables that a worker could not use: told when it starts, and not by the first run or notice that needs one."""

from __future__ import annotations

import logging

from quarterjack.errors import Misconfigured
from quarterjack.jobs import Registry
from quarterjack.worker.context import KnownJobs

log = logging.getLogger(__name__)


def tell_unusable_secrets(jobs: KnownJobs) -> int:
    """Log an error for each job with such a variable; how many there are. The others run, so the worker starts."""
    found = 0
    for job in jobs if isinstance(jobs, Registry) else ():
        check = getattr(job.function, "check_secrets", None)
        try:
            if check is not None:
                check()
        except Misconfigured as problem:
            found += 1
            log.error("worker.secret_unusable", extra={"job": job.name, "error": str(problem)})
    return found
