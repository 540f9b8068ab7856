"""What the clients of one installation share: endpoints, the SDK's variables, credentials, the signer and the TLS context."""

from __future__ import annotations

import hmac
import re
import ssl
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from quarterjack.aws.http_connection import host_of
from quarterjack.concurrency.forks import PerProcess
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.settings import SdkVariables, Settings, sdk_variables

_PUBLIC = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-\d+")  # the regions of the partition `aws`
_REGION = re.compile(r"[a-z0-9-]{1,63}")
_HOSTS = {"dynamodbstreams": "streams.dynamodb"}  # where a host is not named as its service
_ACCOUNT = re.compile(r"\d{12}")


class Endpoint(NamedTuple):
    """Where the requests to one service go."""

    url: str  # without a slash at its end
    region: str


def endpoint_of(service: str, settings: Settings, session: AwsSession) -> Endpoint:
    """The endpoint of a service. Raises Misconfigured."""
    region, url = settings.region or "", settings.endpoint_of(service)
    if region and not _REGION.fullmatch(region):
        raise Misconfigured(
            f"AWS_REGION={region!r} is not a region; set it to the region of your stack, such as 'eu-west-1'"
        )
    if url is not None and region:
        return Endpoint(_checked(url, service), region)
    variables = session.variables
    if variables.has_files or variables.has_variants or not _PUBLIC.fullmatch(region):
        return _by_botocore(service, settings, session)
    return Endpoint(f"https://{_host(service, region, session)}", region)


def _host(service: str, region: str, session: AwsSession) -> str:
    """The host of a service in the partition `aws`. DynamoDB has hosts of single accounts."""
    account, mode = session.variables.account_id, session.variables.account_id_endpoints
    if service != "dynamodb" or mode == "disabled" or (account is None and mode == "preferred"):
        return f"{_HOSTS.get(service, service)}.{region}.amazonaws.com"
    if account is None or not _ACCOUNT.fullmatch(account):
        raise Misconfigured(
            f"AWS_ACCOUNT_ID={account!r} has to be 12 digits for the endpoint of an account; set it, or "
            "AWS_ACCOUNT_ID_ENDPOINT_MODE=disabled"
        )
    return f"{account}.ddb.{region}.amazonaws.com"


def _by_botocore(service: str, settings: Settings, session: AwsSession) -> Endpoint:
    """The endpoint that botocore takes: by profile, partition, FIPS, dual stack. A signed URL shows it; it is not requested."""
    from botocore.exceptions import BotoCoreError, NoRegionError  # noqa: PLC0415 (a Lambda function needs no botocore)

    try:
        client = session.botocore.create_client(
            service,
            endpoint_url=settings.endpoint_of(service),
            region_name=settings.region,
            aws_access_key_id="none",
            aws_secret_access_key="none",  # noqa: S106 (nothing is signed with it that is sent)
            aws_account_id=session.account_id(),
        )
        url = client.generate_presigned_url("list_tables") if service == "dynamodb" else client.meta.endpoint_url
    except NoRegionError as problem:
        raise no_region(settings, problem) from problem
    except (BotoCoreError, ValueError) as problem:
        raise Misconfigured(
            f"{service}: {problem}; set AWS_REGION, AWS_ENDPOINT_URL and the profile to where your stack is"
        ) from problem
    return Endpoint(_checked(url.partition("?")[0], service), client.meta.region_name)


def _checked(url: str, service: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port, (parts.hostname or "").encode("idna")
        is_plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and not parts.query
    except ValueError:  # a port or a host that is none
        is_plain = False
    if not is_plain:
        raise Misconfigured(
            f"AWS_ENDPOINT_URL={url!r} of {service} is not a URL; use http:// or https://, a host, and a port or a path if need be"
        )
    return url.rstrip("/")


CONTENT = "application/x-amz-json-1.0"
_TOKEN = "x-amz-security-token"  # noqa: S105 (a header's name)


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
        self._own, self._fixed = own, {"content-type": CONTENT, **(fixed or {})}
        self._signed = {**self._fixed, "host": host_of(parts)}
        self._begin = f"POST\n{quote(parts.path or '/', safe='/~')}\n\n"
        self._forms: dict[tuple[str, ...], tuple[str, str]] = {}  # by the names of the headers that vary
        self._steps = (region, service, "aws4_request")
        self._key: tuple[str, str, bytes] = ("", "", b"")  # secret, day, key derived from both

    def headers(self, wanted: str, body: bytes, credentials: Credentials, now: datetime) -> dict[str, str]:
        """All headers of a request but ``Host``, with its signature."""
        at = now.strftime("%Y%m%dT%H%M%SZ")
        varying = {"x-amz-date": at, self._own: wanted}
        if credentials.token:
            varying[_TOKEN] = credentials.token
        names, lines = self._form(tuple(varying))
        request = f"{self._begin}{lines % varying}\n{names}\n{sha256(body).hexdigest()}"
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

    def _form(self, varying: tuple[str, ...]) -> tuple[str, str]:
        """The names of the signed headers, and their lines with places for those that vary. Made once."""
        known = self._forms.get(varying)
        if known is None:
            values = {name: value.replace("%", "%%") for name, value in self._signed.items()}
            lines = values | {name: f"%({name})s" for name in varying}
            form = "".join(f"{name}:{lines[name]}\n" for name in sorted(lines))
            known = self._forms[varying] = ";".join(sorted(lines)), form
        return known

    def _signing_key(self, secret: str, day: str) -> bytes:
        """Derived anew once a day, and when the credentials change."""
        known = self._key  # read once: other threads replace it
        if known[:2] != (secret, day):
            key = f"AWS4{secret}".encode()
            for step in (day, *self._steps):
                key = hmac.digest(key, step.encode(), "sha256")
            known = self._key = (secret, day, key)
        return known[2]


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


def no_region(settings: Settings, problem: Exception) -> Misconfigured:
    """The error of a process without a region."""
    if settings.endpoint is None and not settings.endpoints:
        from quarterjack.local_installations import no_place  # noqa: PLC0415 (an error alone needs it)

        return no_place(problem)
    return Misconfigured(f"AWS_REGION is not set ({str(problem).rstrip('.')}); set it to the region of your stack")


def no_credentials() -> Misconfigured:
    """The error of a process without credentials."""
    from quarterjack.local_installations import local_remedy  # noqa: PLC0415 (as above)

    keys = local_remedy() or "or AWS_ENDPOINT_URL and keys for a local cloud"
    return Misconfigured(f"no AWS credentials; set AWS_PROFILE, {keys}")


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
