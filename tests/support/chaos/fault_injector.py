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
from datetime import datetime
from email.utils import formatdate
from enum import StrEnum
from typing import Any, NamedTuple

from tests.support.chaos.journal import Journal
from tests.support.throttle import Throttle

BATCHES = {
    "BatchExecuteStatement": "ThrottlingError",
    "BatchGetItem": "",
    "BatchWriteItem": "",
    "SendMessageBatch": "RequestThrottled",
    "ChangeMessageVisibilityBatch": "RequestThrottled",
    "DeleteMessageBatch": "RequestThrottled",
}  # operations that answer item by item: the code of a throttled item
SIGNATURE_LASTS = 300.0  # seconds by which its time may be wrong, as AWS has it; the local cloud does not look
_KEPT = 20  # deleted messages that may come again all the same …
_LATE = 0.2  # … and how often one of these is taken


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
    DENY = "denied"  # a right is missing
    SKEWED = "refused for its signature's time"
    KEYLESS = "refused for its key"  # the key of what is encrypted is disabled
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
    repeat: float = 0.25
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
    def signed_at(self) -> float:
        """UTC seconds, by the clock of the caller; now if it is not signed."""
        signed = self.headers.get("x-amz-date")
        return datetime.strptime(signed, "%Y%m%dT%H%M%S%z").timestamp() if signed else time.time()

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
    """Messages that were delivered, so that some come a second time, to whoever asks next: mostly while somebody has them."""

    def __init__(self) -> None:
        self._at_hand: dict[str, tuple[str, dict[str, Any]]] = {}  # by receipt: queue and message
        self._deleted: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def keep(self, queue: str, messages: list[dict[str, Any]]) -> None:
        with self._lock:
            self._at_hand |= {message["ReceiptHandle"]: (queue, message) for message in messages}

    def forget(self, receipts: list[str]) -> None:
        """These are being deleted."""
        with self._lock:
            self._deleted += [self._at_hand.pop(receipt) for receipt in receipts if receipt in self._at_hand]

    def again(self, queue: str, dice: random.Random) -> dict[str, Any] | None:
        with self._lock:
            late = bool(self._deleted) and (dice.random() < _LATE or not self._at_hand)
            known = [message for of, message in (self._deleted if late else self._at_hand.values()) if of == queue]
        return _received_once_more(dice.choice(known)) if known else None


class _Spell(NamedTuple):
    until: float  # monotonic seconds
    fate: Fate
    share: float  # of the requests
    about: bytes  # what these have in their text


class FaultInjector:
    """What one process has to suffer."""

    def __init__(self, process: str, seed: int, chances: Chances, journal: Journal, post: Post) -> None:
        self.process, self.journal, self._post = process, journal, post
        self._dice, self._lock = random.Random(f"{seed} {process}"), threading.Lock()
        self.chances = chances
        self._spells: dict[str, _Spell] = {}  # by service

    def cut(self, service: str, seconds: float, *, deaf: bool) -> None:
        """Cut the process off from a service: from all of it, or (``deaf``) only from its answers."""
        self.afflict(service, Fate.DEAF if deaf else Fate.CUT, seconds)

    def afflict(self, service: str, fate: Fate, seconds: float, *, share: float = 1.0, about: str = "") -> None:
        """For so long this happens to requests to a service: to ``share`` of those that have ``about`` in their text."""
        self._spells[service] = _Spell(time.monotonic() + seconds, fate, share, about.encode())

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.chances = CALM
        self._spells.clear()

    def fate_of(self, asked: Asked) -> Fate:
        fate = self._decide(asked)
        if fate is not Fate.PASS:
            self.journal.count(fate, self.process, asked.operation)
        if fate in (Fate.HOLD, Fate.DELAY):
            self.journal.strike("held up", self.process, self.chances.held)
        return fate

    def _decide(self, asked: Asked) -> Fate:
        if abs(asked.signed_at - time.time()) > SIGNATURE_LASTS:
            return Fate.SKEWED
        spell = self._spells.get(asked.service)
        is_under = spell is not None and time.monotonic() < spell.until and spell.about in asked.body
        if spell is not None and is_under and (spell.share >= 1 or self._draw() < spell.share):
            return spell.fate
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

    def deleted(self, asked: Asked) -> None:
        """Messages that nobody has at hand any more."""
        self._post.forget(receipts_of(asked))

    def again(self, asked: Asked) -> dict[str, Any] | None:
        """A message that was delivered before, to be delivered once more with this receive; None: not now."""
        with self._lock:
            strikes = self._dice.random() < self.chances.repeat
            found = self._post.again(_queue(asked), self._dice) if strikes else None
        if found is not None:
            self.journal.count(Fate.REPEAT, self.process, asked.operation)
        return found

    def delivered(self, asked: Asked, answer: Answer, again: dict[str, Any] | None) -> Answer:
        """The answer to a receive, with that message if there is room for it."""
        received = json.loads(answer.body or b"{}")
        messages = received.get("Messages", [])
        self._post.keep(_queue(asked), messages)
        if again is None or len(messages) >= json.loads(asked.body).get("MaxNumberOfMessages", 1):
            return answer
        return replace(answer, body=json.dumps(received | {"Messages": [*messages, again]}).encode())


def _received_once_more(message: dict[str, Any]) -> dict[str, Any]:
    attributes = message.get("Attributes", {})
    count = int(attributes.get("ApproximateReceiveCount", "1")) + 1
    return message | {"Attributes": attributes | {"ApproximateReceiveCount": str(count)}}


def receipts_of(asked: Asked) -> list[str]:
    """What a deletion deletes."""
    given = json.loads(asked.body)
    return [entry["ReceiptHandle"] for entry in given.get("Entries", [given])]


def at_once(asked: Asked) -> Asked:
    """A receive that waits for nothing."""
    return replace(asked, body=json.dumps(json.loads(asked.body) | {"WaitTimeSeconds": 0}).encode())


def _queue(asked: Asked) -> str:
    return str(json.loads(asked.body).get("QueueUrl", ""))


REFUSALS = {  # of SQS and of DynamoDB: status, name of the error, its name as a query's
    Fate.REFUSE: ((500, "ServiceUnavailable", ""), (500, "InternalServerError", "")),
    Fate.THROTTLE: ((400, "RequestThrottled", ""), (400, "ProvisionedThroughputExceededException", "")),
    Fate.DENY: ((403, "AccessDenied", ""), (400, "AccessDeniedException", "")),
    Fate.SKEWED: ((403, "InvalidSignatureException", ""), (400, "InvalidSignatureException", "")),
    Fate.KEYLESS: ((400, "KmsDisabled", "KMS.DisabledException"), (400, "AccessDeniedException", "")),
}


def error(asked: Asked, fate: Fate) -> Answer:
    """A refusal as the service words it."""
    sqs = asked.service == "sqs"
    status, code, queried = REFUSALS[fate][0 if sqs else 1]
    kind = f"com.amazonaws.sqs#{code}" if sqs else f"com.amazonaws.dynamodb.v20120810#{code}"
    headers = {"Content-Type": "application/x-amz-json-1.0", "Date": formatdate(usegmt=True)}
    if sqs:
        headers["x-amzn-query-error"] = f"{queried or code};{'Sender' if status < 500 else 'Receiver'}"
    body = json.dumps({"__type": kind, "message": f"injected: {fate}"}).encode()
    return Answer(status=status, headers=headers, body=body)
