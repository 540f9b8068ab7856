"""What the doctor says of instants at which many fires are due, on the functions or the processes that there are."""

from __future__ import annotations

from typing import Any

from quarterjack import Settings
from quarterjack.doctor.context import AwsProbe, DoctorContext, Finding, ProbeAnswer, Severity
from quarterjack.doctor.crowds import instants
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.times import HOUR

from tests.support.scenes.world import NOON, World

WORKER = "arn:aws:lambda:eu-west-1:123456789012:function:quarterjack-worker"
SHARDS = 4


class Sources(AwsProbe):
    """An account with these event sources; None: it refuses to list them."""

    sources: list[dict[str, Any]] | None

    def call(self, service: str, operation: str, /, **_: Any) -> ProbeAnswer:
        assert operation == "list_event_source_mappings"
        if self.sources is None:
            return ProbeAnswer(action=f"{service}:{operation}", code="AccessDeniedException")
        return ProbeAnswer(action=operation, data={"EventSourceMappings": self.sources})


def seen(world: World, *sources: dict[str, Any], denied: bool = False) -> list[Finding]:
    probe = Sources(settings=Settings(), clock=world.clock)
    probe.sources = None if denied else list(sources)
    context = DoctorContext(settings=Settings(), probe=probe, clock=world.clock, tables={"agenda"}, shards=SHARDS)
    context.services = world.services
    return list(instants(context))


def with_fires(number: int, queue: str | None = None, kind: EntryKind = EntryKind.CHAIN) -> World:
    """So many fires of an instant, as many in each shard."""
    world = World(shards=SHARDS)
    for shard in range(SHARDS):
        put = [
            AgendaEntry(shard=shard, due=NOON + HOUR, kind=kind, id=f"acme/{shard}-{each}#1", queue=queue)
            for each in range(number // SHARDS)
        ]
        for first in range(0, len(put), 25):
            world.services.agenda.put(put[first : first + 25])
    return world


def test_many_fires_of_an_instant_are_late_on_functions_as_the_stack_makes_them() -> None:
    (finding,) = seen(with_fires(4_000), {"FunctionArn": WORKER, "ScalingConfig": {"MaximumConcurrency": 500}})
    assert finding.verdict is Severity.WARN
    assert finding.what.startswith("about 4,000 fires of queue default are due at 2026-05-04 13:00:00 UTC")
    assert str(finding.remedy).startswith("spread them by Rule(window=10)")


def test_pollers_that_are_kept_start_more_at_once_and_each_stripe_counts() -> None:
    world = with_fires(2_000)
    (one,) = seen(world, {"FunctionArn": WORKER, "ProvisionedPollerConfig": {"MinimumPollers": 2}})
    assert one.verdict is Severity.WARN
    (fine,) = seen(world, *[{"FunctionArn": f"{WORKER}:live", "ProvisionedPollerConfig": {"MinimumPollers": 40}}] * 2)
    assert (fine.verdict, "2,000 at one instant" in fine.what) == (Severity.OK, True)


def test_a_declared_queue_has_its_own_function() -> None:
    world = with_fires(4_000, queue="mail")
    (finding,) = seen(
        world,
        {"FunctionArn": WORKER, "ProvisionedPollerConfig": {"MinimumPollers": 200}},
        {"FunctionArn": f"{WORKER}-mail", "ScalingConfig": {"MaximumConcurrency": 2}},
    )
    assert "queue mail" in finding.what
    assert "window=30" in str(finding.remedy), "two functions start 199 runs a second"


def test_few_fires_are_in_time_and_what_is_no_fire_is_not_counted() -> None:
    (few,) = seen(with_fires(80), denied=True)
    assert few.verdict is Severity.OK
    (others,) = seen(with_fires(4_000, kind=EntryKind.WATCH), denied=True)
    assert (others.verdict, "at one instant" in others.what) == (Severity.OK, False)


def test_without_a_list_of_functions_those_of_the_stack_are_assumed() -> None:
    (finding,) = seen(with_fires(4_000), denied=True)
    assert finding.verdict is Severity.WARN


def test_an_agenda_that_is_not_there_is_no_finding() -> None:
    context = DoctorContext(settings=Settings(), probe=Sources(settings=Settings(), clock=lambda: 0), clock=lambda: 0)
    assert list(instants(context)) == []
