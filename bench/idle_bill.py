"""What an installation costs a month in which nothing runs, counted from the resources of its template.

python -m bench idle_bill
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quarterjack.auditor.audit import audit
from quarterjack.auditor.log_closing import close_days
from quarterjack.clock import system_clock
from quarterjack.signals.catalogue import METRICS
from quarterjack.signals.reports import of_audit, of_closing, of_gauges, of_tick
from quarterjack.testing import Memory
from quarterjack.ticker.gauges import measure
from quarterjack.ticker.tick import tick

from bench.modelled.log_bytes import LOG_BYTES
from bench.modelled.prices import (
    ALARM,
    COMPOSITE_ALARM,
    EVENTBRIDGE,
    GB_SECOND,
    INVOCATION,
    LOGS,
    LOGS_KEPT,
    METRIC,
    READ,
    RECOVERY,
    SQS,
    TRACE,
)

JOBS = "examples/starter"
HOURS = 730  # of a month
POLLS = 5  # long polls that Lambda keeps on a queue
POLL = 20  # seconds of one
IDLE_SECONDS = {"ticker": 0.15, "auditor": 1.0}  # of an invocation that finds nothing due
READS = 17  # of an idle tick: `python -m bench idle` counts its calls
LINES = {"ticker": LOG_BYTES["tick"], "auditor": LOG_BYTES["audit"]}  # bytes that an idle invocation logs

Resources = Mapping[str, Mapping[str, Any]]


def rows(resources: Resources) -> list[tuple[str, str, float]]:
    """What, how many, US dollars a month."""
    found = list(_rows(resources))
    return [*found, ("**together**", "", sum(dollars for _, _, dollars in found))]


def table(resources: Resources) -> str:
    """The rows in Markdown."""
    lines = [
        f"| {what} | {number} | {f'**{dollars:.2f}**' if what.startswith('**') else f'{dollars:.2f}'} |"
        for what, number, dollars in rows(resources)
    ]
    return "\n".join(["| | number | $ a month |", "|---|---|---|", *lines])


def _rows(resources: Resources) -> Iterator[tuple[str, str, float]]:
    calls = dict(_calls(resources))
    invoked = sum(calls.values())
    yield "calls by EventBridge Scheduler", f"{invoked:,}", invoked * EVENTBRIDGE.dollars
    gb_seconds = sum(count * IDLE_SECONDS[part] * _memory(resources, part) / 1024 for part, count in calls.items())
    yield (
        "Lambda: ticks and audits",
        f"{gb_seconds:,.0f} GB-s",
        invoked * INVOCATION.dollars + gb_seconds * GB_SECOND.dollars,
    )
    reads = calls["ticker"] * READS
    yield "reads of idle ticks", f"{reads:,}", reads * READ.dollars / 2  # of nothing: half a unit
    queues = sum(
        "EventSourceArn" in one and "Queue" in str(one["EventSourceArn"])
        for one in _of(resources, "Lambda::EventSourceMapping")
    )
    polls = queues * POLLS * HOURS * 3600 // POLL
    yield f"polls of {queues} queues by Lambda", f"{polls:,}", polls * SQS.dollars
    read = sum(sum("MetricStat" in metric for metric in one["Metrics"]) for one in _alarms(resources))
    yield "metrics that alarms read", f"{read}", read * ALARM.dollars
    composites = len(_of(resources, "CloudWatch::CompositeAlarm"))
    yield "composite alarms", f"{composites}", composites * COMPOSITE_ALARM.dollars
    idle = idle_metrics()
    named = ", ".join(f"`{name}`" for name in idle)
    yield f"metrics that are written without load: {named}", f"{len(idle)}", len(idle) * METRIC.dollars
    dashboards = len(_of(resources, "CloudWatch::Dashboard"))
    yield "dashboards (an account has three of this size free)", f"{dashboards}", 0.0
    yield "traces of ticks and audits", f"{invoked:,}", invoked * TRACE.dollars
    logged = sum(count * LINES[part] for part, count in calls.items())
    yield "log lines", f"{logged / 1e6:.0f} MB", logged / 1e9 * (LOGS.dollars + LOGS_KEPT.dollars)
    recovered = sum("PointInTimeRecoverySpecification" in one for one in _of(resources, "DynamoDB::Table"))
    yield f"point-in-time recovery of {recovered} tables: by their size", "0 GB", 0 * RECOVERY.dollars
    own = len(_of(resources, "KMS::Key")) + len(_of(resources, "SecretsManager::Secret"))
    assert not own, "a key or a secret of its own costs by the month: count it"


def idle_metrics() -> Sequence[str]:
    """The metrics that ticker and auditor write where there is no schedule and no run, in the catalogue's order."""
    services, now = Memory(system_clock).connect(), system_clock()
    ticked = of_tick(tick(services, clock=system_clock, holder="idle"), whole=True)
    gauges = of_gauges(measure(services, now))
    closed = of_closing(close_days(services, clock=system_clock))
    audited = of_audit(audit(services, clock=system_clock, removes=True))
    written = {each.name for each in (*ticked, *gauges, *closed, *audited)}
    return [name for name in METRICS if name in written]


def _calls(resources: Resources) -> Iterator[tuple[str, int]]:
    """How often each clock calls, by part."""
    for schedule in _of(resources, "Scheduler::Schedule"):
        minute = schedule["ScheduleExpression"].removeprefix("cron(").split()[0]
        part = next(name for name in IDLE_SECONDS if name.capitalize() in str(schedule["Target"]["Arn"]))
        yield part, HOURS * (60 if minute == "*" else len(minute.split(",")))


def _memory(resources: Resources, part: str) -> int:
    (function,) = (
        one for one in _of(resources, "Lambda::Function") if str(one.get("FunctionName", "")).endswith(f"-{part}")
    )
    return int(function["MemorySize"])


def _alarms(resources: Resources) -> Sequence[Mapping[str, Any]]:
    return _of(resources, "CloudWatch::Alarm")


def _of(resources: Resources, kind: str) -> list[Mapping[str, Any]]:
    return [one["Properties"] for one in resources.values() if one["Type"] == f"AWS::{kind}"]


def main(arguments: Sequence[str]) -> None:
    argparse.ArgumentParser(prog="bench idle_bill").parse_args(arguments)
    from infra.app import QuarterjackStack  # noqa: I001, PLC0415 (the CDK takes seconds and a process of Node)
    from aws_cdk import App  # noqa: PLC0415 (after the package, which finds Node)
    from aws_cdk.assertions import Template  # noqa: PLC0415 (the same)

    with tempfile.TemporaryDirectory() as out:
        app = App(context={"aws:cdk:bundling-stacks": []}, outdir=out)
        stack = QuarterjackStack(app, "Idle", knobs={"jobs": JOBS, "queues": []})
        print(table(Template.from_stack(stack).to_json()["Resources"]))
