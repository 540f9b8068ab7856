"""Sets of small numbers as the bits of an integer: bit n is set if n is in the set."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_


def bits(low: int, high: int, step: int = 1) -> int:
    """The set of ``low``, ``low + step`` … up to ``high``."""
    return (1 << high + 1) - (1 << low) if step == 1 else sum(1 << value for value in range(low, high + 1, step))


def lowest(bits: int) -> int:
    """The lowest number of a set that is not empty."""
    return (bits & -bits).bit_length() - 1


def listed(bits: int) -> list[int]:
    """The numbers of a set, ascending."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def union(sets: Iterable[int]) -> int:
    """The numbers that are in at least one of the sets."""
    return reduce(or_, sets, 0)
