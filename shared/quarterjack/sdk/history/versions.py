"""SDK methods about application versions: which there are, which new runs are assigned to, and moving a run to another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.app_versions import AppVersion, AppVersions, check_share, check_version
from quarterjack.domain.times import from_ms
from quarterjack.errors import NotFound
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.views import Run


@dataclass(frozen=True, kw_only=True)
class ApplicationVersion:
    """A release of the application whose jobs run here."""

    version_id: str
    version_name: str  # as its workers say it
    version_timestamp: datetime  # UTC: when it became the latest; the greatest is that of the latest version
    created_at: datetime  # UTC: when its first worker started
    share: float  # of the runs that no later version takes, 0 to 1
    is_latest: bool
    moved_to: str | None = None  # name of the version that takes its runs since it was retired


class VersionMethods(SchedulerBase):
    def list_application_versions(self) -> Sequence[ApplicationVersion]:
        """The versions that workers have registered, the latest first; 100 at most. Raises Forbidden, Unavailable."""
        versions = self._versions()
        return [version_view(version, versions) for version in versions.versions]

    def get_latest_application_version(self) -> ApplicationVersion:
        """The version that new runs are assigned to. Raises NotFound (no worker has started yet), Forbidden, Unavailable."""
        versions = self._versions()
        if versions.latest is None:
            raise NotFound("there is no application version: the first worker that starts registers its own")
        return version_view(versions.latest, versions)

    def set_latest_application_version(self, name: str, *, share: float = 1.0) -> ApplicationVersion:
        """Assign new runs to this version from now on; all processes follow within 5 s.

        With a ``share`` it gets that part of the runs (0.1: a tenth), and the version that was the latest the others. A run's id decides,
        so a retry and a replay agree. To roll back, make the old version the latest. Runs that were sent before keep their version.
        Concerns all tenants. Raises InvalidInput, NotFound, Conflict, Forbidden, Unavailable.
        """
        wanted, part = check_version(name), check_share(share)
        self._access.check(Verb.SET_VERSION)
        from quarterjack.owner.app_versions import set_latest  # noqa: PLC0415 (`import quarterjack` need not take its time)

        made = set_latest(wanted, part, self._context)
        return version_view(made, AppVersions(versions=(made,)))

    def retire_application_version(self, name: str, *, to: str) -> ApplicationVersion:
        """Let another version start the waiting runs of this one: all of them, within 5 s and without a write for each.

        It gets no new runs. ``set_latest_application_version`` of it ends that. Concerns all tenants.
        Raises InvalidInput, NotFound, Conflict, Forbidden, Unavailable.
        """
        retired, taker = check_version(name), check_version(to, "to")
        self._access.check(Verb.SET_VERSION)
        from quarterjack.owner.app_versions import retire  # noqa: PLC0415 (as above)

        return version_view(retire(retired, taker, self._context), AppVersions())

    def reassign_run(self, run_id: str, version: str) -> Run:
        """Assign a waiting run to another version, whose workers start it within a minute.

        Raises InvalidInput, NotFound (of the run, or of the version), Conflict (it runs or has ended), Forbidden, Unavailable.
        """
        wanted = check_version(version)
        run = self._access.read_run(run_id, Verb.RETRY)
        from quarterjack.owner.app_versions import reassign_run  # noqa: PLC0415 (as above)

        return self._access.run_view(reassign_run(run, wanted, self._context))

    def _versions(self) -> AppVersions:
        self._access.check_some(Verb.READ_INSTALLATION)
        return self.session.services.tenants.app_versions.read(self.session.clock())


def version_view(version: AppVersion, versions: AppVersions) -> ApplicationVersion:
    """The public form of a version among all."""
    return ApplicationVersion(
        version_id=version.id,
        version_name=version.name,
        version_timestamp=from_ms(version.timestamp),
        created_at=from_ms(version.created_at),
        share=version.share,
        moved_to=version.moved_to,
        is_latest=versions.latest is not None and versions.latest.name == version.name,
    )
