"""Limits of four tenants amid crashes, stalls, lost answers and wrong clocks: what is checked of them, and that the checks can fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import quarterjack.auditor.audit
import quarterjack.daemon.lane_shares
import quarterjack.fires.flow.wait_queue
import quarterjack.owner.limits
import quarterjack.state.lease
import quarterjack.stores.tenants.usage
import quarterjack.worker.admission.admit
import quarterjack.worker.admission.concurrency
import quarterjack.worker.pipeline
from quarterjack.fires.flow.next_runs import QueueEntry
from quarterjack.ports.services import Services
from quarterjack.state.tenants.breaker import Breaker
from quarterjack.state.tenants.caps import ALL, ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits
from quarterjack.state.tenants.quota import QuotaCount
from quarterjack.state.transition import Compare
from quarterjack.worker.breakers import BreakerBook, Passage

from tests.support import simulate
from tests.support.histories.governed import Governed
from tests.support.parts import in_rotation

SEEDS = (5,)
MANY, PARTS = 140, 4
TRIED = 4  # histories in which a slip must show


def played(seed: int) -> Governed:
    history = simulate.history_of(seed, "governed")
    assert isinstance(history, Governed)
    assert history.judged() == [], f"python -m tests.support.simulate --kind governed --only {seed}"
    return history


@in_rotation(of=6)
def test_limits_hold_amid_faults() -> None:
    counts, leases = Counter[str](), Counter[str]()
    for seed in SEEDS:
        history = played(seed)
        counts += history.stage.counts
        leases.update(lease.ref.tenant for lease in history.seen.leases.values())
    assert min(leases[tenant] for tenant in ("free", "full", "flood", "moved")) > 10, leases
    met = (
        "full",
        "over waiting_runs",
        "over kept_bytes",
        "over runs_per_second",
        "opened",
        "closed",
        "probes",
        "waits: concurrency",
        "waits: breaker",
        "act suspend",
    )
    assert all(counts[what] for what in met), counts


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_limits_hold_amid_faults_in_many_histories(part: int) -> None:
    assert sum(len(played(seed).seen.leases) for seed in range(part, MANY, PARTS)) > 500 * MANY // PARTS


def _grants_to_anybody(self: CapPermits, process: str, own: int, runs: Any, most: int | None, now: int) -> Any:
    return _TAKEN(self, process, own, runs, None, now)


_TAKEN, _FED = CapPermits.taken, CapPermits.fed
Patch = tuple[Any, str, Any]


def _removed(going: Sequence[QueueEntry], starts: object, services: Services, clock: object) -> int:
    """The entries of runs go, and no message is sent."""
    services.agenda.remove([entry for entry, _ in going])
    return len(going)


SLIPS: dict[str, tuple[str, list[Patch]]] = {
    "caps let anything through": ("too many:", [(CapPermits, "taken", _grants_to_anybody)]),
    "nobody asks for permits": (
        "no permit:",
        [(quarterjack.worker.pipeline, "hold_permits", lambda worker, ready: list(ready))],
    ),
    "rates take no tokens": (
        "too fast:",
        [(quarterjack.stores.tenants.usage.TenantUsage, "take", lambda self, tenant, rate, now: 0)],
    ),
    "runs take no places": (
        "over quota: waiting_runs",
        [(quarterjack.stores.tenants.usage.TenantUsage, "take_place", lambda self, *_: 0)],
    ),
    "payloads take no bytes": (
        "over quota: kept_bytes",
        [(quarterjack.stores.tenants.usage.TenantUsage, "take_bytes", lambda self, *_: None)],
    ),
    "places never come back": (
        "leaked: places",
        [(quarterjack.owner.limits, "_count_runs", lambda *of: QuotaCount(in_use=of[-1]))],
    ),
    "an open breaker lets everything through": (
        "too many probes:",
        [(Breaker, "probe", lambda self, now: (replace(self, refused=not self.refused), 1))],
    ),
    "a worker does not learn that a breaker opened": (
        "free passage:",
        [(BreakerBook, "ask", lambda self, tenant, job, services, now: Passage.FREE)],
    ),
    "a tenant without limits has a cap": (
        "not free:",
        [
            (
                quarterjack.worker.admission.concurrency,
                "caps_of",
                lambda governance, job: (ConcurrencyCap(tenant=governance.tenant, job=ALL, most=2),),
            )
        ],
    ),
    "low runs keep no share": (
        "starved:",
        [
            (
                quarterjack.daemon.lane_shares,
                "next_lane",
                lambda waiting, *_: min(waiting, key=lambda lane: lane.rank, default=None),
            )
        ],
    ),
    "who leaves a line gets no message, and no auditor comes": (
        "stuck:",
        [
            (quarterjack.fires.flow.wait_queue, "_send_for", _removed),
            (quarterjack.auditor.audit, "_take_turns", lambda walks, state, bookmark, budget: None),
        ],
    ),
    "a lease needs nothing": (
        "twice:",
        [(quarterjack.state.lease, "all_of", lambda *conditions: Compare("fence", ">=", 0))],
    ),
    "a line is never empty": (
        "left:",
        [(CapPermits, "fed", lambda self, runs, now, *, has_queue: _FED(self, runs, now, has_queue=True))],
    ),
    "permits are not given back": (
        "leaked: permits",
        [(quarterjack.worker.pipeline, "return_permits", lambda *_: None)],
    ),
    "an open breaker has no further minute": (
        "leaked: the probes",
        [(Breaker, "_next_minute", lambda self, now: self)],
    ),
}


@pytest.mark.proof
@pytest.mark.parametrize("slip", SLIPS)
def test_each_check_can_fail(slip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sign, patches = SLIPS[slip]
    for place, name, wrong in patches:
        monkeypatch.setattr(place, name, wrong)
    found: list[str] = []
    for seed in range(5, 5 + TRIED):
        found += simulate.history_of(seed, "governed").judged()
        if any(text.startswith(sign) for text in found):
            return
    pytest.fail(f"no violation {sign!r} among {found[:5]}")


def test_the_slips_are_of_code_that_is_there() -> None:
    """So that a slip that changes nothing is noticed before its histories are played."""
    assert all(hasattr(place, name) for _, patches in SLIPS.values() for place, name, _ in patches)
