"""What must hold of incidents, by the ledger alone: who failed is listed once, and what was written down for an owner was told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.notice import OF_ONE_RUN, RECORD, SCHEDULE_EVENTS, Notice, NoticeKind
from quarterjack.domain.run import FAILED, RunRow, RunState
from quarterjack.domain.times import DAY, MINUTE, to_ms
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.events import publish_events
from quarterjack.ports.run_stream import RunStream, StreamPage
from quarterjack.state.incidents import limit_of
from quarterjack.testing import Memory
from quarterjack.testing.memory.peripherals import MemoryEvents

BEGIN = (NoticeKind.FAILURE, NoticeKind.NO_SUCCESS)


def listed(memory: Memory, now: int) -> list[DeadRunRow]:
    index = memory.connect().dead_index
    return list(index.read("acme", after=now - 3 * DAY, upto=now + DAY, only=None, before=None, page=None))


def counted(memory: Memory, owner: str) -> list[RunRow]:
    """The runs that say how a schedule does, in the order in which they ended; of two at the same time the failed one is later."""
    said = FAILED | {RunState.SUCCEEDED}
    runs = [run for run in memory.runs(owner) if run.state in said and run.backfill is None]
    return sorted(runs, key=lambda run: (run.ended_at or 0, run.state is not RunState.SUCCEEDED))


def in_a_row(runs: list[RunRow]) -> int:
    """How many of the last ones failed."""
    row = 0
    for run in runs:
        row = 0 if run.state is RunState.SUCCEEDED else row + 1
    return row


def told_wrongly(memory: Memory, owners: list[str], now: int, *, fast: int = 0) -> Iterator[str]:
    """What is wrong, whatever happened. ``fast``: ms by which clocks may be ahead, so that a notice is about to be told."""
    failed = {run.ref: run for run in memory.runs() if run.state in FAILED}
    lines = Counter(line.run for line in listed(memory, now))
    at_hand = {
        ref for ref, run in failed.items() if (run.ended_at or 0) > now - 2 * MINUTE
    }  # by any clock: about to be
    yield from (f"{ref} is listed {lines[ref]} times" for ref in failed if lines[ref] != 1 and ref not in at_hand)
    yield from (f"{ref} is listed and did not fail" for ref in lines.keys() - failed.keys())
    told = [published.notice for published in memory.published]
    for owner in owners:
        yield from _untold(memory, owner, {notice.token for notice in told}, now - fast)
    yield from _incidents(told)
    runs = {str(run.ref): run for run in memory.runs()}
    yield from (f"{notice.text} But {notice.run} is no such run" for notice in told if not _is_so(notice, runs))


def _untold(memory: Memory, owner: str, tokens: set[str], upto: int) -> Iterator[str]:
    """A notice that was written down by ``upto`` (UTC ms) is told."""
    for record in memory.connect().records.listed(owner, RECORD):
        if record.body["to"] is None:  # it is an event only
            continue
        notice = Notice.of(record.body["notice"])
        if notice.token not in tokens and to_ms(datetime.fromisoformat(notice.at), "at") <= upto:
            yield f"not told: {notice.text}"


def published_wrongly(memory: Memory, now: int, *, fast: int = 0) -> Iterator[str]:
    """Each incident's beginning and end is an event, once, if owners are told of them; no event without it."""
    stream, sink = memory.connect().stream, MemoryEvents()
    notices = [change for shard in stream.shards() for page in _pages(stream, shard.id) for change in page.notices]
    context = HistorianContext(services=replace(memory.connect(), events=sink), now=now, batch="")
    publish_events(notices, context)
    ids = Counter(event.id for event in sink.taken)
    told = {f"evt_{p.notice.token}": p.notice for p in memory.published if p.notice.kind in SCHEDULE_EVENTS}
    recent = {event.id for event in sink.taken if to_ms(datetime.fromisoformat(event.at), "at") > now - fast}
    yield from (f"told, and no event: {told[name].text}" for name in told.keys() - ids.keys())
    yield from (f"event, and not told: {name}" for name in ids.keys() - told.keys() - recent)
    yield from (f"{name} is published {times} times" for name, times in ids.items() if times > 1)


def _pages(stream: RunStream, shard: str) -> Iterator[StreamPage]:
    position, has_more = None, True
    while has_more:
        page = stream.read(shard, position)
        yield page
        position, has_more = page.position, page.has_more


def overdue_wrongly(memory: Memory, now: int, *, skew: int, patience: int) -> Iterator[str]:
    """A run is told to be overdue only if it did not end in time, and whenever it was for ``patience`` (ms)."""
    notices = {(notice.run, notice.kind): notice for notice in (each.notice for each in memory.published)}
    revisions = {(one.owner, one.number): one for head in memory.heads() for one in memory.revisions(head.owner)}
    for run in memory.runs():
        told = notices.get((str(run.ref), NoticeKind.OVERDUE))
        revision = revisions.get((run.ref.owner, run.revision))
        limit = None if revision is None or run.backfill is not None else limit_of(run, revision)
        ended = run.ended_at or now
        if told is not None and ended < to_ms(datetime.fromisoformat(told.began), "began") - skew:
            yield f"{told.text} But it ended at {ended}"
        is_late = limit is not None and ended > max(limit.at, run.created_at) + patience
        if is_late and told is None:
            yield f"not told: {run.ref} was over its time at {limit}, and ended at {run.ended_at}"
        closed = (str(run.ref), NoticeKind.OVERDUE_ENDED) in notices
        if (
            told is not None
            and not closed
            and now > ended + (ended - to_ms(datetime.fromisoformat(told.began), "began")) + patience
        ):
            yield f"not told: {run.ref} was overdue, and ended at {run.ended_at}"
        if closed and told is None:
            yield f"told to have ended, and not to be overdue: {run.ref}"


def _incidents(told: list[Notice]) -> Iterator[str]:
    """Each begins once and ends once, whatever is repeated."""
    different = {notice.token: notice for notice in told}.values()
    of_incident: dict[tuple[str, str], list[Notice]] = {}
    for notice in different:
        of_incident.setdefault((notice.owner, notice.incident), []).append(notice)
    for (owner, incident), notices in of_incident.items():
        kinds = Counter(notice.kind for notice in notices)
        if kinds.keys() <= set(OF_ONE_RUN):
            if kinds[NoticeKind.OVERDUE] != 1 or kinds[NoticeKind.OVERDUE_ENDED] > 1:
                yield f"{incident} of {owner} was told as {dict(kinds)}"
            continue
        if sum(kinds[kind] for kind in BEGIN) != 1 or kinds[NoticeKind.RECOVERY] > 1:
            yield f"{incident} of {owner} was told as {dict(kinds)}"


def _is_so(notice: Notice, runs: dict[str, RunRow]) -> bool:
    if notice.run is None:
        return notice.kind is NoticeKind.NO_SUCCESS
    run = runs.get(notice.run)
    if run is not None and notice.kind is NoticeKind.OVERDUE:
        return True
    if run is None or run.state != notice.state:
        return False
    if notice.kind is NoticeKind.OVERDUE_ENDED:
        return run.is_terminal
    return (run.state is RunState.SUCCEEDED) == (notice.kind is NoticeKind.RECOVERY)
