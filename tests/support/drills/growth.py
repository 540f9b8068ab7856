"""Drills of growth: shards, shards of a tenant, and a queue, stripes and lanes come into a running installation.

Processes are replaced as by a deployment, one after the other, and end in peace: nothing explains a repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from quarterjack import Scheduler
from quarterjack.domain.queue import Queue
from quarterjack.domain.tenants.agenda_layout import AgendaLayout
from quarterjack.domain.times import SECOND
from quarterjack.fires.context import LOOKAHEAD
from quarterjack.local.installation import provision
from quarterjack.local.processes import LogFollower, ProcessRole
from quarterjack.ports.services import Services
from quarterjack.services import connect

from tests.support.chaos.chaos_run import JOBS
from tests.support.drills.siege import Drill, Siege

_SHARDS, _OWN = 9, 2
_PAGE = "how-to/size"
_STRIPES = {"QUARTERJACK_STRIPES": "default=3", "QUARTERJACK_PRIORITIES": "default,reports"}
_EVERY = "rate(2 seconds, from=2026-01-01T00:00:00Z)"
_UNTOUCHED = 12 * SECOND  # ms for which no ticker claims a fire of a schedule: so long audits have
_QUEUE = Queue(name="reports", priorities=True)


def _deploy(siege: Siege, names: Sequence[str], **settings: str) -> None:
    """Start processes anew with further settings, one after the other."""
    for name in names:
        command = "worker --jobs acme.jobs" if name in siege.workers else name.partition("-")[0]
        siege.type(" ".join((*(f"{key}={value}" for key, value in settings.items()), "quarterjack", command)))
        siege.redeploy(name, broken=False, **settings)


def _tickers(siege: Siege) -> list[str]:
    return [name for name in siege.troupe.names if name.startswith("ticker")]


def _layout(services: Services) -> AgendaLayout:
    return services.agenda.layout(fresh=True)


def _strangers(siege: Siege, services: Services) -> list[str]:
    """The steady schedules whose chain is not in the shard that the layout gives them."""
    layout, owners = _layout(services), [schedule.owner for schedule in siege.owners.accepted.steady]
    newest = {owner: max(services.schedules.history(owner), key=lambda revision: revision.number) for owner in owners}
    return [owner for owner, revision in newest.items() if revision.shard != layout.shard_of(owner)]


def _move_chains(siege: Siege, services: Services, kind: str, by: Scheduler | None = None) -> None:
    """Audit until all chains are at home: one that a ticker moves on at this moment is left to the next audit.

    Then tickers have to find chains where they are now. Most have claimed minutes of fires already; those of a ``kind`` have not. ``by``:
    a process that goes by the layout of before. And a process that goes by the present one creates schedules.
    """
    far = [f"{kind}-far-{number}" for number in range(6)]
    first = datetime.now(UTC) + timedelta(milliseconds=LOOKAHEAD + _UNTOUCHED)
    for name in far:
        siege.owners.steady(name, "chaos.note", f"rate(1 hours, from={first:%FT%TZ})", siege.plan.load.short, by=by)
    assert any(name.endswith(tuple(far)) for name in _strangers(siege, services)), "no untouched chain has to move"
    for _ in range(3):
        siege.quarterjack("audit")
        if not (left := _strangers(siege, services)):
            break
    assert not left, f"still elsewhere: {left}"
    fresh = Scheduler(settings=siege.settings)
    for number in range(6):
        siege.owners.steady(f"{kind}-new-{number}", "chaos.note", _EVERY, siege.plan.load.short, by=fresh)
    siege.wait_for(lambda: all(fresh.list_runs(name, after=first - timedelta(seconds=1)).items for name in far))


# More shards.


def _be_small(siege: Siege) -> None:
    assert _layout(connect(siege.settings)).shards < _SHARDS
    _deploy(siege, _tickers(siege)[:1], QUARTERJACK_SHARDS=str(_SHARDS))  # the others go on as they are
    siege.go_on(2)


def _grow(siege: Siege) -> None:
    services = connect(siege.settings)
    _deploy(siege, siege.troupe.names[1:], QUARTERJACK_SHARDS=str(_SHARDS))
    assert _layout(services).shards == _SHARDS
    _move_chains(siege, services, "shards")


SHARDS = Drill(
    name="shards grow",
    done=f"The agenda gets {_SHARDS} shards in place of 4: one ticker first, then all processes, then the chains.",
    runbook=_PAGE,
    act=_be_small,
    procedure=_grow,
)


# Shards of a tenant.


def _be_common(siege: Siege) -> None:
    assert not _layout(connect(siege.settings)).places


def _reserve(siege: Siege) -> None:
    services, tenant = connect(siege.settings), siege.owners.accepted.steady[0].tenant
    for number, kind in ((_OWN, "own"), (0, "common")):
        earlier = connect(siege.settings)
        earlier.agenda.layout()
        siege.quarterjack("tenants", "set", tenant, "--limit", f"agenda_shards={number}")
        place = _layout(services).places[tenant]
        assert (len(place.shards), place.used) == (_OWN, number)
        _move_chains(siege, services, kind, Scheduler(services=earlier))


TENANT = Drill(
    name="a tenant gets shards of its own",
    done=f"The tenant of the whole load gets {_OWN} shards of its own, and later returns to the common ones.",
    runbook=_PAGE,
    act=_be_common,
    procedure=_reserve,
)


# A queue, stripes, lanes.


def _send_ahead(siege: Siege) -> None:
    """A sender knows of stripes and lanes before they exist: it sends to those that do."""
    first = _tickers(siege)[0]
    seen = LogFollower(siege.folder / f"{first}.log")
    _deploy(siege, [first], **_STRIPES)
    siege.wait_for(lambda: bool(_detours(seen)))


def _detours(log: LogFollower) -> list[str]:
    """The processes that have just taken a stripe or a lane for missing."""
    return [name for name, event in log.new() if event["event"] == "stripe.missing"]


def _add_queues(siege: Siege) -> None:
    provision(
        replace(
            siege.settings,
            stripes=_STRIPES["QUARTERJACK_STRIPES"],
            priorities=_STRIPES["QUARTERJACK_PRIORITIES"],
        ),
        queues=[_QUEUE],
    )  # what `cdk deploy` does
    siege.type("quarterjack worker --queue reports --jobs acme.jobs")
    siege.environ["worker-reports"] = dict(siege.environ[siege.workers[0]])
    siege.troupe.add(ProcessRole("worker-reports", ("worker", *JOBS, "--queue", _QUEUE.name, "--grace", "3")))
    senders = [name for name in siege.troupe.names if name not in (*siege.workers, _tickers(siege)[0])]
    _deploy(siege, [name for name in siege.workers if name != "worker-reports"] + senders, **_STRIPES)
    short = siege.plan.load.short
    for priority in ("high", "normal", "low"):
        siege.owners.steady(f"lane-{priority}", "chaos.note", _EVERY, short, priority=priority)
        siege.owners.steady(f"reports-{priority}", "chaos.note", _EVERY, short, queue=_QUEUE.name, priority=priority)
    assert "reports" in siege.quarterjack("queues", "list")
    log = LogFollower(*siege.troupe.logs)
    log.new()
    siege.go_on(6)
    assert not _detours(log), "a sender still takes stripes or lanes for missing"


QUEUES = Drill(
    name="a queue, stripes and lanes are added",
    done="The default queue gets three stripes and lanes, and a second queue with lanes comes; one ticker sends to them before they exist.",
    runbook=_PAGE,
    act=_send_ahead,
    procedure=_add_queues,
)

GROWTH = (SHARDS, TENANT, QUEUES)
