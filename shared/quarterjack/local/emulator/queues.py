"""MiniStack's standard queues over indexed messages: in the order in which they became visible, fair, and without walks.

MiniStack (1.5) walks a whole queue at every receive, delete and change of visibility, delivers in the order of sending, so that a fire,
which is sent minutes ahead, overtakes everything, and ignores message groups. ``index_queues`` replaces private functions of
``ministack.services.sqs`` for standard queues; FIFO queues keep MiniStack's. A release without these names is left as it is.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any

from quarterjack.local.emulator.messages import Message, Messages

Queue = dict[str, Any]  # as MiniStack keeps it

_NEEDED = (
    *(
        "_collect_msgs",
        "_ensure_msg_fields",
        "_expire_retained",
        "_dlq_sweep",
        "_refresh_counts",
        "_delete_messages_for_esm",
    ),
    *("_act_change_visibility", "_act_change_visibility_batch", "_act_delete_message", "_act_delete_message_batch"),
    *(
        "_act_receive_message",
        "_HANDLERS",
        "_validate_batch_entries",
        "_queue_by_arn",
        "_get_q",
        "_Err",
        "new_uuid",
        "esm_wake",
        "get_state",
        "time",
    ),
)
_INVALID = "ReceiptHandleIsInvalid", "The input receipt handle is invalid."
_AGAIN = 1.0  # seconds after which a request that waits reads again, in any case
_RETENTION, _VISIBILITY = 345_600, 30  # seconds: SQS's defaults


def index_queues(sqs: Any, *, fair: bool = True) -> None:
    """Let MiniStack's module of SQS index the messages of standard queues and, if ``fair``, deliver those of quiet tenants first."""
    if all(hasattr(sqs, name) for name in _NEEDED):
        _Queues(sqs, fair=fair).install()


class _Queues:
    def __init__(self, sqs: Any, *, fair: bool) -> None:
        self._sqs, self._fair = sqs, fair
        self._lock = threading.RLock()  # requests run in one thread, the poller of functions' queues in another

    def install(self) -> None:
        replaced: dict[str, Callable[..., Any]] = {
            "_collect_msgs": self.collect,
            "_expire_retained": self.expire,
            "_dlq_sweep": self.sweep,
            "_refresh_counts": self.refresh_counts,
        }
        for name, of_queue in replaced.items():
            setattr(self._sqs, name, self._for_standard(getattr(self._sqs, name), of_queue))
        self._sqs._delete_messages_for_esm = self._deleting(self._sqs._delete_messages_for_esm)  # noqa: SLF001 (there is no other way in)
        for action, name, permission, act in (
            ("DeleteMessage", "_act_delete_message", "sqs:DeleteMessage", self.delete),
            (
                "DeleteMessageBatch",
                "_act_delete_message_batch",
                "sqs:DeleteMessage",
                self._each("DeleteMessage", self.delete),
            ),
            ("ChangeMessageVisibility", "_act_change_visibility", "sqs:ChangeMessageVisibility", self.change),
            (
                "ChangeMessageVisibilityBatch",
                "_act_change_visibility_batch",
                "sqs:ChangeMessageVisibility",
                self._each("ChangeMessageVisibility", self.change),
            ),
        ):
            acting = self._acting(getattr(self._sqs, name), permission, act)
            setattr(self._sqs, name, acting)
            self._sqs._HANDLERS[action] = acting  # noqa: SLF001 (the same)
        self._sqs.get_state = self._listing(self._sqs.get_state)
        receive = self._receiving(self._sqs._act_receive_message)  # noqa: SLF001 (the same)
        self._sqs._act_receive_message = self._sqs._HANDLERS["ReceiveMessage"] = receive  # noqa: SLF001 (the same)

    # Operations on a queue.

    def collect(self, queue: Queue, most: int, visibility: int) -> list[Message]:
        return self._messages(queue).receive(most, visibility, self._sqs.new_uuid)

    def expire(self, queue: Queue) -> None:
        with suppress(TypeError, ValueError):  # as MiniStack: an attribute that is no number keeps all
            retention = int(queue["attributes"].get("MessageRetentionPeriod", _RETENTION))
            self._messages(queue).expire(self._sqs.time.time() - retention)

    def sweep(self, queue: Queue) -> None:
        """Move to the dead-letter queue what was delivered often enough."""
        policy = _redrive_policy(queue)
        messages = self._messages(queue)
        often = messages.returned(policy[1]) if policy is not None else []
        target = self._sqs._queue_by_arn(policy[0]) if policy is not None and often else None  # noqa: SLF001 (the same)
        if target is None:
            return
        now = self._sqs.time.time()
        for message in often:
            messages.remove(message)
            source = {"DeadLetterQueueSourceArn": queue["attributes"].get("QueueArn", "")}
            target["messages"].append(
                {**message, "receipt_handle": None, "visible_at": now, "sys": source | message.get("sys", {})}
            )
            self._sqs.esm_wake.set()

    def refresh_counts(self, queue: Queue) -> None:
        self.expire(queue)
        visible, in_flight, delayed = self._messages(queue).counts()
        queue["attributes"]["ApproximateNumberOfMessages"] = str(visible)
        queue["attributes"]["ApproximateNumberOfMessagesNotVisible"] = str(in_flight)
        queue["attributes"]["ApproximateNumberOfMessagesDelayed"] = str(delayed)

    # Actions on a message, by its receipt handle.

    def delete(self, queue: Queue, data: Mapping[str, Any]) -> None:
        handle = data.get("ReceiptHandle", "")
        if not handle:
            raise self._sqs._Err("MissingParameter", "The request must contain the parameter ReceiptHandle.")  # noqa: SLF001 (the same)
        self._messages(queue).remove(self._found(queue, handle))

    def change(self, queue: Queue, data: Mapping[str, Any]) -> None:
        seconds = int(data.get("VisibilityTimeout", _VISIBILITY))
        self._messages(queue).change_visibility(self._found(queue, data.get("ReceiptHandle", "")), seconds)
        if seconds == 0:
            self._sqs.esm_wake.set()

    def _found(self, queue: Queue, handle: str) -> Message:
        message = self._messages(queue).found(handle)
        if message is None:
            raise self._sqs._Err(*_INVALID)  # noqa: SLF001 (the same)
        return message

    def _messages(self, queue: Queue) -> Messages:
        messages = queue["messages"]
        if not isinstance(messages, Messages):  # of a new queue, or of a snapshot
            complete = self._sqs._ensure_msg_fields  # noqa: SLF001 (the same)
            messages = queue["messages"] = Messages(
                messages, clock=self._sqs.time.time, complete=complete, fair=self._fair
            )
        return messages

    # In place of MiniStack's functions.

    def _for_standard(self, original: Callable[..., Any], of_queue: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def called(queue: Queue, *args: Any) -> Any:
            with self._lock:
                return (original if queue["is_fifo"] else of_queue)(queue, *args)

        return called

    def _acting(
        self, original: Callable[..., Any], permission: str, act: Callable[[Queue, Mapping[str, Any]], Any]
    ) -> Callable[..., Any]:
        @wraps(original)
        def acted(data: Mapping[str, Any], url: str) -> Any:
            queue = self._sqs._get_q(data.get("QueueUrl", url), permission)  # noqa: SLF001 (the same)
            with self._lock:
                return original(data, url) if queue["is_fifo"] else act(queue, data) or {}

        return acted

    def _each(
        self, action: str, act: Callable[[Queue, Mapping[str, Any]], None]
    ) -> Callable[[Queue, Mapping[str, Any]], Any]:
        """The action for each entry of a batch: one that is refused does not stop the others."""

        def acted(queue: Queue, data: Mapping[str, Any]) -> Any:
            entries = data.get("Entries", [])
            self._sqs._validate_batch_entries(entries, f"{action}BatchRequestEntry")  # noqa: SLF001 (the same)
            done, failed = list[Any](), list[Any]()
            for entry in entries:
                try:
                    act(queue, entry)
                    done.append({"Id": entry.get("Id", "")})
                except self._sqs._Err:  # noqa: SLF001 (the same)
                    code, text = _INVALID
                    failed.append({"Id": entry.get("Id", ""), "Code": code, "Message": text, "SenderFault": True})
            return {"Successful": done, "Failed": failed}

        return acted

    def _listing(self, original: Callable[[], Any]) -> Callable[[], Any]:
        """The state with plain lists. In the process of a snapshot, which copies nothing, the queues themselves get them."""

        @wraps(original)
        def listed() -> Any:
            state = original()
            for queue in state["queues"].to_dict().values():
                queue["messages"] = list(queue["messages"])
            return state

        return listed

    def _receiving(self, original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """MiniStack's receive reads every 0.1 s while it waits: this one waits for a change, or for the next visible time."""

        @wraps(original)
        async def received(data: Mapping[str, Any], url: str) -> Any:
            queue = self._sqs._get_q(data.get("QueueUrl", url), "sqs:ReceiveMessage")  # noqa: SLF001 (the same)
            if queue["is_fifo"]:
                return await original(data, url)
            asked = data.get("WaitTimeSeconds")
            seconds = queue["attributes"].get("ReceiveMessageWaitTimeSeconds", 0) if asked is None else asked
            deadline, at_once = self._sqs.time.time() + int(seconds), {**data, "WaitTimeSeconds": 0}
            while True:
                found = await original(at_once, url)
                left = deadline - self._sqs.time.time()
                if found or left <= 0:
                    return found
                await self._change(queue, left)

        return received

    async def _change(self, queue: Queue, most: float) -> None:
        """Wait until a message may be visible, at most so many seconds."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        messages = self._messages(queue)

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        with self._lock:
            visible_at = messages.call_at_change(wake)
        wait = min(most, _AGAIN, max(visible_at - self._sqs.time.time(), 0.001))
        try:
            await asyncio.wait_for(changed.wait(), wait)
        except TimeoutError:
            with self._lock:
                messages.call_no_more(wake)

    def _deleting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def deleted(url: str, handles: Collection[str]) -> None:
            queue = self._sqs._get_q(url)  # noqa: SLF001 (the same)
            if queue["is_fifo"]:
                original(url, handles)
                return
            with self._lock:
                messages = self._messages(queue)
                for message in [found for handle in handles if (found := messages.found(handle)) is not None]:
                    messages.remove(message)

        return deleted


def _redrive_policy(queue: Queue) -> tuple[str, int] | None:
    """The ARN of a queue's dead-letter queue, and after how many deliveries a message goes there; None without a policy."""
    try:
        policy = json.loads(queue["attributes"].get("RedrivePolicy") or "null")
        found = (policy["deadLetterTargetArn"], int(policy["maxReceiveCount"])) if policy else ("", 0)
    except (KeyError, TypeError, ValueError):  # as MiniStack: such a policy moves nothing
        return None
    return found if found[0] and found[1] else None
