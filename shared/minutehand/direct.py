"""Straight to AWS, or to whatever answers at an endpoint: keys from the environment, connections that are kept.

It does what botocore does for the common case, a Lambda function above all, without loading botocore: that is half of a function's
cold start. Where anything else has a say (a profile, a proxy, an own bundle of certificates, a partition with names of its own),
``direct_to`` answers None, and ``hooked`` takes its place.
"""

from __future__ import annotations

import re
import ssl
import weakref
from collections import deque
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote, urlsplit

from minutehand.settings import Keys, Settings, plain_keys, this_process
from minutehand.transport import CONNECT_TIMEOUT, CONNECTIONS, READ_TIMEOUT, Answer, Unanswered, Unreachable
from minutehand.wire import Garbled, Wire

_PUBLIC = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-\d+")  # the regions of the partition `aws`
_REGION = re.compile(r"[a-z0-9-]{1,63}")


def direct_to(service: str, settings: Settings, path: str = "/") -> Direct | None:
    """A link, if the environment says all that one needs. ``path`` is where its requests go."""
    keys, region = plain_keys(own_endpoint=settings.endpoint is not None), settings.region or ""
    url = settings.endpoint or (f"https://{service}.{region}.amazonaws.com" if _PUBLIC.fullmatch(region) else "")
    if keys is None or not _REGION.fullmatch(region) or not _is_plain(url):
        return None
    return Direct(url.rstrip("/") + path, region, keys)


def _is_plain(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port, (parts.hostname or "").encode("idna")
    except ValueError:  # a port that is none, a host that is none
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc and not parts.query


class Direct:
    """Connections to one URL, made when they are needed and used again, the latest first."""

    def __init__(self, url: str, region: str, keys: Keys) -> None:
        self.url, self.region, self._keys = url, region, keys
        parts = urlsplit(url)
        self._host, self._port, self._secure = parts.hostname or "", parts.port, parts.scheme == "https"
        self._path = quote(parts.path, safe="/~")
        self._kept: deque[Wire] = deque()
        self._process = this_process()
        weakref.finalize(self, _close, self._kept)
        self._context: ssl.SSLContext | None = None
        self._lock = Lock()

    def credentials(self) -> Keys:
        return self._keys

    def asked(self, _: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    def answered(self, *_: object) -> None:
        """Nobody listens."""

    def send(self, _: str, headers: dict[str, str], body: bytes) -> Answer:
        """One request over a connection that nobody else has meanwhile. Raises Unanswered."""
        wire = self._wire()
        try:
            said = wire.post(headers, body)
        except (OSError, Garbled) as problem:
            wire.close()
            raise Unanswered(f"{self.url}: {str(problem) or type(problem).__name__}") from problem
        if said.keeps and len(self._kept) < CONNECTIONS:
            self._kept.append(wire)
        else:
            wire.close()
        return Answer(said.status, said.headers, said.body)

    def _wire(self) -> Wire:
        if self._process != this_process():  # a fork's copy: its parent goes on with those
            self._kept, self._process = deque(), this_process()
        while True:
            try:
                kept = self._kept.pop()
            except IndexError:
                return self._connected()
            if not kept.is_dropped():
                return kept
            kept.close()

    def _connected(self) -> Wire:
        context = self._trusted() if self._secure else None
        try:
            return Wire(self._host, self._port, self._path, timeouts=(CONNECT_TIMEOUT, READ_TIMEOUT), context=context)
        except OSError as problem:
            raise Unreachable(f"could not connect to {self.url}: {problem}") from problem

    def _trusted(self) -> ssl.SSLContext:
        """As botocore trusts; read once, when the first connection needs it."""
        with self._lock:
            if self._context is None:
                self._context = _trusting(Path(self._keys.certificates or _certificates()))
            return self._context


def _close(wires: Iterable[Wire]) -> None:
    for wire in wires:
        wire.close()


def _trusting(certificates: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if certificates.is_dir():
        context.load_verify_locations(capath=certificates)
    else:
        context.load_verify_locations(certificates)
    return context


def _certificates() -> Path:
    """Of certifi, if it is installed, or else botocore's, as botocore chooses."""
    for package in ("certifi", "botocore"):
        found = find_spec(package)  # finds it and does not load it
        if found is not None and found.origin is not None:
            return Path(found.origin).with_name("cacert.pem")
    raise AssertionError("botocore is one of our dependencies")
