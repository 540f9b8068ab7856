"""The walls on the way to 10,000 runs a second: what does not grow with further workers, and what moves each."""

from __future__ import annotations

from quarterjack.state.capacity.figures import (
    AUDIT_PASS,
    CAP_BATCH_WRITES,
    CAP_CHANGE,
    CHANGE_CPU,
    CHANGES,
    CLAIM_WRITES,
    HISTORIAN_CORE,
    NEW_TABLE_WRITES,
    PARTITION_WRITES,
    RUN_WRITES,
    STEP_WRITES,
)
from quarterjack.values import value

_BATCH = 10  # messages of an invocation
_AUDIT_WEEKS, _AUDIT_GOAL = 6, 2  # of that figure; and a queue drops a message after two weeks


@value(slots=True)
class Wall:
    what: str
    most: int  # runs a second
    why: str
    moved_by: str


def walls() -> tuple[Wall, ...]:
    """Where an installation stops on the way to 10,000 runs a second, the nearest first."""
    per_run = RUN_WRITES.value + CLAIM_WRITES.value
    shard = HISTORIAN_CORE.value * 1_000 / CHANGE_CPU.value
    writes = PARTITION_WRITES.value
    found = (
        Wall(
            "runs of one schedule",
            int(writes / per_run),
            f"its runs are one key of the ledger: {writes:,.0f} units a second, {per_run:.0f} a run",
            "several schedules with the same job; one-offs have keys of their own",
        ),
        Wall(
            "runs of one concurrency cap",
            int(_BATCH * 1_000 / CAP_CHANGE.value / CAP_BATCH_WRITES.value),
            f"one record, which 500 functions change one after the other: {CAP_CHANGE.value:.0f} ms a change, "
            f"{CAP_BATCH_WRITES.value:.0f} changes a batch of {_BATCH}",
            "several tenants, each of which has a record; in place of the cap `concurrency` of a queue, which writes nothing",
        ),
        Wall(
            "changes that the historian reads of one shard of the stream",
            int(shard / CHANGES.value),
            f"one function at a time reads a shard: {CHANGE_CPU.value} ms of processor a change at {HISTORIAN_CORE.value} of a core, "
            f"{CHANGES.value:.0f} changes a run; a shard has those of one partition of the table",
            "DynamoDB splits a busy table into more shards; a larger `MEMORY` in `infra/roles/historian.py`",
        ),
        Wall(
            "runs that the auditor reads again within two weeks",
            int(AUDIT_PASS.value * _AUDIT_GOAL / _AUDIT_WEEKS),
            "ten minutes an hour; after two weeks a queue has dropped a lost message",
            "`retention-days=30`, a third of the ledger; `quarterjack audit` on a machine, which has no limit of time",
        ),
        Wall(
            "fires of a new table of runs",
            int(NEW_TABLE_WRITES.value / per_run),
            f"{NEW_TABLE_WRITES.value:,.0f} units a second at first, {per_run:.0f} a run",
            "its warm throughput, set before the load comes; the table doubles after half an hour of pressure, to its quota",
        ),
        Wall(
            "fires of sparse schedules with 16 agenda shards",
            int(16 * writes / STEP_WRITES.value),
            f"a step writes {STEP_WRITES.value:.0f} units of its shard's {writes:,.0f}",
            "`shards=64`",
        ),
    )
    return tuple(sorted(found, key=lambda each: each.most))
