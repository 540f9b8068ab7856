"""How long what a run has recorded must stay, if it waits for longer than ended runs are kept.

Rows beside a run expire some time after they were written, and its children after their end. A run that is woken needs them again. So they
are kept for longer, where that is needed: when the run parks, and of a wait whose end is not known, each third of the retention.

    park of a sleep               until its end, and a third more, for the next slice to begin
    park of another wait, check   for two thirds from now; the next check comes after one
    end of a child in a sleep     the child alone, as at the park
"""

from __future__ import annotations

from quarterjack.state.waits.park import SLEEP


def recorded_until(*, started_at: int, awaits: str, not_before: int, now: int, retention: int) -> int | None:
    """Until when (UTC ms) what a run has recorded must stay, as it parks; None: it does by itself. ``retention``: ms.

    ``not_before``: UTC ms from which it may be leased. Nothing of it was recorded before ``started_at``.
    """
    until = not_before + retention // 3 if awaits == SLEEP else now + 2 * retention // 3
    return until if until > started_at + retention else None


def must_be_kept_again(*, kept_at: int, now: int, retention: int) -> bool:
    """Whether the check of a wait has to keep the record for longer: ``kept_at`` is when it did so last (UTC ms), or the park."""
    return now - kept_at >= retention // 3
