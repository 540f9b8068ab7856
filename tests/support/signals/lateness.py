"""How late CloudWatch has the figures of each metric: AWS says of most of its own that they may come minutes late."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.support.signals.figures import Key

MOST = 5  # minutes
Lateness = Callable[[Key], int]  # minutes from the end of a minute until alarms see its figures of a metric


def punctual(key: Key) -> int:
    """Every figure is there as soon as its minute is over."""
    del key
    return 0


def all_late(minutes: int) -> Lateness:
    """Every figure comes so late."""
    return lambda key: minutes


def drawn(seed: int, *, most: int = MOST) -> Lateness:
    """Each metric of each part comes as late as the seed says, at all times."""
    return lambda key: Random(f"{seed}/{key}").randint(0, most)


def late_source(minutes: int, namespace: str) -> Lateness:
    """The figures of one namespace come so late, all others are punctual."""
    return lambda key: minutes if key[0] == namespace else 0
