"""Check of the instants at which many fires are due: how late they start by the capacity model, on the functions or processes there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quarterjack.doctor.account import event_sources
from quarterjack.doctor.context import DoctorContext, Finding, ok, warn
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.times import from_ms
from quarterjack.fires.context import FAR
from quarterjack.owner.capacity import MOST, Place, crowds, stack_of
from quarterjack.state.capacity.model import Stack, is_late, late_words, window
from quarterjack.values import replace

_NAMED = 3  # instants


def instants(context: DoctorContext) -> Iterator[Finding]:
    """One finding for the coming instants of one shard of the agenda, of all tenants; several only if fires start late."""
    if "agenda" not in context.tables or not context.shards:
        return
    shard = context.chance.randrange(context.shards)
    page = context.services.agenda.due(shard, upto=FAR, after=None, limit=MOST)
    found = crowds(page.entries, context.shards)
    crowded = sorted(found.items(), key=lambda pair: (-pair[1], pair[0][0]))[:_NAMED]
    stacks = _stacks([queue for (_, queue), _ in crowded], context)
    late = [one for one in crowded if (stack := stacks[one[0][1]]) is not None and is_late(one[1], stack)]
    for place, fires in late:
        yield _late(place, fires, stacks[place[1]] or Stack())
    if not late:
        most = f", {crowded[0][1]:,} at one instant at the most" if crowded else ""
        yield ok(f"coming fires start in time by the capacity model{most}: one of {context.shards} shards was counted")


def _late(place: Place, fires: int, stack: Stack) -> Finding:
    at, queue = place
    words = late_words(fires, f"{from_ms(at):%Y-%m-%d %H:%M:%S} UTC", queue or DEFAULT_QUEUE, stack) or ""
    what, _, remedy = words.partition("; ")
    return warn(f"about {what}", remedy if window(fires, stack) else f"{remedy}: no spread within a day suffices")


def _stacks(queues: Sequence[str | None], context: DoctorContext) -> Mapping[str | None, Stack | None]:
    """What starts the runs of each queue: the functions that AWS shows, else what the records of the workers say."""
    if not queues:
        return {}
    sources = event_sources(context).data.get("EventSourceMappings", [])
    return {queue: _stack(queue, sources, context) for queue in set(queues)}


def _stack(queue: str | None, sources: Sequence[Mapping[str, Any]], context: DoctorContext) -> Stack | None:
    function = f"{context.settings.prefix}-worker" if queue is None else f"{context.settings.prefix}-worker-{queue}"
    own = [each for each in sources if _function_of(each) == function]
    stack = _of_sources(own) if own else stack_of(queue, None, 1, context.services, context.clock())
    return None if stack is None else replace(stack, shards=context.shards)


def _function_of(source: Mapping[str, Any]) -> str:
    """The name of its function, whose ARN may end with a version or alias."""
    return str(source.get("FunctionArn", "")).partition(":function:")[2].partition(":")[0]


def _of_sources(sources: Sequence[Mapping[str, Any]]) -> Stack:
    """A queue's stripes: one event source each."""
    pollers = [each.get("ProvisionedPollerConfig", {}).get("MinimumPollers") for each in sources]
    limits = [each.get("ScalingConfig", {}).get("MaximumConcurrency") for each in sources]
    kept = [each for each in pollers if each is not None]
    bounded = [each for each in limits if each is not None]
    return Stack(
        stripes=len(sources),
        functions=sum(bounded) if len(bounded) == len(sources) else None,
        pollers=min(kept) if len(kept) == len(sources) else None,
        batch=int(sources[0].get("BatchSize", 10)),
    )
