"""Additions to the emulator (MiniStack 1.5): the order of standard queues, fair queues, and complete streams of tables.

Each addition replaces private functions of MiniStack. A release that lacks one of them is left as it is, and the contract suite fails.

**Queues** (``play_fair_queues``). MiniStack delivers in the order of sending, so that a fire, which is sent minutes ahead, overtakes
everything, and it ignores message groups. The addition delivers by the time at which a message became visible, and as AWS documents fair
queues. A message group is a tenant, a message without one is a tenant of its own. A tenant is *noisy* with > 10 % of the messages in
flight and >= 30 of them, or with > 10 % of the recent processing time, unless nothing was sent for it for five minutes. While more is
visible than is asked for, messages of quiet tenants come first, then those of the noisy tenant with the fewest in flight. SQS's
thresholds are approximate, and AWS does not document what is recent: here it is a minute.

**Streams** (``complete_streams``). In MiniStack neither a PartiQL statement's write nor the removal of an expired row reaches the stream of
its table, and a snapshot has no streams. In AWS and in DynamoDB Local both do, and a stream outlives every process.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
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


KEPT = 5_000  # changes of each stream in a snapshot, the latest: a snapshot is written anew at every change

_EXPIRY_THREAD = "dynamodb-ttl-reaper"
_SERVICE = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
_STATEMENTS = ("_partiql_insert", "_partiql_update", "_partiql_delete")
_NEEDED = (
    *_STATEMENTS,
    *("_execute_transaction", "_set_item", "_remove_item", "_emit_stream_event", "_build_change_record"),
    *("get_state", "_restore_state", "_stream_records", "_stream_trimmed", "AccountRegionScopedDict"),
)

Answer = tuple[int, Any, Any]  # HTTP status, headers, body


def complete_streams(dynamodb: Any) -> None:
    """Let the streams of MiniStack's module of DynamoDB have every write of their tables, and let its snapshots have the streams."""
    if not all(hasattr(dynamodb, name) for name in _NEEDED):
        return
    _Statements(dynamodb).install()
    _mark_expiries(dynamodb)
    _keep_streams(dynamodb)


class _Statements:
    """Notes the items that statements write, and emits them when the statement, or the transaction around it, has succeeded."""

    def __init__(self, dynamodb: Any) -> None:
        self._dynamodb = dynamodb
        self._current = threading.local()  # its `writes`: those of the statement that this thread executes

    def install(self) -> None:
        module = self._dynamodb
        for name in (*_STATEMENTS, "_execute_transaction"):
            setattr(module, name, self._emitting(getattr(module, name)))
        module._set_item = self._noting_put(module._set_item)  # noqa: SLF001 (there is no other way in)
        module._remove_item = self._noting_removal(module._remove_item)  # noqa: SLF001 (the same)

    def _emitting(self, execute: Callable[..., Answer]) -> Callable[..., Answer]:
        @wraps(execute)
        def executed(*args: Any) -> Answer:
            if getattr(self._current, "writes", None) is not None:  # a statement of a transaction, which emits
                return execute(*args)
            writes: list[tuple[Any, ...]] = []  # arguments of _emit_stream_event
            self._current.writes = writes
            try:
                answer = execute(*args)
            finally:
                self._current.writes = None
            if answer[0] == 200:
                for write in writes:
                    self._dynamodb._emit_stream_event(*write)  # noqa: SLF001 (the same)
            return answer

        return executed

    def _noting_put(self, put: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(put)
        def noted(table: Any, partition: str, key: str, item: Any) -> Any:
            old = put(table, partition, key, item)
            self._note(table, old, item)
            return old

        return noted

    def _noting_removal(self, remove: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(remove)
        def noted(table: Any, partition: str, key: str) -> Any:
            old = remove(table, partition, key)
            if old is not None:
                self._note(table, old, None)
            if old is not None and _is_expiry():
                self._dynamodb._emit_stream_event(table["TableName"], "REMOVE", old, None)  # noqa: SLF001 (the same)
            return old

        return noted

    def _note(self, table: Any, old: Any, new: Any) -> None:
        writes = getattr(self._current, "writes", None)
        if writes is not None:
            name = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
            writes.append((table["TableName"], name, old, new))


def _is_expiry() -> bool:
    """Whether this is the thread that removes expired rows."""
    return threading.current_thread().name == _EXPIRY_THREAD


def _mark_expiries(dynamodb: Any) -> None:
    """Let a record say that DynamoDB itself removed the row."""
    build = dynamodb._build_change_record  # noqa: SLF001 (the same)

    @wraps(build)
    def built(*args: Any) -> Any:
        record = build(*args)
        return record | {"userIdentity": _SERVICE} if _is_expiry() else record

    dynamodb._build_change_record = built  # noqa: SLF001 (the same)


def _keep_streams(dynamodb: Any) -> None:
    """Let a snapshot have the latest changes of each stream."""
    state, restore = dynamodb.get_state, dynamodb._restore_state  # noqa: SLF001 (the same)
    records, trimmed = dynamodb._stream_records, dynamodb._stream_trimmed  # noqa: SLF001 (the same)

    @wraps(state)
    def get_state() -> Any:
        latest, gone = dynamodb.AccountRegionScopedDict(), dynamodb.AccountRegionScopedDict()
        for place, there in records.all_items():
            left_out = max(0, len(there) - KEPT)
            latest.set_scoped(*place, copy.deepcopy(there[left_out:]))
            gone.set_scoped(*place, trimmed.get_scoped(*place, 0) + left_out)
        return state() | {"stream_records": latest, "stream_trimmed": gone}

    @wraps(restore)
    def _restore_state(data: Any) -> None:
        restore(data)
        records.update((data or {}).get("stream_records", {}))
        trimmed.update((data or {}).get("stream_trimmed", {}))

    dynamodb.get_state, dynamodb._restore_state = get_state, _restore_state  # noqa: SLF001 (the same)
