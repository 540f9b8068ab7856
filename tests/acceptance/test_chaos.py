"""A short siege in ``make test``, the long one in ``make proof``; and that proxy and verdict would notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.aws import BatchBackoff
from quarterjack.domain.names import RunRef, fire_ref, one_off_ref
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.domain.times import from_ms
from quarterjack.errors import Unavailable
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.session.verifier import WatchedSchedule
from quarterjack.ports.services import Services
from quarterjack.sdk.views import run_view
from quarterjack.services import connect
from quarterjack.settings import Settings
from quarterjack.stores.rows import run_row
from quarterjack.testing import Memory
from quarterjack.testing.cloud import fresh_settings

from tests.support.chaos.chaos_monkey import Pace
from tests.support.chaos.chaos_run import ChaosRun, brief, full
from tests.support.chaos.evidence import Evidence, Line
from tests.support.chaos.fault_injector import CALM, Asked, Chances, FaultInjector, Post
from tests.support.chaos.journal import Blow, Journal
from tests.support.chaos.owners import Accepted, Cancelled, Paused
from tests.support.chaos.process_group import ProcessGroup
from tests.support.chaos.proxy import Proxy
from tests.support.chaos.verdict import Verdict, judge
from tests.support.scenes.world import NOON

SEED = 1  # `make chaos` takes others
PACE = Pace(lease=60, skew=10, between=10, rest=5, brief=10)
T0 = NOON / 1_000  # UTC seconds
RUN = str(one_off_ref("default", "k1"))


# The siege.


@pytest.mark.cloud
@pytest.mark.check
def test_a_short_siege_breaks_no_promise(local_cloud: LocalCloud, tmp_path: Path) -> None:
    verdict = ChaosRun(brief(SEED, 6), local_cloud, tmp_path / "siege").run()
    told = "\n".join([*verdict.report(), verdict.summary])
    assert verdict.violations == [], f"python -m tests.support.chaos --hurried --for 6 --seed {SEED}\n{told}"
    assert verdict.strikes["killed"] + verdict.strikes["stopped"] > 0, told
    assert sum(verdict.faults.values()) > 10, told
    assert verdict.starts > 20, told


@pytest.mark.cloud
@pytest.mark.proof
def test_ten_minutes_with_the_lease_that_everybody_has(local_cloud: LocalCloud, tmp_path: Path) -> None:
    verdict = ChaosRun(full(1, 600), local_cloud, tmp_path / "siege", print).run()
    print(*verdict.report(), verdict.summary, sep="\n")  # noqa: T201  # figures to report
    assert verdict.violations == []
    assert verdict.strikes["killed"] > 10


# The proxy.


@contextmanager
def behind(
    cloud: LocalCloud, settings: Settings, always: str | None = None, *, rounds: int = 1
) -> Iterator[tuple[FaultInjector, Services, Journal]]:
    """The services of a process to whose every request this happens."""
    journal = Journal()
    mischief = FaultInjector("process", 1, CALM, journal, Post())
    with Proxy(cloud.endpoint, mischief) as proxy:
        services = connect(replace(settings, endpoint=proxy.url), backoff=BatchBackoff(rounds=rounds))
        services.agenda.layout()
        mischief.chances = replace(CALM, held=0.02, **({always: 1.0} if always else {}))
        yield mischief, services, journal


@pytest.fixture
def settings(local_cloud: LocalCloud) -> Settings:
    return fresh_settings(local_cloud)


def queued(key: str) -> RunRow:
    ref = one_off_ref("default", key)
    return RunRow(ref=ref, state=RunState.QUEUED, revision=0, job="chaos.note", due=NOON, not_before=NOON)


@pytest.mark.cloud
@pytest.mark.parametrize(
    ("fault", "effect"),
    [("refuse", False), ("reset", False), ("throttle", False), ("lose", True), ("hold", True), ("delay", True)],
)
def test_what_is_refused_has_no_effect_and_what_is_lost_has(
    local_cloud: LocalCloud, settings: Settings, fault: str, effect: bool
) -> None:
    run = queued("k1")
    with behind(local_cloud, settings, fault) as (_, services, journal):
        with pytest.raises(Unavailable):
            services.ledger.read(run.ref)
        assert services.ledger.claim([run]).created == frozenset()
        assert sum(journal.faults.values()) > 4, "each was tried again"
    assert (connect(settings).ledger.read(run.ref) is not None) == effect


@pytest.mark.cloud
def test_single_items_are_throttled_and_the_others_take_effect(local_cloud: LocalCloud, settings: Settings) -> None:
    runs = [queued(f"k{number}") for number in range(20)]
    entries = [AgendaEntry(shard=0, due=NOON, kind=EntryKind.RUN, id=str(run.ref), created_at=NOON) for run in runs]
    with behind(local_cloud, settings, "items", rounds=5) as (_, services, journal):
        claimed = services.ledger.claim(runs).created
        put = services.agenda.put(entries)
    assert journal.faults["items throttled"] > 4, "what was throttled was asked for again"
    direct = connect(settings)
    assert {ref for ref in (run.ref for run in runs) if direct.ledger.read(ref)} == claimed
    assert {entry.key for entry in direct.agenda.due(0, upto=NOON, after=None, limit=100).entries} == put


@pytest.mark.cloud
def test_a_message_is_delivered_a_second_time(local_cloud: LocalCloud, settings: Settings) -> None:
    Scheduler(settings=settings).submit("chaos.note")
    with behind(local_cloud, settings, "repeat") as (_, services, journal):
        (first,) = services.work.receive(most=10, wait=2, visibility=60)
        (again,) = services.work.receive(most=10, wait=0, visibility=60)
    assert replace(first, receives=2) == again
    assert journal.faults == {"delivery repeated": 1}


@pytest.mark.cloud
def test_a_process_is_cut_off_from_one_service_for_a_while(local_cloud: LocalCloud, settings: Settings) -> None:
    with behind(local_cloud, settings) as (mischief, services, _):
        mischief.cut("dynamodb", 60, deaf=False)
        with pytest.raises(Unavailable):
            services.ledger.read(queued("k1").ref)
        assert services.work.receive(most=1, wait=0, visibility=60) == []
        mischief.cut("dynamodb", 0, deaf=False)
        assert services.ledger.read(queued("k1").ref) is None


def test_a_seed_is_a_sequence_of_fates() -> None:
    asked = Asked(method="POST", path="/", headers={"x-amz-target": "AmazonSQS.SendMessageBatch"}, body=b"{}")
    one, other = (FaultInjector("worker-1", 7, Chances(), Journal(), Post()) for _ in range(2))
    fates = [one.fate_of(asked) for _ in range(500)]
    assert fates == [other.fate_of(asked) for _ in range(500)]
    assert len(set(fates)) > 5


# The verdict.


class Told(ProcessGroup):
    """Processes of a story: the pid of each is its number."""

    def __init__(self) -> None:
        super().__init__([], "", lambda name: {}, Path())

    def name_of(self, pid: int) -> str:
        return f"worker-{pid}"


def line(what: str, at: float, pid: int = 1, attempt: int = 1, run: str = RUN, **more: Any) -> Line:
    return {"what": what, "run": run, "attempt": attempt, "at": T0 + at, "pid": pid, "due": T0, **more}


def judged(lines: list[Line], *blows: Blow, accepted: Accepted | None = None, runs: tuple[RunRow, ...] = ()) -> Verdict:
    journal = Journal()
    journal.blows += blows
    memory = Memory(lambda: NOON)
    for run in runs or (replace(queued("k1"), state=RunState.SUCCEEDED, started_at=NOON),):
        memory.put_row(run.ref, dict(run_row(run)))
    evidence = Evidence(lines, journal, Told(), PACE)
    return judge(evidence, accepted or Accepted(), memory, T0 + 600, [])


def blow(kind: str, at: float, seconds: float = 0.0, process: str = "worker-1") -> Blow:
    return Blow(kind=kind, process=process, at=T0 + at, until=T0 + at + seconds)


TWICE = [line("start", 0), line("start", 75, pid=2, attempt=2)]


def test_a_second_start_needs_a_worker_that_was_kept_from_its_work() -> None:
    (violation,) = judged(TWICE).violations
    assert violation == f"double: {RUN} started again after 75.0 s: nothing had happened to worker-1"
    for other in (
        blow("killed", 5, process="worker-2"),
        blow("killed", -1),
        blow("cut off from sqs", 5, 60),
        blow("stopped", 5, 8),
    ):
        assert judged(TWICE, other).violations == [violation]
    for enough in (blow("killed", 5), blow("stopped", 5, 80), blow("held up", 5, 27), blow("deaf to dynamodb", 5, 60)):
        explained = judged(TWICE, enough)
        assert explained.violations == []
        assert explained.recovery[f"worker {enough.kind} → its run starts again"] == [70]
    assert explained.summary.endswith("lost=0 doubles=1 (explained 1: deaf to dynamodb 1) violations=0")


def test_a_lease_is_not_taken_before_it_has_run_out_unless_it_was_given_back() -> None:
    early = [line("start", 0), line("start", 20, pid=2, attempt=2)]
    assert judged(early, blow("killed", 5)).violations != []
    assert judged(early, blow("asked to end", 5)).violations == []


def test_a_retry_is_no_second_start() -> None:
    retried = [line("start", 0), line("raise", 1, error="ConnectionError"), line("start", 3, pid=2, attempt=2)]
    assert judged(retried).violations == []
    assert judged([*retried[:2], line("start", 3, pid=2)]).violations != [], "the same attempt twice"


def test_at_most_once_is_never_twice_whatever_happened() -> None:
    once = replace(queued("k1"), job="chaos.once", state=RunState.SUCCEEDED, started_at=NOON)
    (violation,) = judged(TWICE, blow("killed", 5), runs=(once,)).violations
    assert "delivered at most once, started 2 times" in violation


def test_what_never_started_is_lost_unless_its_owner_cancelled_it() -> None:
    fires = WatchedSchedule(
        tenant="default",
        name="usual",
        expression="rate(5 minutes, from=2026-01-01T00:00:00Z)",
        timezone="UTC",
        start="prompt",
        since=from_ms(NOON),
    )
    accepted = Accepted(steady=[fires], submitted={RUN: T0, "default/~k2#once": T0})
    verdict = judged([line("start", 0)], accepted=accepted)
    expected = [str(fire_ref("default/usual", NOON + minutes * 60_000)) for minutes in (5, 10)]
    assert verdict.lost == [*expected, "default/~k2#once"]
    cancelled = cancelled_before_its_start(RunRef("default/~k2", "once"))
    assert (
        judged([line("start", 0)], accepted=Accepted(submitted={"default/~k2#once": T0}, cancelled=[cancelled])).lost
        == []
    )


def cancelled_before_its_start(ref: RunRef) -> Cancelled:
    run = RunRow(ref=ref, state=RunState.CANCELLED, revision=0, job="chaos.note", due=NOON, not_before=NOON)
    return Cancelled(run=run_view(run), at=T0)


def test_nothing_starts_after_pause_or_cancel_returned() -> None:
    ref = fire_ref("default/moody", NOON)
    ran = RunRow(
        ref=ref, state=RunState.SUCCEEDED, revision=3, job="chaos.note", due=NOON, not_before=NOON, started_at=NOON
    )
    starts = [line("start", 0.5, run=str(ref))]

    def paused(revision: int, *started: str) -> Accepted:
        stop = Paused(name="moody", revision=revision, at=T0 + 0.2, started=frozenset(started))
        return Accepted(paused=[stop])

    (violation,) = judged(starts, accepted=paused(3), runs=(ran,)).violations
    assert violation == f"after pause: {ref} started 0.3 s after moody had been paused"
    assert judged(starts, accepted=paused(2), runs=(ran,)).violations == [], "a later revision's"
    assert judged(starts, accepted=paused(3, str(ref)), runs=(ran,)).violations == [], "it had started already"
    late = replace(ran, started_at=NOON + 300)
    assert judged(starts, accepted=paused(3, str(ref)), runs=(late,)).violations != []
    cancelled = Accepted(cancelled=[cancelled_before_its_start(ref)])
    assert "although it was cancelled" in judged(starts, accepted=cancelled, runs=(ran,)).violations[0]


def test_a_recorded_step_never_runs_again() -> None:
    effects = [line("effect", 0.1, step="charge", token="a"), line("effect", 71, 2, 2, step="charge", token="b")]
    recorded = [line("recorded", 0.2, step="charge", token="a"), line("recorded", 72, 2, 2, step="charge", token="b")]
    assert judged([*TWICE, *effects, recorded[1]], blow("killed", 5)).violations == [], "it died before the record"
    (violation,) = judged([*TWICE, *effects, *recorded], blow("killed", 5)).violations
    assert violation == f"step: charge of {RUN} gave two results"
    assert f"step: charge of {RUN} happened 2 times" in judged([TWICE[0], *effects]).violations
