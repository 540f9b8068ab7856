"""A tenant that moves at an instant: every fire is run by one of both installations, as if it had not moved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Rule, Tenants
from quarterjack.auditor.audit import audit
from quarterjack.domain.run import RunState
from quarterjack.errors import InvalidInput
from quarterjack.testing import Crash, Harness

from tests.support.scenes.moving import START, TENANT, dumped, fires, installation, together
from tests.support.scenes.world import Mortal

BORDER = START + timedelta(minutes=20)
END = timedelta(minutes=70)


def make(here: Harness) -> None:
    owner = here.scheduler
    owner.create_schedule("rate", "greet", "rate(90 seconds)")
    owner.create_schedule("cron", "greet", "*/5 * * * *")  # one of its fires is due at the border
    owner.create_schedule("spread", "greet", Rule(expression="*/3 * * * *", window=170))
    owner.create_schedule("counted", "greet", Rule(expression="*/4 * * * *", max_fires=12))
    owner.create_schedule("waits", "greet", "*/10 * * * *")
    owner.pause_schedule("waits", until=START + timedelta(minutes=45))
    owner.upsert_schedule("line", "pipeline:line", "*/15 * * * *", tasks={"a": {"job": "greet"}})


@pytest.fixture
def unmoved() -> list[str]:
    """The fires of the same tenant if it stays."""
    here = installation()
    make(here)
    here.advance(END)
    return started(here)


def started(*installations: Harness) -> list[str]:
    """The fires whose jobs have run, sorted: one that ran in both is there twice."""
    done = (RunState.SUCCEEDED,)
    return sorted(
        str(run.ref) for each in installations for run in each.memory.runs() if run.ref.is_fire and run.state in done
    )


def pair() -> tuple[Harness, Harness]:
    there, here = installation(), installation()
    make(there)
    together((there, here), minutes=11)
    return there, here


@pytest.mark.parametrize("ended_first", [True, False])
def test_a_move_ahead_of_its_instant_loses_and_doubles_nothing(
    unmoved: list[str], tmp_path: Path, ended_first: bool
) -> None:
    there, here = pair()
    if ended_first:  # the dump says then that they are paused, and when they end
        there.tenants.end_schedules(TENANT, BORDER)
    file = dumped(there, tmp_path / "a", TENANT)
    if ended_first:  # its timer was taken away before: what end_schedules told is set by hand
        text = file.read_text()
        file.write_text(text.replace('"pause":{"at"', '"pause":{"until":"2026-05-04T12:45:00.000Z","at"'))
    here.tenants.load(file, start=BORDER)
    if not ended_first:
        there.tenants.end_schedules(TENANT, BORDER)
    together((there, here), minutes=END.total_seconds() / 60 - 11)
    assert started(there, here) == unmoved
    assert all(datetime.fromisoformat("2026-05-04T12:20:00Z") <= run.due for run in here.runs() if "~" not in run.id)


@pytest.mark.parametrize("late", [5, 25])
def test_a_load_after_the_instant_catches_up(unmoved: list[str], tmp_path: Path, late: int) -> None:
    there, here = pair()
    there.tenants.end_schedules(TENANT, BORDER)
    file = dumped(there, tmp_path / "a", TENANT)
    together((there, here), minutes=9 + late)
    here.tenants.load(file, start=BORDER)
    together((there, here), minutes=END.total_seconds() / 60 - 20 - late)
    expected = [run for run in unmoved if "/waits#" not in run]
    assert [run for run in started(there, here) if "/waits#" not in run] == expected


def test_fires_that_catch_up_skips_have_a_row_here(tmp_path: Path) -> None:
    there, here = installation(), installation()
    there.scheduler.create_schedule("s", "greet", "* * * * *", catch_up="none")
    together((there, here), minutes=11)
    there.tenants.end_schedules(TENANT, BORDER)
    file = dumped(there, tmp_path / "a", TENANT)
    together((there, here), minutes=40)
    here.tenants.load(file, start=BORDER)
    together((there, here), minutes=10)
    assert len(fires(there)) == 20
    skipped = [run for run in here.memory.runs() if run.state is RunState.SKIPPED]
    assert sum(run.skipped or 0 for run in skipped) + len(started(here)) == 41


def test_what_was_loaded_paused_starts_with_a_second_load(unmoved: list[str], tmp_path: Path) -> None:
    there, here = pair()
    file = dumped(there, tmp_path / "a", TENANT)
    first = here.tenants.load(file)
    assert {head.state for head in here.memory.heads()} == {"PAUSED"}
    assert (first.created["schedule"], first.started) == (6, {})
    there.tenants.end_schedules(TENANT, BORDER)
    second = here.tenants.load(file, start=BORDER)
    assert (second.started, second.unchanged) == ({"schedule": 5}, {"schedule": 1})
    together((there, here), minutes=END.total_seconds() / 60 - 11)
    assert started(there, here) == unmoved


def test_an_owner_who_paused_it_here_is_not_overruled(tmp_path: Path) -> None:
    there, here = pair()
    file = dumped(there, tmp_path / "a", TENANT, history=False)
    here.tenants.load(file)
    here.scheduler.resume_schedule("cron")
    here.scheduler.pause_schedule("cron", reason="mine")
    done = here.tenants.load(file, start=BORDER)
    assert (done.refused, done.written) == ({"schedule": 1}, False)
    assert done.problems[0].field == "start"


def test_the_end_can_be_undone_before_and_after_it_came(unmoved: list[str]) -> None:
    for minutes in (11, 30):
        there = installation()
        make(there)
        there.scheduler.delete_schedule("waits")  # its timer does not come back
        there.advance(minutes=11)
        ended = there.tenants.end_schedules(TENANT, BORDER)
        assert (ended.schedules, ended.failed) == (5, {})
        there.advance(minutes=minutes - 11)
        assert there.tenants.end_schedules(TENANT, BORDER, undo=True).schedules == 5
        there.advance(minutes=END.total_seconds() / 60 - minutes)
        late = BORDER + timedelta(minutes=10) if minutes == 30 else BORDER
        expected = [run for run in unmoved if "/waits#" not in run and not _between(run, BORDER, late)]
        assert [run for run in started(there) if not _between(run, BORDER, late)] == expected


def _between(run: str, after: datetime, upto: datetime) -> bool:
    due = int(run.rpartition("#")[2]) / 1_000
    return after.timestamp() < due <= upto.timestamp()


def test_the_auditor_leaves_a_schedule_alone_whose_end_is_ahead(unmoved: list[str]) -> None:
    there, here = pair()
    there.tenants.end_schedules(TENANT, BORDER)
    report = vars(audit(there.memory.connect(), clock=there.clock))
    counted = ("schedules", "quarantined", "tidied")  # the entry that the pause of `waits` has left
    assert {name: n for name, n in report.items() if n and name not in counted} == {}
    there.advance(minutes=30)
    assert started(there) == [run for run in unmoved if _between(run, START, BORDER)]
    assert here.memory.heads() == []


def test_an_instant_that_is_too_near_is_refused() -> None:
    there, _ = pair()
    with pytest.raises(InvalidInput, match=r"at=.*: is not 30 s ahead; give one that is ahead"):
        there.tenants.end_schedules(TENANT, there.clock.now() + timedelta(seconds=29))
    assert {head.state for head in there.memory.heads()} == {"ACTIVE", "PAUSED"}


def test_a_pause_at_once_goes_before_an_end_that_is_ahead() -> None:
    there, _ = pair()
    there.tenants.end_schedules(TENANT, BORDER)
    there.scheduler.pause_schedule("cron")
    before, claimed = (len([run for run in found if "/cron#" in run]) for found in (started(there), fires(there)))
    there.advance(minutes=30)
    assert len([run for run in fires(there) if "/cron#" in run]) == claimed  # the chain has ended, too
    assert len([run for run in started(there) if "/cron#" in run]) == before == 2
    assert len([run for run in started(there) if "/rate#" in run]) == 13


# Crashes.

Act = Callable[[Harness, Harness, Path, Any], object]


def _ends(there: Harness, here: Harness, file: Path, hook: Any) -> None:
    tenants_of(there, hook).end_schedules(TENANT, BORDER)


def _loads(there: Harness, here: Harness, file: Path, hook: Any) -> None:
    tenants_of(here, hook).load(file, start=BORDER)


def tenants_of(harness: Harness, hook: Any) -> Tenants:
    return Tenants(services=harness.memory.connect(hook), clock=harness.clock)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("act", [_ends, _loads], ids=["end", "load"])
def test_who_dies_at_any_call_and_calls_again_loses_nothing(
    unmoved: list[str], tmp_path: Path, act: Act, after: bool
) -> None:
    call, died = 0, True
    while died:
        there, here = pair()
        file = dumped(there, tmp_path / "a", TENANT)
        try:
            act(there, here, file, Mortal(call, after=after))
        except Crash:
            call += 7
        else:
            died = False
        _ends(there, here, file, None)
        _loads(there, here, file, None)
        together((there, here), minutes=END.total_seconds() / 60 - 11)
        assert started(there, here) == unmoved, call
        there_ended = told_runs(there)
        assert [run for run in there_ended if run not in told_runs(here)] == []
    assert call > 20


def told_runs(harness: Harness) -> list[str]:
    ended = harness.scheduler.list_runs(state="SUCCEEDED", until=START + timedelta(minutes=11), limit=1_000).items
    return sorted(run.id for run in ended)
