"""The run of a message that cannot be decoded, so that the run is recorded as dead and does not wait for ever."""

from __future__ import annotations

import re
from dataclasses import dataclass

from minutehand.domain.names import RunRef, parse_run_id
from minutehand.errors import InvalidInput

# The payload is the last field of a message and may contain any text, so only the text before it is searched.
_PAYLOAD = re.compile(r'"payload"\s*:')
_RUN = re.compile(r'"run"\s*:\s*"([^"\\]{1,1000})"')
_FENCE = re.compile(r'"fence"\s*:\s*(\d{1,15})\s*[,}]')


@dataclass(frozen=True, kw_only=True)
class NamedRun:
    """The run of an unreadable message."""

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
