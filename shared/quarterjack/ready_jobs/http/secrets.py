"""The secrets of requests: where they are, their values, and texts without them.

Declarations, payloads, results and logs hold the place of a secret and never its value.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from quarterjack.aws import Client
from quarterjack.domain.job import Context
from quarterjack.domain.names import check_secret
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.masking import MASK, encodings
from quarterjack.settings import from_environment, variable

KEPT = 300.0  # seconds until a value is looked up again; a rotated value is used from then on


@dataclass(frozen=True, kw_only=True)
class Secret:
    """A text that the worker looks up when it sends a request; give one of the four places.

    ``tenant`` is a secret of the run's own tenant, ``/<prefix>/tenants/<tenant>/<name>`` in SSM, never another's: workers may read it.
    For ``parameter`` and ``secret`` the worker's role needs ``ssm:GetParameter`` or ``secretsmanager:GetSecretValue`` on the place, and
    ``kms:Decrypt`` if its key is one of yours. A value is looked up again after five minutes. Raises InvalidInput.
    """

    tenant: str | None = None  # name of a secret of the run's tenant, as in ``ctx.secret(name)``
    env: str | None = (
        None  # name of a variable in the worker's environment; refused outside of `quarterjack local`, unless allowed
    )
    parameter: str | None = None  # name of a parameter in SSM Parameter Store, decrypted
    secret: str | None = None  # name or ARN of a secret in Secrets Manager
    key: str | None = None  # of a secret that is a JSON object: which of its values
    form: str = "{}"  # the sent text, with the value in place of {}

    def __post_init__(self) -> None:
        places = [place for place in (self.tenant, self.env, self.parameter, self.secret) if place is not None]
        if len(places) != 1 or not isinstance(places[0], str) or not places[0]:
            raise InvalidInput("secret", self, "does not name one place", "give tenant=, parameter=, secret= or env=")
        if self.tenant is not None:
            check_secret(self.tenant, "tenant")
        if self.key is not None and self.secret is None:
            raise InvalidInput("key", self.key, "goes with secret= only", "leave it out")
        if not isinstance(self.form, str) or self.form.count("{}") != 1:
            raise InvalidInput("form", self.form, "does not hold the value once", 'use a text with one {}: "Bearer {}"')

    @property
    def name(self) -> str:
        """The place, as messages name it."""
        return self.tenant or self.env or self.parameter or str(self.secret)


class Vault:
    """The values that this process has looked up."""

    def __init__(self) -> None:
        self._kept: dict[Secret, tuple[float, str]] = {}
        self._clients: dict[str, Client] = {}
        self._lock = threading.Lock()

    def value(self, secret: Secret, *, allow_env: bool = False) -> str:
        """The present value of a secret, without its form. Raises Misconfigured, Unavailable."""
        if secret.env is not None:
            return _of_environment(secret.env, allowed=allow_env)
        with self._lock:
            known = self._kept.get(secret)
            if known is None or time.monotonic() - known[0] > KEPT:
                self._kept[secret] = known = (time.monotonic(), self._look_up(secret))
            return known[1]

    def _look_up(self, secret: Secret) -> str:
        service = "secretsmanager" if secret.parameter is None else "ssm"
        if service not in self._clients:
            self._clients[service] = Client(service, from_environment())
        if secret.parameter is not None:
            answer = self._clients[service].call("get_parameter", Name=secret.parameter, WithDecryption=True)
            return _not_empty(answer["Parameter"]["Value"], f"the parameter {secret.parameter!r}")
        answer = self._clients[service].call("get_secret_value", SecretId=secret.secret)
        place = f"{secret.secret!r} in Secrets Manager"  # not secret=…, which redaction would mask
        text = _not_empty(answer.get("SecretString"), place)
        if secret.key is None:
            return text
        try:
            found = json.loads(text)[secret.key]
        except (ValueError, TypeError, LookupError):
            raise Misconfigured(f"{place} is not a JSON object with the key {secret.key!r}") from None
        return _not_empty(found, f"the key {secret.key!r} of {place}")


def check_env(names: Iterable[str], *, allowed: bool) -> None:
    """Raise Misconfigured for a variable that cannot be used as a secret here."""
    for name in names:
        _of_environment(name, allowed=allowed)


def _of_environment(name: str, *, allowed: bool) -> str:
    if not (allowed or from_environment().is_local):
        raise Misconfigured(
            f"Secret(env={name!r}): outside of `quarterjack local` a variable is not a place for a secret, because all who may see the "
            "worker's configuration see it; use parameter= or secret=, or declare allow_env_secrets=True"
        )
    found = (variable(name) or "").strip()
    if not found:
        raise Misconfigured(f"{name} is not set, or empty, in the worker's environment; set it where the worker runs")
    return found


def _not_empty(value: object, place: str) -> str:
    """An empty secret would send requests without authentication, and could not be masked."""
    text = "" if value is None else str(value).strip()
    if not text:
        raise Misconfigured(f"{place} is empty; store the value there")
    return text


vault = Vault()


def resolve(text: str | Secret, ctx: Context | None = None, *, allow_env: bool = False) -> tuple[str, tuple[str, ...]]:
    """The text to send, and the values in it that must not appear in results, errors or logs: the run masks them from now on."""
    if isinstance(text, str):
        return text, ()
    if text.tenant is not None:
        if ctx is None:
            raise Misconfigured(
                f"Secret(tenant={text.tenant!r}) is of a run's tenant, and this is not a run; use parameter= or secret="
            )
        value = ctx.secret(text.tenant)
    else:
        value = vault.value(text, allow_env=allow_env)
        if ctx is not None:
            ctx.effects.hide(text.name, value)
    return text.form.replace("{}", value), (value,)


def mask(hidden: Collection[str], text: str) -> str:
    """A text with the values of secrets replaced, in the usual encodings too; an endpoint may echo the request. Mask before cutting."""
    for form in _forms(hidden):
        text = text.replace(form, MASK)
    return text


def mask_short(hidden: Collection[str], text: str) -> str:
    """The same in any case of letters, for a text that names hosts: their names are read in lower case. Slow for a long text."""
    forms = "|".join(map(re.escape, _forms(hidden)))
    return re.sub(forms, MASK, text, flags=re.IGNORECASE) if forms else text


def without_beginning(hidden: Collection[str], text: str) -> str:
    """A masked text that was cut off, without the beginning of a secret at its end."""
    return text[: len(text) - max((len(form) for value in hidden for form in encodings(value)), default=0)]


def _forms(hidden: Collection[str]) -> list[str]:
    """The values in all their encodings, the longest first."""
    return sorted({form for value in hidden for form in encodings(value)}, key=len, reverse=True)
