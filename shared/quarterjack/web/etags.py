"""Entity tags: ``"r<revision>-<hash>"`` of a schedule, ``"v<version>"`` of a tenant's profile; and the headers with preconditions.

The hash also covers tags and description. It is compared before a change, and the change's transaction compares the version of the
schedule that was read. If the version has changed in between, even by an incident alone, the tag is compared again.

A precondition that does not hold refuses only what would have been done without it (RFC 9110, 13.2.1). So the change is asked for with
``NO_VERSION``: it checks its arguments, gives a repeated call its first answer, and is refused with Conflict before it writes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Request

from quarterjack.errors import Conflict
from quarterjack.sdk.schedule_views import Schedule
from quarterjack.values import replace
from quarterjack.web.problems import RefusedRequest
from quarterjack.web.shapes import json_bytes
from quarterjack.web.views import schedule_document

Done = TypeVar("Done")
NO_VERSION = 10**15  # a version that no schedule and no profile has
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
    Raises RefusedRequest 412, and what ``read`` and ``act`` raise.
    """
    given = expected_tag(if_match, lambda: _tags(read()))
    if if_match is None or given is None:
        return act(None)
    found = _OURS.fullmatch(given)
    if found is not None and found[2] is None:
        return act(int(found[1]))
    current = ""

    def matching() -> Schedule:
        nonlocal current
        present = read()
        current = etag_of(schedule_document(present))
        seen = present.revision if found is None else int(found[1])
        return present if current == given else replace(present, revision=seen, version=NO_VERSION)

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
    """The schedule to change, if a revision is expected or None; the change is refused if another revision is current."""
    return (
        present
        if revision in (None, present.revision)
        else replace(present, revision=revision or 0, version=NO_VERSION)
    )


def guard_of(lines: Sequence[str], header: str) -> str | None:
    """A header with tags that may have several lines, as one; None: the request has none.

    Raises RefusedRequest 400 for a header without a tag: it would guard nothing.
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


def expected_tag(if_match: str | None, current: Callable[[], Collection[str]]) -> str | None:
    """The tag that a change is for: of several the one that is current, else the first; "" if all are weak, which match nothing.

    None: the change is for whichever is current. ``current`` reads the tags of the resource; it raises NotFound if there is none.
    """
    if if_match == "*":
        current()
    if if_match in (None, "*"):
        return None
    tags = _strong(if_match)
    if len(tags) < 2:
        return "".join(tags)
    present = current()
    return next((tag for tag in tags if tag in present), tags[0])


def _strong(if_match: str) -> list[str]:
    return [found[0] for found in _TAG.finditer(if_match) if not found[0].startswith("W/")]


def _tags(present: Schedule) -> Collection[str]:
    return etag_of(schedule_document(present)), f'"r{present.revision}"'


def no_tag(what: str, if_match: str) -> RefusedRequest:
    """The refusal of a header that has no strong tag of ours."""
    said = f"If-Match: {if_match[:80]!r} is not the tag of a {what}"
    remedy = "send the ETag of a GET" if _strong(if_match) else "send a strong ETag, without W/"
    return RefusedRequest(412, said, remedy, field="If-Match", value=if_match)


def persist(read: Callable[[], Schedule], act: Callable[[Schedule], Done]) -> Done:
    """Read and change; after a Conflict read again, up to RACES times. Raises Conflict if the schedule had not changed in between."""
    seen = read()
    for _ in range(RACES):
        try:
            return act(seen)
        except Conflict:
            before, seen = seen, read()
            if seen.version == before.version:
                raise
    return act(seen)


def _tags_in(header: str, about: str, schema: dict[str, Any]) -> Any:
    """A parameter of a route with the tags of a header, by ``guard_of``. Several lines of a header are one list."""
    declared = Header(None, alias=header, description=about, json_schema_extra=schema)

    def read(request: Request, _: str | None = declared) -> str | None:
        return guard_of(request.headers.getlist(header), header)

    return Depends(read)


_TAGS: dict[str, Any] = {"anyOf": [{"type": "string", "pattern": TAGS_PATTERN}, {"type": "null"}]}
IfMatch = Annotated[
    str | None, _tags_in("If-Match", 'the ETag that you saw: "r5" is for revision 5, whatever its tags', _TAGS)
]
IfNoneMatch = Annotated[str | None, _tags_in("If-None-Match", "the ETag that you have: 304 if it is current", _TAGS)]
OnlyCreates = Annotated[
    str | None, _tags_in("If-None-Match", "`*`: only create it; 412 if there is one", {"pattern": r"^\*$"})
]
