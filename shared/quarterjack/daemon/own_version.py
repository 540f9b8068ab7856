"""The application version of this process: its name, which jobs are pinned, and its registration."""

from __future__ import annotations

from functools import cache, partial

from quarterjack.domain.tenants.app_versions import check_version
from quarterjack.job_packages import app_version_of
from quarterjack.jobs import Registry
from quarterjack.owner.app_versions import VersionRegistrar
from quarterjack.ports.services import Services
from quarterjack.settings import Settings
from quarterjack.worker.context import KnownJobs
from quarterjack.worker.versions import OwnVersion


def own_version(jobs: KnownJobs, settings: Settings) -> OwnVersion:
    """The application version of a process with these jobs. Raises InvalidInput for a setting that is no name."""
    if not isinstance(jobs, Registry):
        return OwnVersion()
    if settings.app_version is not None:
        check_version(settings.app_version, "QUARTERJACK_APP_VERSION")
    pinned = settings.run_on == "assigned"
    some = any(pinned if job.pinned is None else job.pinned for job in jobs)
    name, share = cache(partial(app_version_of, jobs, settings.app_version)), settings.app_version_share / 100
    return OwnVersion(name=name, pinned=pinned, some=some, share=share)


def registrar_of(services: Services, version: OwnVersion) -> VersionRegistrar | None:
    """Registers the application version of this process, if it has one."""
    return None if version.share is None else VersionRegistrar(services, version.name, version.share)
