"""Secrets by reference: declarations, payloads, results and logs hold the place of a value and never the value."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from minutehand.aws import Client
from minutehand.errors import InvalidInput, Misconfigured
from minutehand.settings import from_environment, variable

KEPT = 300.0  # seconds until a value is looked up again: a rotated one is used after five minutes
_HIDDEN = "[secret]"


@dataclass(frozen=True, kw_only=True)
class Secret:
    """A text that the worker looks up when it sends a request; give one of the three places.

    The worker's role needs ``ssm:GetParameter`` or ``secretsmanager:GetSecretValue`` on the named place, and ``kms:Decrypt`` if its
    key is one of yours. A value is looked up again after five minutes. Raises InvalidInput.
    """

    env: str | None = None  # name of a variable in the worker's environment
    parameter: str | None = None  # name of a parameter in SSM Parameter Store, decrypted
    secret: str | None = None  # name or ARN of a secret in Secrets Manager
    key: str | None = None  # of a secret that is a JSON object: which of its values
    form: str = "{}"  # what is sent, with the value in place of {}

    def __post_init__(self) -> None:
        places = [place for place in (self.env, self.parameter, self.secret) if place is not None]
        if len(places) != 1 or not isinstance(places[0], str) or not places[0]:
            raise InvalidInput("secret", self, "does not name one place", "give env=, parameter= or secret=")
        if self.key is not None and self.secret is None:
            raise InvalidInput("key", self.key, "goes with secret= only", "leave it out")
        if not isinstance(self.form, str) or self.form.count("{}") != 1:
            raise InvalidInput("form", self.form, "does not hold the value once", 'use a text with one {}: "Bearer {}"')


class Vault:
    """The values that this process has looked up."""

    def __init__(self) -> None:
        self._kept: dict[Secret, tuple[float, str]] = {}
        self._clients: dict[str, Client] = {}
        self._lock = threading.Lock()

    def value(self, secret: Secret) -> str:
        """The present value of a secret, without its form. Raises Misconfigured, Unavailable."""
        if secret.env is not None:
            return _variable(secret.env)
        with self._lock:
            known = self._kept.get(secret)
            if known is None or time.monotonic() - known[0] > KEPT:
                self._kept[secret] = known = (time.monotonic(), self._look_up(secret))
            return known[1]

    def _look_up(self, secret: Secret) -> str:
        if secret.parameter is not None:
            answer = self._client("ssm").call("get_parameter", Name=secret.parameter, WithDecryption=True)
            return str(answer["Parameter"]["Value"]).strip()
        answer = self._client("secretsmanager").call("get_secret_value", SecretId=secret.secret)
        return _keyed(secret, str(answer.get("SecretString", "")).strip())

    def _client(self, service: str) -> Client:
        if service not in self._clients:
            self._clients[service] = Client(service, from_environment())
        return self._clients[service]


vault = Vault()


def resolve(text: str | Secret) -> tuple[str, tuple[str, ...]]:
    """The text to send, and the values in it that must not appear in results, errors or logs."""
    if isinstance(text, str):
        return text, ()
    value = vault.value(text)
    return text.form.replace("{}", value), (value,)


def redact(hidden: Collection[str], text: str) -> str:
    """A text with the values of secrets replaced; an endpoint may echo the request."""
    for value in sorted(hidden, key=len, reverse=True):
        text = text.replace(value, _HIDDEN)
    return text


def _variable(name: str) -> str:
    found = variable(name)
    if not found:
        raise Misconfigured(f"{name} is not set in the worker's environment; set it where the worker runs")
    return found


def _keyed(secret: Secret, text: str) -> str:
    if secret.key is None:
        return text
    try:
        found: Any = json.loads(text)[secret.key]
    except (ValueError, TypeError, KeyError):
        raise Misconfigured(f"secret={secret.secret!r} is not a JSON object with the key {secret.key!r}") from None
    return str(found)
