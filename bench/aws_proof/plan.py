"""What is done, and what it costs at the most: shown before anything is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.modelled.log_bytes import LOG_BYTES
from bench.modelled.prices import ALARM, LOGS, METRIC, MILLION, POLLER, TRACE

STEPS = (0.1, 0.25, 0.5, 1.0)  # of the rate, one minute each
MINUTE = 60  # seconds
DOLLARS_A_MILLION = (
    6.0  # of runs: the dearest kind of docs/explanation/performance.md, batches that are not full included
)
HOURS = 3.0  # for which alarms, metrics and pollers are counted; they are billed by the hour
_WITNESS = 300  # bytes of the line of a job that says that it began
_METRICS, _ALARMS = 40, 110  # alarms: metrics that they read, a composite one as five
_TRACED = 0.06  # of invocations: one a second and 5 % of the others
_SPIKE = 1_000  # fires a second that the settings of an installation are good for
_POLLERS = 100


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One proof. Seconds."""

    schedules: int  # of each kind of start
    every: int  # between two fires of a schedule
    lead: float  # from the last schedule to the first fire, so that a tick comes between
    patience: float  # for what is under way to end
    alarm_patience: float = 900.0
    outage: float = 30.0  # of the minute of fires, for which the queue takes no messages
    policy: float = 0.0  # until a changed policy holds everywhere
    throttled: int = 25  # write units a second that the table of runs is left with
    rate: int | None = None  # fires a second at the end of the ramp; None: no ramp
    steps: Sequence[float] = STEPS
    threads: int = 8  # that create schedules

    @property
    def rates(self) -> list[int]:
        """Fires a second of each step of the ramp."""
        return [] if self.rate is None else sorted({max(round(self.rate * step), 1) for step in self.steps})

    @property
    def knobs(self) -> Mapping[str, str]:
        """The context of the stack: docs/how-to/size.md, A up to 1,000 fires a second and C beyond."""
        if self.rate is None or self.rate <= _SPIKE:
            return {}
        stripes = -(-self.rate // 5_000)
        return {
            "shards": "64",
            "ticker-groups": "4",
            "ticker-writes": "16000",
            "stripes": str(stripes),
            "pollers": str(_POLLERS),
            "most-pollers": str(_POLLERS),
        }

    @property
    def runs(self) -> int:
        """All runs, about."""
        acceptance = 4 * self.schedules * MINUTE // self.every  # prompt, exact, throttled table, queue outage
        return acceptance + sum(rate * MINUTE for rate in self.rates) + 100

    def dollars(self) -> dict[str, float]:
        """What it costs at the most, by what for."""
        noisy = 4 * self.schedules * MINUTE // self.every + 100
        pollers = int(self.knobs.get("pollers", 0)) * int(self.knobs.get("stripes", 1))
        month = 730.0  # hours
        return {
            "runs (DynamoDB, SQS, Lambda)": self.runs * DOLLARS_A_MILLION / MILLION,
            "schedules": sum(10 * rate for rate in self.rates) * 2 * DOLLARS_A_MILLION / MILLION,
            "logs": (self.runs * LOG_BYTES["run alone"] + noisy * _WITNESS) / 1e9 * LOGS.dollars,
            "traces": self.runs * _TRACED * TRACE.dollars,
            "alarms and metrics": (_ALARMS * ALARM.dollars + _METRICS * METRIC.dollars) * HOURS / month,
            "kept pollers": pollers * HOURS * POLLER.dollars,
        }


def on_aws(rate: int | None) -> Plan:
    return Plan(schedules=100, every=5, lead=45.0, patience=300.0, policy=60.0, rate=rate, threads=32)


def here(rate: int | None) -> Plan:
    """Small: every process of a function takes a second of a shared core."""
    return Plan(schedules=2, every=10, lead=10.0, patience=240.0, rate=rate, steps=(0.5, 1.0), threads=2)


def table(plan: Plan) -> str:
    """The cost as lines of text."""
    parts = plan.dollars()
    lines = [f"  {what:32}${dollars:8.2f}" for what, dollars in parts.items() if dollars >= 0.005]
    return "\n".join([*lines, f"  {'COST, at most about':32}${sum(parts.values()):8.2f}"])
