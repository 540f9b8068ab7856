"""What a verdict of ``why`` must be, from the chronicle of a history and the pure time engine.

It knows which request of which process last wrote a run, all versions of heads and revisions, and the time; not how answers are made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from quarterjack import Answer, Cause, Verdict
from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from quarterjack.domain.times import SECOND
from quarterjack.fires.context import LOOKAHEAD, REACH
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.stores.rows import run_of
from quarterjack.testing.memory.installation import RETENTION
from quarterjack.timing import timetable
from quarterjack.why.delay import LATE

from tests.support.histories.chronicle import Chronicle, Event

Verdicts = set[Verdict]

# The verdict after the request that last changed a run.
_AFTER: dict[str, Verdict] = {
    "retry": Verdict.WAITING,
    "release": Verdict.WAITING,
    "continue": Verdict.WAITING,
    "hasten": Verdict.WAITING,
    "die": Verdict.DEAD,
    "exhaust": Verdict.DEAD,
    "give_up": Verdict.DEAD,
    "bury": Verdict.DEAD,
    "lose": Verdict.LOST,
    "expire": Verdict.EXPIRED,
    "cancel": Verdict.CANCELLED,
    "cancelled": Verdict.CANCELLED,
    "cancel_waiting": Verdict.CANCELLED,
    "terminate": Verdict.CANCELLED,
    "shadow": Verdict.SHADOWED,
}
_ASIDE = ("inter", "recount", "request_cancel", "renew", "wait_for_turn")  # they leave the state
_STOPS = {ClosedBy.PAUSED: Verdict.PAUSED, ClosedBy.DELETED: Verdict.DELETED}
_ENDS = {**_STOPS, ClosedBy.REPLACED: Verdict.CHANGED}
_EARLIER = 5  # revisions that are asked whether they had a fire


@dataclass
class Truth:
    """The history as it was after so many calls."""

    chronicle: Chronicle
    tenant: str
    name: str
    call: int
    now: int  # UTC ms
    skew: int  # ms by which clocks differ at the most

    @property
    def owner(self) -> str:
        return f"{self.tenant}/{self.name}"

    @cached_property
    def revisions(self) -> list[Revision]:
        return self.chronicle.revisions(self.owner, self.call)

    @cached_property
    def heads(self) -> list[Head]:
        return self.chronicle.heads(self.tenant, self.name, self.call)

    def of_fire(self, at: int) -> Verdicts:
        """The verdicts that are right about an instant."""
        events = self.chronicle.of_run(fire_ref(self.owner, at), self.call)
        return self.of_events(events) if events and events[-1].row is not None else self._of_nothing(at)

    def of_run(self, ref: RunRef) -> Verdicts:
        return self.of_events(self.chronicle.of_run(ref, self.call))

    # With a row.

    def of_events(self, events: list[Event]) -> Verdicts:  # noqa: PLR0911 (a table of cases)
        """By the last request that changed the run's state."""
        last = next(event for event in reversed(events) if event.verb not in _ASIDE)
        assert events[-1].row is not None
        run = run_of(events[-1].row)
        if run.skipped_until is not None:
            return {Verdict.MISSED}
        match last.verb:
            case "succeed":
                return self._late_or_not(run, events)
            case "lease":
                return self._alive_or_not(events)
            case "pass_over":
                return {Verdict.OVERLAPPED if run.state is RunState.SKIPPED else Verdict.CANCELLED}
            case "skip":
                return {Verdict.SKIPPED if last.is_by_owner else Verdict.MISSED}
            case "refuse" | "take_back":
                return self._stops(run, last) if run.backfill is None else {Verdict.CANCELLED, *self._stops(run, last)}
            case "claim" if run.state is RunState.SKIPPED:
                return {Verdict.SKIPPED}
            case "claim" | "take_over" | "revive" | "submit":
                return self._waiting(run)
        return {_AFTER[last.verb]}

    def _late_or_not(self, run: RunRow, events: list[Event]) -> Verdicts:
        """By when its first lease was written, as far as its worker's clock tells."""
        leases = [event for event in events if event.verb == "lease" and event.row and event.row["state"] == "RUNNING"]
        unbegun = [e.call for e in events if e.verb == "release" and e.row and "started_at" not in e.row]
        first = next(event for event in leases if not unbegun or event.call > unbegun[-1])
        doubt = self.skew + SECOND
        earliest, latest = first.looked - run.due - doubt, first.at - run.due + doubt
        found = {Verdict.RAN} if earliest <= LATE or run.backfill is not None else set()
        return found | ({Verdict.RAN_LATE} if latest > LATE and run.backfill is None else set())

    def _alive_or_not(self, events: list[Event]) -> Verdicts:
        """By when its worker was last heard of."""
        heard = [event for event in events if event.verb in ("lease", "renew")][-1]
        silent = self.now - heard.looked, self.now - heard.at
        found = {Verdict.RUNNING} if silent[1] - self.skew <= LEASE + SKEW else set()
        return found | ({Verdict.VANISHED} if silent[0] + self.skew + SECOND >= LEASE + SKEW else set())

    def _stops(self, run: RunRow, last: Event) -> Verdicts:
        """A stop or change before the refusal that does not let the run start."""
        known = self.chronicle.revisions(self.owner, last.call)
        return {
            verdict
            for revision in known
            if revision.number >= run.revision and revision.active_until is not None
            for verdict in self._ended_by(revision, run.due)
        }

    def _ended_by(self, revision: Revision, due: int) -> Iterable[Verdict]:
        assert revision.active_until is not None
        beyond = due > revision.active_until
        match revision.closed_by:
            case ClosedBy.PAUSED | ClosedBy.DELETED:
                yield _STOPS[revision.closed_by]
            case ClosedBy.DRAINED if beyond:
                yield Verdict.DELETED if self._was_deleted(revision) else Verdict.PAUSED
            case ClosedBy.REPLACED if beyond:
                yield Verdict.CHANGED

    def _was_deleted(self, drained: Revision) -> bool:
        """Whether the end of a drained revision was that of its schedule."""
        stopped = (ScheduleState.PAUSED, ScheduleState.DELETED)
        states = [head.state for head in self.heads if head.revision == drained.number and head.state in stopped]
        return states[:1] == [ScheduleState.DELETED]

    def _waiting(self, run: RunRow) -> Verdicts:
        """A run that nobody has leased. If a stop or change does not let it start, that is the verdict already."""
        found = {Verdict.UPCOMING if run.not_before > self.now else Verdict.WAITING}
        if not run.ref.is_fire:
            return found
        real = self._real(run.due)
        if real is not None and real.number > run.revision:  # it is about to be taken over
            return found
        ended = [
            verdict
            for revision in self.revisions
            if revision.number >= run.revision and revision.active_until is not None
            for verdict in self._ended_by(revision, run.due)
        ]
        return set(ended[:1]) or found

    # Without one.

    def _of_nothing(self, at: int) -> Verdicts:
        real = self._real(at)
        if real is not None:
            return self._of_fire(real, at)
        revisions = self.revisions
        if not revisions or at <= revisions[0].active_from:
            return {Verdict.NOT_CREATED}
        current = next(one for one in reversed(revisions) if one.active_from < at)
        if current.active_until is None or at <= current.active_until:
            return self._not_due(current, at)
        if not _is_fire(current, at):
            return {Verdict.NO_FIRE}
        return {self._stopped_at(current, at)}

    def _real(self, at: int) -> Revision | None:
        """The revision of which the instant is a fire within its interval."""
        inside = (one for one in reversed(self.revisions) if one.active_from < at <= one.bound(at))
        return next((one for one in inside if _is_fire(one, at)), None)

    def _of_fire(self, real: Revision, at: int) -> Verdicts:
        for run, _ in self.chronicle.runs(self.owner, self.call):
            until = run.skipped_until
            if until is not None and run.revision == real.number and run.due <= at <= until:
                return {Verdict.MISSED}
        if at > self.now:
            return {Verdict.UPCOMING}
        if at <= self.now - RETENTION or (self._had_a_row(at) and at <= self.now - RETENTION + REACH + LOOKAHEAD):
            return {Verdict.GONE}
        for later in self.revisions:
            if later.number >= real.number and later.closed_by in _STOPS and (later.active_until or 0) >= at:
                return {_STOPS[later.closed_by]}
        return {Verdict.NOT_CLAIMED}

    def _had_a_row(self, at: int) -> bool:
        return bool(self.chronicle.of_run(fire_ref(self.owner, at), self.call))

    def _not_due(self, current: Revision, at: int) -> Verdicts:
        """The revision that was current has no such fire: another one had, or has."""
        newest = self.revisions[-1]
        if newest is not current and newest.active_until is None and _is_fire(newest, at):
            return {Verdict.CHANGED}
        for earlier in reversed([one for one in self.revisions if one.number < current.number][-_EARLIER:]):
            if earlier.closed_by is not ClosedBy.REPLACED:
                break
            if _is_fire(earlier, at):
                return {Verdict.CHANGED}
        return {Verdict.NO_FIRE}

    def _stopped_at(self, current: Revision, at: int) -> Verdict:
        """Whether the schedule was paused or deleted then, by all versions of its head."""
        heads = [head for head in self.heads if head.revision <= current.number]
        before = [head for head in heads if head.revision < current.number or head.updated_at < at]
        state = before[-1].state if before else heads[0].state
        return Verdict.DELETED if state is ScheduleState.DELETED else Verdict.PAUSED


def _is_fire(revision: Revision, at: int) -> bool:
    table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
    return table.next(at - 1) == at


def unfounded(answer: Answer, events: list[Event], skew: int) -> Iterable[str]:
    """Causes of a run's answer that did not happen, and some that did and are not named."""
    row = events[-1].row
    assert row is not None
    run, verbs = run_of(row), {event.verb for event in events}
    claims = [event for event in events if event.row is not None and event.row["created_at"] == run.created_at]
    late = claims[0].at - run.due, claims[0].looked - run.due
    of_chain = run.ref.is_fire and run.backfill is None and run.skipped_until is None
    if Cause.TICKER in answer.causes and of_chain and late[0] + skew <= LATE and "skip" not in verbs:
        yield f"the ticker was in time: {late[0]} ms"
    began = run.started_at is not None and answer.verdict in (
        Verdict.RAN,
        Verdict.RAN_LATE,
        Verdict.DEAD,
        Verdict.RUNNING,
    )
    if (
        of_chain
        and began
        and late[1] - skew > LATE
        and not {Cause.TICKER, Cause.PAUSE, Cause.HELD_QUEUE} & {*answer.causes}
    ):
        yield f"claimed {late[1]} ms late, and no cause of that is named"
    owned = any(event.is_by_owner and event.verb in ("cancel", "request_cancel", "skip", "claim") for event in events)
    if Cause.OWNER in answer.causes and not owned:
        yield "no owner did anything to it"
    if Cause.VANISHED in answer.causes and not _lost_a_worker(events):
        yield "no worker vanished"
    if Cause.RELEASE in answer.causes and "release" not in verbs:
        yield "no worker gave it back"
    if (
        Cause.OVERLAP in answer.causes
        and not {"wait_for_turn", "pass_over", "terminate"} & verbs
        and run.state is not RunState.SUCCEEDED
    ):
        yield "no other run was in its way"
    waited = any(event.verb == "wait_for_turn" for event in events if event.call > claims[0].call)
    if (
        waited
        and began
        and max(run.started_at or 0, 0) - max(run.due, run.created_at) > LATE
        and Cause.OVERLAP not in answer.causes
    ):
        yield "it waited for other runs, and that is not named"
    if Cause.BACKFILL in answer.causes and run.backfill is None:
        yield "it is no backfill's"


def _lost_a_worker(events: list[Event]) -> bool:
    """Whether a lease ended neither by its holder nor by its owner; or has not ended."""
    states = [event.row["state"] for event in events if event.row is not None]
    again = any(
        one == "RUNNING" == two and event.verb == "lease"
        for one, two, event in zip(states, states[1:], events[1:], strict=False)
    )
    taken = {"exhaust", "lose", "take_back", "expire", "bury", "cancel_waiting"} & {event.verb for event in events}
    return again or bool(taken) or states[-1] == "RUNNING"
