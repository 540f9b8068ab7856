"""The emulator's standard queues: messages in the order in which they became visible, and fair queues.

MiniStack (1.5) delivers in the order of sending, so that a fire, which is sent minutes ahead, overtakes everything, and it ignores
message groups. ``play_fair_queues`` replaces ``_collect_msgs`` of ``ministack.services.sqs``; a release without these names is left as
it is.

What is played is AWS's documentation. A message group is a tenant, a message without one is a tenant of its own. A tenant is *noisy*
with > 10 % of the messages in flight and >= 30 of them, or with > 10 % of the recent processing time, unless nothing was sent for it for
five minutes. While more is visible than is asked for, messages of quiet tenants are delivered first, then those of the noisy tenant with
the fewest in flight. SQS's thresholds are approximate, and it is not documented what is recent: here it is a minute.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from functools import wraps
from itertools import islice
from operator import itemgetter
from typing import Any

SHARE = 0.1  # of a queue's messages in flight, or of its recent processing time, above which a tenant is noisy
IN_FLIGHT = 30  # messages of a tenant below which its share of those in flight says nothing
SILENT = 300.0  # seconds without a send after which a tenant is quiet
RECENT = 60.0  # seconds of processing time that count
_STEP = 5.0  # seconds of processing time that are added up together

_Message = dict[str, Any]  # as MiniStack keeps it


class FairQueue:
    """What one queue knows of its tenants. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._held: Mapping[str, str] = {}  # messages in flight since the last look, with their tenants
        self._looked = 0.0
        self._processing = deque[tuple[float, dict[str, float]]]()  # begin of a step, and seconds by tenant

    def choose(self, messages: Sequence[_Message], now: float, most: int) -> list[_Message]:
        """At most so many of the visible messages, in the order in which they are delivered."""
        self._count(now)
        visible = by_visibility(messages, now)
        in_flight = {m["id"]: tenant_of(m) for m in messages if m["visible_at"] > now and m["receive_count"]}
        chosen = visible[:most]
        if len(visible) > most:
            flying = Counter(in_flight.values())
            chosen = _fairly(visible, self._noisy(flying, messages, now), flying, most)
        self._held = in_flight | {message["id"]: tenant_of(message) for message in chosen}
        return chosen

    def _count(self, now: float) -> None:
        """Add the time since the last look for what was in flight then. What has ended meanwhile counts until now."""
        elapsed, self._looked = max(now - self._looked, 0.0), now
        if not self._processing or now - self._processing[-1][0] >= _STEP:
            self._processing.append((now, defaultdict(float)))
        for tenant in self._held.values():
            self._processing[-1][1][tenant] += elapsed
        while self._processing[0][0] < now - RECENT:
            self._processing.popleft()

    def _noisy(self, flying: Counter[str], messages: Sequence[_Message], now: float) -> set[str]:
        spent = defaultdict[str, float](float)
        for _, seconds in self._processing:
            for tenant, part in seconds.items():
                spent[tenant] += part
        noisy = {tenant for tenant, part in spent.items() if part > SHARE * sum(spent.values())}
        most = SHARE * flying.total()
        noisy |= {tenant for tenant, count in flying.items() if count >= IN_FLIGHT and count > most}
        return {tenant for tenant in noisy if _sends(tenant, messages, now)}


def by_visibility(messages: Sequence[_Message], now: float) -> list[_Message]:
    """The visible messages in the order in which they became visible; those of one instant in the order of sending."""
    visible = [message for message in messages if message["visible_at"] <= now]
    visible.sort(key=itemgetter("visible_at"))
    return visible


def tenant_of(message: _Message) -> str:
    """The tenant of a message: its group, or itself."""
    return message["group_id"] or f"message {message['id']}"


def _sends(tenant: str, messages: Sequence[_Message], now: float) -> bool:
    return any(m["sent_at"] > now - SILENT and tenant_of(m) == tenant for m in reversed(messages))


def _fairly(visible: Sequence[_Message], noisy: set[str], flying: Counter[str], most: int) -> list[_Message]:
    """The next messages: those of quiet tenants, then each time one of the noisy tenant with the fewest in flight."""
    chosen = list(islice((message for message in visible if tenant_of(message) not in noisy), most))
    waiting = defaultdict[str, deque[_Message]](deque)
    for message in visible if len(chosen) < most else ():
        if tenant_of(message) in noisy:
            waiting[tenant_of(message)].append(message)
    count = Counter(flying)
    while waiting and len(chosen) < most:
        tenant = min(waiting, key=lambda each: (count[each], waiting[each][0]["visible_at"]))
        chosen.append(waiting[tenant].popleft())
        count[tenant] += 1
        if not waiting[tenant]:
            del waiting[tenant]
    return chosen


def play_fair_queues(sqs: Any, *, fair: bool = True) -> None:
    """Let MiniStack's module of SQS deliver by visible time and, if ``fair``, those of quiet tenants first."""
    if not all(hasattr(sqs, name) for name in ("_collect_msgs", "_ensure_msg_fields")):
        return
    collect, lock, queues = sqs._collect_msgs, threading.Lock(), dict[str, FairQueue]()  # noqa: SLF001 (there is no other way in)

    @wraps(collect)
    def collected(queue: Any, most: int, visibility: int) -> Any:
        if queue["is_fifo"]:
            return collect(queue, most, visibility)
        with lock:
            messages, now = queue["messages"], sqs.time.time()
            for message in messages:
                if "group_id" not in message:  # as of a topic
                    sqs._ensure_msg_fields(message)  # noqa: SLF001 (the same)
            if fair:
                known = queues.setdefault(queue["attributes"]["QueueArn"], FairQueue())
                chosen = known.choose(messages, now, most)
            else:
                chosen = by_visibility(messages, now)[:most]
            return collect({**queue, "messages": chosen}, most, visibility)

    sqs._collect_msgs = collected  # noqa: SLF001 (the same)
