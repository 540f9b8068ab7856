"""Another tenant's names, ids, cursors, keys and tokens in somebody's hands: nothing of it is read, nothing is changed."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from quarterjack import Scheduler
from quarterjack.errors import InvalidInput, NotFound

from tests.support.scenes.neighbours import LIKE_IT, MARK, VICTIM, Neighbours, StolenCalls, methods

CALLS = 6  # of each method by each neighbour


def _thaw_all(who: Scheduler) -> None:
    """Whatever it has frozen of its own runs."""
    who.thaw()
    for part in who.holds().parts:
        kind, _, value = part.part.partition(" ")
        if kind == "key":
            key, _, name = value[1:].rpartition("' of ")
            with suppress(NotFound):
                who.thaw(key=key, job=name)
            with suppress(NotFound):
                who.thaw(key=key, flow=name)
        elif kind == "job":
            who.thaw(job=value)
        else:
            who.thaw(queue=value)


@pytest.mark.parametrize("tenant", LIKE_IT)
def test_no_call_of_another_tenant_reads_or_changes_anything(tenant: str) -> None:
    """Every method of the SDK, with arguments drawn from what belongs to the tenant; then the installation lives on for a while."""
    scene = Neighbours()
    before = scene.belongings()
    assert len(before) > 60
    who = scene.neighbour(tenant)
    calls = StolenCalls(scene, who, Random(tenant))
    scene.started.clear()
    for _ in range(CALLS):
        for method in methods():
            said = calls.call(method)
            assert MARK not in said, method
            after = scene.belongings()
            changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
            assert changed == set(), method
    _thaw_all(who)
    scene.harness.advance(minutes=30)
    assert scene.belongings() == before
    assert {run_id.partition("/")[0] for run_id, _ in scene.started} == {tenant}
    assert MARK not in repr(scene.started)
    assert len(calls.answered) > 30, "most methods were answered, or they would have refused everybody"


@pytest.mark.parametrize(
    "tenant",
    [
        "acme/s",
        "acme/",
        "~acme",
        "acme#dead",
        "аcme",
        "",
        "acme\x00",
        "acme\n",
        "*",
        "ac*",
        "acme ",
        "acme/~key",
        "%61cme",
    ],
)
def test_a_name_that_could_pass_for_the_tenants_keys_is_none(tenant: str) -> None:
    with pytest.raises(InvalidInput, match="tenant="):
        Scheduler(tenant, services=Neighbours().services)


def test_the_tenant_sees_the_marks_itself() -> None:
    """Or the search for them would prove nothing."""
    scene = Neighbours()
    it = scene.victim
    shown = [
        it.get_schedule("s"),
        it.list_schedules(),
        it.list_runs(),
        it.list_dead(),
        it.audit(),
        it.list_backfills("h"),
    ]
    shown += [it.describe_schedule("hidden"), it.export_declared(), *map(it.get_run, scene.stolen["run_id"])]
    assert [one for one in shown[:8] if MARK not in repr(one)] == [shown[5]]
    assert sum(MARK in repr(run) for run in shown[8:]) > 5
    assert it.tenant == VICTIM
