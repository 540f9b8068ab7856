"""Archive, pages and ledger, compared by somebody who has seen every change of every run, and knows nothing of how they are written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from quarterjack import Scheduler
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.history.transition_line import TransitionKind, TransitionLine
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import DAY
from quarterjack.historian.archive import ArchiveFilter, read_archive
from quarterjack.historian.progress import changes_set_aside, gaps
from quarterjack.history.statistics import daily
from quarterjack.ports.services import Services
from quarterjack.stores.history.pages import ReadMeter

from tests.support.histories.listed import ListOracle
from tests.support.histories.pages_oracle import PagesOracle

Tags = Mapping[str, Sequence[Mapping[str, str]]]  # of each schedule, all that it has had
_NO_TAGS: Tags = {}
_TOLD = ("state", "fence", "cancel_requested", "buried_at", "skipped", "skipped_until", "revision", "backfill")
_WAITING = ("not_before", "reason")  # of a run that nobody executes, these are told too
_SHOWN = ("job", "revision", "fence", "attempt", "due", "not_before", "ended_at", "skipped", "backfill", "created_at")


class Projections:
    """What was written of the changes of a history, as of ``now`` (UTC ms)."""

    def __init__(self, changes: Sequence[RunChange], services: Services, now: int, tags: Tags = _NO_TAGS) -> None:
        self.changes, self.services, self.now, self.tags = changes, services, now, tags
        self.last: dict[RunRef, RunRow] = {}  # of each run the last row, whether it is still there or has expired
        self.gone: set[RunRef] = set()  # removed, but not after their retention
        for change in changes:
            if change.new is not None:
                self.last[change.ref] = change.new
                self.gone.discard(change.ref)
            elif not change.expired:
                self.gone.add(change.ref)
        self.tenants = sorted({ref.tenant for ref in self.last})

    def violations(self, ledger: Sequence[RunRow]) -> list[str]:
        """What does not hold. ``ledger``: all runs that are there now."""
        return [*self._ledger(ledger), *self._marks(), *self._archive(), *self.pages()]

    def pages(self) -> Iterator[str]:
        """What pages and lists say otherwise."""
        rows = [row for ref, row in self.last.items() if ref not in self.gone]
        for tenant in self.tenants:
            oracle = PagesOracle(tenant, rows, self.tags if tenant == "acme" else {}, self.now)
            yield from oracle.violations(self.services.history, Random(len(self.changes)))
            owner = Scheduler(tenant, services=self.services, clock=lambda: self.now)
            listed = ListOracle([row for row in rows if row.ref.tenant == tenant], self.now)
            yield from listed.violations(owner, Random(len(self.changes)))

    def _ledger(self, ledger: Sequence[RunRow]) -> Iterator[str]:
        """The stream itself: what was seen is what there is."""
        for run in ledger:
            if self.last.get(run.ref) != run:
                yield f"stream: {run.ref} is {run}, and was last seen as {self.last.get(run.ref)}"

    def _marks(self) -> Iterator[str]:
        """Nothing was set aside, and nothing is said to be missing."""
        yield from (f"set aside: {change}" for change in changes_set_aside(self.services))
        yield from (f"gap: {gap}" for gap in gaps(self.services))

    def statistics(self) -> Iterator[str]:
        """Runs by job and state, all days together."""
        for tenant in self.tenants:
            days = daily(tenant, first=0, last=self.now // DAY + 1, services=self.services, meter=ReadMeter())
            told = Counter[tuple[str, str]]()
            for stats in days.values():
                for job, tally in stats.jobs.items():
                    told.update({(job, state): number for state, number in tally.outcomes.items()})
            there = Counter[tuple[str, str]]()
            for ref, row in self.last.items():
                if ref.tenant == tenant and ref not in self.gone and row.is_terminal:
                    there[row.job, str(row.state)] += row.skipped or 1
            if told != there:
                yield f"statistics: {tenant} has {dict(there - told)} more and {dict(told - there)} fewer than are counted"

    # The archive.

    def _archive(self) -> Iterator[str]:
        wanted = ArchiveFilter(since=self.now - DAY, until=self.now + DAY)
        lines = [line for tenant in self.tenants for line in read_archive(self.services.archive, tenant, wanted)]
        rebuilt = [line for line in lines if line.kind is TransitionKind.REBUILT]
        yield from self._was_so(rebuilt)
        lines = [line for line in lines if line.kind is not TransitionKind.REBUILT]
        yield from self._each_once(lines)
        by_run: dict[RunRef, list[TransitionLine]] = defaultdict(list)
        for line in sorted(lines, key=lambda line: line.sequence):
            by_run[line.ref].append(line)
        for ref, row in self.last.items():
            yield from self._leads_to(by_run[ref], row)

    def _was_so(self, rebuilt: Sequence[TransitionLine]) -> Iterator[str]:
        """A rebuild told what the ledger was at some time."""
        states: dict[RunRef, set[RunState]] = defaultdict(set)
        for change in self.changes:
            if change.new is not None:
                states[change.ref].add(change.new.state)
        yield from (
            f"rebuilt: {line.ref} never was {line.after}" for line in rebuilt if line.after not in states[line.ref]
        )

    def _each_once(self, lines: Sequence[TransitionLine]) -> Iterator[str]:
        there = Counter((line.ref, line.sequence) for line in lines)
        due = {(change.ref, change.sequence) for change in self.changes if is_told(change)}
        yield from (f"transition missing: {ref}, change {number}" for ref, number in sorted(due - set(there)))
        yield from (f"transition invented: {ref}, change {number}" for ref, number in sorted(set(there) - due))
        yield from (f"transition repeated: {place[0]}, {times} times" for place, times in there.items() if times > 1)

    def _leads_to(self, lines: Sequence[TransitionLine], row: RunRow) -> Iterator[str]:
        """One after the other, the transitions lead to the row."""
        state = None
        for line in lines:
            if line.before != state:
                yield f"transition torn: {line.ref} was {state} before {line.kind}, and is said to be {line.before}"
            state = line.after
        leases = sum(line.kind is TransitionKind.LEASED for line in lines)
        if leases != row.fence:
            yield f"leases: {row.ref} was leased {row.fence} times, and {leases} leases are told"
        if row.ref in self.gone or not lines:
            return
        if state != row.state:
            yield f"archive: {row.ref} is {row.state}, and {state} by its transitions"
        for name in _SHOWN:
            told, there = getattr(lines[-1], name), getattr(row, name)
            if told != (there or None if name == "created_at" else there):
                yield f"archive: {row.ref} has {name}={there}, and {told} by its last transition"


def is_told(change: RunChange) -> bool:
    """Whether somebody who reads the archive must see this change."""
    old, new = change.old, change.new
    if change.expired:
        return False
    if old is None or new is None:
        return True
    names = _TOLD + (_WAITING if new.state in ("QUEUED", "RETRYING", "CONTINUED") else ())
    return any(getattr(old, name) != getattr(new, name) for name in names)
