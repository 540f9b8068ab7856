"""Events to a webhook, signed as Standard Webhooks says (standardwebhooks.com): one POST for each event."""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from quarterjack.concurrency.pools import RequestPool
from quarterjack.domain.history.outgoing_event import EventTarget, OutgoingEvent
from quarterjack.domain.job import Context
from quarterjack.errors import EventFailed, EventRefused, InvalidInput, Misconfigured, Permanent
from quarterjack.ports.receivers import FailedEvents
from quarterjack.ready_jobs.http.exchange import JobResponse, Watchdog, exchange
from quarterjack.ready_jobs.http.guard import checked_url, guard_of
from quarterjack.ready_jobs.http.secrets import Secret, resolve

PREFIX = "whsec_"
LONGEST = 15.0  # seconds of one request
AT_ONCE = 8  # requests
_REFUSED = (400, 413, 422)  # of this event; any other status may be another one tomorrow
_OF_EVENT = (
    408,
    500,
    501,
    502,
    504,
)  # an event may be what the receiver fails on; any other status is about all events
_SHORTEST, _LONGEST_KEY = 24, 64  # bytes of a key, as the specification says
_PLAIN = "is not encrypted, and its host is not within the allowed networks"


class WebhookSink:
    """An https endpoint. ``networks`` are the allowed addresses in addition to public ones; within them http is allowed, too."""

    def __init__(
        self,
        target: EventTarget,
        *,
        networks: Sequence[str] = (),
        allow_env: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        place, name = target.secret or ("", "")
        self._url, self.types, self._now, self._allow_env = target.address, target.types, now, allow_env
        self._secret = Secret(**{place: name})
        try:
            host = str(checked_url(self._url).hostname)
        except InvalidInput as problem:
            raise problem.about("events") from None
        try:
            self._guard = guard_of((host,), networks)
        except InvalidInput as problem:
            raise problem.about("event_networks") from None
        if urlsplit(self._url).scheme == "http" and not self._may_be_plain(host):
            raise InvalidInput("events", self._url, _PLAIN, "use https://, or allow its network in event_networks")
        self._pool = RequestPool(AT_ONCE)
        self._keys()  # so that a bad secret is told at the start

    def _may_be_plain(self, host: str) -> bool:
        """Whether http is allowed, as far as it is known before a name is resolved."""
        try:
            return self._guard.is_named(ip_address(host))
        except ValueError:  # a name
            return bool(self._guard.networks)

    def publish(self, events: Sequence[OutgoingEvent]) -> FailedEvents:
        keys = self._keys()

        def send(event: OutgoingEvent) -> tuple[EventFailed | EventRefused | None, int]:
            try:
                self._send(event, keys)
            except (EventFailed, EventRefused) as problem:
                return problem, 0
            return None, 0

        answers = self._pool.map(send, list(events))
        return {event.id: problem for event, problem in zip(events, answers, strict=True) if problem is not None}

    def _keys(self) -> list[bytes]:
        """The present keys: while a secret is rotated it holds the new one and the old one, with a space between them."""
        return signing_keys(self._secret, allow_env=self._allow_env, setting="QUARTERJACK_EVENT_SECRET")

    def _send(self, event: OutgoingEvent, keys: Sequence[bytes]) -> None:
        body, at = event.encode().encode(), int(self._now())
        headers = {
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "quarterjack",
            **signed_headers(keys, event.id, at, body),
        }
        try:
            target = self._guard.admit(self._url)
            if target.scheme == "http" and not all(self._guard.is_named(ip_address(each)) for each in target.addresses):
                remedy = "use https://, or allow its network with QUARTERJACK_EVENT_NETWORKS"
                raise Misconfigured(f"QUARTERJACK_EVENTS={self._url!r}: {_PLAIN}; {remedy}")
            answer = exchange(target, "POST", headers | {"Host": target.authority}, body, Watchdog(LONGEST, _go_on))
        except (ConnectionError, TimeoutError) as problem:
            is_outage = isinstance(problem, ConnectionError)  # an event may be what takes the receiver too long
            raise EventFailed(f"webhook: event {event.id}: {problem}", is_outage=is_outage) from problem
        except Permanent as problem:
            remedy = "use a public address, or allow its network with QUARTERJACK_EVENT_NETWORKS"
            raise Misconfigured(
                f"QUARTERJACK_EVENTS={self._url!r}: its host is at no public address; {remedy}"
            ) from problem
        _check(answer, target.origin, event)


def _check(answer: JobResponse, origin: str, event: OutgoingEvent) -> None:
    if 200 <= answer.status <= 299:
        return
    problem = f"webhook: {origin} answered {answer.status} to event {event.id}"
    if answer.status in _REFUSED:
        raise EventRefused(problem)
    raise EventFailed(problem, is_outage=answer.status not in _OF_EVENT)


def signing_keys(secret: Secret, ctx: Context | None = None, *, allow_env: bool, setting: str) -> list[bytes]:
    """The keys that a secret holds now; the run of ``ctx`` masks them. Raises Misconfigured, which names the ``setting``, Unavailable."""
    text, _ = resolve(secret, ctx, allow_env=allow_env)
    words = text.split()
    if ctx is not None:  # a receiver may show the secret that it compares with: one of two, with or without its prefix
        ctx.effects.hide(setting, *words, *(word.removeprefix(PREFIX) for word in words))
    return [_key(word, setting) for word in words]


def _key(word: str, setting: str) -> bytes:
    """The key in a secret, which no error shows."""
    remedy = f"store {PREFIX} and the base64 of {_SHORTEST} to {_LONGEST_KEY} random bytes"
    try:
        key = base64.b64decode(word.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not word.startswith(PREFIX) or not _SHORTEST <= len(key) <= _LONGEST_KEY:
        raise Misconfigured(f"{setting}: what lies there is not a signing secret; {remedy}")
    return key


def signed_headers(keys: Sequence[bytes], event_id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks, with a signature by each key; ``at`` in epoch seconds."""
    signatures = " ".join(signature(key, event_id, at, body) for key in keys)
    return {"webhook-id": event_id, "webhook-timestamp": str(at), "webhook-signature": signatures}


def signature(key: bytes, event_id: str, at: int, body: bytes) -> str:
    """One signature in the form of the header; ``at`` in epoch seconds."""
    digest = hmac.digest(key, f"{event_id}.{at}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def _go_on() -> None:
    """A request of the historian cannot be cancelled."""
