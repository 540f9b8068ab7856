"""The HTTP status that an exception carries, by attributes which clients document. No client is imported.

| requests, httpx                                             | response.status_code |
| aiohttp, urllib.error, Kubernetes                           | status               |
| OpenAI, Anthropic, Azure, Elasticsearch, Starlette, gcloud  | status_code          |
| Stripe                                                      | http_status          |
| google.api_core                                             | code, an HTTPStatus  |

Any other ``code`` may be that of an exit, of SMTP or of a database. An error of botocore has a dict as ``response`` and so no status:
AWS answers 400 when it throttles (``ThrottlingException``), and 403 until a permission that was just granted has spread.
"""

from __future__ import annotations

from http import HTTPStatus

_NAMES = ("status_code", "status", "http_status")


def http_status(problem: BaseException) -> int | None:
    """The status, 100 to 599, of the exception itself; that of its cause does not count. None: it carries none."""
    for holder in (problem, _attribute(problem, "response")):
        for name in _NAMES:
            value = _attribute(holder, name)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return int(value)
    code = _attribute(problem, "code")
    return int(code) if isinstance(code, HTTPStatus) else None


def _attribute(holder: object, name: str) -> object:
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 (it is somebody else's property)
        return None
