"""Secrets of tenants in SSM Parameter Store: ``/<prefix>/tenants/<tenant>/<name>``, decrypted, and known for five minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from quarterjack.aws.client import Client
from quarterjack.aws.errors import DENIED, ServiceError
from quarterjack.concurrency.forks import HoldsLocks
from quarterjack.domain.names import all_secrets, check_name, secrets_of
from quarterjack.errors import Misconfigured, QuarterjackError, Unavailable
from quarterjack.ports.secrets import StoredSecret, no_secret, place_of, storable_value, usable

KEPT = 300.0  # seconds until a value is looked up again; a rotated value is used from then on
_AGAIN = 5.0  # seconds until a secret is asked for again that is missing, or may not be read
_MOST = 10_000  # secrets that one process remembers
_MISSING = "ParameterNotFound"


@dataclass
class _Known:
    lock: threading.Lock = field(default_factory=threading.Lock)  # so that one thread asks for all
    until: float = 0.0  # by the clock of the cache
    value: str = ""
    problem: Misconfigured | None = None


class SsmSecrets(HoldsLocks):
    """``connect`` makes the client when it is first needed: most processes look no secret up. Safe from several threads."""

    def __init__(
        self, connect: Callable[[], Client], prefix: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect, self._prefix, self._now = connect, prefix, now
        self._made: Client | None = None
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], _Known] = {}

    def get(self, tenant: str, name: str) -> str:
        place = place_of(self._prefix, tenant, name)
        with self._lock:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known.setdefault((tenant, name), _Known())
        with known.lock:
            if self._now() >= known.until:
                self._look_up(known, place, tenant, name)
            if known.problem is not None:
                raise Misconfigured(str(known.problem)) from known.problem.__cause__
            return known.value

    def _look_up(self, known: _Known, place: str, tenant: str, name: str) -> None:
        """Fails closed: a value that cannot be read again is used no longer."""
        known.value, known.problem, known.until = "", None, 0.0
        try:
            answer = self._call("get_parameter", place, Name=place, WithDecryption=True)
            known.value, known.until = usable(str(answer["Parameter"]["Value"]), place), self._now() + KEPT
        except Misconfigured as problem:
            known.problem = no_secret(place, tenant, name) if _code(problem) == _MISSING else problem
            known.problem.__cause__ = problem.__cause__
            known.until = self._now() + _AGAIN

    def put(self, tenant: str, name: str, value: str) -> None:
        place, text = place_of(self._prefix, tenant, name), storable_value(value)
        self._call("put_parameter", place, Name=place, Value=text, Type="SecureString", Overwrite=True)
        self._forget(tenant, name)

    def delete(self, tenant: str, name: str) -> bool:
        place = place_of(self._prefix, tenant, name)
        try:
            self._call("delete_parameter", place, Name=place)
        except Misconfigured as problem:
            if _code(problem) != _MISSING:
                raise
            return False
        finally:
            self._forget(tenant, name)
        return True

    def list(self, tenant: str) -> list[StoredSecret]:
        folder, found = secrets_of(self._prefix, tenant), list[StoredSecret]()
        more: dict[str, str] = {}
        while True:
            page = self._call("get_parameters_by_path", folder, Path=folder, Recursive=False, **more)
            found += [
                StoredSecret(
                    name=check_name(each["Name"].removeprefix(folder)),
                    changed_at=each.get("LastModifiedDate"),
                    version=int(each.get("Version", 1)),
                )
                for each in page["Parameters"]
            ]
            if not page.get("NextToken"):
                return sorted(found, key=lambda secret: secret.name)
            more = {"NextToken": page["NextToken"]}

    def _forget(self, tenant: str, name: str) -> None:
        with self._lock:
            self._known.pop((tenant, name), None)

    def _call(self, operation: str, place: str, **given: Any) -> dict[str, Any]:
        with self._lock:
            self._made = client = self._made or self._connect()
        try:
            return client.call(operation, **given)
        except QuarterjackError as problem:
            self._raise(problem, operation, place)

    def _raise(self, problem: QuarterjackError, operation: str, place: str) -> NoReturn:
        """The error with the parameter, and with the permission if that is missing."""
        code, cause = _code(problem), problem.__cause__
        if isinstance(problem, Unavailable):
            raise Unavailable(f"the parameter {place} cannot be read now: {problem}") from cause
        if code in DENIED:
            right = f"ssm:{operation.title().replace('_', '')} on parameter{all_secrets(self._prefix)}*"
            remedy = f"its role needs {right} (the construct's tenant_secrets gives it to workers), and kms:Decrypt if the key is yours"
            raise Misconfigured(f"this process may not call {operation} for the parameter {place}; {remedy}") from cause
        raise Misconfigured(f"the parameter {place}: {problem}") from cause


def _code(problem: BaseException) -> str:
    """The service's code of an error."""
    cause = problem.__cause__
    return str(cause.response["Error"]["Code"]) if isinstance(cause, ServiceError) else ""
