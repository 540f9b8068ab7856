"""Drills of tables: they throttle for a long while."""

from __future__ import annotations

from tests.support.chaos.fault_injector import Fate
from tests.support.drills.siege import Drill, Siege

_LEASES = 6  # the fault lasts for so many lease times
_SHARE = 0.9  # of requests that are throttled


def _throttle(siege: Siege) -> None:
    seconds = _LEASES * siege.plan.pace.lease
    siege.afflict("dynamodb", Fate.THROTTLE, seconds, share=_SHARE)
    siege.go_on(seconds)


def _raise_the_maximum(siege: Siege) -> None:
    throttled = siege.journal.faults[Fate.THROTTLE]
    assert throttled > 100, f"too few requests were throttled to show anything: {throttled}"
    assert siege.under_way > 50, f"too few runs wait to show anything: {siege.under_way}"
    siege.type("aws dynamodb update-table --table-name quarterjack-runs --on-demand-throughput MaxWriteRequestUnits=-1")
    siege.quarterjack("forecast", "--since", "-1h", "--until", "2h", "--by", "minute")


THROTTLED = Drill(
    name="tables throttle",
    done=f"For {_LEASES} lease times {_SHARE:.0%} of all requests to tables are throttled, whoever makes them.",
    runbook="behind",
    act=_throttle,
    procedure=_raise_the_maximum,
    explains=frozenset({str(Fate.THROTTLE)}),
)
