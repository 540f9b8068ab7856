"""Which requests of one process go wrong, and how. Seeded chances; partitions are ordered from outside.

What is kept away from a request has had no effect; what is kept away from an answer has.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tests.contract.throttle import Throttle
from tests.proof.chaos.journal import Journal

BATCHES = {
    "BatchExecuteStatement": "ThrottlingError",
    "BatchGetItem": "",
    "BatchWriteItem": "",
    "SendMessageBatch": "RequestThrottled",
    "ChangeMessageVisibilityBatch": "RequestThrottled",
    "DeleteMessageBatch": "RequestThrottled",
}  # operations that answer item by item: the code of a throttled item
_KEPT = 50  # deliveries from which the next repeated one is taken


class Fate(StrEnum):
    """What becomes of a request."""

    PASS = "passed on"
    REFUSE = "refused with 500"
    RESET = "reset"
    THROTTLE = "throttled"
    ITEMS = "items throttled"
    LOSE = "answer lost"
    HOLD = "answer held back"  # longer than the caller waits
    DELAY = "delayed"  # longer than the caller waits: the effect comes after it
    CUT = "cut off"
    DEAF = "cut off from answers"
    REPEAT = "delivery repeated"


@dataclass(frozen=True, kw_only=True)
class Chances:
    """Of each request; ``items`` of each batch, ``repeat`` of each receive."""

    refuse: float = 0.015
    reset: float = 0.015
    throttle: float = 0.015
    lose: float = 0.02
    hold: float = 0.001
    delay: float = 0.0005
    items: float = 0.08
    repeat: float = 0.10
    held: float = 27.0  # seconds for which an answer or a request is held back


CALM = Chances(refuse=0, reset=0, throttle=0, lose=0, hold=0, delay=0, items=0, repeat=0)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def target(self) -> str:
        """``DynamoDB_20120810.GetItem``, ``AmazonSQS.SendMessage``; empty for what is neither."""
        return self.headers.get("x-amz-target", "")

    @property
    def operation(self) -> str:
        return self.target.partition(".")[2] or f"{self.method} {self.path.partition('?')[0]}"

    @property
    def service(self) -> str:
        return "sqs" if self.target.startswith("AmazonSQS") else "dynamodb" if self.target else "s3"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is answered."""

    status: int
    headers: dict[str, str]
    body: bytes


class Post:
    """Messages that were delivered, so that some come a second time, to whoever asks next."""

    def __init__(self) -> None:
        self._seen: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_KEPT)

    def keep(self, queue: str, messages: list[dict[str, Any]]) -> None:
        self._seen.extend((queue, message) for message in messages)

    def again(self, queue: str, dice: random.Random) -> dict[str, Any] | None:
        known = [message for of, message in list(self._seen) if of == queue]
        return dice.choice(known) if known else None


class Mischief:
    """What one process has to suffer."""

    def __init__(self, process: str, seed: int, chances: Chances, journal: Journal, post: Post) -> None:
        self.process, self.journal, self._post = process, journal, post
        self._dice, self._lock = random.Random(f"{seed} {process}"), threading.Lock()
        self.chances = chances
        self._cuts: dict[str, tuple[float, Fate]] = {}

    def cut(self, service: str, seconds: float, *, deaf: bool) -> None:
        """Cut the process off from a service: from all of it, or (``deaf``) only from its answers."""
        self._cuts[service] = (time.monotonic() + seconds, Fate.DEAF if deaf else Fate.CUT)

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.chances = CALM
        self._cuts.clear()

    def fate_of(self, asked: Asked) -> Fate:
        fate = self._decide(asked)
        if fate is not Fate.PASS:
            self.journal.count(fate, self.process, asked.operation)
        if fate in (Fate.HOLD, Fate.DELAY):
            self.journal.strike("held up", self.process, self.chances.held)
        return fate

    def _decide(self, asked: Asked) -> Fate:
        until, how = self._cuts.get(asked.service, (0.0, Fate.PASS))
        if time.monotonic() < until:
            return how
        chances, drawn = self.chances, self._draw()
        items = chances.items if asked.operation in BATCHES else 0.0
        table = (
            (Fate.REFUSE, chances.refuse),
            (Fate.RESET, chances.reset),
            (Fate.THROTTLE, chances.throttle),
            (Fate.LOSE, chances.lose),
            (Fate.HOLD, chances.hold),
            (Fate.DELAY, chances.delay),
            (Fate.ITEMS, items),
        )
        for fate, chance in table:
            if drawn < chance:
                return fate
            drawn -= chance
        return Fate.PASS

    def _draw(self) -> float:
        with self._lock:
            return self._dice.random()

    # Single items.

    def throttle_of(self, asked: Asked) -> Throttle:
        """Takes some items out of the request, at least one, and names them in the answer."""
        with self._lock:
            dice = random.Random(self._dice.random())

        def choose(_: int, items: Any) -> set[int]:
            return {place for place in range(len(items)) if dice.random() < 0.4} | {dice.randrange(len(items))}

        return Throttle(asked.operation, choose, BATCHES[asked.operation])

    # Deliveries.

    def redelivered(self, asked: Asked, answer: Answer) -> Answer:
        """An answer to ReceiveMessage, now and then with a message that was delivered before."""
        given, received = json.loads(asked.body), json.loads(answer.body or b"{}")
        queue, messages = given.get("QueueUrl", ""), received.get("Messages", [])
        with self._lock:
            strikes = self._dice.random() < self.chances.repeat
            again = self._post.again(queue, self._dice) if strikes else None
            self._post.keep(queue, messages)
        if again is None or len(messages) >= given.get("MaxNumberOfMessages", 1):
            return answer
        self.journal.count(Fate.REPEAT, self.process, asked.operation)
        return replace(answer, body=json.dumps(received | {"Messages": [*messages, again]}).encode())


def error(asked: Asked, fate: Fate) -> Answer:
    """A refusal as the service words it."""
    sqs = asked.service == "sqs"
    if fate is Fate.THROTTLE:
        code = "RequestThrottled" if sqs else "ProvisionedThroughputExceededException"
    else:
        code = "ServiceUnavailable" if sqs else "InternalServerError"
    kind = f"com.amazonaws.sqs#{code}" if sqs else f"com.amazonaws.dynamodb.v20120810#{code}"
    headers = {"Content-Type": "application/x-amz-json-1.0"}
    if sqs:
        headers["x-amzn-query-error"] = f"{code};{'Sender' if fate is Fate.THROTTLE else 'Receiver'}"
    body = json.dumps({"__type": kind, "message": "injected"}).encode()
    return Answer(status=400 if fate is Fate.THROTTLE else 500, headers=headers, body=body)
