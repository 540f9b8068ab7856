"""Described histories: owners look at two schedules while others update, delete, re-create, pause and resume them.

Every act is logged with the calls and the virtual time that it took. Every view must be what the schedule was at one instant between
the beginning and the end of its act, and an end of a revision that was shown, or that a change has returned, must hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from quarterjack import Context, Scheduler
from quarterjack.domain.names import RunRef, parse_run_id, schedule_owner
from quarterjack.domain.policies import StartWord
from quarterjack.domain.schedule import ClosedBy, Revision
from quarterjack.domain.times import MINUTE, to_ms
from quarterjack.errors import QuarterjackError
from quarterjack.sdk.schedule_views import Schedule, ScheduleDescription

from tests.support.histories.history import History
from tests.support.histories.simulator import Faults, Process
from tests.support.scenes.lease_oracle import STOPPED, Lease

NAMES: dict[str, StartWord] = {"a": "prompt", "b": "exact"}
CHANGES = ("create", "create", "update", "update", "upsert", "pause", "resume", "delete", "recreate")
LOOKS = ("describe", "describe", "describe", "get", "list")
CHANGED = ("arm", "close", "complete", "note")  # requests that may change a head or a revision
_FOREVER = 10**9  # calls

Ends = tuple[
    tuple[int, int, int | None, ClosedBy | None], ...
]  # number, active_from, active_until, closed_by; newest first


@dataclass(frozen=True, kw_only=True)
class Known:
    """A schedule as the tables had it from one call on."""

    call: int
    head: tuple[int, str, int]  # version, state, revision
    ends: Ends


@dataclass(frozen=True, kw_only=True)
class Act:
    """What an owner did or was shown; times in calls of the whole history and in ms."""

    kind: str
    name: str
    began: int
    ended: int
    lasted: int
    views: tuple[Schedule | ScheduleDescription, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A change had returned: revision ``number`` and those before it have ended."""

    owner: str
    number: int
    until: int
    by: ClosedBy
    call: int


@dataclass
class Log:
    """All of it."""

    acts: list[Act] = field(default_factory=list)
    known: dict[str, list[Known]] = field(default_factory=lambda: defaultdict(list))
    ended: list[Ended] = field(default_factory=list)
    leased: dict[tuple[RunRef, int], int] = field(default_factory=dict)  # by run and fence: calls made by then
    ahead: set[RunRef] = field(default_factory=set)  # runs whose first lease came before their instant
    begun: dict[RunRef, int] = field(default_factory=dict)
    read: dict[tuple[str, str, int], int] = field(default_factory=dict)  # by reader, owner and revision: the last time
    stale: dict[RunRef, int] = field(default_factory=dict)  # when whoever leased a run first had read its revision
    closed: dict[tuple[str, int], int] = field(default_factory=dict)  # by owner and revision
    closer: dict[str, list[Revision]] = field(default_factory=lambda: defaultdict(list))  # by process


class Described(History):
    """One seed, one history of some minutes."""

    expressions = ("rate(2 seconds)", "rate(7 seconds)", "* * * * *", "*/3 * * * *")
    between = (0, 0, 0, 1, 3, 10)
    busy = 4 * MINUTE
    quiet = 5 * MINUTE
    crew = 3

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.log = Log()
        self.stage.observer = self._look

    def _violations(self) -> list[str]:
        return [*self.seen._doubles(self.faults.skew), *self._chains(), *self._views(), *self._starts()]

    def durations(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for act in self.log.acts:
            found[act.kind].append(act.lasted)
        return dict(found)

    # What happens.

    def _begins(self, ctx: Context) -> None:
        super()._begins(ctx)
        self.log.begun.setdefault(parse_run_id(ctx.run_id), self.stage.calls)

    def _owner(self, process: Process) -> None:
        name, kind = self.dice.choice(tuple(NAMES)), self.dice.choice(self.dice.choice((CHANGES, LOOKS)))
        if not self.stage.strikes(f"act {kind}", 1.0):
            return
        owner = Scheduler("acme", jobs=self.jobs, services=process.services, clock=process.clock)
        began, at, views = self.stage.calls, self.stage.now, ()
        self.stage.tell(process, f"wants: {kind} {name}")
        try:
            views = self._do(kind, owner, name)
        except QuarterjackError as problem:
            self.stage.tell(process, f"is refused: {problem}")
            self.stage.count(f"refused {kind}")
        else:
            act = Act(
                kind=kind, name=name, began=began, ended=self.stage.calls, lasted=self.stage.now - at, views=views
            )
            self.log.acts.append(act)
            self.stage.tell(process, f"done: {kind} {name} after {act.ended - began} calls and {act.lasted} ms")
            self._note_ends(process)

    def _do(self, kind: str, owner: Scheduler, name: str) -> Any:  # noqa: C901 (a table of acts)
        start, expression = NAMES[name], self.dice.choice(self.expressions)
        match kind:
            case "describe":
                return (owner.describe_schedule(name),)
            case "get":
                return (owner.get_schedule(name),)
            case "list":
                return tuple(owner.list_schedules().items)
            case "create":
                owner.create_schedule(name, "work", expression, start=start)
            case "update":
                owner.update_schedule(name, expression=expression, start=start)
            case "upsert":
                owner.upsert_schedule(name, "work", expression, start=start)
            case "pause":
                owner.pause_schedule(name, drain=self.dice.random() < 0.3)
            case "resume":
                owner.resume_schedule(name)
            case "delete":
                owner.delete_schedule(name)
            case "recreate":
                owner.delete_schedule(name)
                owner.create_schedule(name, "work", expression, start=start)
        return ()

    # What is seen.

    def _look(self, process: Process, detail: Any) -> None:
        self.seen.look(process, detail)
        log, call = self.log, self.stage.calls
        for key, lease in list(self.seen.leases.items())[len(log.leased) :]:
            log.leased[key] = call
            self._look_at_lease(lease)
        if detail.verb == "revisions":
            log.read |= {(process.name, *key): call for key in detail.items}
        if detail.verb in CHANGED:
            self._look_at_heads(process, call)

    def _look_at_lease(self, lease: Lease) -> None:
        row = self.stage.memory.row(lease.ref)
        if row is None or lease.fence > 1:
            return
        self.log.stale[lease.ref] = self.log.read.get((lease.by, lease.ref.owner, lease.revision), 0)
        if row["leased_at"] == row["not_before"]:
            self.log.ahead.add(lease.ref)

    def _look_at_heads(self, process: Process, call: int) -> None:
        for head in self.stage.memory.heads():
            revisions = self.stage.memory.revisions(head.owner)[::-1]
            now = Known(call=call, head=(head.version, str(head.state), head.revision), ends=ends_of(revisions))
            if not self.log.known[head.owner] or self.log.known[head.owner][-1].head != now.head:
                self.log.known[head.owner].append(now)
            for one in revisions:
                if one.active_until is not None and self.log.closed.setdefault((head.owner, one.number), call) == call:
                    self.log.closer[process.name].append(one)

    def _note_ends(self, process: Process) -> None:
        for one in self.log.closer.pop(process.name, ()):
            assert one.active_until is not None
            assert one.closed_by is not None
            ended = Ended(
                owner=one.owner, number=one.number, until=one.active_until, by=one.closed_by, call=self.stage.calls
            )
            self.log.ended.append(ended)

    # Verdicts.

    def _chains(self) -> list[str]:
        return self.seen._chains()

    def _views(self) -> Iterator[str]:
        """Each view is the schedule as it was at one instant of its act."""
        for act in self.log.acts:
            for view in act.views:
                yield from self._view(act, view)

    def _view(self, act: Act, view: Schedule | ScheduleDescription) -> Iterator[str]:
        schedule = view.schedule if isinstance(view, ScheduleDescription) else view
        owner, head = schedule_owner("acme", schedule.name), (schedule.version, str(schedule.state), schedule.revision)
        about = f"{act.kind} of {owner}, calls {act.began} to {act.ended}, showed version {head}"
        known = self.log.known[owner]
        after = [later.call for later in known[1:]] + [_FOREVER]
        was = [one for one, end in zip(known, after, strict=True) if one.call <= act.ended and end > act.began]
        same = [one for one in was if one.head == head]
        if not same:
            yield f"never so: {about}; it was {[one.head for one in was]}"
        if act.kind != "list" and bool(schedule.next_fires) != (head[1] == "ACTIVE"):
            yield f"torn: {about} with next fires {list(schedule.next_fires)}"
        if isinstance(view, ScheduleDescription):
            shown = tuple(
                (
                    one.number,
                    to_ms(one.active_from, ""),
                    one.active_until and to_ms(one.active_until, ""),
                    one.closed_by,
                )
                for one in view.revisions
            )
            if same and all(shown != one.ends[: len(shown)] for one in same):
                yield f"torn: {about} with revisions {shown[:3]}; they were {[one.ends[:3] for one in same]}"
            if view.chain.state not in ("ok", "not needed"):
                yield f"false alarm: {about} with a chain that is {view.chain.state}"

    def _starts(self) -> Iterator[str]:
        """No revision starts a fire beyond its end: not once its end was returned, nor by a worker that read it afterwards."""
        ends = {
            (head.owner, one.number): one
            for head in self.stage.memory.heads()
            for one in self.stage.memory.revisions(head.owner)
        }
        for key, lease in self.seen.leases.items():
            revision, call = ends.get((lease.ref.owner, lease.revision)), self.log.leased[key]
            if revision is None or not lease.ref.is_fire or lease.fence > 1 or revision.active_until is None:
                continue
            closed, read = self.log.closed[revision.owner, revision.number], self.log.stale[lease.ref]
            if due_of(lease) > revision.active_until and read > closed:
                yield f"beyond: {lease.ref} of revision {revision.number}, whose end at {revision.active_until} its worker had read"
            yield from self._after_return(lease, call)

    def _after_return(self, lease: Lease, call: int) -> Iterator[str]:
        begun, again = self.log.begun.get(lease.ref, 0), self.log.leased.get((lease.ref, 2), _FOREVER)
        for end in self.log.ended:
            if end.owner != lease.ref.owner or lease.revision > end.number:
                continue
            beyond = due_of(lease) > end.until
            if call > end.call and (beyond or end.by in STOPPED):
                yield f"after return: {lease.ref} of revision {lease.revision}, {end.by} at {end.until}"
            elif beyond and end.call < begun < again and lease.ref in self.log.ahead:
                yield f"began after return: {lease.ref} of revision {lease.revision}, {end.by} at {end.until}"


def due_of(lease: Lease) -> int:
    """UTC ms of a chain's fire, which is its key."""
    return int(lease.ref.key)


def ends_of(revisions: list[Revision]) -> Ends:
    return tuple((one.number, one.active_from, one.active_until, one.closed_by) for one in revisions)
