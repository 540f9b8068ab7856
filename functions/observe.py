"""Shared by the handlers: services made once a process, logs with the run on every line, metrics."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import EphemeralMetrics
from quarterjack.concurrency.pools import RequestStats
from quarterjack.logs import KeepRunFields, RunFields, log_unhandled, log_unwritable, masked_line, present_run
from quarterjack.ports.services import Services
from quarterjack.services import connect
from quarterjack.settings import from_environment
from quarterjack.signals.measurement import Measurement, Metered, lines_of, metered


def _line(fields: dict[str, Any]) -> str:
    """A log line as JSON, without the secrets of its run."""
    return json.dumps(masked_line(fields, present_run()), default=str, separators=(",", ":"), ensure_ascii=False)


logger = Logger(json_serializer=_line)
metrics = Metrics()
_keep_run_fields = KeepRunFields()
request_stats = RequestStats()  # of the requests of this process's services


@cache
def services() -> Services:
    """The services of this stack. Clients are made at the first invocation and kept."""
    _share_format()
    return connect(from_environment(), stats=request_stats)


def _share_format() -> None:
    """Let every logger write in our format, those of jobs included: JSON with the keys of the current run."""
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    if not root.handlers:  # Lambda's runtime has one; that of a local cloud has none, and lines would be lost
        root.addHandler(_handler_of_others())
    for handler in (*root.handlers, logger.registered_handler):
        handler.setFormatter(logger.registered_formatter)
        handler.addFilter(_keep_run_fields)
        handler.handleError = log_unwritable  # type: ignore[method-assign]
    log_unhandled()


def _handler_of_others() -> logging.Handler:
    """Writes the lines of all loggers but ours, which has a handler of its own."""
    made = logging.StreamHandler(sys.stdout)
    made.addFilter(lambda record: record.name != logger.name)
    return made


@contextmanager
def around_run(keys: Mapping[str, str]) -> Iterator[None]:
    """Log keys around one run, in the thread that executes it."""
    logger.thread_safe_append_keys(**keys)
    try:
        with RunFields(**keys):
            yield
    finally:
        logger.thread_safe_remove_keys(list(keys))


def emit(measurements: Iterable[Measurement]) -> None:
    """Write figures: those of the function with the invocation's own line, those of a job, schedule or queue on lines of their own."""
    for line in lines_of(measurements):
        first = line[0]
        if first.dimensions or first.names:
            _write(line, first.dimensions, first.names)
            continue
        for each in line:
            for value in each.values:
                metrics.add_metric(name=each.name, unit=each.metric.unit, value=value)


def _write(line: Iterable[Measurement], dimensions: Mapping[str, str], names: Mapping[str, str]) -> None:
    """One line; names are its metadata, because CloudWatch would bill a dimension for each of them."""
    own = EphemeralMetrics()
    for dimension, word in dimensions.items():
        own.add_dimension(dimension, word)
    for name, word in names.items():
        own.add_metadata(key=name, value=word)
    for each in line:
        for value in each.values:
            own.add_metric(name=each.name, unit=each.metric.unit, value=value)
    own.flush_metrics()


@cache
def named() -> Metered:
    """Jobs and tenants with metrics of their own, each of which CloudWatch bills. Log lines of runs name jobs and tenants in any case."""
    return metered(from_environment())
