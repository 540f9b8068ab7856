"""What the beginnings of jobs come to: how many, missing, double, how late, how fast. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from bench.observed.witness import Began

SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
MS = 1_000  # of a second
Fire = tuple[str, int]  # whose, and when it was due (UTC ms)


def percentile(ordered: Sequence[float], share: float) -> float:
    """By nearest rank."""
    return ordered[max(ceil(share * len(ordered)), 1) - 1]


def starts(expected: Iterable[Fire], began: Iterable[Began]) -> dict[str, Any]:
    """Counts, and the lateness in ms of the first start of each expected fire. Fires that nobody expected are told apart."""
    wanted, times = set(expected), Counter[Fire]()
    first: dict[Fire, float] = {}
    for key, due, at in began:
        times[key, due] += 1
        first[key, due] = min(at, first.get((key, due), at))
    late = sorted(first[fire] - fire[1] for fire in wanted if fire in first)
    counts = {
        "fires": len(wanted),
        "missing": len(wanted) - len(late),
        "double": sum(times[fire] - 1 for fire in wanted if times[fire] > 1),
        "unexpected": sum(number for fire, number in times.items() if fire not in wanted),
    }
    shown = {f"{name} ms": round(percentile(late, share), 1) if late else None for name, share in SHARES.items()}
    return counts | shown


def rate(began: Iterable[Began]) -> float | None:
    """Starts a second of what was due at one instant, from then to the last; None without any."""
    firsts = {(one.key, one.due): one for one in reversed(list(began))}.values()
    if not firsts:
        return None
    lasted = max(one.at for one in firsts) - min(one.due for one in firsts)
    return len(firsts) * MS / max(lasted, 1)


def spent(before: Mapping[str, float], after: Mapping[str, float], fires: int) -> dict[str, float]:
    """CPU between two looks, microseconds a fire, by the name of who spent it. Who came later began with none."""
    return {name: round((now - before.get(name, 0.0)) / fires * 1e6, 1) for name, now in after.items()}
