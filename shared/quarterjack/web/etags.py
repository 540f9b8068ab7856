"""Entity tags of schedules: ``"r<revision>-<hash>"``.

The hash also covers tags and description. It is compared before a change, whose transaction then compares the version of the
schedule that was read: if that has changed meanwhile, be it by an incident alone, the tag is compared again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from quarterjack.errors import Conflict
from quarterjack.sdk.schedule_views import Schedule
from quarterjack.web.problems import RefusedRequest
from quarterjack.web.shapes import json_bytes
from quarterjack.web.views import schedule_document

Done = TypeVar("Done")
_NEVER = 0  # a version that no schedule has: it changes nothing, but a call that is repeated with its key gets its first answer
RACES = 8  # changes by others that one may meet

_TAG = re.compile(r'(?:W/)?"[^"]*"')
_LIST = re.compile(rf"{_TAG.pattern}(?:\s*,\s*{_TAG.pattern})*")
TAGS_PATTERN = rf"^(?:\*|{_LIST.pattern})$"  # of a header with tags, for the document
_OURS = re.compile(r'"r([1-9][0-9]{0,14})(?:-([0-9a-f]{16}))?"')


def etag_of(document: Mapping[str, Any]) -> str:
    """The strong tag of a schedule's document."""
    return f'"r{document["revision"]}-{hashlib.sha256(json_bytes(document)).hexdigest()[:16]}"'


def match(if_match: str | None, read: Callable[[], Schedule], act: Callable[[int | Schedule | None], Done]) -> Done:
    """Carry out ``act`` with what it has to expect: a revision, the schedule that was read, or None for whichever is current.

    ``"r5"`` is for revision 5, whatever its tags; ``*`` means that the schedule exists; of several tags one has to be current.
    A precondition that does not hold refuses only what would have been done without it (RFC 9110, 13.2.1): ``act`` checks its
    arguments first, and meets a version that no schedule has. Raises RefusedRequest 412, and what ``read`` and ``act`` raise.
    """
    if if_match is None:
        return act(None)
    tags = tags_of(if_match)
    if tags == ["*"]:
        read()
        return act(None)
    given = _current_of(tags, read()) if len(tags) > 1 else "".join(tags)
    found = _OURS.fullmatch(given)
    if found is not None and found[2] is None:
        return act(int(found[1]))
    current = ""

    def matching() -> Schedule:
        nonlocal current
        present = read()
        current = etag_of(schedule_document(present))
        seen = present.revision if found is None else int(found[1])
        return present if current == given else replace(present, revision=seen, version=_NEVER)

    try:
        return persist(matching, act)
    except Conflict:
        if current == given:
            raise
        if found is None:
            raise no_tag("schedule", if_match) from None
        raise RefusedRequest(
            412, f"you saw {given}, but {current} is current", "read it again", field="If-Match", value=given
        ) from None


def as_seen(revision: int | None, present: Schedule) -> Schedule:
    """The schedule for a change of whichever revision is current, or of a certain one: if it is not current, the change is refused."""
    return present if revision in (None, present.revision) else replace(present, revision=revision or 0, version=_NEVER)


def guard_of(lines: Sequence[str], header: str) -> str | None:
    """A header with tags that may have several lines, as one; None: the request has none.

    Raises RefusedRequest 400 for one without a tag: who sends it wants a guard, and an empty one guards nothing.
    """
    if not lines:
        return None
    given = ", ".join(line.strip() for line in lines if line.strip(" \t,"))
    if not given:
        raise RefusedRequest(400, "the header is empty", "send the ETag of a GET, or leave it out", field=header)
    if given != "*" and _LIST.fullmatch(given) is None:
        remedy = 'send the ETag of a GET with its quotation marks, e.g. "r5", or leave the header out'
        raise RefusedRequest(400, f"{given[:80]!r} is no list of tags", remedy, field=header, value=given)
    return given


def has_tag(if_none_match: str, tag: str) -> bool:
    """Whether ``If-None-Match`` has a tag, compared weakly; ``*`` has every one."""
    return if_none_match == "*" or tag in [found[0].removeprefix("W/") for found in _TAG.finditer(if_none_match)]


def tags_of(if_match: str) -> list[str]:
    """The tags of a header that ``guard_of`` has checked, without those that are weak, which match nothing; ``["*"]`` for any."""
    if if_match == "*":
        return [if_match]
    return [found[0] for found in _TAG.finditer(if_match) if not found[0].startswith("W/")]


def no_tag(what: str, if_match: str) -> RefusedRequest:
    """The refusal of a header that has no strong tag of ours."""
    said = f"If-Match: {if_match[:80]!r} is not the tag of a {what}"
    is_weak = not tags_of(if_match)
    remedy = "send a strong ETag, without W/" if is_weak else "send the ETag of a GET"
    return RefusedRequest(412, said, remedy, field="If-Match", value=if_match)


def _current_of(tags: Sequence[str], present: Schedule) -> str:
    """The tag that is current, or else the first."""
    current = etag_of(schedule_document(present))
    return next((tag for tag in tags if tag in (current, f'"r{present.revision}"')), tags[0])


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
