"""Dead letters: what lies in the dead-letter queue."""

from __future__ import annotations

import json
from dataclasses import dataclass

from minutehand.domain.formats.payload import is_too_deep
from minutehand.domain.formats.schema import check_schema


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """What goes to, or lies in, the dead-letter queue, with its verdict if a worker sent it."""

    body: str  # the message as it was in the work queue
    reason: str  # why it is dead
    fence: int = 0  # of the run at the verdict
    error_type: str = ""  # of the last failure
    error: str = ""  # its message
    traceback: str = ""  # its traceback, bounded
    state: str = ""  # LOST or EXPIRED, of a run that ended so; else the verdict is DEAD


def encode_letter(letter: DeadLetter) -> str:
    """A letter as JSON."""
    verdict = {name: value for name, value in vars(letter).items() if value and name != "body"}
    return json.dumps({"letter": 1, "body": letter.body, "verdict": verdict}, separators=(",", ":"))


def decode_letter(text: str) -> DeadLetter | None:
    """The worker's letter behind a body; None for a message that SQS moved as it was. Raises TooNew."""
    if is_too_deep(text):  # a letter has two levels; the message in it is a text
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
