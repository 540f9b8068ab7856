"""AWS Signature Version 4 for requests of one shape: POST to one URL, the same headers each time, a body that is signed.

botocore's signer takes seven times as long, because it signs any request. A test compares the signatures of both.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Protocol
from urllib.parse import quote, urlsplit

CONTENT = "application/x-amz-json-1.0"
_TOKEN = "x-amz-security-token"  # noqa: S105 (a header's name)
_DEFAULT_PORT = {"http": ":80", "https": ":443"}


class Credentials(Protocol):
    """The fields of botocore's frozen credentials."""

    @property
    def access_key(self) -> str: ...
    @property
    def secret_key(self) -> str: ...
    @property
    def token(self) -> str | None: ...


class Signer:
    """Signs for one service in one region at one URL.

    ``own`` is the header, in lower case, whose value differs from request to request; ``fixed`` are further headers that do not.
    """

    def __init__(
        self, service: str, region: str, url: str, *, own: str = "x-amz-target", fixed: Mapping[str, str] | None = None
    ) -> None:
        parts = urlsplit(url)
        host = parts.netloc.lower().rpartition("@")[2].removesuffix(_DEFAULT_PORT.get(parts.scheme, ""))
        self._own, self._fixed = own, {"content-type": CONTENT, **(fixed or {})}
        self._signed = {**self._fixed, "host": host}
        self._begin = f"POST\n{quote(parts.path or '/', safe='/~')}\n\n"
        self._steps = (region, service, "aws4_request")
        self._key: tuple[str, str, bytes] = ("", "", b"")  # secret, day, key derived from both

    def headers(self, wanted: str, body: bytes, credentials: Credentials, now: datetime) -> dict[str, str]:
        """All headers of a request but ``Host``, with its signature."""
        at = now.strftime("%Y%m%dT%H%M%SZ")
        varying = {"x-amz-date": at, self._own: wanted}
        if credentials.token:
            varying[_TOKEN] = credentials.token
        signed = sorted({**self._signed, **varying}.items())
        names = ";".join([name for name, _ in signed])
        lines = "".join([f"{name}:{value}\n" for name, value in signed])
        request = f"{self._begin}{lines}\n{names}\n{sha256(body).hexdigest()}"
        scope = "/".join((at[:8], *self._steps))
        text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(self._signing_key(credentials.secret_key, at[:8]), text.encode(), "sha256").hex()
        return {
            **self._fixed,
            **varying,
            "authorization": f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, "
            f"Signature={signature}",
            "content-length": str(len(body)),
        }

    def _signing_key(self, secret: str, day: str) -> bytes:
        """Derived anew once a day, and when the credentials change."""
        if self._key[:2] != (secret, day):
            key = f"AWS4{secret}".encode()
            for step in (day, *self._steps):
                key = hmac.digest(key, step.encode(), "sha256")
            self._key = (secret, day, key)
        return self._key[2]
