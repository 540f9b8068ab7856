"""Lanes: which lane of its queue a run's message takes, what each lane keeps of the workers, and which one gets the next slot. Pure.

A lane keeps its share while it has messages; what it does not use the others take, the most urgent first. Nothing is taken back from a run
that has started: a lane that was empty gets the next slots that become free, until it has its share.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import LOW_SHARE

_TURNS = 10  # in which a share that is no whole slot is given by turns
_HIGH = 5 / 9  # of what low leaves


def lane_for(priority: Priority, not_before: int, now: int, low_age: int) -> Priority:
    """The lane of a run that could start since ``not_before`` (UTC ms): a low one that has waited ``low_age`` ms takes the normal one."""
    return Priority.NORMAL if priority is Priority.LOW and now - not_before >= low_age else priority


def percentages(low: int = LOW_SHARE) -> dict[Priority, int]:
    """The shares of the lanes in percent; ``low`` is that of low."""
    high = round((100 - low) * _HIGH)
    return {Priority.HIGH: high, Priority.NORMAL: 100 - low - high, Priority.LOW: low}


def shared_out(total: int, least: int, low: int = LOW_SHARE) -> dict[Priority, int]:
    """A number of functions for each lane, ``least`` at the least; together they are ``total``, which is at least three times ``least``."""
    shares = percentages(low)
    found = {lane: max(least, total * share // 100) for lane, share in shares.items()}
    over = sum(found.values()) - total
    for lane in sorted(found, key=lambda each: -found[each]) if over > 0 else ():
        taken = min(over, found[lane] - least)
        found[lane] -= taken
        over -= taken
    return found if over >= 0 else found | {Priority.NORMAL: found[Priority.NORMAL] - over}


def next_lane(
    waiting: Collection[Priority], used: Mapping[Priority, int], slots: int, turn: int, shares: Mapping[Priority, int]
) -> Priority | None:
    """The lane that gets the next free slot of ``slots``: one that has less than its share, the least urgent first, else the most urgent.

    ``used`` has the slots of each lane, ``turn`` counts the slots that were given. A tenth of five slots is one slot in every second turn.
    """
    part = turn % _TURNS * (100 // _TURNS)
    for lane in (Priority.LOW, Priority.NORMAL):
        if lane in waiting and used.get(lane, 0) < (slots * shares[lane] + part) // 100:
            return lane
    return min(waiting, key=lambda lane: lane.rank, default=None)
