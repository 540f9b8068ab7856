"""AddressGuard decides which addresses a request may go to. A tenant's URL must not reach addresses that only the worker can reach.

The host name is resolved once, all its addresses are checked, and the connection is made to one of them. A second resolution for the
connection could return another address, such as that of the metadata service, after a public one had passed the check.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from urllib3.exceptions import HTTPError

from quarterjack.errors import InvalidInput, Permanent

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MOST_URL = 2_000  # characters
_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")
_UNICAST = IPv6Network("2000::/3")  # global unicast: the addresses that the Internet routes
_CARRIES_V4 = (
    "::/96",
    "::ffff:0:0/96",
    "64:ff9b::/96",
)  # prefixes of addresses whose last 32 bits are an IPv4 address; 64:ff9b:: is NAT64
# Not for the Internet's hosts, whatever the ``ipaddress`` of this Python says, which differs between its patch releases.
_SPECIAL = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20")))
_6TO4 = IPv6Network("2002::/16")  # bits 16 to 48 are an IPv4 address


@dataclass(frozen=True, kw_only=True)
class CheckedAddress:
    scheme: str  # "http" or "https"
    host: str  # the name or address as the URL has it
    port: int
    path: str  # with its query
    addresses: tuple[str, ...]  # each of them checked, in the resolver's order

    @property
    def authority(self) -> str:
        """Host and port as the ``Host`` header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme and authority, for logs and errors; path and query are left out because they may hold a secret."""
        return f"{self.scheme}://{self.authority}"

    def told(self, problem: BaseException | None) -> str:
        """An error of the connection without the addresses in it, which may be internal ones."""
        while isinstance(problem, HTTPError) and isinstance(problem.__cause__ or problem.__context__, OSError):
            problem = problem.__cause__ or problem.__context__
        text = f"{type(problem).__name__}: {problem}"
        for address in self.addresses:
            text = text.replace(address, self.host)
        return text


@dataclass(frozen=True)
class AddressGuard:
    """The hosts and addresses that a job may reach."""

    hosts: tuple[str, ...] = ()  # allowed names; "*.example.com" allows its subdomains; empty: any name
    networks: tuple[Network, ...] = ()  # allowed in addition to public addresses
    public: bool = True  # whether public addresses are allowed at all

    def admit(self, url: str) -> CheckedAddress:
        """The target of a URL. Raises Permanent for an address that is not allowed, ConnectionError for a name that does not resolve."""
        parts = self.look(url)
        host, port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as problem:  # UnicodeError: a label of more than 63 characters
            raise ConnectionError(f"{host} cannot be resolved: {problem}") from None
        addresses = [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        for address in addresses:
            self._check_address(host, address)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return CheckedAddress(
            scheme=parts.scheme, host=host, port=port, path=path, addresses=tuple(map(str, addresses))
        )

    def look(self, url: str) -> SplitResult:
        """The parts of a URL, checked as far as possible without resolving its name. Raises Permanent."""
        try:
            parts = checked_url(url)
        except InvalidInput as problem:  # the URL itself may be a secret
            raise Permanent(f"the URL cannot be called: {problem.problem}; {problem.remedy}") from None
        host = str(parts.hostname)
        suffixes = tuple(name[1:] for name in self.hosts if name.startswith("*."))
        if self.hosts and host not in self.hosts and not host.endswith(suffixes):
            raise Permanent(f"{host} is not among the hosts of this job; declare it with hosts=...")
        with contextlib.suppress(ValueError):  # a name
            self._check_address(host, ip_address(host))
        return parts

    def is_named(self, address: Address) -> bool:
        """Whether an address lies in one of the networks."""
        return any(one in network for network in self.networks for one in (address, _carried(address)))

    def _check_address(self, host: str, address: Address) -> None:
        if self.is_named(address):
            return
        if not self.public:
            raise Permanent(
                f"{host} is not within the networks of this job, and its URL is not encrypted; use https://"
            )
        carried = _carried(address)
        is_odd = carried.is_multicast or any(carried in network for network in _SPECIAL)
        if is_odd or not carried.is_global or (carried.version == 6 and carried not in _UNICAST):
            # Without the address: a tenant who may name hosts must not learn where names of the inside point to.
            raise Permanent(f"{host} is not at a public address; to allow it for this job, declare networks=...")


def guard_of(hosts: Sequence[str], networks: Sequence[str]) -> AddressGuard:
    for name, given in (("hosts", hosts), ("networks", networks)):
        if isinstance(given, str) or not all(isinstance(one, str) and one for one in given):
            raise InvalidInput(name, given, "is not a list of texts", 'use e.g. ("api.example.com",)')
    try:
        allowed = tuple(ip_network(network) for network in networks)
    except ValueError as problem:
        raise InvalidInput("networks", networks, str(problem), 'use e.g. "10.0.0.0/8" or "127.0.0.1"') from None
    return AddressGuard(tuple(host.lower() for host in hosts), allowed)


def checked_url(url: object) -> SplitResult:
    """The parts of a URL of http or https. Raises InvalidInput."""
    remedy = "use https://host/path, percent-encoded, without user and password"
    if not isinstance(url, str) or len(url) > MOST_URL or not _URL.fullmatch(url):
        raise InvalidInput("url", url, f"is not a URL of at most {MOST_URL:,} characters", remedy)
    try:
        parts = urlsplit(url)
        fits = parts.scheme in _PORTS and parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        fits = False
    if not fits:
        raise InvalidInput("url", url, "is not a URL that a job can call", remedy)
    return parts


def _carried(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, IPv6Address):
        if any(address in IPv6Network(prefix) for prefix in _CARRIES_V4) and int(address) > 1:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        if address in _6TO4:
            return IPv4Address(int(address) >> 80 & 0xFFFFFFFF)
    return address
