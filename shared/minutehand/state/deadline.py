"""The deadline of a run, counted from its due time."""

from __future__ import annotations

from minutehand.domain.policies import Policies
from minutehand.domain.times import SECOND


def is_past_deadline(due: int, policies: Policies, at: int) -> bool:
    """Whether no attempt may start at ``at`` (UTC ms) any more."""
    return policies.deadline is not None and at > due + policies.deadline * SECOND
