"""Register the application version of a process, make a version the latest, assign a run to another version."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.run import WAITING, RunRow
from quarterjack.domain.tenants.app_versions import AppVersion, AppVersions
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.domain.times import MINUTE
from quarterjack.errors import Conflict
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.context import FireContext, run_must_exist
from quarterjack.ports.services import Services
from quarterjack.state.before_start import reassign

log = logging.getLogger(__name__)

_RACES = 8  # changes that others may make meanwhile
_AGAIN = 5 * MINUTE  # after a registration that failed


class VersionRegistrar:
    """Registers the version of one process when it starts: a read, and a write if it is a new version."""

    def __init__(self, services: Services, name: Callable[[], str], share: float = 1.0) -> None:
        """``name`` is called once, in the caller's thread: it may read files. ``share``: of the runs, that a new version gets."""
        self._services, self._name, self._share = services, name, share
        self._next: int | None = 0  # UTC ms; None: it is registered

    def register(self, now: int) -> None:
        """Do it, if it is not done. Raises Unavailable, Conflict, InvalidInput, and is tried again in five minutes."""
        if self._next is None or now < self._next:
            return
        self._next = now + _AGAIN
        name = self._name()
        versions = register(name, self._share, self._services, now)
        self._next = None
        latest = versions.latest
        if latest is not None and latest.name != name:
            log.warning("version.not_latest", extra={"version": name, "latest": latest.name})


def register(name: str, share: float, services: Services, now: int) -> AppVersions:
    """All versions, with this one. A new one is the latest, for a ``share`` of the runs. Raises Unavailable, Conflict."""
    for _ in range(_RACES):
        present = services.tenants.app_versions.read(now)
        if present.find(name) is not None:
            return present
        last = 0 if present.latest is None else present.latest.timestamp
        at = max(now, last + 1)
        first = share if present.versions else 1.0  # nothing else would take the other runs
        version = AppVersion(name=name, id=uuid.uuid4().hex, timestamp=at, created_at=at, share=first)
        if services.tenants.app_versions.put(present.registered(version)):
            log.info("version.registered", extra={"version": name, "share": first})
    raise Conflict(f"version={name!r}: the versions changed {_RACES} times meanwhile; it is registered at the next try")


def set_latest(name: str, share: float, context: FireContext) -> AppVersion:
    """The version as the latest. Nothing is written if it is that already. Raises NotFound, Conflict, Unavailable."""
    store, now = context.services.tenants.app_versions, context.clock()
    for _ in range(_RACES):
        present = store.read(now)
        after, before = present.with_latest(name, share=share, now=now), present.latest
        made = after.versions[0]
        if before is present.versions[0] and (before.name, before.share) == (name, share):
            return before
        was = None if before is None else before.name
        audit = audit_entry(AuditAct.SET_VERSION, INSTALLATION, context, version=name, share=share, was=was)
        if store.put(after, audit):
            return made
    raise Conflict(f"version={name!r}: the versions changed {_RACES} times meanwhile; call again")


def retire(name: str, to: str, context: FireContext) -> AppVersion:
    """The version, whose runs another one takes from now on. Raises NotFound, InvalidInput, Conflict, Unavailable."""
    store = context.services.tenants.app_versions
    for _ in range(_RACES):
        present = store.read(context.clock())
        after = present.retired(name, to)
        if after == present or store.put(
            after, audit_entry(AuditAct.RETIRE_VERSION, INSTALLATION, context, version=name, to=to)
        ):
            return after.must_have(name)
    raise Conflict(f"version={name!r}: the versions changed {_RACES} times meanwhile; call again")


def reassign_run(run: RunRow, version: str, context: FireContext) -> RunRow:
    """The run, assigned to another version. ``run`` as it was just read. Raises NotFound, Conflict, Unavailable."""
    context.services.tenants.app_versions.read(context.clock()).must_have(version)
    if run.app_version == version and run.state in WAITING:
        return run
    audit = audit_entry(AuditAct.REASSIGN, str(run.ref), context, version=version, was=run.app_version)
    moved = context.services.ledger.move(run.ref, reassign(version=version), audit)
    there = run_must_exist(run.ref, moved.run)
    if not moved.applied:
        remedy = "cancel it, or wait for its end" if not there.is_terminal else "replay_run() makes a new run"
        raise Conflict(
            f"run_id={str(run.ref)!r}: it is {there.state}, so its version does not change any more; {remedy}"
        )
    return there
