"""The panels of the dashboard, as plain data: nothing here knows the CDK. ``signals/catalogue.py`` has the names of our metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..figures import Figure, Source

MOST_METRICS = 50  # of a dashboard: three of that size are free in an account, a further one costs $3 a month
WORKER = "worker"  # the part that the reader chooses among the workers


@dataclass(frozen=True)
class Panel:
    """Some figures under a title. ``numbers``: their values over the whole period, in place of lines."""

    title: str
    figures: tuple[Figure, ...]
    minutes: int = 1  # of a period
    numbers: bool = False


@dataclass(frozen=True)
class LinesPanel:
    """An answer of Logs Insights over the lines of some functions."""

    title: str
    parts: tuple[str, ...]
    query: tuple[str, ...]


def _ours(part: str, *names: str, statistic: str = "Sum") -> tuple[Figure, ...]:
    return tuple(Figure(name, part, statistic) for name in names)


def _of(source: Source, part: str, *names: str, statistic: str = "Sum") -> tuple[Figure, ...]:
    return tuple(Figure(name, part, statistic, source) for name in names)


_VISIBLE = "ApproximateNumberOfMessagesVisible"
PANELS: tuple[Panel, ...] = (
    Panel("Alive", (*_ours("ticker", "Ticks"), *_ours(WORKER, "Started", "AttemptsEnded"))),
    Panel(
        "On time: scheduling lag, then the wait in the queue, start lag, duration",
        (
            *_ours("ticker", "SchedulingLag", statistic="p99"),
            *_ours(WORKER, "QueueWait", "StartLag", statistic="p99"),
            *_ours(WORKER, "RunDuration", statistic="p95"),
        ),
    ),
    Panel("Late", (*_ours("ticker", "Sent", "SentLate"), *_ours(WORKER, "FirstStarts", "FirstStartsLate"))),
    Panel("Outcomes", _ours(WORKER, "Succeeded", "Retried", "Continued", "Cancelled", "Failed", "Lost")),
    Panel(
        "Dead",
        (
            *_ours("undertaker", "Dead", "Expired"),
            *_of(Source.QUEUE, "dead", _VISIBLE, statistic="Maximum"),
        ),
        minutes=5,
    ),
    Panel(
        "Backlog",
        (
            *_ours("ticker", "ReadyRuns", "QueuesHeld", statistic="Maximum"),
            *_of(Source.QUEUE, "work", _VISIBLE, "ApproximateNumberOfMessagesNotVisible", statistic="Maximum"),
        ),
        minutes=5,
    ),
    Panel("Behind", _ours("ticker", "BehindBy", statistic="Maximum")),
    Panel(
        "Throttles and errors",
        (
            *_ours("ticker", "Throttled"),
            *_of(Source.FUNCTION, "ticker", "Throttles", "Errors"),
            *_of(Source.FUNCTION, WORKER, "Throttles", "Errors"),
            *_of(Source.FUNCTION, "undertaker", "Errors"),
        ),
        minutes=5,
    ),
    Panel(
        "Retry funnel: attempts, of these failed, of these tried again; runs that ended dead",
        (*_ours(WORKER, "Started", "AttemptsFailed", "Retried"), *_ours("undertaker", "Dead")),
        minutes=60,
        numbers=True,
    ),
    Panel("Attempts of a run", _ours(WORKER, "AttemptsPerRun", statistic="p99"), minutes=5),
    Panel(
        "Stability",
        (
            *_ours("ticker", "SendFailed", "Quarantined"),
            *_ours("ticker", "ExpiredLeases", statistic="Maximum"),
            *_ours(WORKER, "Redelivered", "LeasesRescued", "Kept"),
        ),
        minutes=5,
    ),
)
LINES: tuple[LinesPanel, ...] = (
    LinesPanel(
        "Dead by reason",
        ("undertaker",),
        ('filter message = "run.dead"', "stats count(*) as runs by reason, job", "sort runs desc", "limit 20"),
    ),
    LinesPanel(
        "Top errors",
        (WORKER,),
        (
            'filter message = "run.ended" and ispresent(error_type)',
            "stats count(*) as attempts by error_type, job",
            "sort attempts desc",
            "limit 20",
        ),
    ),
)


@dataclass(frozen=True)
class Charge:
    """What AWS bills for figures: a part of the cost of a day. ``price``: US dollars for each, in us-east-1, on demand."""

    word: str  # in the expression
    figures: tuple[Figure, ...]
    price: float


MILLION = 1_000_000
_FUNCTIONS = ("ticker", WORKER)  # the others take little
_TABLES = ("agenda", "runs")
INVOCATION, GB_SECOND = 0.20 / MILLION, 0.0000133334
WRITE, READ, REQUEST = 0.625 / MILLION, 0.125 / MILLION, 0.40 / MILLION
DAY = 24 * 60  # minutes


def _each(source: Source, parts: tuple[str, ...], name: str) -> tuple[Figure, ...]:
    return tuple(Figure(name, part, source=source) for part in parts)


def charges(memory: dict[str, int]) -> Iterator[Charge]:
    """Of a day; ``memory``: MB of the functions. Left out is what is small or billed by the month: storage, logs, metrics, other roles."""
    yield Charge("invoked", _each(Source.FUNCTION, _FUNCTIONS, "Invocations"), INVOCATION)
    for part in _FUNCTIONS:
        gb = memory[part] / 1024
        yield Charge(f"{part}s", _each(Source.FUNCTION, (part,), "Duration"), GB_SECOND * gb / 1000)
    yield Charge("written", _each(Source.TABLE, _TABLES, "ConsumedWriteCapacityUnits"), WRITE)
    yield Charge("read", _each(Source.TABLE, _TABLES, "ConsumedReadCapacityUnits"), READ)
    # A message is sent, received and deleted, in batches of up to ten; a poll without a message is a request, too.
    yield Charge("messages", _each(Source.QUEUE, ("work",), "NumberOfMessagesSent"), REQUEST * 3 / 10)
    yield Charge("polls", _each(Source.QUEUE, ("work",), "NumberOfEmptyReceives"), REQUEST)
