"""How late CloudWatch has the figures of each metric: AWS says of most of its own that they may come minutes late.

A lateness says how far behind a metric is when so many minutes are over: alarms see its figures up to that many minutes ago.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from tests.support.signals.figures import Key

MOST = 5  # minutes
SOURCES = ("Quarterjack", "AWS/SQS", "AWS/Lambda")  # namespaces that alarms read
Lateness = Callable[[Key, int], int]  # of a metric, and the minutes that are over: minutes that alarms do not see yet


def punctual(key: Key, minute: int) -> int:
    """Every figure is there as soon as its minute is over."""
    del key, minute
    return 0


def all_late(minutes: int) -> Lateness:
    """Every figure comes so late."""
    return lambda key, minute: minutes


def late_source(minutes: int, namespace: str) -> Lateness:
    """The figures of one namespace come so late, all others are punctual."""
    return lambda key, minute: minutes if key[0] == namespace else 0


def drawn(seed: int, *, most: int = MOST) -> Lateness:
    """Each metric of each part comes as late as the seed says, at all times."""

    @cache
    def late(key: Key) -> int:
        return Random(f"{seed}/{key}").randint(0, most)

    return lambda key, minute: late(key)


def swaying(seed: int, *, most: int = MOST) -> Lateness:
    """Each metric falls behind minute by minute, up to the most; then all that is late comes at once. Each at its own minutes."""

    @cache
    def phase(key: Key) -> int:
        return Random(f"{seed}/{key}").randint(0, most)

    return lambda key, minute: (minute + phase(key)) % (most + 1)


LATENESSES: dict[str, Lateness] = {
    **{f"{minutes} min": all_late(minutes) for minutes in range(MOST + 1)},
    **{f"{source} {MOST} min": late_source(MOST, source) for source in SOURCES},
    **{f"drawn by {seed}": drawn(seed) for seed in range(2)},
    "swaying": swaying(
        0, most=MOST - 1
    ),  # one that goes to the most and back leaves a period of five minutes empty, now and then
}
