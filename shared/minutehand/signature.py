"""AWS Signature Version 4 for requests of one shape: POST to one URL, the same headers each time, a body that is signed.

botocore's own signs whatever comes, and takes ten times as long for it; a test holds the two against each other.
"""

from __future__ import annotations

import hmac
from datetime import datetime
from hashlib import sha256
from typing import Protocol
from urllib.parse import quote, urlsplit

CONTENT = "application/x-amz-json-1.0"
_SESSION = "X-Amz-Security-Token"
_DEFAULT_PORT = {"http": ":80", "https": ":443"}


class Credentials(Protocol):
    """What botocore calls frozen credentials."""

    @property
    def access_key(self) -> str: ...
    @property
    def secret_key(self) -> str: ...
    @property
    def token(self) -> str | None: ...


class Signer:
    """Signs for one service in one region at one URL. ``own`` is the header in which requests say what they want."""

    def __init__(self, service: str, region: str, url: str, own: str = "X-Amz-Target") -> None:
        self._own, self._lower = own, own.lower()
        self._comes_first = self._lower < _SESSION.lower()  # headers are signed in the order of their names
        parts = urlsplit(url)
        self._host = parts.netloc.lower().rpartition("@")[2].removesuffix(_DEFAULT_PORT.get(parts.scheme, ""))
        self._begin = f"POST\n{quote(parts.path or '/', safe='/~')}\n\ncontent-type:{CONTENT}\nhost:{self._host}\n"
        self._scope = f"{region}/{service}/aws4_request"
        self._steps = (region, service, "aws4_request")
        self._key: tuple[str, str, bytes] = ("", "", b"")  # secret, day, key derived from both

    def headers(self, wanted: str, body: bytes, credentials: Credentials, now: datetime) -> dict[str, str]:
        """All headers of a request, with its signature."""
        at, token = now.strftime("%Y%m%dT%H%M%SZ"), credentials.token
        named, signed = "content-type;host;x-amz-date", f"{self._begin}x-amz-date:{at}\n"
        headers = {"Content-Type": CONTENT, "User-Agent": "minutehand", "X-Amz-Date": at, self._own: wanted}
        further = [(self._lower, wanted)]
        if token:
            further.insert(self._comes_first, ("x-amz-security-token", token))
            headers[_SESSION] = token
        for name, value in further:
            named, signed = f"{named};{name}", f"{signed}{name}:{value}\n"
        request = f"{signed}\n{named}\n{sha256(body).hexdigest()}"
        scope = f"{at[:8]}/{self._scope}"
        text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(self._signing_key(credentials.secret_key, at[:8]), text.encode(), "sha256").hex()
        headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={named}, Signature={signature}"
        )
        headers["Content-Length"] = str(len(body))
        return headers

    def _signing_key(self, secret: str, day: str) -> bytes:
        """Derived anew once a day, and when the credentials change."""
        if self._key[:2] != (secret, day):
            key = f"AWS4{secret}".encode()
            for step in (day, *self._steps):
                key = hmac.digest(key, step.encode(), "sha256")
            self._key = (secret, day, key)
        return self._key[2]
