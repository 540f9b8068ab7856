"""Drill of keys: the KMS key of tables and queues is disabled."""

from __future__ import annotations

from tests.support.chaos.chaos_run import OWNER
from tests.support.chaos.fault_injector import Fate
from tests.support.drills.siege import Drill, Siege

_BOTH, _QUEUES = 12.0, 14.0  # seconds: a ticker that counts its failures of an entry has ten in the latter
_OWNERS = frozenset({OWNER})  # their calls fail with an error that names the key, and are not made again


def _disable(siege: Siege) -> None:
    """Tables and queues refuse all requests, amid runs; then the tables have the key again, and the queues not yet."""
    siege.afflict("dynamodb", Fate.KEYLESS, _BOTH, spared=_OWNERS)
    siege.afflict("sqs", Fate.KEYLESS, _BOTH + _QUEUES, spared=_OWNERS)
    siege.go_on(_BOTH + _QUEUES)


def _enable(siege: Siege) -> None:
    refused = siege.journal.faults[Fate.KEYLESS]
    siege.say(f"{refused} requests refused")
    assert refused > 100, f"too few requests were refused to show anything: {refused}"
    assert siege.under_way > 50, f"too few runs wait to show anything: {siege.under_way}"
    siege.type("aws kms enable-key --key-id KEY")
    siege.quarterjack("resend", "--all-tenants", "--dry-run")
    siege.quarterjack("resend", "--all-tenants", "--rate", "200")


KEYLESS = Drill(
    name="key disabled",
    done=f"Tables for {_BOTH:.0f} s and queues for {_BOTH + _QUEUES:.0f} s refuse every request because their key is disabled.",
    runbook="disabled-key",
    act=_disable,
    procedure=_enable,
    explains=frozenset({str(Fate.KEYLESS)}),
)
