"""Entity tags of schedules: ``"r<revision>-<hash>"``.

The hash also covers tags and description. It is compared before a change, whose transaction then compares the version of the
schedule that was read: if that has changed meanwhile, be it by an incident alone, the tag is compared again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from minutehand.errors import Conflict
from minutehand.sdk.schedule_views import Schedule
from minutehand.web.problems import RefusedRequest
from minutehand.web.shapes import json_bytes
from minutehand.web.views import schedule_document

Done = TypeVar("Done")
_NEVER = 0  # a version that no schedule has: it changes nothing, but a call that is repeated with its key gets its first answer
RACES = 8  # changes by others that one may meet

_OURS = re.compile(r'"r([1-9][0-9]{0,14})(?:-([0-9a-f]{16}))?"')


def etag_of(document: Mapping[str, Any]) -> str:
    """The strong tag of a schedule's document."""
    return f'"r{document["revision"]}-{hashlib.sha256(json_bytes(document)).hexdigest()[:16]}"'


def match(if_match: str | None, read: Callable[[], Schedule], act: Callable[[int | Schedule | None], Done]) -> Done:
    """Carry out ``act`` with what it has to expect: a revision, the schedule that was read, or None for whichever is current.

    ``"r5"`` is for revision 5, whatever its tags; ``*`` means that the schedule exists. Raises RefusedRequest if another one is
    current, and what ``read`` and ``act`` raise.
    """
    given = "" if if_match is None else if_match.strip()
    if given in ("", "*"):
        if given:
            read()
        return act(None)
    found = _OURS.fullmatch(given)
    if found is None:
        raise RefusedRequest(
            412, f"If-Match: {given[:80]!r} is not the tag of a schedule", 'send the ETag of a GET, e.g. "r5"'
        )
    if found[2] is None:
        return act(int(found[1]))
    current = ""

    def matching() -> Schedule:
        nonlocal current
        present = read()
        current = etag_of(schedule_document(present))
        return present if current == given else replace(present, revision=int(found[1]), version=_NEVER)

    try:
        return persist(matching, act)
    except Conflict:
        if current == given:
            raise
        raise RefusedRequest(412, f"you saw {given}, but {current} is current", "read it again") from None


def persist(read: Callable[[], Schedule], act: Callable[[Schedule], Done]) -> Done:
    """Change what was read, and read it again while others change it first. Raises Conflict if it has another reason, or after RACES."""
    seen = read()
    for _ in range(RACES):
        try:
            return act(seen)
        except Conflict:
            before, seen = seen, read()
            if seen.version == before.version:
                raise
    return act(seen)
