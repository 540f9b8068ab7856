"""What the clients of one installation share: the SDK's variables, credentials, the TLS context, botocore's session."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from minutehand.aws.signer import Credentials
from minutehand.errors import Misconfigured, Unavailable
from minutehand.settings import SdkVariables, sdk_variables, this_process

_T = TypeVar("_T")


class PerProcess(Generic[_T]):
    """A value that each process makes for itself: a forked child leaves its parent's alone, whose locks may be held."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._made: tuple[int, _T] | None = None

    @property
    def value(self) -> _T:
        """Made at the first access in this process."""
        made, process = self._made, this_process()
        if made is None or made[0] != process:
            made = self._made = (process, self._make())
        return made[1]


class AwsSession:
    """One for all clients of an installation. botocore is loaded for what only it knows: profiles, roles, single sign-on."""

    def __init__(self, variables: SdkVariables | None = None) -> None:
        self.variables = variables or sdk_variables()
        self._context: ssl.SSLContext | None = None
        self._botocore: PerProcess[Any] = PerProcess(_botocore_session)
        self._chain: PerProcess[Any] = PerProcess(self._resolved)

    @property
    def botocore(self) -> Any:
        """Botocore's session."""
        return self._botocore.value

    def _resolved(self) -> Any:
        return self.botocore.get_credentials()

    def credentials(self) -> Credentials:
        """Those of this moment, refreshed when they are old. Raises Misconfigured, Unavailable."""
        if self.variables.keys is not None:
            return self.variables.keys
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 (a function with keys in its environment needs none)

        try:
            found = self._chain.value
            if found is not None:
                frozen: Credentials = found.get_frozen_credentials()
                return frozen
        except (BotoCoreError, RuntimeError) as problem:  # the latter where refreshed ones are old already
            raise Unavailable(f"credentials: {problem}") from problem
        raise no_credentials()

    def account_id(self) -> str | None:
        """The account of the credentials, as far as the environment or their profile says it."""
        if self.variables.keys is not None or self.variables.account_id is not None:
            return self.variables.account_id
        found: str | None = self.botocore.get_scoped_config().get("aws_account_id")
        return found

    def trust(self) -> ssl.SSLContext:
        """The TLS context: the standard library's defaults with the certificates that botocore trusts."""
        if self._context is None:
            self._context = _context(
                Path(self._configured("ca_bundle", self.variables.certificates) or _certificates())
            )
        return self._context

    def proxy(self, url: str) -> str | None:
        """The proxy for a URL, from the environment or the system."""
        if not self.variables.has_proxies:
            return None
        from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 (most processes have no proxy)

        parts, known = urlsplit(url), getproxies()
        if proxy_bypass(parts.netloc.rpartition("@")[2]):
            return None
        return known.get(parts.scheme) or known.get("all")

    def _configured(self, name: str, given: str | None) -> str | None:
        """A variable of the SDKs, or the profile's setting of that name."""
        if given is not None or not self.variables.has_files:
            return given
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 (as above)

        try:
            found: str | None = self.botocore.get_config_variable(name)
        except BotoCoreError as problem:  # there is no such profile
            raise Misconfigured(
                f"AWS_PROFILE, AWS_CONFIG_FILE: {problem}; set them to a profile that is there"
            ) from problem
        return found


def no_credentials() -> Misconfigured:
    """The error of a process without credentials."""
    return Misconfigured("no AWS credentials; set AWS_PROFILE, or AWS_ENDPOINT_URL and keys for a local cloud")


def _botocore_session() -> Any:
    import botocore.session  # noqa: PLC0415 (see AwsSession)

    return botocore.session.get_session()


def _context(certificates: Path) -> ssl.SSLContext:
    try:
        if certificates.is_dir():
            return ssl.create_default_context(capath=certificates)
        return ssl.create_default_context(cafile=certificates)
    except OSError as problem:
        raise Misconfigured(
            f"AWS_CA_BUNDLE={str(certificates)!r}: {problem}; set it to a file of certificates"
        ) from problem


def _certificates() -> Path:
    """Certifi's file if it is installed, or else botocore's, as botocore chooses."""
    for package in ("certifi", "botocore"):
        found = find_spec(package)  # finds it and does not load it
        if found is not None and found.origin is not None:
            return Path(found.origin).with_name("cacert.pem")
    raise AssertionError("botocore is one of our dependencies")
