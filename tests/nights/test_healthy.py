"""However late CloudWatch has the figures, an installation in which all goes well pages nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from quarterjack import Context, Retry

from tests.support.nights.night import PREFIX, Minute, Night
from tests.support.nights.watched import Watched
from tests.support.signals.lateness import LATENESSES

TICKER = f"{PREFIX}-ticker"
FEW = ("0 min", "3 min", "5 min", "AWS/SQS 5 min", "Quarterjack 5 min", "drawn by 0", "swaying")


class Busy(Night):
    """A night as AWS has it: a tick ends a minute later now and then, and SQS counts messages that a worker is about to take."""

    def _look(self) -> None:
        super()._look()
        at, lines = len(self.minutes), self._minute.lines
        ticks = [line for line in lines if line["service"] == TICKER]
        if at % 6 == 2:  # the next minute has two
            self._later, self._minute.lines = ticks, [line for line in lines if line not in ticks]
        elif at % 6 == 3:
            lines += self._later
        if at % 10 == 0:
            for queue in ("work", "work-gpu", "dead"):
                key = "AWS/SQS", "ApproximateNumberOfMessagesVisible", (("QueueName", f"{PREFIX}-{queue}"),)
                self._minute.figures[key] = 40


def _sometimes(ctx: Context, payload: object) -> None:
    """One attempt in five fails, and is repeated."""
    if ctx.scheduled_at.minute % 5 == 0 and ctx.attempt == 1:
        raise ValueError("the shop does not answer")


def lived(patch: pytest.MonkeyPatch) -> Busy:
    """With schedules of each queue, a burst at each full hour, a job that fails now and then, and one that dies once an hour."""
    night = Busy(patch)
    night.job("sometimes", _sometimes, retry=Retry(max_attempts=3, base=5.0, jitter=0.0))
    for name, job in (("a", "note"), ("b", "note"), ("r", "report"), ("g", "train"), ("s", "sometimes")):
        night.schedule(name, job)
    for number in range(30):
        night.schedule(f"hourly{number}", "note", "0 * * * *")
    night.schedule("dies", "bad", "20 * * * *")
    return night


@pytest.mark.parametrize(
    "hours", [pytest.param(2, id="two hours"), pytest.param(7, id="seven hours", marks=pytest.mark.check)]
)
def test_nobody_is_paged(
    hours: int, monkeypatch: pytest.MonkeyPatch, resources: Mapping[str, Mapping[str, Any]]
) -> None:
    names = FEW if hours == 2 else LATENESSES
    watched = Watched(lived(monkeypatch), resources, {name: LATENESSES[name] for name in names})
    watched.live(hours * 60)
    assert watched.pages == {name: [] for name in names}


def test_the_night_is_not_too_calm_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has minutes without a tick, failed attempts, dead runs and messages that wait."""
    night = lived(monkeypatch)
    night.live(25)
    assert {_counts(minute, "Ticks", "ticker") for minute in night.minutes} == {0, 1, 2}
    assert sum(_counts(minute, "AttemptsFailed", "worker") for minute in night.minutes) >= 5
    assert sum(_counts(minute, "Dead", "undertaker") for minute in night.minutes) == 1
    assert any(value == 40 for minute in night.minutes for value in minute.figures.values())


def _counts(minute: Minute, name: str, part: str) -> float:
    lines = [line for line in minute.lines if line["service"] == f"{PREFIX}-{part}"]
    return sum(sum(line.get(name, ())) for line in lines)
