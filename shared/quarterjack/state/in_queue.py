"""Which runs have a message in a work queue, as their rows tell it. Whoever has lost a queue's messages sends those of these runs again."""

from __future__ import annotations

from quarterjack.domain.run import WAITING, RunRow, RunState
from quarterjack.state.start import MAX_DELAY


def belongs_in_queue(run: RunRow, now: int, ahead: int) -> bool:
    """Whether the message of a run should be in its queue at ``now`` (UTC ms), delayed or not.

        state                                     its message is there
        QUEUED, of a chain or a backfill          from its claim on, at most MAX_DELAY before its time
        QUEUED, a one-off or a trigger            from ``ahead`` (ms) before its time on; until then it is in the agenda
        RETRYING, CONTINUED                       at most MAX_DELAY before its next attempt; until then it is in the agenda
        RUNNING                                   until its end: if its worker vanishes, the message starts it again

    A retry that the agenda holds and that is due within MAX_DELAY counts as well: its row does not say where its message is. The lease
    makes a second message harmless.
    """
    if run.state in WAITING:
        has_entry = run.state is RunState.QUEUED and not run.ref.is_fire and run.backfill is None
        return run.not_before <= now + (ahead if has_entry else MAX_DELAY)
    return run.state is RunState.RUNNING
