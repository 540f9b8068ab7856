"""With reads of 150 ms each the doctor finds what it finds with quick ones, also while ticks and runs go on between its reads."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Registry, Retry, Settings
from quarterjack.doctor import Finding, Severity, flow, schedules
from quarterjack.doctor.context import DoctorContext, ProbeAnswer
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.times import MINUTE
from quarterjack.dynamodb.items import to_item
from quarterjack.stores.agenda import CONFIG
from quarterjack.testing import Harness, Hook

from tests.support.slow_reads import SlowWorld

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SCHEDULES = 8
CHECKS = (
    flow.ticker,
    flow.quarantined,
    flow.backpressure,
    schedules.chains,
    schedules.incidents,
    flow.history,
    schedules.jobs,
)


class Probe:
    """Answers of AWS that are not of the services: the agenda's config, and no lock."""

    def call(self, service: str, operation: str, /, **given: Any) -> ProbeAnswer:
        item = {"shards": {"N": "1"}} if given["Key"] == to_item(CONFIG) else None
        return ProbeAnswer(action=f"{service}:{operation}", data={} if item is None else {"Item": item})

    def metric(self, *_: object) -> list[dict[str, Any]]:
        return []


def a_harness() -> Harness:
    """Schedules that fire every minute and every ten seconds, and one that fails."""
    jobs = Registry()
    jobs.job("ok")(lambda ctx, payload: None)
    jobs.job("bad", retry=Retry(max_attempts=1))(lambda ctx, payload: 1 / 0)
    made = Harness(jobs, at=NOON)
    for number in range(SCHEDULES):
        expression = "* * * * *" if number % 2 else "*/10 * * * * *"
        made.scheduler.create_schedule(f"s-{number:02}", "ok", expression)
    made.scheduler.create_schedule("wrong", "bad", "* * * * *")
    made.advance(minutes=3, seconds=57)  # the next tick comes while the doctor reads
    return made


@pytest.fixture
def harness() -> Harness:
    return a_harness()


def examined(harness: Harness, hook: Hook) -> Iterator[Finding]:
    context = DoctorContext(
        settings=Settings(),
        probe=Probe(),  # type: ignore[arg-type]
        clock=harness.clock,
        tables={"schedules", "revisions", "agenda", "runs"},
        chance=random.Random(1),
    )
    vars(context)["services"] = harness.memory.connect(hook)
    for check in CHECKS:
        yield from check(context)


def said(harness: Harness, hook: Hook) -> list[tuple[Severity, str]]:
    """Verdicts and texts; the age of the history is that of the moment in which it is read."""
    return [(one.verdict, re.sub(r"as of \d s ago", "as of now", one.what)) for one in examined(harness, hook)]


@pytest.mark.parametrize("goes_on", [False, True], ids=["alone", "beside ticks"])
def test_a_healthy_installation_is_called_healthy(*, goes_on: bool, harness: Harness) -> None:
    quick, hook = said(harness, Hook()), SlowWorld(harness, goes_on=goes_on)
    began = harness.clock()
    slow = said(harness, hook)
    assert harness.clock() // MINUTE > began // MINUTE, f"{hook.reads} reads are not slow: no tick came"
    assert slow == quick
    assert [what for verdict, what in slow if verdict is not Severity.OK] == [
        f"1 of {SCHEDULES + 1} active schedules fail, or had no success in time: wrong"
    ]
    assert f"{SCHEDULES + 1} active schedules of default checked: each has its entry" in [what for _, what in slow]


@pytest.mark.parametrize("goes_on", [False, True], ids=["alone", "beside ticks"])
def test_a_missing_chain_and_an_entry_that_was_put_aside_are_found(*, goes_on: bool, harness: Harness) -> None:
    services = harness.memory.connect()
    (head,) = (head for head in services.schedules.scan_heads("", limit=100)[0] if head.name == "s-01")
    entries = services.agenda.due(0, upto=harness.clock() + 60 * MINUTE, after=None, limit=1_000).entries
    (entry,) = (entry for entry in entries if entry.id == f"{head.owner}#{head.revision}")
    assert isinstance(entry, AgendaEntry)
    assert entry.kind is EntryKind.CHAIN
    services.agenda.remove([entry])
    found = said(harness, SlowWorld(harness, goes_on=goes_on))
    missing = f"1 of {SCHEDULES + 1} active schedules have no entry in the agenda: s-01"
    assert (Severity.FAIL, missing) in found


def test_a_ticker_that_stands_is_told_by_the_time_at_which_the_doctor_began(harness: Harness) -> None:
    harness.clock.advance(timedelta(minutes=5))  # nobody ticks
    quick = [what for _, what in said(harness, Hook()) if "behind" in what]
    slow = [what for _, what in said(harness, SlowWorld(harness, goes_on=False)) if "behind" in what]
    assert len(quick) == 1, said(harness, Hook())
    seconds = [int(texts[0].split("it is ")[1].split(" s behind")[0]) for texts in (quick, slow)]
    assert 0 <= seconds[1] - seconds[0] <= 1
