"""Crowds: how many fires of many timetables are due at one instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from quarterjack.timing.timetables import SpreadFires, Timetable, has
from quarterjack.values import value

_CANDIDATES = 5  # instants whose fires are counted


@value(slots=True)
class Crowd:
    """The fires of one instant."""

    at: int  # UTC ms
    fires: int


def busiest(tables: Iterable[tuple[int, Timetable]]) -> Crowd | None:
    """The instant with the most fires, of timetables with the first fire (UTC ms) of each; None: there is none.

    Looked at are the instants at which the most of them fire next; there all that fire count, those that fire before, too. Of spread
    timetables, whose fires are moved one by one, only the first fires count.
    """
    firsts, spread, alike = Counter[int](), Counter[int](), Counter[Timetable]()
    for first, table in tables:
        firsts[first] += 1
        if isinstance(table, SpreadFires):
            spread[first] += 1
        else:
            alike[table] += 1
    crowds = (
        Crowd(at, spread[at] + sum(number for table, number in alike.items() if has(table, at)))
        for at, _ in firsts.most_common(_CANDIDATES)
    )
    return max(crowds, key=lambda crowd: (crowd.fires, -crowd.at), default=None)
