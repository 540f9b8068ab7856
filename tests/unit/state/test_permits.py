"""The permits of a concurrency cap: who gets some, who waits, and when one is free again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from quarterjack import Flow
from quarterjack.domain.tenants.limits import TenantLimits
from quarterjack.domain.tenants.profile import INSTALLATION, Governance, TenantProfile
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.state.tenants.caps import ALL, EVERYBODY, ConcurrencyCap, cap_named, caps_of, governed_by
from quarterjack.state.tenants.permits import (
    HELD,
    MOST_SENT,
    SENT,
    CapPermits,
    PermitRequest,
    SharedPermits,
    parse_permits,
)

NOW = 1_000_000


def runs(*names: str, was_queued: bool = False) -> list[tuple[str, bool]]:
    return [(name, was_queued) for name in names]


def profile(tenant: str, limits: TenantLimits | None) -> TenantProfile | None:
    return None if limits is None else TenantProfile(tenant=tenant, limits=limits)


def governance(own: TenantLimits | None = None, installation: TenantLimits | None = None) -> Governance:
    return Governance(tenant="acme", own=profile("acme", own), installation=profile(INSTALLATION, installation))


def test_permits_are_taken_up_to_the_cap_and_no_further() -> None:
    permits, got = CapPermits().taken("w1", 0, runs("a", "b"), 3, NOW)
    assert (got, permits.used()) == ({"a", "b"}, 2)
    permits, got = permits.taken("w2", 0, runs("c", "d"), 3, NOW)
    assert (got, permits.used()) == ({"c"}, 3)
    assert permits.taken("w3", 0, runs("e"), 3, NOW) == (permits, set())
    assert permits.held == {"w1": (2, NOW + HELD), "w2": (1, NOW + HELD)}


def test_a_process_says_the_whole_number_of_what_it_has() -> None:
    """A write that got no answer was one too many."""
    permits, _ = CapPermits().taken("w", 0, runs("a", "b"), 5, NOW)
    after, got = permits.taken("w", 0, runs("a", "b"), 5, NOW + 1)
    assert (got, after.held) == ({"a", "b"}, {"w": (2, NOW + 1 + HELD)})


def test_permits_last_longer_than_the_leases_that_rest_on_them() -> None:
    assert HELD > LEASE
    permits, _ = CapPermits().taken("w", 0, runs("a"), 1, NOW)
    assert permits.current(NOW + HELD + SKEW) is permits
    assert permits.current(NOW + HELD + SKEW + 1).held == {}


def test_an_end_is_never_moved_forward() -> None:
    """By a clock that is slow: leases were taken up to the present end."""
    permits, _ = CapPermits().taken("w", 0, runs("a"), 2, NOW)
    assert permits.taken("w", 1, runs("b"), 2, NOW - SKEW)[0].held == {"w": (2, NOW + HELD)}
    assert permits.renewed("w", 1, NOW - SKEW).held == {"w": (1, NOW + HELD)}
    assert permits.renewed("w", 1, NOW + 7).held == {"w": (1, NOW + 7 + HELD)}


def test_what_is_given_back_is_free_at_once() -> None:
    permits, _ = CapPermits().taken("w", 0, runs("a", "b"), 2, NOW)
    assert permits.kept("w", 1).held == {"w": (1, NOW + HELD)}
    assert permits.kept("w", 0).held == {}
    assert permits.kept("another", 0) is permits
    assert permits.kept("w", 9).held == {"w": (2, NOW + HELD)}, "nobody gets more by giving back"


def test_the_permit_of_a_flow_outlives_its_lease_by_the_difference_of_clocks() -> None:
    cap = ConcurrencyCap(tenant="acme", job="d", most=1, flow=Flow(at_a_time=1))
    permits, got = CapPermits().claimed(cap, [("a", False)], NOW)
    assert (got, permits.sent) == ({"a"}, {"a": NOW + HELD})
    assert permits.current(NOW + HELD + SKEW).sent == permits.sent
    assert permits.current(NOW + HELD + SKEW + 1).sent == {}
    assert permits.kept_for(["a"], NOW - SKEW).sent == permits.sent, "a slow clock takes nothing away"


def test_nobody_passes_those_who_wait() -> None:
    permits = CapPermits().enqueued()
    assert permits.taken("w", 0, runs("new"), 5, NOW) == (permits, set())
    permits, got = permits.taken("w", 0, [("new", False), ("waited", True)], 5, NOW)
    assert got == {"waited"}


def test_a_permit_is_kept_for_the_run_whose_message_is_on_its_way() -> None:
    permits = CapPermits().enqueued().fed(["a"], NOW, has_queue=False)
    assert (permits.used(), permits.room(1, NOW)) == (1, 0)
    assert permits.taken("w", 0, runs("other"), 1, NOW)[1] == set()
    after, got = permits.taken("w", 0, runs("other", "a"), 1, NOW)
    assert (got, after.sent, after.used()) == ({"a"}, {}, 1)
    assert permits.current(NOW + SENT).sent == {"a": NOW + SENT}
    assert permits.current(NOW + SENT + 1).sent == {}
    assert permits.without(["a"]).used() == 0
    assert permits.without(["b"]) is permits


def test_a_cap_that_was_lowered_lets_nobody_in_until_there_is_room() -> None:
    permits, _ = CapPermits().taken("w", 0, runs("a", "b", "c"), 3, NOW)
    assert permits.taken("w", 3, runs("d"), 1, NOW) == (permits, set())
    assert permits.room(1, NOW) == 0
    assert permits.kept("w", 0).taken("w", 0, runs("d", "e"), 1, NOW)[1] == {"d"}


def test_without_a_cap_the_rest_of_its_queue_goes_on_some_at_a_time() -> None:
    assert CapPermits().room(None, NOW) == MOST_SENT
    assert CapPermits(sent=dict.fromkeys("abc", NOW)).room(None, NOW) == MOST_SENT - 3
    assert CapPermits().room(MOST_SENT * 10, NOW) == MOST_SENT, "the record stays small"


WIDE = ConcurrencyCap(tenant="acme", job=ALL, most=3)
NARROW = ConcurrencyCap(tenant="acme", job="note", most=2)


def asks(
    *names: str, caps: tuple[ConcurrencyCap, ...] = (NARROW, WIDE), was_queued: bool = False
) -> list[PermitRequest]:
    return [PermitRequest(run=name, was_queued=was_queued, caps=caps) for name in names]


def counts(shared: SharedPermits) -> dict[str, int]:
    return {job: permits.used() for job, permits in shared.caps.items()}


def test_permits_are_stored_and_read_again() -> None:
    permits, _ = CapPermits().enqueued().fed(["a", "b"], NOW, has_queue=True).taken("w", 0, runs("a"), 9, NOW)
    shared, _ = SharedPermits({"note": permits}).taken("v", {}, asks("x", caps=(WIDE,)), NOW + 5)
    assert parse_permits(json.loads(json.dumps(shared.body()))) == shared
    with pytest.raises(KeyError):
        parse_permits({})


def test_a_run_takes_permits_of_all_caps_of_a_record_or_of_none() -> None:
    shared, refused = SharedPermits().taken("w", {}, [*asks("a", "b", "c"), *asks("d", "e", caps=(WIDE,))], NOW)
    assert refused == {"c": NARROW, "e": WIDE}
    assert counts(shared) == {"note": 2, ALL: 3}, "the third of the narrow cap took no permit of the wide one"
    full, refused = shared.taken("v", {}, asks("f", caps=(WIDE,)), NOW)
    assert (full, refused) == (shared, {"f": WIDE})
    shared = shared.kept("w", {"note": 1, ALL: 3})
    after, refused = shared.taken("v", {}, asks("g"), NOW)
    assert (refused, counts(after)) == ({"g": WIDE}, {"note": 1, ALL: 3}), "what it had of the narrow one goes back"


def test_what_a_process_has_of_a_record_ends_together() -> None:
    """So that one number tells how long its leases may be."""
    shared, _ = SharedPermits().taken("w", {}, asks("a"), NOW)
    shared, _ = shared.taken("w", {"note": 1, ALL: 1}, asks("b", caps=(WIDE,)), NOW + 7)
    assert {permits.held["w"][1] for permits in shared.caps.values()} == {NOW + 7 + HELD} == {shared.until("w")}
    assert shared.current(NOW + 7 + HELD + SKEW + 1).caps == {}, "and leaves nothing in the record"


def test_a_process_corrects_all_that_it_has_of_a_record() -> None:
    """A write that got no answer was one too many, of another cap than the next one."""
    shared, _ = SharedPermits().taken("w", {}, asks("a"), NOW)
    after, _ = shared.taken("w", {}, asks("b", caps=(WIDE,)), NOW)
    assert counts(after) == {ALL: 1}
    assert counts(shared.renewed("w", {ALL: 1}, NOW)) == {ALL: 1}
    assert not after.has("w", ["note", ALL])
    assert after.has("w", [ALL])


def test_a_record_keeps_permits_for_few_runs_of_all_its_queues_together() -> None:
    sent = CapPermits(sent=dict.fromkeys(map(str, range(MOST_SENT - 1)), NOW))
    shared = SharedPermits({"note": sent, ALL: CapPermits().enqueued()})
    assert shared.room(replace(WIDE, most=1_000), NOW) == 1
    assert shared.room(replace(WIDE, most=None), NOW) == 1


def test_a_cap_that_two_profiles_say_is_one_cap() -> None:
    """A batch may have runs that were admitted before the profile changed."""
    asked = [*asks("a", "b", caps=(replace(WIDE, most=9),)), *asks("c", caps=(replace(WIDE, most=1, strict=True),))]
    shared, refused = SharedPermits().taken("w", {}, asked, NOW)
    assert (counts(shared), {*refused}) == ({ALL: 1}, {"b", "c"})


def test_a_run_has_a_cap_of_its_tenant_of_its_job_and_of_both_in_one_order() -> None:
    own = TenantLimits(concurrent_runs=5, job_caps={"report": 2})
    installation = TenantLimits(concurrent_runs=9, job_caps={"report": 7}, concurrency_strict=1)
    caps = caps_of(governance(own, installation), "report")
    assert [(cap.id, cap.most, cap.strict) for cap in caps] == [
        ("acme/~permits#~report", 2, True),
        ("acme/~permits#~*", 5, True),
        ("~quarterjack/~permits#~report", 7, True),
    ]
    assert [cap.record for cap in caps] == [
        "acme/~permits#~caps",
        "acme/~permits#~caps",
        "~quarterjack/~permits#~report",
    ]
    assert [cap.id for cap in caps_of(governance(own, installation), "other")] == ["acme/~permits#~*"]
    assert [cap.most for cap in caps_of(governance(None, installation), "other")] == [9], "each tenant's by default"
    assert caps_of(governance(), "report") == ()


def test_a_cap_is_found_by_its_name() -> None:
    own = TenantLimits(concurrent_runs=5, job_caps={"a:b#c": 2})
    held = governance(own, TenantLimits(job_caps={"report": 7}))
    for cap in (*caps_of(held, "a:b#c"), *caps_of(held, "report")):
        assert cap_named(cap.id, held) == cap
    assert cap_named(f"{EVERYBODY}/~permits#~gone", held).most is None
    assert [governed_by(name) for name in ("acme/~permits#~*", f"{EVERYBODY}/~permits#~report")] == [
        "acme",
        INSTALLATION,
    ]
    for name in ("acme", "acme/~permits", "acme/~permits#report", "acme/~other#~report", "/~permits#~x"):
        with pytest.raises(ValueError, match="names no concurrency cap"):
            cap_named(name, held)
