"""What loading each line of a dump would do here, decided from what is stored: nothing is written.

decision     when
create       there is no such thing
start        it is here as an earlier load left it, paused, and now starts
unchanged    it is here, and equal
refused      the line cannot be read; it is here with another definition; a queue does not exist; a caller would be locked out
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any

from quarterjack.domain.history.entry import HistoryEntry
from quarterjack.domain.history.transition_line import TransitionLine, iso, parse_line
from quarterjack.domain.names import check_tenant, is_builtin
from quarterjack.domain.payload import json_text
from quarterjack.domain.pipelines.reading import graph_of
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.schedule import Freeze, Head, Revision, ScheduleState
from quarterjack.domain.tenants.access import job_problem
from quarterjack.domain.tenants.app_versions import AppVersion
from quarterjack.domain.tenants.profile import INSTALLATION, SHARED, Governance, TenantProfile
from quarterjack.errors import InvalidInput, QuarterjackError, Unavailable, Unreadable
from quarterjack.fires.context import FireContext
from quarterjack.moving.arrive import begins_at, may_start
from quarterjack.moving.file import Header, Line
from quarterjack.moving.items import entry_of, frozen_of, profile_of, queue_of, version_of
from quarterjack.moving.locks import LockOut
from quarterjack.moving.schedules import ScheduleItem, differences, schedule_of
from quarterjack.owner.catalogue import KnownNames
from quarterjack.owner.freeze import read_freeze
from quarterjack.stores.rows import refuse_unread
from quarterjack.values import value

_BATCH = 100  # lines whose heads and revisions are read at once
_PROFILE = ("state", "jobs", "grants", "tier", "queue", "limits", "description", "suspension_reason")

Item = TenantProfile | Freeze | AppVersion | ScheduleItem | HistoryEntry | TransitionLine


class Decided(StrEnum):
    CREATE = "create"
    START = "start"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@value(kw_only=True)
class LoadDecision:
    """What becomes of a line."""

    line: Line
    what: Decided
    item: Item | None = None
    there: Head | None = None  # of a schedule, as it was read
    problem: InvalidInput | None = None  # of a refused line
    warnings: Sequence[str] = ()


class Checks:
    """The decisions of one pass over a file."""

    def __init__(
        self, header: Header, context: FireContext, *, start: int | None, strict: bool, lock_out: LockOut
    ) -> None:
        self._header, self._context, self._services = header, context, context.services
        self._start, self._strict, self._lock_out = start, strict, lock_out
        self._queues = {DEFAULT_QUEUE, *context.services.work.names()}
        self._jobs = KnownNames(context.services, context.clock)
        self._versions = context.services.tenants.app_versions.read(context.clock())
        self._profiles: dict[str, TenantProfile | None] = {}  # as they will be

    def decisions(self, lines: Iterator[Line]) -> Iterator[LoadDecision]:
        """One for each line, in their order. Raises Unavailable, TooNew, Unreadable."""
        while batch := list(islice(lines, _BATCH)):
            parsed = [self._parsed(line) for line in batch]
            stored = self._stored([each for each in parsed if isinstance(each, ScheduleItem)])
            for line, item in zip(batch, parsed, strict=True):
                yield self._decided(line, item, stored)

    def _parsed(self, line: Line) -> Item | str | InvalidInput:
        if line.problem is not None:
            return line.problem
        try:
            found = _READERS[line.item](line.values)
        except InvalidInput as problem:
            return problem
        tenant = line.values.get("tenant")
        if self._header.tenant is not None and line.item != "queue" and tenant != self._header.tenant:
            remedy = f"load tenants from dumps of their own: the first line says {self._header.tenant!r}"
            return InvalidInput("tenant", tenant, "is another tenant than that of the dump", remedy)
        return found

    def _decided(
        self, line: Line, item: Item | str | InvalidInput, stored: Mapping[str, tuple[Head, Revision | None]]
    ) -> LoadDecision:
        warnings: list[str] = []
        try:
            match item:
                case InvalidInput():
                    raise item
                case str():
                    what, there = Decided.UNCHANGED, None
                    if item not in self._queues:
                        warnings.append(f"queue={item!r} does not exist here: declare it, and deploy")
                    return LoadDecision(line=line, what=what, warnings=warnings)
                case TenantProfile():
                    item = self._lock_out.without_grants(item)
                    what, there = self._of_profile(item), None
                case Freeze():
                    what, there = self._of_freeze(item), None
                case AppVersion():
                    what, there = self._of_version(item, warnings), None
                case ScheduleItem():
                    what, there = self._of_schedule(item, stored.get(item.owner), warnings)
                case _:
                    what, there = Decided.CREATE, None
        except InvalidInput as problem:
            return LoadDecision(line=line, what=Decided.REFUSED, problem=problem)
        return LoadDecision(line=line, what=what, item=item, there=there, warnings=warnings)

    # Schedules.

    def _stored(self, items: Sequence[ScheduleItem]) -> Mapping[str, tuple[Head, Revision | None]]:
        """Heads and revisions by owner, in two requests for a hundred."""
        heads = self._services.schedules.heads(dict.fromkeys((each.tenant, each.name) for each in items))
        keys = [(head.owner, head.revision) for head in heads if head.retired_at is None]
        answer = self._services.schedules.revisions(keys) if keys else None
        if answer is not None and answer.unanswered:
            raise Unavailable("revisions of schedules could not be read; try again")
        refuse_unread(() if answer is None else answer.broken.values(), "revisions of schedules")
        found = {} if answer is None else answer.found
        return {head.owner: (head, found.get((head.owner, head.revision))) for head in heads}

    def _of_schedule(
        self, item: ScheduleItem, stored: tuple[Head, Revision | None] | None, warnings: list[str]
    ) -> tuple[Decided, Head | None]:
        begin = begins_at(item, self._start)
        if stored is not None and stored[0].state is not ScheduleState.DELETED:
            head, revision = stored
            if revision is None:
                raise Unavailable(f"the revision of {head.owner!r} is missing; run the auditor")
            return self._of_present(item, head, revision, begin), head
        self._check_tenant(item.tenant)
        self._check_jobs(item, warnings)
        if stored is None:
            return Decided.CREATE, None
        until = None if stored[1] is None else stored[1].active_until
        if begin is not None and until is not None and until > begin:
            remedy = f"load it with a start from {iso(until)} on"
            raise InvalidInput("name", item.name, f"was deleted here at {iso(until)}, after the start", remedy)
        return Decided.CREATE, stored[0]

    def _of_present(self, item: ScheduleItem, head: Head, revision: Revision, begin: int | None) -> Decided:
        if differing := differences(item, head, revision.definition):
            problem = f"exists here with another definition: {', '.join(differing)} differ"
            raise InvalidInput("name", item.name, problem, "make them equal, delete it here, or leave the line out")
        if begin is None or revision.active_from == begin:
            return Decided.UNCHANGED
        if may_start(item, head, revision):
            return Decided.START
        state = f"{head.state} since {iso(revision.active_until or revision.active_from)}"
        remedy = "resume it by hand, or delete it here and load again"
        raise InvalidInput("start", iso(begin), f"is not when {item.name!r} starts: it is {state}", remedy)

    def _check_jobs(self, item: ScheduleItem, warnings: list[str]) -> None:
        tasks = item.definition.options.tasks
        graph = () if tasks is None else graph_of(tasks, halts=True).tasks
        names = [("job", item.definition.job), *((f"tasks.{task.name}.job", task.job or "") for task in graph)]
        for field, job in names:
            if job and not is_builtin(job):
                self._check_job(item.tenant, field, job, warnings)
        queues = [
            ("queue", item.definition.options.queue),
            *((f"tasks.{each.name}.queue", each.queue) for each in graph),
        ]
        for field, queue in queues:
            if queue is not None and queue not in self._queues:
                raise InvalidInput(
                    field, queue, "is not a queue of this installation", "declare it here, and deploy first"
                )

    def _check_job(self, tenant: str, field: str, job: str, warnings: list[str]) -> None:
        try:
            found = self._jobs.of(job)
        except QuarterjackError:
            if self._strict:
                raise
            return
        entry = found.entries.get(job)
        problem = job_problem(self._governance(tenant), job, by_name=entry is not None and entry.job.by_name)
        if problem is not None:
            raise InvalidInput(
                field, job, f"is not granted ({problem})", f"quarterjack tenants set {tenant} --add-job {job}"
            )
        if entry is None and self._strict:
            raise InvalidInput(field, job, "no worker has published this job", "start a worker that knows it first")
        if entry is None:
            warnings.append(f"job={job!r}: no worker of this installation has published it")

    # What tenants have.

    def _profile(self, tenant: str) -> TenantProfile | None:
        if tenant not in self._profiles:
            self._profiles[tenant] = self._services.tenants.profile(tenant)
        return self._profiles[tenant]

    def _governance(self, tenant: str) -> Governance:
        own = self._profile(tenant)
        tier = None if own is None or own.tier is None else self._profile(f"{SHARED}{own.tier}")
        return Governance(tenant=tenant, own=own, tier=tier, installation=self._profile(INSTALLATION))

    def _check_tenant(self, tenant: str) -> None:
        profile = self._profile(check_tenant(tenant))
        if profile is not None and profile.is_erased:
            raise InvalidInput("tenant", tenant, f"is {profile.state} here", "its name is not used again")

    def _of_profile(self, item: TenantProfile) -> Decided:
        present = self._profile(item.tenant)
        if present is None:
            if item.tier is not None and self._profile(f"{SHARED}{item.tier}") is None:
                raise InvalidInput("tier", item.tier, "has no profile here", f"create '{SHARED}{item.tier}' first")
            self._profiles[item.tenant] = item
            self._lock_out.check(self._governance(item.tenant), item)
            return Decided.CREATE
        compared = [name for name in _PROFILE if name != "grants" or self._lock_out.with_grants]
        differing = [name for name in compared if getattr(present, name) != getattr(item, name)]
        if differing:
            problem = f"has another profile here: {', '.join(differing)} differ"
            raise InvalidInput("tenant", item.tenant, problem, "make them equal, or leave the line out")
        return Decided.UNCHANGED

    def _of_freeze(self, item: Freeze) -> Decided:
        present = read_freeze(item.tenant, self._services, self._context.clock)
        if item.until <= self._context.clock() or (present is not None and present.until == item.until):
            return Decided.UNCHANGED
        if present is not None:
            problem = f"is frozen here until {iso(present.until)}"
            raise InvalidInput("tenant", item.tenant, problem, "thaw it here, or leave the line out")
        return Decided.CREATE

    def _of_version(self, item: AppVersion, warnings: list[str]) -> Decided:
        """Versions are loaded all together into an installation that has none: its own workers' decide otherwise."""
        if not self._versions.versions:
            return Decided.CREATE
        if self._versions.find(item.name) is None:
            warnings.append("this installation has application versions of its own: those of the dump are left out")
        return Decided.UNCHANGED


def _transition(values: Mapping[str, Any]) -> TransitionLine:
    try:
        return parse_line(json_text(dict(values)))
    except Unreadable as problem:
        remedy = "take the line as the archive has it, or leave it out"
        raise InvalidInput("run", values.get("run"), f"is no transition ({problem})", remedy) from None


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Item | str]] = {
    "application-version": version_of,
    "queue": queue_of,
    "tenant": profile_of,
    "freeze": frozen_of,
    "schedule": schedule_of,
    "run": entry_of,
    "transition": _transition,
}
