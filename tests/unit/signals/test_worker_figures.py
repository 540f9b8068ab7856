"""What a worker measures, by what it really does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from quarterjack import Scheduler
from quarterjack.domain.policies import Priority
from quarterjack.domain.run import RunState
from quarterjack.domain.times import SECOND
from quarterjack.ports.queues import OutgoingMessage
from quarterjack.signals.catalogue import METRICS
from quarterjack.signals.measurement import Emitter, Measurement, Metered, lines_of
from quarterjack.signals.worker import WorkerFigures
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.testing import Crash
from quarterjack.worker.admission.refused import NO_WORKER
from quarterjack.worker.context import Done, WorkerContext
from quarterjack.worker.delivery.receive import partition_batch, receive
from quarterjack.worker.delivery.visibility import HIDDEN, RunPermits
from quarterjack.worker.pipeline import run_batch
from quarterjack.worker.stages import Action, LeasedRun, Outcome

from tests.support.scenes.parking import Parking
from tests.support.scenes.world import NOON, Faults, World, at, crash, fails


@dataclass
class Measured:
    """A world whose worker's figures are kept."""

    world: World = field(default_factory=World)
    metered: Metered = field(default_factory=Metered)
    seen: list[Measurement] = field(default_factory=list)

    def worker(self, faults: Faults | None = None, name: str = "w") -> WorkerContext:
        figures = WorkerFigures(lambda: self.world.jobs, self.metered)

        def started(leased: Sequence[LeasedRun]) -> None:
            self.seen += figures.of_starts(leased)

        def report(done: Sequence[Done]) -> None:
            self.seen += figures.of_ends(done)

        return replace(self.world.worker(faults, name=name), started=started, report=report)

    def work(self, faults: Faults | None = None) -> dict[str, list[float]]:
        """Work off what is visible; values by name, of the totals."""
        worker = self.worker(faults)
        received = receive(worker, self.world.services.work.receive(most=10, wait=0, visibility=HIDDEN))
        for batch in partition_batch(worker, received):
            run_batch(worker, batch)
        return self.take()

    def take(self) -> dict[str, list[float]]:
        found = defaultdict[str, list[float]](list)
        for each in self.seen:
            if not each.dimensions:
                found[each.name] += each.values
        self.seen.clear()
        return dict(found)


def test_a_run_that_goes_well_has_its_lag_its_wait_and_its_duration() -> None:
    here = Measured()
    here.world.during = lambda ctx: here.world.wait(7)
    here.world.scheduler.submit("note")
    here.world.wait(3)
    assert here.work() == {
        "Started": [1],
        "FirstStarts": [1],
        "FirstStartsLate": [1],
        "StartLag": [3_000],
        "QueueWait": [3_000],
        "AttemptsEnded": [1],
        "RunDuration": [7_000],
        "AttemptsPerRun": [1],
        "Succeeded": [1],
    }


def test_a_slice_that_ends_in_a_wait_is_counted_by_what_it_waits_for() -> None:
    here = Measured(world=Parking())
    for job in ("nap", "ask", "ask"):
        here.world.scheduler.submit(job)
    found = here.work()
    counts = [sum(found[name]) for name in ("Parked", "Parked.sleep", "Parked.signal")]
    assert counts == [3, 1, 2]


def test_the_run_of_a_pipeline_waits_for_tasks() -> None:
    here = Measured(world=Parking())
    here.world.scheduler.upsert_schedule("p", "pipeline:p", "manual", tasks={"a": {"job": "ask"}})
    here.world.scheduler.trigger("p")
    assert here.work()["Parked.tasks"] == [1]


def test_the_time_for_which_a_message_was_delayed_is_no_wait() -> None:
    here = Measured()
    here.world.scheduler.submit("note", run_at=at(60))
    here.world.wait(61)
    found = here.work()
    assert (found["StartLag"], found["QueueWait"]) == ([1_000], [1_000])
    assert "FirstStartsLate" not in found


def test_attempts_that_fail_are_counted_whether_they_are_repeated_or_not() -> None:
    here = Measured()
    here.world.scheduler.submit("bad")
    first = here.work()
    assert (first["AttemptsEnded"], first["AttemptsFailed"], first["Retried"]) == ([1], [1], [1])
    assert "AttemptsPerRun" not in first, "it goes on"
    last = dict[str, list[float]]()
    for _ in range(2):
        here.world.wait(300)
        last = here.work()
        assert "StartLag" not in last, "of first attempts only"
        assert last["Started"] == [1]
    assert (last["AttemptsFailed"], last["Failed"], last["AttemptsPerRun"]) == ([1], [1], [3])


def test_runs_of_a_batch_are_counted_together() -> None:
    here = Measured()
    for _ in range(3):
        here.world.scheduler.submit("note")
    found = here.work()
    assert (found["Started"], found["Succeeded"], found["RunDuration"]) == ([3], [3], [0, 0, 0])


def test_an_attempt_after_one_that_vanished_is_rescued_and_its_message_is_delivered_again() -> None:
    here = Measured()
    here.world.scheduler.submit("note")
    with pytest.raises(Crash):
        here.work(Faults().at("succeed", before=crash))
    assert here.take()["Started"] == [1], "it began before its worker died"
    here.world.wait((LEASE + SKEW) // SECOND + 5)
    found = here.work()
    assert (found["LeasesRescued"], found["Redelivered"], found["Started"]) == ([1], [1], [1])
    assert found["AttemptsPerRun"] == [2]


def test_an_end_that_could_not_be_recorded_is_the_end_of_an_attempt_all_the_same() -> None:
    here = Measured()
    here.world.scheduler.submit("note")
    found = here.work(Faults().at("succeed", before=fails, times=1_000))
    assert (found["AttemptsEnded"], found["Kept"]) == ([1], [1])


def test_a_message_that_comes_too_often_starts_nothing_and_says_why() -> None:
    here = Measured()
    here.world.scheduler.submit("note")
    (message,) = here.world.memory.messages()
    here.work()
    here.world.services.work.send([OutgoingMessage(message, 0)])
    assert here.work() == {"LeaseRefused": [1], "LeaseRefused.ended": [1]}


def test_exact_runs_start_with_their_job_and_not_with_their_lease() -> None:
    here = Measured()
    here.world.wait(0.4)
    here.world.scheduler.submit("bad", run_at=at(30), start="exact")
    here.world.reach(NOON + 28_500)
    here.world.wait(0.1)
    found = here.work()
    assert (found["Started"], found["StartLag"], found["RunDuration"]) == ([1], [0], [0])


def test_a_jobs_own_figures_are_those_by_job() -> None:
    here = Measured(metered=Metered(jobs=frozenset({"note"})))
    here.world.scheduler.submit("note")
    here.world.scheduler.submit("bad")
    worker = here.worker()
    received = receive(worker, here.world.services.work.receive(most=10, wait=0, visibility=HIDDEN))
    run_batch(worker, received)
    own = [each for each in here.seen if each.dimensions]
    assert {tuple(each.dimensions.items()) for each in own} == {(("job", "note"), ("delivery", "at_least_once"))}
    assert {each.name for each in own if each.metric.by_job} == {
        *("Started", "FirstStarts", "StartLag", "AttemptsEnded", "RunDuration", "AttemptsPerRun", "Succeeded")
    }
    assert all(each.metric.by_job for each in own)


def test_a_tenants_own_figures_are_those_by_job_of_all_its_jobs() -> None:
    here = Measured(metered=Metered(tenants=frozenset({"acme"})))
    here.world.scheduler.submit("note")
    here.world.scheduler.submit("bad")
    Scheduler("beta", jobs=here.world.jobs, services=here.world.process(), clock=here.world.clock).submit("note")
    worker = here.worker()
    for batch in partition_batch(
        worker, receive(worker, here.world.services.work.receive(most=10, wait=0, visibility=HIDDEN))
    ):
        run_batch(worker, batch)
    own = [each for each in here.seen if each.dimensions]
    assert {tuple(each.dimensions.items()) for each in own} == {(("tenant", "acme"),)}
    assert all(each.metric.by_job for each in own)
    started = [sum(each.values) for each in own if each.name == "Started"]
    total = [sum(each.values) for each in here.seen if each.name == "Started" and not each.dimensions]
    assert (sum(started), sum(total)) == (2, 3)


@pytest.mark.parametrize(("lane", "aged"), [(Priority.LOW, False), (Priority.LOW, True), (Priority.NORMAL, False)])
def test_what_came_by_a_low_lane_has_a_wait_of_its_own_whichever_slot_it_takes(lane: Priority, aged: bool) -> None:
    here = Measured()
    here.world.scheduler.submit("note")
    here.world.wait(3)
    (delivery,) = here.world.services.work.receive(most=10, wait=0, visibility=HIDDEN)
    worker = here.worker()
    run_batch(worker, receive(worker, [replace(delivery, lane=lane, aged=aged)]))
    assert here.take().get("LowWait") == ([3_000] if lane is Priority.LOW else None)


def test_failing_attempts_alone_say_the_version_of_the_worker() -> None:
    here = Measured()
    here.world.scheduler.submit("note")
    here.world.scheduler.submit("bad")
    received = receive(here.worker(), here.world.services.work.receive(most=10, wait=0, visibility=HIDDEN))
    done = list[Done]()
    run_batch(replace(here.worker(), report=done.extend), received)
    figures = WorkerFigures(lambda: here.world.jobs, version=lambda: "1.4")
    made = figures.of_ends(done)
    assert [(each.name, each.values) for each in made if each.names] == [("AttemptsFailed", [1])]
    assert [len(line) for line in lines_of(made) if line[0].names] == [1]
    assert not [each for each in WorkerFigures(lambda: here.world.jobs).of_ends(done) if each.names], "none is known"
    well = [(one, outcome) for one, outcome in done if outcome.state == "SUCCEEDED"]
    assert len(lines_of(figures.of_ends(well))) == 1, "no line more"


def test_the_metrics_that_the_catalogue_says_a_worker_makes_are_made() -> None:
    """By each state, action and start that there is."""
    here = Measured()
    here.world.scheduler.submit("note")
    here.world.wait(3)
    worker = here.worker()
    (delivery,) = here.world.services.work.receive(most=10, wait=0, visibility=HIDDEN)
    (received,) = receive(worker, [replace(delivery, receives=2, lane=Priority.LOW)])
    leased = list[LeasedRun]()
    run_batch(replace(worker, started=leased.extend), [received])
    figures = WorkerFigures(lambda: here.world.jobs)
    ends = [Outcome(action=Action.SETTLED, state=state, attempt=2, duration=5) for state in RunState]
    ends += [Outcome(action=action, why="ended") for action in Action]
    ends.append(Outcome(action=Action.POSTPONED, why=NO_WORKER))
    made = figures.of_ends([(received, outcome) for outcome in ends])
    for each in leased:
        each.in_flight.permits = RunPermits(uncapped=True)
    made += figures.of_starts([replace(each, rescued=True) for each in leased])
    expected = {name for name, each in METRICS.items() if Emitter.WORKER in each.roles and not each.processes_only}
    assert {each.metric.name for each in made} | {"JobsNotImported"} == expected
