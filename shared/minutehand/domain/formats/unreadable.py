"""Messages that cannot be decoded: which run they are of, so that the run can be recorded as dead and not wait for ever."""

from __future__ import annotations

import re
from dataclasses import dataclass

from minutehand.domain.names import RunRef, parse_run_id
from minutehand.errors import InvalidInput

# A message is encoded with its payload last. Only what stands before the payload is the message's own: a payload may hold anything.
_PAYLOAD = re.compile(r'"payload"\s*:')
_RUN = re.compile(r'"run"\s*:\s*"([^"\\]{1,1000})"')
_FENCE = re.compile(r'"fence"\s*:\s*(\d{1,15})\s*[,}]')


@dataclass(frozen=True, kw_only=True)
class NamedRun:
    """The run that an unreadable message is of."""

    run: RunRef
    fence: int  # of the run when the message was sent; 0 if the text does not say


def named_run(text: str) -> NamedRun | None:
    """The run that the text of a message names before its payload; None if it names none."""
    payload = _PAYLOAD.search(text)
    own = text[: payload.start()] if payload else text
    found, fence = _RUN.search(own), _FENCE.search(own)
    try:
        return None if found is None else NamedRun(run=parse_run_id(found[1]), fence=int(fence[1]) if fence else 0)
    except InvalidInput:
        return None
