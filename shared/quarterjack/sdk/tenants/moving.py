"""Methods of ``Tenants`` that move a tenant, or all of them, to another installation: dump, load, and the end of schedules there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.names import check_flag, check_tenant
from quarterjack.domain.schedule import Head, ScheduleState
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.domain.times import SECOND, from_ms, to_ms
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.context import FireContext, revision_of
from quarterjack.owner.schedules.arm import resume
from quarterjack.owner.schedules.client_tokens import ScheduleCall
from quarterjack.owner.schedules.stop import pause
from quarterjack.sdk.tenants.base import TenantsBase

if TYPE_CHECKING:  # who moves nothing loads nothing of it
    from quarterjack.moving.load import Refused

_AT_ONCE = 8  # schedules that are ended at the same time
_PAGE = 500  # heads of one query
_AHEAD = 30 * SECOND  # of the end of schedules, at least


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Result of ``load``, by kind of item."""

    created: Mapping[str, int]  # that are new here, or would be
    started: Mapping[str, int]  # schedules that an earlier load left paused
    unchanged: Mapping[str, int]  # that are here, and equal
    refused: Mapping[str, int]  # that are not loaded
    problems: Sequence[Refused]  # why, by line: the first 1,000
    warnings: Mapping[str, int]  # what is odd, and of how many items
    written: bool  # False: a dry run, or nothing to do, or something is refused and ``skip`` was not given


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Result of ``end_schedules``."""

    at: datetime  # UTC
    schedules: int = 0  # whose fires end then; with ``undo``: that go on
    timers: Mapping[str, datetime] = field(
        default_factory=dict
    )  # paused schedules that would have resumed by themselves
    failed: Mapping[str, str] = field(default_factory=dict)  # error by name of the schedule

    @property
    def count(self) -> int:
        """Number of schedules that were changed."""
        return self.schedules + len(self.timers)


class MoveMethods(TenantsBase):
    def dump(self, tenant: str | None = None, *, history: bool = True, since: datetime | None = None) -> Iterator[str]:
        """Everything of a tenant, or of all with the installation's own, as lines of JSON; read while the iterator advances.

        Profiles with limits and grants, freezes, schedules and pipelines with their payloads; with ``history`` the ended runs and, with an
        archive, their transitions, all or since a time (aware). Of the installation also application versions and names of queues. API
        keys, secrets and runs that have not ended are not in it. The audit has an entry. Raises InvalidInput, Forbidden, Unavailable.
        """
        whose = None if tenant is None else check_tenant(tenant)
        check_flag("history", history)
        begin = 0 if since is None else to_ms(since, "since")
        target = INSTALLATION if whose is None else whose
        self._permit(Verb.DUMP, target)
        from quarterjack.moving.dump import DumpRequest, dump_lines  # noqa: PLC0415 (as said)

        services = self.session.services
        services.audit.write(audit_entry(AuditAct.DUMP, target, self._context))
        asked = DumpRequest(
            installation=self.session.settings.prefix,
            tenant=whose,
            now=self.session.clock(),
            since=begin if history else None,
            permit=lambda found: self._permit(Verb.DUMP, found),
        )
        return dump_lines(asked, services)

    def load(
        self,
        file: str | Path,
        *,
        start: datetime | None = None,
        dry_run: bool = False,
        skip: bool = False,
        strict: bool = False,
        grants: bool = True,
        on_progress: Callable[[int], object] = lambda lines: None,
    ) -> Loaded:
        """Put what a file of ``dump`` holds into this installation. A repeated load goes on where an interrupted one stopped.

        Schedules arrive paused. With ``start`` (aware) those that were active, and those whose fires end exactly then, fire from then on,
        exclusive: give the time of ``end_schedules`` there. One that has passed is caught up by the schedule's ``catch_up``.
        The whole file is checked first. A line that cannot be read, or is about something that is here with another content, is
        refused, and then nothing is written, or with ``skip`` all others are. A ``dry_run`` only checks. ``strict`` refuses a job that no
        worker has published. Without ``grants`` profiles arrive without them. ``on_progress`` is told the lines so far, of both passes.
        Raises InvalidInput (the file is none, or cut off), Forbidden, Unavailable.
        """
        begin = None if start is None else to_ms(start, "start")
        flags = {
            name: check_flag(name, given) for name, given in (("dry_run", dry_run), ("skip", skip), ("strict", strict))
        }
        check_flag("grants", grants)
        self._permit(Verb.LOAD, INSTALLATION)
        from quarterjack.moving.check import Decided  # noqa: PLC0415 (as said)
        from quarterjack.moving.load import LoadRequest, load  # noqa: PLC0415 (as said)
        from quarterjack.moving.locks import LockOut  # noqa: PLC0415 (as said)

        lock_out = LockOut(principals=lambda: self.session.gate.principals(self.session.caller), with_grants=grants)
        asked = LoadRequest(path=Path(file), start=begin, lock_out=lock_out, advance=on_progress, **flags)
        tally, written = load(asked, self._context)
        return Loaded(
            created=dict(tally.done[Decided.CREATE]),
            started=dict(tally.done[Decided.START]),
            unchanged=dict(tally.done[Decided.UNCHANGED]),
            refused=dict(tally.done[Decided.REFUSED]),
            problems=tally.refused,
            warnings=dict(tally.warnings),
            written=written,
        )

    def end_schedules(self, tenant: str, at: datetime, *, undo: bool = False) -> Ended:
        """End the fires of all active schedules of a tenant at a time (aware, 30 s ahead at least), inclusive: they are paused with it.

        Fires until then start, also those that are late. A paused schedule that would resume by itself does not any more: its time is in
        ``timers``. A repeated call with the same time does the rest. ``undo`` lets the schedules whose fires end then go on, from
        then on, or from now if that is later. Each schedule is a transaction with its audit entry. Raises InvalidInput, Forbidden,
        Unavailable.
        """
        holder, end = check_tenant(tenant), to_ms(at, "at")
        if not check_flag("undo", undo) and end < self.session.clock() + _AHEAD:
            remedy = (
                "give one that is ahead by the time that all schedules take: a transaction each, eight at the same time"
            )
            raise InvalidInput("at", at, f"is not {_AHEAD // SECOND} s ahead", remedy)
        for verb in (Verb.PAUSE, *([Verb.RESUME] if undo else [])):
            self._permit(verb, holder)
        act = _Ending(holder, end, self._context, undo=undo)
        cursor: str | None = None
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while True:
                page = self.session.services.schedules.page(holder, prefix="", limit=_PAGE, cursor=cursor)
                list(pool.map(act.on, page.items))
                act.failed |= {name: str(problem) for name, problem in page.unread.items()}  # they go on firing
                cursor = page.cursor
                if cursor is None:
                    break
        timers = {name: from_ms(until) for name, until in sorted(act.timers.items())}
        return Ended(at=from_ms(end), schedules=len(act.done), timers=timers, failed=dict(sorted(act.failed.items())))


class _Ending:
    """What becomes of each schedule. Its collections are changed by single operations, from several threads."""

    def __init__(self, tenant: str, end: int, context: FireContext, *, undo: bool) -> None:
        self._tenant, self._end, self._context, self._undo = tenant, end, context, undo
        self.done: list[str] = []
        self.timers: dict[str, int] = {}
        self.failed: dict[str, str] = {}

    def on(self, head: Head) -> None:
        try:
            self._go_on(head) if self._undo else self._stop(head)
        except QuarterjackError as problem:
            self.failed[head.name] = str(problem)

    def _stop(self, head: Head) -> None:
        call = ScheduleCall(tenant=self._tenant, name=head.name, expected=head.revision)
        if head.state is ScheduleState.ACTIVE:
            pause(call, self._context, reason=f"moved at {from_ms(self._end).isoformat()}", drain=True, at=self._end)
            self.done.append(head.name)
        elif head.state is ScheduleState.PAUSED and head.resume_at is not None:
            pause(call, self._context, drain=True)
            self.timers[head.name] = head.resume_at

    def _go_on(self, head: Head) -> None:
        if head.state is not ScheduleState.PAUSED:
            return
        if revision_of(head, self._context.services).active_until == self._end:
            resume(ScheduleCall(tenant=self._tenant, name=head.name, expected=head.revision), self._context)
            self.done.append(head.name)
