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
    """Signs for one service in one region at one URL."""

    def __init__(self, service: str, region: str, url: str) -> None:
        parts = urlsplit(url)
        self._host = parts.netloc.lower().rpartition("@")[2].removesuffix(_DEFAULT_PORT.get(parts.scheme, ""))
        self._begin = f"POST\n{quote(parts.path or '/', safe='/~')}\n\ncontent-type:{CONTENT}\nhost:{self._host}\n"
        self._scope = f"{region}/{service}/aws4_request"
        self._steps = (region, service, "aws4_request")
        self._key: tuple[str, str, bytes] = ("", "", b"")  # secret, day, key derived from both

    def headers(self, target: str, body: bytes, credentials: Credentials, now: datetime) -> dict[str, str]:
        """All headers of a request, with its signature."""
        at, token = now.strftime("%Y%m%dT%H%M%SZ"), credentials.token
        named, signed = "content-type;host;x-amz-date", f"{self._begin}x-amz-date:{at}\n"
        headers = {"Content-Type": CONTENT, "User-Agent": "minutehand", "X-Amz-Date": at, "X-Amz-Target": target}
        if token:
            named, signed = f"{named};x-amz-security-token", f"{signed}x-amz-security-token:{token}\n"
            headers["X-Amz-Security-Token"] = token
        named, signed = f"{named};x-amz-target", f"{signed}x-amz-target:{target}\n"
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
