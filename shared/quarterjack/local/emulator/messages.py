"""The messages of one standard queue, indexed: no operation walks the queue.

| operation | cost (n messages, t tenants with visible messages) |
|---|---|
| append, find by receipt handle, remove, change the visible time | O(log n) |
| choose the next messages | O(t + messages chosen) |
| count | O(1) |

Delivery follows AWS's documentation of fair queues. A message group is a tenant, a message without one is a tenant of its own. A tenant
is *noisy* with > 10 % of the messages in flight and >= 30 of them, or with > 10 % of the recent processing time, unless nothing was sent
for it for five minutes. While more is visible than is asked for, messages of quiet tenants are delivered first, then those of the noisy
tenant with the fewest in flight. SQS's thresholds are approximate, and AWS does not document what is recent: here it is a minute.
"""

from __future__ import annotations

import copy
import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from quarterjack.local.emulator.tenants import QueueTenants

Message = dict[str, Any]  # as MiniStack keeps it
_Place = tuple[float, int, int]  # visible time and number, the order of delivery, and changes


@dataclass(eq=False, slots=True)
class _Entry:
    message: Message
    number: int  # in the order of sending
    tenant: str
    is_visible: bool = False
    is_in_flight: bool = False
    changes: int = 0  # of its place: what heap or deque have of an earlier one is skipped

    @property
    def place(self) -> _Place:
        return self.message["visible_at"], self.number, self.changes


class Messages:
    """The messages of a queue in the order of sending, with the operations of a list that MiniStack uses.

    ``complete`` adds the fields that a message lacks which another service (a topic, for one) has appended. ``fair``: messages of quiet
    tenants come first, else all come in the order in which they became visible. ``clock`` in seconds since 1970.
    """

    def __init__(
        self,
        messages: Iterable[Message],
        *,
        clock: Callable[[], float],
        complete: Callable[[Message], None],
        fair: bool,
    ) -> None:
        self._clock, self._complete, self._fair = clock, complete, fair
        self._entries, self._handles = dict[int, _Entry](), dict[str, _Entry]()
        self._numbers = count()
        self._hidden = list[tuple[_Place, _Entry]]()  # a heap of the delayed and those in flight
        self._visible = defaultdict[str | None, deque[tuple[_Place, _Entry]]](deque)  # by group
        self._returned = dict[int, _Entry]()  # visible again after a delivery
        self._visible_count = 0
        self._earliest = float("inf")  # no message was sent before
        self._changes = list[Callable[[], None]]()  # to call at the next change
        self.tenants = QueueTenants()
        for message in messages:
            self.append(message)

    # A list, for MiniStack.

    def __iter__(self) -> Iterator[Message]:
        return iter([entry.message for entry in self._entries.values()])

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> Message:
        return list(self)[index] if index != -1 else self._entries[next(reversed(self._entries))].message

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Message]:
        """A plain list: a copy of MiniStack's state has no index."""
        return copy.deepcopy(list(self), memo)

    def clear(self) -> None:
        for message in self:
            self.remove(message)

    def append(self, message: Message) -> None:
        self._complete(message)
        entry = _Entry(message, next(self._numbers), message["group_id"] or f"message {message['id']}")
        self._entries[id(message)] = entry
        self._earliest = min(self._earliest, sent_at(message))
        if message["receipt_handle"] is not None:
            self._handles[message["receipt_handle"]] = entry
        self.tenants.sends(entry.tenant, message["sent_at"])
        self._hide(entry, in_flight=message["receive_count"] > 0 and message["visible_at"] > self._clock())

    def remove(self, message: Message) -> None:
        """Raises KeyError if it is not in the queue."""
        entry = self._entries.pop(id(message))
        self._handles.pop(message["receipt_handle"], None)
        self._leave(entry)

    # Deliveries.

    def receive(self, most: int, visibility: int, handle: Callable[[], str]) -> list[Message]:
        """At most so many of the visible messages, which are in flight for ``visibility`` seconds; ``handle`` makes a receipt handle."""
        now = self._advance()
        chosen = self._choose(most, now)
        for entry in chosen:
            message = entry.message
            self._handles.pop(message["receipt_handle"], None)
            message["receipt_handle"] = handle()
            message["visible_at"] = now + visibility
            message["receive_count"] += 1
            if message["first_receive_at"] is None:
                message["first_receive_at"] = now
            self._handles[message["receipt_handle"]] = entry
            self._leave(entry)
            self._hide(entry, in_flight=True)
        return [entry.message for entry in chosen]

    def found(self, handle: str) -> Message | None:
        """The message whose latest receipt handle this is."""
        entry = self._handles.get(handle)
        return None if entry is None else entry.message

    def change_visibility(self, message: Message, seconds: int) -> None:
        """Let it be visible in so many seconds from now."""
        entry = self._entries[id(message)]
        self._leave(entry)
        message["visible_at"] = self._clock() + seconds
        self._hide(entry, in_flight=True)

    def expire(self, before: float) -> None:
        """Remove what was sent at this instant or earlier, in seconds since 1970."""
        if self._earliest > before:
            return
        for message in self:
            if sent_at(message) <= before:
                self.remove(message)
        self._earliest = min(map(sent_at, self), default=float("inf"))

    def returned(self, deliveries: int) -> list[Message]:
        """The visible messages that were delivered so often."""
        self._advance()
        return [entry.message for entry in self._returned.values() if entry.message["receive_count"] >= deliveries]

    def counts(self) -> tuple[int, int, int]:
        """How many messages are visible, in flight, and delayed."""
        self._advance()
        in_flight = self.tenants.in_flight().total()
        return self._visible_count, in_flight, len(self) - self._visible_count - in_flight

    def call_at_change(self, wake: Callable[[], None]) -> float:
        """Call it once, when a message is appended or its visible time changes. The instant at which the next becomes visible meanwhile."""
        self._changes.append(wake)
        return self._hidden[0][0][0] if self._hidden else float("inf")

    def call_no_more(self, wake: Callable[[], None]) -> None:
        if wake in self._changes:
            self._changes.remove(wake)

    # The index.

    def _hide(self, entry: _Entry, *, in_flight: bool) -> None:
        if in_flight:
            self.tenants.begins(entry.tenant, self._clock())
        entry.is_in_flight = in_flight
        heapq.heappush(self._hidden, (entry.place, entry))
        changes, self._changes = self._changes, []
        for wake in changes:
            wake()

    def _leave(self, entry: _Entry) -> None:
        """It is no longer where it was: visible, in flight, or delayed."""
        entry.changes += 1
        if entry.is_visible:
            entry.is_visible = False
            self._visible_count -= 1
            self._returned.pop(id(entry.message), None)
        elif entry.is_in_flight:
            entry.is_in_flight = False
            self.tenants.ends(entry.tenant, self._clock())

    def _advance(self) -> float:
        """Make visible what is by now. The instant, in seconds since 1970."""
        now = self._clock()
        while self._hidden and self._hidden[0][0][0] <= now:
            place, entry = heapq.heappop(self._hidden)
            if entry.place != place:
                continue
            self._leave(entry)
            entry.is_visible = True
            self._visible_count += 1
            self._visible[entry.message["group_id"]].append((entry.place, entry))
            if entry.message["receive_count"]:
                self._returned[id(entry.message)] = entry
        return now

    def _first(self, group: str | None) -> tuple[_Place, _Entry] | None:
        """The first visible message of a group; what has left is dropped before it."""
        waiting = self._visible[group]
        while waiting:
            place, entry = waiting[0]
            if entry.place == place:
                return waiting[0]
            waiting.popleft()
        del self._visible[group]
        return None

    def _choose(self, most: int, now: float) -> list[_Entry]:
        noisy = self.tenants.noisy(now) if self._fair and self._visible_count > most else frozenset[str]()
        heads = [
            (first, group) for group in list(self._visible) if group not in noisy and (first := self._first(group))
        ]
        heapq.heapify(heads)
        chosen, alone = list[_Entry](), deque[tuple[_Place, _Entry]]()  # `alone`: noisy messages of no group
        while heads and len(chosen) < most:
            first, group = heads[0]
            self._visible[group].popleft()
            if first[1].tenant in noisy:
                alone.append(first)
            else:
                chosen.append(first[1])
            following = self._first(group)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following, group))
        if alone:
            self._visible[None].extendleft(reversed(alone))
        if len(chosen) < most:
            chosen += self._of_noisy(noisy | {entry.tenant for _, entry in alone}, most - len(chosen))
        return chosen

    def _of_noisy(self, noisy: Collection[str], most: int) -> list[_Entry]:
        """Each time the first of the noisy tenant with the fewest in flight."""
        chosen, in_flight = list[_Entry](), self.tenants.in_flight()
        groups: list[str | None] = [None, *noisy] if None in self._visible else [*noisy]
        waiting = {group: first for group in groups if group in self._visible and (first := self._first(group))}
        while waiting and len(chosen) < most:
            group = min(waiting, key=lambda each: (in_flight[waiting[each][1].tenant], waiting[each][0]))
            _, entry = self._visible[group].popleft()
            chosen.append(entry)
            in_flight[entry.tenant] += 1
            following = self._first(group)
            if following is None:
                del waiting[group]
            else:
                waiting[group] = following
        return chosen


def sent_at(message: Message) -> float:
    """When a message was sent, or moved to a dead-letter queue that counts from then; seconds since 1970."""
    return float(message["enqueued_at"] if "enqueued_at" in message else message["sent_at"])
