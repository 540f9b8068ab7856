"""Send messages to their work queues, delayed until near their time."""

from __future__ import annotations

from collections.abc import Sequence

from minutehand.domain.formats.message import Message
from minutehand.domain.policies import Overrides, Start
from minutehand.domain.run import RunRow
from minutehand.domain.schedule import Revision
from minutehand.fires.current import find_revision
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.ports.work_queue import OutgoingMessage, WorkQueue
from minutehand.state.start import delay_for

_BATCH = 400  # messages whose delays are computed at one reading of the clock: five rounds of eight requests


def send(messages: Sequence[Message], work: WorkQueue, clock: Clock) -> list[bool]:
    """Send messages; for each, whether the queue accepted it. The clock is read as late as possible."""
    accepted: list[bool] = []
    for start in range(0, len(messages), _BATCH):
        now = clock()
        part = messages[start : start + _BATCH]
        accepted += work.send([OutgoingMessage(m, delay_for(m.not_before, m.start, now)) for m in part])
    return accepted


def fire_message(run: RunRow, revision: Revision, trace: str | None = None) -> Message:
    """The message of a schedule's run, as ``revision`` defines it."""
    definition = revision.definition
    own = run.payload is not None or run.payload_ref is not None  # a trigger's or a backfill's
    return Message(
        run=run.ref,
        revision=run.revision,
        job=definition.job,
        due=run.due,
        not_before=run.not_before,
        payload=run.payload if own else definition.payload,
        payload_ref=run.payload_ref if own else definition.payload_ref,
        timezone=definition.rule.timezone,
        start=definition.overrides.start or Start.PROMPT,
        overrides=definition.overrides,
        fence=run.fence,
        trace=trace,
        queue=definition.options.queue,
        missed=run.missed,
        backfill=run.backfill,
    )


def one_off_message(run: RunRow, trace: str | None = None) -> Message:
    """The message of a one-off, from its row."""
    overrides = Overrides.parse(run.overrides)
    return Message(
        run=run.ref,
        revision=0,
        job=run.job,
        due=run.due,
        not_before=run.not_before,
        payload=run.payload,
        payload_ref=run.payload_ref,
        start=overrides.start or Start.PROMPT,
        overrides=overrides,
        fence=run.fence,
        trace=trace,
        queue=run.queue,
    )


def message_of(run: RunRow, services: Services, trace: str | None = None) -> Message | None:
    """The message of a run in the ledger; None if its revision or payload is gone. Raises Unavailable."""
    if run.ref.is_one_off:
        return one_off_message(run, trace)
    whole = services.ledger.read(run.ref) if run.payload_beside and run.payload is None else run
    if whole is None or (whole.payload_beside and whole.payload is None):
        return None
    revision = find_revision(run.ref.owner, run.defined_by or run.revision, services)
    return None if revision is None else fire_message(whole, revision, trace)
