"""Tenants with a weight or shards of the agenda of their own: what operators set, where entries lie, and chains that move."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
from quarterjack import Tenants
from quarterjack.domain.run import EntryKind
from quarterjack.domain.tenants.agenda_layout import AgendaLayout
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.errors import Conflict, InvalidInput, Unavailable
from quarterjack.testing import Crash

from tests.support.scenes.world import OWNER, Faults, World, crash, fails

OTHER = "other"


def tenants(world: World, hook: Faults | None = None) -> Tenants:
    return Tenants(services=world.process(hook), clock=world.clock)


def layout(world: World) -> AgendaLayout:
    return world.process().agenda.layout(fresh=True)


def shards_of(world: World, kind: EntryKind = EntryKind.CHAIN) -> set[int | str]:
    return {entry.shard for entry in world.entries(kind)}


# What operators set.


def test_what_is_set_in_a_profile_is_in_the_layout_too() -> None:
    world = World(shards=4)
    world.scheduler.create_schedule("s", "note", "* * * * *")
    on = tenants(world)
    on.create("acme", limits={"weight": 3, "agenda_shards": 2})
    assert (layout(world).shards, layout(world).weight_of("acme")) == (6, 3)
    assert on.get("acme").limits == {"weight": 3, "agenda_shards": 2}
    on.set("acme", limits={"agenda_shards": 3})
    assert (layout(world).shards, layout(world).weight_of("acme")) == (7, 3)
    on.set("acme", limits={"weight": None, "agenda_shards": 0})
    assert (layout(world).shards, layout(world).weight_of("acme")) == (7, 1)
    assert layout(world).shard_of(OWNER) < 4


def test_what_concerns_no_layout_reads_and_writes_none() -> None:
    world, faults = World(), Faults()
    on = tenants(world, faults)
    on.create("acme", limits={"schedules": 3})
    on.set("acme", description="x")
    on.set("acme", limits={"weight": 1})
    assert layout(world).places == {}
    assert faults.verbs().count("layout") == 1, "of the last call, which found it as it was wanted"
    assert "raise_shards" in faults.verbs(), "nothing had used the agenda before"


def test_two_operators_at_once_both_succeed() -> None:
    world = World()

    def other() -> None:
        tenants(world).create(OTHER, limits={"agenda_shards": 1})

    tenants(world, Faults().at("put_profile", before=other)).create("acme", limits={"agenda_shards": 2})
    found = layout(world)
    assert found.shards == 4
    assert {found.shard_of(f"{OTHER}/s{n}") for n in range(99)} == {1}
    assert {found.shard_of(f"acme/s{n}") for n in range(99)} == {2, 3}


def test_a_layout_that_others_keep_changing_is_told() -> None:
    world, number = World(), iter(range(99))
    other = tenants(world)

    def race() -> None:
        other.set(f"t{next(number)}", limits={"weight": 2})

    first = Faults().at("put_profile", before=race, times=None)
    with pytest.raises(
        Conflict, match=r"tenant='acme': others changed its profile, or the layout of the agenda, 5 times"
    ):
        tenants(world, first).create("acme", limits={"weight": 2})
    with pytest.raises(Conflict, match="5 times"):
        tenants(world, first).set("acme", limits={"weight": 2})
    assert [each.name for each in other.list() if each.name == "acme"] == []


def test_a_change_that_fails_leaves_profile_and_layout_as_they_were() -> None:
    world = World()
    with pytest.raises(Unavailable):
        tenants(world, Faults().at("put_profile", before=fails, times=None)).create("acme", limits={"agenda_shards": 1})
    assert tenants(world).list() == []
    assert layout(world).shards == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda on: on.create("a", limits={"weight": 0}), "limits.weight=0: is no whole number in range; use 1 to 10"),
        (lambda on: on.create("a", limits={"weight": 1.5}), "limits.weight=1.5"),
        (lambda on: on.create("a", limits={"agenda_shards": 513}), "limits.agenda_shards=513.*use 0 to 512"),
        (
            lambda on: on.set(INSTALLATION, limits={"weight": 2}),
            "limits.weight=2: is not for the installation; set it of",
        ),
        (
            lambda on: on.create("~gold", limits={"agenda_shards": 2}),
            "limits.agenda_shards=2: is not for the tier 'gold'",
        ),
    ],
)
def test_bad_input_is_refused_and_nothing_written(call: Callable[[Tenants], object], words: str) -> None:
    world = World()
    with pytest.raises(InvalidInput, match=words):
        call(tenants(world))
    assert tenants(world).list() == []
    assert layout(world).shards == 1


# Where entries lie.


def test_everything_of_a_tenant_with_shards_of_its_own_lies_there_and_runs() -> None:
    world = World(shards=2)
    tenants(world).create("acme", limits={"agenda_shards": 3})
    for number in range(12):
        world.scheduler.create_schedule(f"s{number}", "note", "* * * * *")
        world.scheduler.submit("note", delay=3_600)
    assert shards_of(world) | shards_of(world, EntryKind.RUN) == {2, 3, 4}
    world.live(180)
    assert len(world.started) == 12 * 3


def test_other_tenants_stay_where_they_are() -> None:
    world = World(shards=2)
    world.scheduler.create_schedule("s", "note", "* * * * *")
    before = shards_of(world)
    tenants(world).create(OTHER, limits={"agenda_shards": 3})
    world.audit()
    assert shards_of(world) == before


def test_an_owner_goes_by_a_layout_of_five_minutes_and_loses_nothing() -> None:
    world = World(shards=2)
    world.scheduler.create_schedule("s", "note", "* * * * *")  # its process knows the layout from now on
    tenants(world).create("acme", limits={"agenda_shards": 2})
    world.scheduler.create_schedule("t", "note", "* * * * *")
    assert shards_of(world) <= {0, 1}
    world.wait(300)
    world.scheduler.create_schedule("u", "note", "* * * * *")
    assert shards_of(world) & {2, 3}
    world.live(120)
    assert {run.ref.owner for run in world.memory.runs()} == {"acme/s", "acme/t", "acme/u"}


def test_a_layout_that_cannot_be_read_anew_is_believed_on() -> None:
    world, faults = World(shards=2), Faults()
    services = world.process(faults)
    assert services.agenda.layout().shards == 2
    world.wait(301)
    faults.at("layout", before=fails, times=None)
    assert services.agenda.layout().shards == 2
    with pytest.raises(Unavailable):
        services.agenda.layout(fresh=True)
    with pytest.raises(Unavailable):
        world.process(Faults().at("layout", before=fails, times=None)).agenda.layout()


# Chains that move.


def placed(shards: int = 2) -> World:
    """A schedule that fires every minute, whose tenant got shards of its own later."""
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    tenants(world).create("acme", limits={"agenda_shards": shards})
    return world


def test_an_audit_moves_the_chains_that_there_are() -> None:
    world = placed()
    assert shards_of(world) == {0}
    assert world.audit().resharded == 1
    assert shards_of(world) <= {1, 2}
    assert {revision.shard for revision in world.memory.revisions(OWNER)} == shards_of(world)
    assert world.audit().resharded == 0
    assert world.scheduler.describe_schedule("s").chain.state == "ok"
    world.live(600)
    assert world.began() == [60 * n for n in range(1, 11)]
    assert world.fires() == sorted(set(world.fires()))


def test_an_agenda_that_got_more_shards_is_filled_evenly_in_time() -> None:
    world = World()
    for number in range(40):
        world.scheduler.create_schedule(f"s{number}", "note", "0 9 * * *")
    world.memory._shards = 4
    report = world.audit(world.process())
    assert report.rearmed == 0, "a chain that has yet to move is there"
    assert report.resharded == 40 - len([e for e in world.entries(EntryKind.CHAIN) if e.shard == 0])
    assert shards_of(world) == {0, 1, 2, 3}
    assert world.audit().resharded == 0


def test_a_closed_revision_is_not_moved() -> None:
    world = placed()
    world.scheduler.update_schedule("s", payload=1)  # the update's own process knows the old layout
    world.wait(400)
    world.scheduler.update_schedule("s", payload=2)
    world.audit()
    assert [revision.shard for revision in world.memory.revisions(OWNER)][:2] == [0, 0]
    world.live(120)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["due", "revisions", "put", "remove"])
def test_a_move_in_the_middle_of_a_tick_neither_loses_nor_doubles_a_fire(verb: str, moment: str) -> None:
    world = placed()
    world.live(120)

    def audits() -> None:
        world.audit()

    hook = Faults().at(verb, **{moment: audits})
    for _ in range(5):
        world.wait(60)
        world.tick(world.process(hook))
        world.work()
    world.audit()
    world.live(300)
    assert world.began() == sorted(set(world.began())) == world.fires()[: len(world.began())]
    assert set(world.fires()) >= {60 * n for n in range(1, 12)}
    assert len(world.chain()) == 1, "two entries of the chain became one"
    assert shards_of(world) <= {1, 2}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("fault", [crash, None])
def test_a_tick_or_an_update_in_the_middle_of_a_move(moment: str, fault: Callable[[], None] | None) -> None:
    for act in (world_ticks, world_updates):
        world = placed()
        world.live(60)
        world.wait(120)

        def meanwhile(world: World = world, act: Callable[[World], None] = act) -> None:
            act(world)
            if fault is not None:
                fault()

        with pytest.raises(Crash) if fault is not None else nullcontext():
            world.audit(world.process(Faults().at("move", **{moment: meanwhile})))
        world.live(300)
        world.audit()
        world.live(60)
        assert world.fires() == sorted(set(world.fires()))
        assert set(world.fires()) >= {60 * n for n in range(1, 9)}
        assert len(world.began()) == len(set(world.began()))
        assert len(world.chain()) == 1


def test_an_entry_that_was_handled_meanwhile_is_not_put_again() -> None:
    world = placed()
    world.live(60)
    world.wait(120)
    report = world.audit(world.process(Faults().at("move", before=lambda: world_ticks(world))))
    assert (report.resharded, report.failed) == (0, 0)
    assert len(world.chain()) == 1
    assert world.audit().resharded == 1


def world_ticks(world: World) -> None:
    world.tick(world.process())


def world_updates(world: World) -> None:
    world.owner().update_schedule("s", payload={"at": world.clock()})


def test_an_audit_moves_a_thousand_chains_of_a_shard_and_the_next_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.auditor.repairs._MOST_MOVED", 3)
    world = World()
    for number in range(7):
        world.scheduler.create_schedule(f"s{number}", "note", "0 9 * * *")
    tenants(world).create("acme", limits={"agenda_shards": 1})
    assert [world.audit().resharded for _ in range(4)] == [3, 3, 1, 0]
    assert shards_of(world) == {1}
