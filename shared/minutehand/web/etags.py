"""Entity tags of schedules: ``"r<revision>-<hash>"``.

The revision is compared in the transaction; the hash, which also covers tags and description, before it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from minutehand.web.problems import RefusedRequest
from minutehand.web.shapes import json_bytes

_OURS = re.compile(r'"r([1-9][0-9]{0,14})(?:-([0-9a-f]{16}))?"')


def etag_of(document: Mapping[str, Any]) -> str:
    """The strong tag of a schedule's document."""
    return f'"r{document["revision"]}-{hashlib.sha256(json_bytes(document)).hexdigest()[:16]}"'


def expected_revision(if_match: str | None, current: Callable[[], Mapping[str, Any]]) -> int | None:
    """The revision that a request with ``If-Match`` is for; None: whichever is current. Raises RefusedRequest.

    ``current`` gives the document as it is now; it is asked only if the tag has a hash. ``"r5"`` is for revision 5, whatever its tags.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    found = _OURS.fullmatch(if_match.strip())
    if found is None:
        raise RefusedRequest(
            412, f"If-Match: {if_match[:80]!r} is no tag of a schedule", 'send the ETag of a GET, e.g. "r5"'
        )
    if found[2] is not None and (tag := etag_of(current())) != found[0]:
        raise RefusedRequest(412, f"you saw {found[0]}, but {tag} is current", "read it again")
    return int(found[1])
