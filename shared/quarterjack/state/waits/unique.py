"""Unique keys: whether a run that exists has the key, and what becomes of a submission that finds one.

on_duplicate   the run that has the key …
… has not begun                   … has begun
return         is returned                       is returned
refuse         Conflict                          Conflict
replace        gets the new payload and time     Conflict
after          is followed by one more run, which starts when it has ended, with the last payload
"""

from __future__ import annotations

from quarterjack.domain.policies import OnDuplicate
from quarterjack.domain.run import RunRow, RunState
from quarterjack.values import value


@value(kw_only=True)
class UniqueSpec:
    """A request for uniqueness."""

    key: str
    span: int | None = None  # ms from the submission of a run for which it has the key; None: until it has ended
    on_duplicate: OnDuplicate = OnDuplicate.RETURN


@value(kw_only=True)
class KeyHolders:
    """The runs that have a key, as their rows were read."""

    first: RunRow | None = None  # None: the key is free
    follower: RunRow | None = None  # that starts when the first has ended


def holders(first: RunRow | None, follower: RunRow | None, *, span: int | None, now: int) -> KeyHolders:
    """Which of the runs that a record names have its key at ``now`` (UTC ms). None: there is no such run, or its retention is over."""
    if follower is not None and (first is None or first.is_terminal):
        first, follower = follower, None
    if first is None or not _has_key(first, span, now):
        return KeyHolders()
    return KeyHolders(first=first, follower=None if follower is None or follower.is_terminal else follower)


def _has_key(run: RunRow, span: int | None, now: int) -> bool:
    return not run.is_terminal if span is None else now < run.created_at + span


def has_begun(run: RunRow) -> bool:
    """Whether a run has had a lease, or has ended."""
    return run.state not in (RunState.QUEUED, RunState.PARKED) or run.fence > 0
