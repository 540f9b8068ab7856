"""Dead letters: the messages of the dead-letter queue."""

from __future__ import annotations

import json
from dataclasses import dataclass

from minutehand.domain.formats.payload import is_too_deep
from minutehand.domain.formats.schema import check_schema


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A message that failed for good, with the verdict of the worker that sent it."""

    body: str  # the message as it was in the work queue
    reason: str  # of the verdict
    fence: int = 0  # of the run at the verdict
    error_type: str = ""  # of the last failure
    error: str = ""  # its message
    traceback: str = ""  # its traceback, shortened
    state: str = ""  # LOST or EXPIRED; empty: DEAD


def encode_letter(letter: DeadLetter) -> str:
    """A letter as JSON."""
    verdict = {name: value for name, value in vars(letter).items() if value and name != "body"}
    return json.dumps({"letter": 1, "body": letter.body, "verdict": verdict}, separators=(",", ":"))


def decode_letter(text: str) -> DeadLetter | None:
    """A letter from its JSON; None for a message that SQS itself moved to the dead-letter queue. Raises TooNew."""
    if is_too_deep(text):  # a letter has two levels: the message in it is a string
        return None
    try:
        given = json.loads(text)
    except ValueError:
        return None
    if not isinstance(given, dict) or "letter" not in given:
        return None
    check_schema({"v": given["letter"]}, "letter")
    verdict = given["verdict"] if isinstance(given.get("verdict"), dict) else {}
    fence = verdict.get("fence", 0)
    return DeadLetter(
        body=str(given.get("body", "")),
        reason=str(verdict.get("reason", "unknown")),
        fence=fence if isinstance(fence, int) else 0,
        **{name: str(verdict[name]) for name in ("error_type", "error", "traceback", "state") if name in verdict},
    )
