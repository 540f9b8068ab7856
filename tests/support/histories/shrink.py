"""Shrink: of all that struck in a history that broke a promise, the few strikes that suffice; and a timeline to read.

A history is played again with a script of strikes in place of the dice. Leaving some out changes what follows, so a smaller script may
break something else or nothing: kept is what still breaks the same kind of promise (delta debugging, Zeller and Hildebrandt 2002).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.histories.history import History
from tests.support.histories.simulator import Strike

Make = Callable[[], History]  # a fresh history of one seed
_WIDTH = 200  # characters of a line that are shown; the file has all of it


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """What broke, by how little, and how."""

    violations: list[str]
    strikes: list[Strike]  # faults, and acts of owners where the history counts them
    timeline: list[str]


def shrink(make: Make, *, seconds: float = 60.0) -> Counterexample | None:
    """The least that was found within so many seconds; None if the history breaks nothing."""
    whole = make()
    broken = whole.judged()
    if not broken:
        return None
    kind, deadline = _kind(broken[0]), time.monotonic() + seconds

    def breaks(strikes: Sequence[Strike]) -> bool:
        return any(_kind(text) == kind for text in _again(make, strikes).judged())

    strikes = list(whole.stage.struck)
    if breaks(strikes):  # always, unless the dice have a say in something that is not numbered
        strikes = _least(strikes, breaks, deadline)
    last = _again(make, strikes)
    last.stage.timeline = []
    return Counterexample(violations=last.judged(), strikes=strikes, timeline=last.stage.timeline)


def _again(make: Make, strikes: Sequence[Strike]) -> History:
    history = make()
    history.stage.script = frozenset(strikes)
    return history


def _kind(violation: str) -> str:
    return violation.partition(":")[0]


def _least(strikes: list[Strike], breaks: Callable[[Sequence[Strike]], bool], deadline: float) -> list[Strike]:
    """Leave out ever smaller parts as long as it still breaks."""
    parts = 2
    while len(strikes) > 1 and time.monotonic() < deadline:
        size = max(len(strikes) // parts, 1)
        for start in range(0, len(strikes), size):
            without = strikes[:start] + strikes[start + size :]
            if time.monotonic() < deadline and breaks(without):
                strikes, parts = without, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(strikes))
    return strikes


def about(timeline: Sequence[str], violation: str, most: int = 60) -> list[str]:
    """The lines of a timeline that name the run or schedule that a violation names, and what owners wanted; the last ``most``."""
    names = [word.strip(",:") for word in violation.split() if "#" in word or "/" in word]
    keys = [part for name in names for part in (name, name.partition("#")[2]) if part]
    lines = [line for line in timeline if any(key in line for key in keys) or "wants:" in line or "is refused" in line]
    return [line[:_WIDTH] for line in lines[-most:]]
