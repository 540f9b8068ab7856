"""Some recorded histories: what the historians wrote is what happened, and each history has everything in it."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history import outgoing_event
from quarterjack.domain.history.outgoing_event import EVENT_TYPES, OutgoingEvent
from quarterjack.domain.history.transition_line import TransitionKind, TransitionLine
from quarterjack.historian import events
from quarterjack.historian import rebuild as rebuilding
from quarterjack.state.history.run_changes import transition_of
from quarterjack.stores import audit as auditing

from tests.support import simulate
from tests.support.histories.recorded import Recorded, Unfollowed
from tests.support.histories.simulator import CALM, HOSTILE, WILD, Faults
from tests.support.parts import in_rotation, in_turn

KNOWN = tuple(range(7))  # faults of each class; one process, a function, and both
MORE = tuple(range(7, 21))  # the same under other faults
NOT_HERE = {TransitionKind.REBUILT, TransitionKind.REMOVED}  # nobody rebuilds, or deletes rows of runs


@in_turn("seed", KNOWN, list(map(str, KNOWN)))
def test_what_historians_write_is_what_happened(seed: int) -> None:
    found = simulate.play(seed, "history")
    assert found.violations == [], f"python -m tests.support.simulate --kind history --only {seed}"


@pytest.mark.proof
@pytest.mark.parametrize("seed", MORE)
def test_what_historians_write_in_more_histories_is_what_happened(seed: int) -> None:
    test_what_historians_write_is_what_happened(seed)


@pytest.mark.parametrize(("seed", "faults"), [(1, CALM), (4, HOSTILE)])
@in_rotation(of=6)
def test_after_25_hours_without_a_historian_a_gap_is_reported_and_a_rebuild_fills_it(seed: int, faults: Faults) -> None:
    history = Unfollowed(seed, faults)
    assert history.judged() == []


@in_rotation(of=6)
def test_without_a_rebuild_what_the_historian_did_not_see_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "rebuild", lambda spec, services, *, clock: None)
    history = Unfollowed(1, CALM)
    assert sum(text.startswith(("page missing", "open missing")) for text in history.judged()) > 10


@in_turn("faults", [CALM, WILD], ["calm", "wild"])
def test_everything_that_may_become_of_a_run_is_in_each_history(faults: Faults) -> None:
    history = Recorded(5, faults)
    assert history.judged() == []
    told = Counter(line.kind for change in history.witness.changes if (line := transition_of(change)) is not None)
    assert set(TransitionKind) - set(told) == NOT_HERE
    assert history.stage.counts["expired rows"] > 0
    assert history.seen.leases
    of_breakers = {"breaker.opened", "breaker.closed"}  # no tenant of these histories has any: see test_breakers.py
    of_pipelines = {"pipeline.succeeded", "pipeline.dead"}  # none runs here: see tests/unit/historian/test_events.py
    of_overdue = {"schedule.overdue", "schedule.overdue_ended"}  # no schedule here has a time that its runs must end by
    assert {event.type for event in history.receiver.taken} == EVENT_TYPES - of_breakers - of_pipelines - of_overdue
    acts = {act for act, _ in history.audited.lines}
    assert acts > {"create", "update", "pause", "resume", "trigger", "skip", "cancel", "replay", "redrive", "backfill"}


@in_rotation(of=6)
def test_an_end_that_is_not_published_and_an_act_without_its_line_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    write, send = auditing.audit_writes, events._send
    monkeypatch.setattr(auditing, "audit_writes", lambda line: [] if line.act is AuditAct.TRIGGER else write(line))
    monkeypatch.setattr(events, "_send", lambda found, *more: send([e for e in found if e.type != "run.dead"], *more))
    found = Recorded(1, CALM).judged()
    assert any(text.startswith("audit: acts [('trigger', 'acme/") for text in found)
    assert any(text.startswith("event missing: ('acme/") and "run.dead" in text for text in found)


@pytest.mark.check
def test_an_event_with_another_id_each_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = itertools.count()
    made = outgoing_event.event_of

    def random(line: TransitionLine) -> OutgoingEvent | None:
        event = made(line)
        return event and replace(event, id=f"evt_{next(ids)}")

    monkeypatch.setattr(events, "event_of", random)
    assert any("ids" in text and text.startswith("event under ") for text in Recorded(4, WILD).judged())
