"""Load a dump: a first pass over the file decides each line and writes nothing, a second one writes.

Each item is one write or one transaction, conditional on what was read, and none is half-written. What is here already is left as it is,
so after a crash the same call goes on where the one before died.

| item | write | a repeated load |
|---|---|---|
| application versions | all in one row, if the installation has none | finds them |
| profile, freeze | one transaction with its audit entry | finds it |
| schedule | one transaction: head, revision, agenda entry, audit entry | finds it |
| run | pages of the history, whose keys follow from their content | writes the same pages again |
| transition | objects of the archive, likewise | writes the same objects again |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.archive_objects import by_hour, object_key, pack
from quarterjack.domain.history.entry import Book, HistoryEntry
from quarterjack.domain.history.transition_line import TransitionLine, iso
from quarterjack.domain.schedule import Freeze
from quarterjack.domain.tenants.app_versions import AppVersion, AppVersions
from quarterjack.domain.tenants.profile import INSTALLATION, TenantProfile
from quarterjack.errors import Conflict, InvalidInput, Misconfigured, QuarterjackError, Unavailable
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.context import FireContext
from quarterjack.historian.pages import pages_of
from quarterjack.moving.arrive import arrive
from quarterjack.moving.check import Checks, Decided, LoadDecision
from quarterjack.moving.file import Header, read
from quarterjack.moving.locks import LockOut
from quarterjack.moving.schedules import ScheduleItem
from quarterjack.owner.freeze import freeze
from quarterjack.owner.tenants import create

MOST_TOLD = 1_000  # refused lines that are told one by one
_RUNS, _TRANSITIONS = 5_000, 20_000  # lines that are written together
_SCHEDULES, _AT_ONCE = 100, 8  # schedules that are written before the next are decided, and at the same time
_BATCH = "loaded"  # in the keys of objects of the archive
_STOPS = (Unavailable, Misconfigured)  # errors after which nothing else would succeed


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A line that is not loaded."""

    line: int
    item: str  # its kind
    field: str
    value: str
    problem: str
    remedy: str


@dataclass(kw_only=True)
class LoadTally:
    """The counts of a pass."""

    done: dict[Decided, Counter[str]] = field(default_factory=lambda: {each: Counter() for each in Decided})
    refused: list[Refused] = field(default_factory=list)  # the first MOST_TOLD
    warnings: Counter[str] = field(default_factory=Counter)  # how often each text holds

    def add(self, decision: LoadDecision) -> None:
        self.done[decision.what][decision.line.item or "line"] += 1
        self.warnings.update(decision.warnings)
        if decision.problem is not None:
            self._tell(decision, decision.problem)

    def fail(self, decision: LoadDecision, problem: QuarterjackError) -> None:
        """A line that was to be written, and was refused."""
        known = problem if isinstance(problem, InvalidInput) else InvalidInput("line", "", str(problem), "load again")
        self.done[Decided.REFUSED][decision.line.item] += 1
        self._tell(decision, known)

    def _tell(self, decision: LoadDecision, problem: InvalidInput) -> None:
        if len(self.refused) < MOST_TOLD:
            about = {"field": problem.field, "value": str(problem.value)[:200], "problem": problem.problem}
            told = Refused(line=decision.line.number, item=decision.line.item, remedy=problem.remedy, **about)
            self.refused.append(told)

    def count(self, what: Decided) -> int:
        return sum(self.done[what].values())


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """How a file is loaded."""

    path: Path
    start: int | None  # UTC ms
    strict: bool
    skip: bool  # load what is not refused
    dry_run: bool
    lock_out: LockOut
    advance: Callable[[int], object] = lambda lines: None  # is told the number of lines so far


def load(asked: LoadRequest, context: FireContext) -> tuple[LoadTally, bool]:
    """What was done or would be, and whether anything was written. Raises InvalidInput, Unavailable."""
    header, lines = read(asked.path)
    found = LoadTally()
    for number, decision in enumerate(_checks(header, asked, context).decisions(lines), 1):
        found.add(decision)
        asked.advance(number)
    is_refused = bool(found.count(Decided.REFUSED)) and not asked.skip
    if asked.dry_run or is_refused or not (found.count(Decided.CREATE) + found.count(Decided.START)):
        return found, False
    target = INSTALLATION if header.tenant is None else header.tenant
    begin, whence = iso(asked.start), header.installation
    entry = audit_entry(AuditAct.LOAD, target, context, installation=whence, dumped_at=header.at, start=begin)
    context.services.audit.write(entry)
    return _Writing(asked, context).all(header), True


def _checks(header: Header, asked: LoadRequest, context: FireContext) -> Checks:
    return Checks(header, context, start=asked.start, strict=asked.strict, lock_out=asked.lock_out)


class _Writing:
    """The second pass."""

    def __init__(self, asked: LoadRequest, context: FireContext) -> None:
        self._asked, self._context, self._tally = asked, context, LoadTally()
        self._versions: list[AppVersion] = []
        self._runs: list[HistoryEntry] = []
        self._transitions: list[TransitionLine] = []

    def all(self, header: Header) -> LoadTally:
        _, lines = read(self._asked.path)
        waiting: list[LoadDecision] = []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for number, decision in enumerate(_checks(header, self._asked, self._context).decisions(lines), 1):
                is_schedule = isinstance(decision.item, ScheduleItem)
                if waiting and (not is_schedule or len(waiting) >= _SCHEDULES):
                    self._carry_out(waiting, pool.map(self._attempt, waiting))
                    waiting = []
                if is_schedule:
                    waiting.append(decision)
                else:
                    self._carry_out([decision], [self._attempt(decision)])
                self._asked.advance(number)
            self._carry_out(waiting, pool.map(self._attempt, waiting))
        self._put_versions()
        self._flush(runs=0, transitions=0)
        return self._tally

    def _carry_out(self, decisions: Sequence[LoadDecision], problems: Iterable[QuarterjackError | None]) -> None:
        for decision, problem in zip(decisions, problems, strict=True):
            self._tally.add(decision) if problem is None else self._tally.fail(decision, problem)

    def _attempt(self, decision: LoadDecision) -> QuarterjackError | None:
        """Write one item; why it was refused. Schedules are written from several threads, all else from one."""
        try:
            self._one(decision)
        except _STOPS:
            raise
        except QuarterjackError as problem:
            return problem
        return None

    def _one(self, decision: LoadDecision) -> None:
        if decision.what not in (Decided.CREATE, Decided.START):
            return
        item, context = decision.item, self._context
        match item:
            case AppVersion():
                self._versions.append(item)
            case TenantProfile():
                self._put_versions()
                create(item, context)
            case Freeze():
                freeze(item.tenant, item.until, item.reason, context)
            case ScheduleItem():
                arrive(item, decision.there, self._asked.start, context)
            case HistoryEntry():
                self._runs.append(item)
                self._flush(runs=_RUNS, transitions=_TRANSITIONS)
            case TransitionLine():
                self._transitions.append(item)
                self._flush(runs=_RUNS, transitions=_TRANSITIONS)

    def _put_versions(self) -> None:
        """All at once: a part of them would be an installation with versions of its own."""
        if not self._versions:
            return
        versions = sorted(self._versions, key=lambda each: each.timestamp, reverse=True)
        self._versions = []
        names = [each.name for each in versions]
        audit = audit_entry(AuditAct.LOAD, INSTALLATION, self._context, versions=names)
        if not self._context.services.tenants.app_versions.put(AppVersions(versions=tuple(versions)), audit):
            raise Conflict("application versions: a worker has registered its own meanwhile; load again")

    def _flush(self, *, runs: int, transitions: int) -> None:
        services = self._context.services
        if len(self._runs) > runs:
            now = self._context.clock()
            services.history.append([*pages_of(Book.ENDED, self._runs, now, services.retention)])
            self._runs = []
        if len(self._transitions) > transitions:
            services.archive.put(_objects(self._transitions))
            self._transitions = []


def _objects(lines: list[TransitionLine]) -> Mapping[str, bytes]:
    """The objects of the archive with these transitions, by their keys."""
    found: dict[str, bytes] = {}
    for (tenant, hour), several in by_hour(lines).items():
        content = pack(several)
        found[object_key(tenant, hour, _BATCH, content)] = content
    return found
