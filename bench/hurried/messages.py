"""How many messages the processes of an installation send and receive: each appends to a file of its own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quarterjack.sqs.queues import SqsWorkQueue

FOLDER = "HURRY_MESSAGES"  # the variable that names the folder; without it nothing is counted


def count_messages(folder: str) -> None:
    """From now on in this process: one line for each call, in one write, so that a process may be killed at any time."""
    send, receive = SqsWorkQueue.send, SqsWorkQueue.receive
    file = os.open(Path(folder, f"{os.getpid()}.messages"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(what: str, number: int) -> None:
        if number:
            os.write(file, f"{what} {number}\n".encode())

    def sent(self: SqsWorkQueue, messages: Sequence[Any]) -> Sequence[bool]:
        accepted = send(self, messages)
        note("sent", sum(accepted))
        return accepted

    def received(self: SqsWorkQueue, **how: Any) -> Sequence[Any]:
        came = receive(self, **how)
        note("received", len(came))
        return came

    SqsWorkQueue.send, SqsWorkQueue.receive = sent, received  # type: ignore[method-assign, assignment]


def messages_of(folder: Path) -> Counter[str]:
    """Sent and received so far, by all processes."""
    found = Counter[str]()
    for place in folder.glob("*.messages"):
        for line in place.read_text().splitlines():
            what, number = line.split()
            found[what] += int(number)
    return found
