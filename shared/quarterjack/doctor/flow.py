"""Checks whether work moves: ticks, the local clock, messages that wait, queues that are held back (backpressure), and the history.

Evidence of ticks is the agenda: see ``owner.ticker_health``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from quarterjack.doctor.context import DoctorContext, Finding, at_once, fail, ok, warn
from quarterjack.domain.names import few
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.times import HOUR, MINUTE, SECOND, from_ms
from quarterjack.dynamodb.items import to_item
from quarterjack.fires.backpressure import read_hold_log
from quarterjack.historian.progress import changes_set_aside, gaps, read_position, rebuild_command
from quarterjack.owner.ticker_health import TickerHealth, TickerState, is_needed, survey_ticks
from quarterjack.owner.workers import read_workers
from quarterjack.state.lease import SKEW
from quarterjack.state.worker_record import OWN_QUEUE
from quarterjack.stores.agenda import CONFIG, LOCK
from quarterjack.stores.rows import shard_key
from quarterjack.worker.versions import ALIVE, versions_of_workers

_READ = 50  # entries of each shard
_NOTICEABLE = 2 * SECOND  # offset of the clock by which starts are visibly early or late
_TICKS = timedelta(minutes=10)  # of the metric that the function writes
_FULL = 100_000  # messages in flight: at about 120,000 SQS gives no more, without saying so
_MANY = 1_000  # messages that wait for a worker
_OLD = 300.0  # seconds that the oldest waits
_NAMED, _SHOWN = 5, 2  # jobs, workers of a finding
_AGES = timedelta(minutes=15)  # of the metric of their age


def ticker(context: DoctorContext) -> Iterator[Finding]:
    """Whether ticks run, and whether they keep up."""
    if "agenda" not in context.tables:
        return
    function = f"{context.settings.prefix}-ticker"
    remedy = f"read the log and the schedule of the function {function}, or run `quarterjack ticker`"
    table = context.settings.table("agenda")
    config = context.probe.call("dynamodb", "get_item", TableName=table, Key=to_item(CONFIG)).data.get("Item")
    if config is None:
        yield warn("the agenda was never used: there was no schedule and no tick yet", remedy)
        return
    context.shards = int(config["shards"]["N"])
    seen = survey_ticks(context.services, context.clock(), shards=context.shards, limit=_READ)
    yield _verdict(context, seen, remedy)
    if seen.failing:
        names = ", ".join(sorted({entry.id for entry in seen.failing})[:5])
        what = f"{len(seen.failing)} entries of the agenda fail and are tried again: {names}"
        yield warn(what, "see `entry.failed` in the ticker's log; after ten failures they are quarantined")


def _verdict(context: DoctorContext, seen: TickerHealth, remedy: str) -> Finding:
    oldest = seen.oldest
    if oldest is None:
        return ok(f"nothing is late, nothing waits{_signs(context)}")
    what = f"{oldest.id} was due at {from_ms(oldest.due):%Y-%m-%d %H:%M:%SZ} and no tick has handled it"
    if seen.state is TickerState.LATE:
        return fail(f"it is {seen.behind // SECOND} s behind: {what}", remedy)
    if seen.state is TickerState.SILENT:
        return warn(f"no tick for {seen.silent // SECOND} s at least: {what}", remedy)
    return ok(f"nothing is late{_signs(context)}")


def _signs(context: DoctorContext) -> str:
    """Other signs of a running ticker: a lock in use, the function's metric."""
    locks, now = at_once(partial(_lock, context), range(context.shards)), context.clock()
    locked = sum(lock is not None and int(lock["until"]["N"]) > now for lock in locks)
    if locked:
        return f"; a ticker is at work on {locked} of {context.shards} shards"
    function = ("service", f"{context.settings.prefix}-ticker")
    points = context.probe.metric("Quarterjack", "Ticks", function, "Sum", _TICKS)
    return f"; the function's last tick was in the minute of {points[-1]['Timestamp']:%H:%M}Z" if points else ""


def _lock(context: DoctorContext, shard: int) -> Any:
    key = {"shard": {"S": shard_key(shard)}, "entry": {"S": LOCK}}
    table = context.settings.table("agenda")
    return context.probe.call("dynamodb", "get_item", TableName=table, Key=key).data.get("Item")


def quarantined(context: DoctorContext) -> Iterator[Finding]:
    """Entries in quarantine after ten failures. Their schedules do not fire."""
    if not context.shards:
        return
    services = context.services
    of_shards = at_once(lambda shard: list(services.agenda.quarantined(shard)), range(context.shards))
    keys = [key for found in of_shards for key in found]
    needed = at_once(lambda key: is_needed(key, services), keys)
    live = [key for key, is_live in zip(keys, needed, strict=True) if is_live]
    if not live:
        no_longer_needed = f", {len(keys)} of former revisions moved aside" if keys else ""
        yield ok(f"no entry of a current revision was moved aside{no_longer_needed}")
        return
    names = ", ".join(sorted({key.split("#", 2)[2] for key in live})[:10])
    remedy = "see `entry.quarantined` in the ticker's log, fix the cause, then pause and resume each schedule"
    yield fail(f"{len(live)} entries failed ten times and were put aside: {names}", remedy)


def clock(context: DoctorContext) -> Iterator[Finding]:
    """The local clock's offset from AWS's. The answers together bound it on both sides."""
    skews = context.probe.skews
    if not skews:
        yield warn("no answer had a Date header", "compare the clock with another one")
        return
    least, most = sorted((max(low for low, _ in skews), min(high for _, high in skews)))
    surely = least if least > 0 else min(0, most)
    what = f"this machine is {abs(surely) / SECOND:.1f} s {'ahead of' if surely > 0 else 'behind'} AWS"
    if abs(surely) > _NOTICEABLE:
        remedy = "synchronise this machine's clock (NTP, chrony); beyond 10 s workers here may start runs early, late or twice"
        yield (fail if abs(surely) > SKEW else warn)(what, remedy)
    else:
        yield ok(f"within {max(abs(least), abs(most)) / SECOND:.1f} s of AWS's")


def backlog(context: DoctorContext) -> Iterator[Finding]:
    """One finding a queue."""
    for suffix, attributes in context.queues.items():
        yield _dead(context, attributes) if suffix == "dead" else _work(context, suffix, attributes)


def _dead(context: DoctorContext, attributes: Mapping[str, str]) -> Finding:
    name, (waiting, *_) = context.settings.queue("dead"), _counts(attributes)
    if not waiting:
        return ok(f"{name} is empty")
    return warn(
        f"{name} holds {waiting} dead letters that no undertaker has recorded{_age(context, name)}",
        f"read the log of the function {context.settings.prefix}-undertaker, or run `quarterjack undertaker`",
    )


def _work(context: DoctorContext, suffix: str, attributes: Mapping[str, str]) -> Finding:
    name, (waiting, in_flight, delayed) = context.settings.queue(suffix), _counts(attributes)
    what = f"{name}: {waiting} waiting{_age(context, name)}, {in_flight} in flight, {delayed} delayed"
    if in_flight > _FULL:
        remedy = "SQS gives no more than about 120,000 at a time: start more workers, or lower their concurrency"
        return warn(what, remedy)
    if waiting and not in_flight:
        remedy = "start a worker: `quarterjack worker`, or check the worker function"
        return warn(f"{what}; no worker has any", remedy)
    if waiting > _MANY:
        return warn(what, "start more workers: raise max_concurrency of the stack, or run further `quarterjack worker`")
    return ok(what)


def _counts(attributes: Mapping[str, str]) -> list[int]:
    """Messages that wait, are in flight, and are delayed."""
    return [int(attributes.get(f"ApproximateNumberOfMessages{which}", "0")) for which in ("", "NotVisible", "Delayed")]


def _age(context: DoctorContext, name: str) -> str:
    """Age of the oldest message, if CloudWatch has the metric."""
    points = context.probe.metric("AWS/SQS", "ApproximateAgeOfOldestMessage", ("QueueName", name), "Maximum", _AGES)
    return f", the oldest for {points[-1]['Maximum']:.0f} s" if points and points[-1]["Maximum"] >= _OLD else ""


def shared_queues(context: DoctorContext) -> Iterator[Finding]:
    """One finding for each queue whose workers gave messages back within the last hour, because they do not know the jobs."""
    if "runs" not in context.tables or not context.settings.history:
        return
    now = context.clock()
    there = [row for row in read_workers(context.services, now) if row.stopped_at is None]
    strangers = [row for row in there if now - row.unknown.last_at < HOUR]
    for queue in sorted({row.identity.queue for row in strangers}):
        of_it = [row for row in strangers if queue == row.identity.queue]
        jobs = sorted({job for row in of_it for job in row.unknown.names})
        yield warn(
            f"workers of queue {queue} ({few([row.identity.name for row in of_it], _SHOWN)}) gave back "
            f"{sum(row.unknown.count for row in of_it):,} messages of jobs that they do not know: {few(jobs, _NAMED)}; "
            "a run waits 30 s each time",
            f"where two applications share the installation, {OWN_QUEUE}; during a deployment it ends with the old workers",
        )
    if there and not strangers:
        yield ok(f"{len(there)} workers know the jobs of the messages that they get")


def versions(context: DoctorContext) -> Iterator[Finding]:
    """One finding for each application version that runs wait for while none of its workers is alive."""
    if "runs" not in context.tables or not context.settings.history:
        return
    now, services = context.clock(), context.services
    there, known = list(read_workers(services, now)), services.tenants.app_versions.read(now)
    if known.latest is None:
        return
    seen, waited = versions_of_workers(there), dict[str, int]()
    for row in there:
        for version in map(known.resolved, row.unserved.names if now - row.unserved.last_at <= ALIVE else ()):
            waited[version] = max(waited.get(version, 0), row.unserved.last_at)
    unserved = sorted(version for version in waited if now - seen.get(version, 0) > ALIVE)
    for version in unserved:
        yield warn(
            f"runs wait for version {version}: a worker gave one back at {from_ms(waited[version]):%H:%M:%SZ}, and no worker of "
            f"that version has been seen for {ALIVE // MINUTE} minutes",
            f"start a worker of it, or `quarterjack versions retire {version} --to OTHER`",
        )
    if not unserved:
        yield ok(f"no run was found that waits for a version without workers; the latest is {known.latest.name}")


def backpressure(context: DoctorContext) -> Iterator[Finding]:
    """One finding for each queue that is held back, or one for all that are not."""
    if "runs" not in context.tables:
        return
    queues = read_hold_log(context.services).queues
    for queue, held in queues.items():
        if held.now is None:
            continue
        why = f"{held.depth:,} messages in one of its SQS queues"
        if held.why == "age" and held.age is not None:
            why = f"its runs waited for {held.age // SECOND} s"
        yield warn(
            f"queue {queue or DEFAULT_QUEUE} is held back since {from_ms(held.now.since):%Y-%m-%d %H:%M:%SZ}: {why}; "
            "its fires wait in the agenda",
            "start more workers, raise their concurrency, or remove the delay that their jobs wait for",
        )
    if all(held.now is None for held in queues.values()):
        yield ok("no queue is held back")


# The history.


_SILENT = 20 * MINUTE  # since the last note of a historian that is a process: it writes one in fifteen minutes


def history(context: DoctorContext) -> Iterator[Finding]:
    """Gaps, changes that were set aside, and a historian's process that has stopped. On AWS an alarm tells how far the function is."""
    if "runs" not in context.tables or not context.settings.history:
        return
    found = list(gaps(context.services))
    for gap in found:
        span = f"{from_ms(gap.since):%Y-%m-%d %H:%M} and {from_ms(gap.until):%Y-%m-%d %H:%M} UTC"
        yield warn(f"changes between {span} may be missing in the history", f"fill it: {rebuild_command(gap.since)}")
    aside = list(changes_set_aside(context.services))
    if aside:
        first = aside[0]
        what = f"{len(aside)} changes could not be handled, such as one of {first['run']} by {first['consumer']}: {first['error']}"
        yield warn(
            what, f"see `historian.set_aside` in its log, then {rebuild_command(min(each['at'] for each in aside))}"
        )
    position, _ = read_position(context.services)
    silent = 0 if position is None else context.clock() - position.caught_up
    if position is not None and silent > _SILENT:
        what = f"the historian caught up last {silent // MINUTE} minutes ago"
        yield warn(what, "read its log; is `quarterjack historian` running? A stream keeps 24 hours")
    elif not found and not aside:
        yield ok("nothing is missing" + ("" if position is None else f", as of {silent // SECOND} s ago"))
