"""The description of an alarm, as plain data: nothing here knows the CDK.

An alarm is a condition on figures that lasts. It is there once, or once for each part of the installation of some kind; then ``part`` of a
figure has the word of that kind in braces, such as ``{worker}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from quarterjack.values import replace

from ..figures import Figure

LATE = (
    5  # minutes: so late CloudWatch may have a figure. An alarm of minutes looks at so many values more than it counts
)


class Severity(StrEnum):
    """How soon an operator must act."""

    P1 = "P1"  # now: nothing runs
    P2 = "P2"  # within the hour: runs are late or fail
    P3 = "P3"  # on the next working day: nothing is lost, and it does not recover by itself


class Each(StrEnum):
    """Of what kind of part an alarm is."""

    ONCE = "the installation"
    WORKER = "each queue's workers"  # {worker}: functions or processes
    WORKER_FUNCTION = "each worker function"  # {worker}
    FUNCTION = "each function"  # {function}: ticker, auditor, undertaker, workers, API
    STRIPE = "each SQS queue of work"  # {stripe}, and {worker} of its queue
    DECLARED_STRIPE = "each SQS queue of a declared queue"  # likewise
    LOW_STRIPE = "each SQS queue of a low lane"  # likewise
    STARTER = "each queue's workers, and the ticker"  # {worker}: who may find that a run is lost


class Need(StrEnum):
    """The part of an installation without which an alarm is not made."""

    NOTHING = ""
    HISTORY = "history"
    EVENTS = "events"


class Compare(StrEnum):
    """How the figure is compared with the threshold."""

    OVER = "over"
    AT_LEAST = "at least"
    UNDER = "under"


@dataclass(frozen=True)
class BurnWindows:
    """Two windows of an objective, in minutes. Both have to burn its budget ``rate`` times as fast as it may be burnt."""

    short: int
    long: int
    rate: float


@dataclass(frozen=True, kw_only=True)
class AlarmSpec:
    """One alarm. Its ``id`` is its name after the prefix, and the name of its runbook. It is flat as the properties of an alarm are."""

    id: str
    severity: Severity
    means: str  # a sentence: the state that it reports
    look: str  # a sentence: the first thing to check
    figures: Mapping[str, Figure]  # by their words in the expression
    expression: str = ""  # of CloudWatch's metric math; empty: the only figure, or 0 where it has no value
    compare: Compare = Compare.OVER
    threshold: float = 0
    unit: str  # of the threshold, in the plural
    period: int = 1  # minutes of a value
    times: int = 1  # values beyond the threshold
    out_of: int = 0  # of so many; 0: all of ``times``
    hourly: int = 0  # of a function that is called once an hour: so many values of an hour in place of ``times``
    silence_breaches: bool = False  # no value counts as one beyond the threshold
    late_counts: bool = False  # a figure that is late looks like the fault: it has to last longer than figures are late
    each: Each = Each.ONCE
    needs: Need = Need.NOTHING
    windows: tuple[
        BurnWindows, ...
    ] = ()  # in place of ``times`` values: any of the pairs; ``threshold`` is the budget in percent
    one_page: bool = False  # the parts' alarms page together, once; the message names the part
    hidden_by: tuple[str, ...] = ()  # alarms that page in its place: it is what follows of them
    waits: int = 0  # minutes that it waits for these to go off

    @property
    def formula(self) -> str:
        """The figure that is compared with the threshold, in CloudWatch's metric math.

        A value that is missing is filled in: of values that are missing CloudWatch takes older ones in their place, so that an alarm
        would begin late, end late, or count values minutes apart as one after another. The last values may be filled in only because
        they are late: ``times`` leave room for it in ``out_of``, and silence lasts longer than figures are late.
        """
        return self.expression or f"FILL({next(iter(self.figures))}, 0)"

    @property
    def by_the_hour(self) -> AlarmSpec:
        """As it is for a function that is called once an hour. One hour more is evaluated: the newest may lack its figures."""
        return replace(self, period=60, times=self.hourly, out_of=self.hourly + 1) if self.hourly else self

    @property
    def values(self) -> int:
        """How many values are evaluated."""
        return self.out_of or self.times

    @property
    def least_times(self) -> int:
        """How many values it has to count at least: late ones alone are no fault, nor is one more."""
        return LATE // self.period + 2 if self.late_counts else 1

    @property
    def told_within(self) -> int:
        """Minutes from the begin of the first value beyond the threshold to the message, at most.

        Figures are late, but for silence, which lateness looks like; and the message waits for what may hide it.
        """
        lasts = self.period * self.times if self.times > 1 else 1
        return lasts + (0 if self.silence_breaches else LATE) + self.waits
