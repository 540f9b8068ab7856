"""Partition: which of the received messages go through the pipeline together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quarterjack.domain.names import RunRef
from quarterjack.domain.policies import Delivery, Isolation
from quarterjack.state.start import goes_ahead
from quarterjack.worker.ahead import may_go_ahead
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import AnyMessage, ReceivedMessage, UnreadableMessage


def partition_batch(worker: WorkerContext, batch: Sequence[AnyMessage]) -> list[Sequence[AnyMessage]]:
    """Batches of plain runs that may start at the same instant; every other message is a batch of one."""
    now = worker.clock()
    by_instant: dict[tuple[int, bool], dict[RunRef, ReceivedMessage]] = {}
    alone: list[Sequence[AnyMessage]] = []
    for received in batch:
        if isinstance(received, UnreadableMessage) or not _is_plain(worker, received):
            alone.append([received])
            continue
        message = received.message
        ahead = goes_ahead(message, now) and may_go_ahead(worker, received)
        same = by_instant.setdefault((max(message.not_before, now), ahead), {})
        if message.run in same:
            alone.append([replace(received, alone=True)])
        else:
            same[message.run] = replace(received, ahead=True) if ahead else received
    return [list(by_instant[at].values()) for at in sorted(by_instant)] + alone


def _is_plain(worker: WorkerContext, received: ReceivedMessage) -> bool:
    """Whether its run takes no more than a plain first lease, a job in a thread and a settlement, so that it can share their requests.

    Anything slower (a payload in the bucket, a turn of its schedule, a backfill's next run) would hold up the others of its batch.
    """
    message, revision, spec = received.message, received.definition.revision, received.definition.spec
    job = None if spec is None else worker.jobs.get(spec.job)
    if spec is None or job is None or received.alone or received.delivery.receives > 1:
        return False
    if message.fence or message.backfill or spec.payload_ref or job.policies.isolation is not Isolation.THREAD:
        return False
    if (spec.overrides.delivery or job.policies.delivery) is Delivery.AT_MOST_ONCE:
        return False
    if revision is None:
        return message.run.is_one_off
    return not (revision.definition.options.shadow or received.definition.is_exclusive or revision.failing)
