"""Names and ids as segments of a URL's path, and cursors as values of its query.

Proxies decode or refuse ``%2F``, so the ``/`` of a name is written ``~``, which is in no name. A segment ``.`` or ``..`` would be taken for
a step through the path, so these two names begin with ``!``, which is in no name either. Ids of runs and cursors are base64url.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode

from quarterjack.domain.names import parse_run_id
from quarterjack.errors import InvalidInput

_DOTS = (".", "..")
NAME_PATTERN = r"^(!\.\.?|[A-Za-z0-9._:@~-]{1,200})$"  # of a name's segment
TENANT_PATTERN = r"^(!\.\.?|[A-Za-z0-9._-]{1,64})$"
HOLDER_PATTERN = r"^(!\.\.?|~?[A-Za-z0-9._-]{1,64})$"
RUN_PATTERN = "^[A-Za-z0-9_-]{1,800}$"


def name_in_url(name: str) -> str:
    """A name of a tenant, a schedule or a backfill as a segment of a path."""
    return f"!{name}" if name in _DOTS else name.replace("/", "~")


def name_of_url(segment: str) -> str:
    """The inverse of ``name_in_url``. The SDK checks whether it is a name."""
    return segment[1:] if segment.startswith("!") and segment[1:] in _DOTS else segment.replace("~", "/")


def run_in_url(run_id: str) -> str:
    """The id of a run as a segment of a path."""
    return urlsafe_b64encode(run_id.encode()).decode().rstrip("=")


def run_of_url(segment: str) -> str:
    """The inverse of ``run_in_url``. Raises InvalidInput."""
    run_id = _decoded(segment)
    if run_id is None or run_in_url(run_id) != segment:
        raise InvalidInput("run", segment, "is not the id of a run in base64url", "use the url_id of a run")
    return str(parse_run_id(run_id))


def cursor_in_url(cursor: str | None) -> str | None:
    """A cursor of the SDK as clients get it: a text that says nothing."""
    return None if cursor is None else run_in_url(cursor)


def cursor_of_url(text: str | None) -> str | None:
    """The inverse of ``cursor_in_url``. Raises InvalidInput."""
    if text is None:
        return None
    found = _decoded(text)
    if found is None or run_in_url(found) != text:
        remedy = "pass the cursor of the page before, with the same conditions and bounds"
        raise InvalidInput("cursor", text, "is not of this listing", remedy)
    return found


def _decoded(text: str) -> str | None:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):  # UnicodeDecodeError is one
        return None
