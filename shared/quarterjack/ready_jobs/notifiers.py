"""Notifiers: receivers of notices that are declared in code and named by ``on_failure`` and ``on_recovery``.

>>> from quarterjack import Registry
>>> from quarterjack.ready_jobs.http import Secret
>>> from quarterjack.ready_jobs.notifiers import pagerduty_notifier
>>> jobs = Registry()
>>> pagerduty_notifier("oncall", routing_key=Secret(parameter="/acme/pagerduty"), registry=jobs)
'job:oncall'

Each is a job that is run once for each notice, with secrets that are looked up then. A notice that is sent again has the same id.
"""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

from quarterjack.aws.errors import ServiceError
from quarterjack.domain.job import Context
from quarterjack.domain.notice import ENDINGS, JOB, SCHEDULE_EVENTS, SCHEMA, Notice
from quarterjack.domain.options import is_topic
from quarterjack.domain.policies import Retry
from quarterjack.errors import InvalidInput, Permanent, QuarterjackError
from quarterjack.jobs import Registry, default_registry
from quarterjack.ready_jobs.http.guard import AddressGuard, checked_url, guard_of
from quarterjack.ready_jobs.http.request import Request
from quarterjack.ready_jobs.http.secrets import Secret, check_env, resolve
from quarterjack.ready_jobs.http.send import send_guarded
from quarterjack.ready_jobs.http.webhook import signed_headers, signing_keys
from quarterjack.settings import Settings, from_environment
from quarterjack.sqs.topics import SnsNotices
from quarterjack.values import replace

PATIENT = Retry(max_attempts=8, base=10.0, cap=900.0)  # for about twenty minutes
SLACK = ("hooks.slack.com", "hooks.slack-gov.com")
PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
PagerDutySeverity = Literal["critical", "error", "warning", "info"]
SEVERITIES = get_args(PagerDutySeverity)
_LONGEST_SUMMARY, _LONGEST_DEDUP_KEY = 1_024, 255  # characters: PagerDuty's limits
# Codes of SNS that the next attempt would meet, too.
_LASTING = ("InvalidParameter", "InvalidParameterValue", "NotFound")
_GREEN, _RED = ":large_green_circle:", ":red_circle:"


def webhook_notifier(
    name: str,
    *,
    url: str | Secret,
    signing: Secret,
    timeout: float = 15.0,
    hosts: Sequence[str] = (),
    networks: Sequence[str] = (),
    allow_env_secrets: bool = False,
    retry: Retry = PATIENT,
    registry: Registry = default_registry,
) -> str:
    """Declare a webhook that is signed as Standard Webhooks says; the text for ``on_failure`` and ``on_recovery``.

    ``signing`` is the place of the signing secret: ``whsec_`` and the base64 of 24 to 64 random bytes; while it is rotated, the new and
    the old one with a space between them. ``hosts``, ``networks`` and ``allow_env_secrets`` are as in ``http_job``: a ``url`` that is a
    Secret needs ``hosts``, and a URL without encryption needs ``networks``, within which it must lie.
    Raises InvalidInput, JobError.
    """
    if not isinstance(signing, Secret):
        raise InvalidInput("signing", "…", "is not a Secret", 'name its place: Secret(parameter="/acme/signing")')
    notifier = _Webhook(url, _guard(url, hosts, networks), timeout, allow_env_secrets, signing)
    return _declared(name, notifier, retry, registry)


def slack_notifier(
    name: str,
    *,
    url: str | Secret,
    timeout: float = 15.0,
    hosts: Sequence[str] = SLACK,
    networks: Sequence[str] = (),
    allow_env_secrets: bool = False,
    retry: Retry = PATIENT,
    registry: Registry = default_registry,
) -> str:
    """Declare an incoming webhook of Slack, whose URL is its password; the text for ``on_failure`` and ``on_recovery``.

    Mattermost and others that take the same body need ``hosts``. Raises InvalidInput, JobError.
    """
    notifier = _Slack(url, _guard(url, hosts, networks), timeout, allow_env_secrets)
    return _declared(name, notifier, retry, registry)


def pagerduty_notifier(
    name: str,
    *,
    routing_key: Secret,
    severity: PagerDutySeverity = "error",
    url: str = PAGERDUTY,
    timeout: float = 15.0,
    networks: Sequence[str] = (),
    allow_env_secrets: bool = False,
    retry: Retry = PATIENT,
    registry: Registry = default_registry,
) -> str:
    """Declare an integration of PagerDuty (Events API v2); the text for ``on_failure`` and ``on_recovery``.

    An incident of a schedule is one alert, which the recovery resolves: name the notifier in both. ``severity`` is critical, error,
    warning or info. ``url`` is another one for the service region EU. Raises InvalidInput, JobError.
    """
    if not isinstance(routing_key, Secret):
        raise InvalidInput("routing_key", "…", "is not a Secret", 'name its place: Secret(parameter="/acme/key")')
    if severity not in SEVERITIES:
        raise InvalidInput("severity", severity, "is not known", f"use one of {', '.join(SEVERITIES)}")
    if checked_url(url).scheme != "https":
        raise InvalidInput("url", url, "is not encrypted, and the routing key would be sent to it", "use https://")
    notifier = _PagerDuty(url, _guard(url, (), networks), timeout, allow_env_secrets, routing_key, severity)
    return _declared(name, notifier, retry, registry)


def sns_notifier(name: str, topic: str, *, retry: Retry = PATIENT, registry: Registry = default_registry) -> str:
    """Declare an SNS topic to which a worker publishes; the text for ``on_failure`` and ``on_recovery``.

    The worker's role needs ``sns:Publish`` on the topic. Raises InvalidInput, JobError.
    """
    if not is_topic(topic):
        remedy = "write e.g. arn:aws:sns:eu-central-1:123456789012:failures"
        raise InvalidInput("topic", topic, "is not the ARN of an SNS topic", remedy)
    return _declared(name, _Topic(topic), retry, registry)


def _declared(name: str, notifier: _Notifier, retry: Retry, registry: Registry) -> str:
    registry.job(name, retry=retry, check=notice_of)(notifier)
    return f"{JOB}{name}"


def notice_of(payload: object) -> Notice:
    """The notice that the payload of a notifier's run is. Raises InvalidInput."""
    remedy = "name the notifier in on_failure= or on_recovery=; docs/how-to/notifications.md has the fields of a notice"
    if not isinstance(payload, Mapping) or payload.get("schema") != SCHEMA:
        raise InvalidInput("payload", payload, f"is not a notice of schema {SCHEMA}", remedy)
    try:
        return Notice.of(payload)
    except (TypeError, ValueError, KeyError) as problem:
        raise InvalidInput("payload", payload, f"is not a notice ({problem})", remedy) from None


def _guard(url: str | Secret, hosts: Sequence[str], networks: Sequence[str]) -> AddressGuard:
    """The addresses that may be reached. A URL without encryption stays within the networks."""
    if isinstance(url, Secret):
        if not hosts:
            remedy = 'declare the host that may have it: hosts=("hooks.example.com",)'
            raise InvalidInput("hosts", hosts, "is empty, and the URL is a Secret", remedy)
        return guard_of(hosts, networks)
    parts = checked_url(url)
    guard = guard_of((str(parts.hostname),), networks)  # the host of a fixed URL needs no further permission
    if parts.scheme == "http":
        if not networks:
            remedy = 'use https://, or declare its network: networks=("10.20.0.0/16",)'
            raise InvalidInput("url", url, "is not encrypted", remedy)
        guard = replace(guard, public=False)
    try:
        guard.look(url)
    except Permanent as problem:
        raise InvalidInput("url", url, str(problem), "use another one, or declare networks=") from None
    return guard


class _Message(NamedTuple):
    body: str
    headers: Mapping[str, str] = {}
    hidden: tuple[str, ...] = ()  # values of secrets in the body


class _Notifier(ABC):
    """The function of a notifier's job."""

    def __call__(self, ctx: Context, payload: Any) -> Any:
        return self.tell(ctx, notice_of(payload))

    @abstractmethod
    def tell(self, ctx: Context, notice: Notice) -> Any:
        """Send a notice."""


@dataclass(frozen=True, eq=False, repr=False)  # without repr: a URL may be a password
class _Endpoint(_Notifier):
    """A URL that gets a POST. Redirects are not followed."""

    url: str | Secret
    guard: AddressGuard
    timeout: float
    allow_env: bool

    def __post_init__(self) -> None:
        Request(url=self.url, timeout=self.timeout)  # raises InvalidInput

    def tell(self, ctx: Context, notice: Notice) -> Any:
        message = self.message(ctx, notice)
        headers = {"Content-Type": "application/json", **message.headers}
        request = Request(url=self.url, method="POST", headers=headers, body=message.body, timeout=self.timeout)
        return send_guarded(ctx, request, self.guard, allow_env=self.allow_env, hidden=message.hidden)

    @property
    def env_secrets(self) -> tuple[str, ...]:
        """The variables that its secrets are read from: ``quarterjack doctor`` warns of them."""
        return tuple(each.env for each in vars(self).values() if isinstance(each, Secret) and each.env is not None)

    def check_secrets(self) -> None:
        """Raise Misconfigured for a variable that this process could not use: a worker asks when it starts."""
        check_env(self.env_secrets, allowed=self.allow_env)

    @abstractmethod
    def message(self, ctx: Context, notice: Notice) -> _Message:
        """The body, and what goes with it. Secrets are looked up for the run."""


@dataclass(frozen=True, eq=False, repr=False)
class _Webhook(_Endpoint):
    signing: Secret

    def check_secrets(self) -> None:
        super().check_secrets()
        _ = self.signing.env and signing_keys(self.signing, allow_env=self.allow_env, setting="signing")

    def message(self, ctx: Context, notice: Notice) -> _Message:
        name = f"evt_{notice.token}"
        kind = SCHEDULE_EVENTS.get(notice.kind, f"schedule.{notice.kind}")
        body = _json({"id": name, "type": kind, "timestamp": notice.at, "data": notice.document()})
        keys = signing_keys(self.signing, ctx, allow_env=self.allow_env, setting="signing")
        return _Message(body, signed_headers(keys, name, int(time.time()), body.encode()))


class _Slack(_Endpoint):
    def message(self, _ctx: Context, notice: Notice) -> _Message:
        mark = _GREEN if notice.kind in ENDINGS else _RED
        return _Message(_json({"text": f"{mark} *{_escaped(notice.subject)}*\n{_escaped(notice.text)}"}))


@dataclass(frozen=True, eq=False, repr=False)
class _PagerDuty(_Endpoint):
    routing_key: Secret
    severity: str

    def message(self, ctx: Context, notice: Notice) -> _Message:
        key, hidden = resolve(self.routing_key, ctx, allow_env=self.allow_env)
        is_over = notice.kind in ENDINGS
        event: dict[str, Any] = {
            "routing_key": key,
            "event_action": "resolve" if is_over else "trigger",
            "dedup_key": _dedup_key(notice),
            "client": "Quarterjack",
            "payload": {
                "summary": notice.text[:_LONGEST_SUMMARY],
                "source": notice.owner,
                "severity": self.severity,
                "timestamp": notice.at,
                "component": notice.job,
                "group": notice.tenant,
                "class": str(notice.kind),
                "custom_details": notice.document(),
            },
        }
        return _Message(_json(event), hidden=hidden)


@dataclass(frozen=True, eq=False, repr=False)
class _Topic(_Notifier):
    topic: str

    def tell(self, ctx: Context, notice: Notice) -> None:
        ctx.raise_if_cancelled()
        try:
            _topics(from_environment()).publish(self.topic, notice)
        except QuarterjackError as problem:
            cause = problem.__cause__
            if isinstance(cause, ServiceError) and cause.response["Error"]["Code"] in _LASTING:
                raise Permanent(f"{self.topic}: {problem}") from problem
            raise


@lru_cache(maxsize=4)
def _topics(settings: Settings) -> SnsNotices:
    return SnsNotices(settings)


def _dedup_key(notice: Notice) -> str:
    """The same for all notices of an incident."""
    key = f"quarterjack/{notice.owner}/{notice.incident}"
    return key if len(key) <= _LONGEST_DEDUP_KEY else f"quarterjack/{hashlib.sha256(key.encode()).hexdigest()}"


def _escaped(text: str) -> str:
    """A text without Slack's markup for links and mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
