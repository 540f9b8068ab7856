"""What a URL of a tenant's must not reach, whatever it is written as."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from quarterjack.errors import InvalidInput, Permanent
from quarterjack.ready_jobs.http.guard import checked_url, guard_of

PRIVATE = [
    "169.254.169.254",  # instance metadata
    "169.254.170.2",  # credentials of a container's task
    "127.0.0.1",  # Lambda's runtime API is there
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",  # an IPv4 address in the old way
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",  # the same through NAT64
    "64:ff9b:1::1",
    "2002:a9fe:a9fe::1",  # the same through 6to4
    "fd00:ec2::254",
    "192.0.0.192",
    "192.88.99.1",
    "3fff::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
]
PUBLIC = ["1.1.1.1", "52.94.236.248", "2606:4700:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"]


def url_of(address: str) -> str:
    return f"https://[{address}]/" if ":" in address else f"https://{address}/"


def answering(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """A resolver: the next address for each question, the last one from then on."""
    asked: list[str] = []

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        address = addresses[min(len(asked), len(addresses)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in address.split()]

    monkeypatch.setattr("quarterjack.ready_jobs.http.guard.socket.getaddrinfo", resolve)
    return asked


@pytest.mark.parametrize("address", PRIVATE)
def test_no_address_but_those_of_the_internet(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Permanent, match="not at a public address"):
        guard_of((), ()).look(url_of(address))
    answering(monkeypatch, address)
    with pytest.raises(Permanent, match="not at a public address"):
        guard_of((), ()).admit("https://innocent.example/")
    answering(monkeypatch, f"1.1.1.1 {address}")  # one bad one among those of a name is enough
    with pytest.raises(Permanent, match="not at a public address"):
        guard_of((), ()).admit("https://innocent.example/")


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_reached(address: str) -> None:
    assert guard_of((), ()).admit(url_of(address)).addresses


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "localhost", "LOCALHOST"])
def test_an_address_in_disguise_is_what_it_resolves_to(host: str) -> None:
    """This asks the machine's own resolver."""
    with pytest.raises(Permanent, match="not at a public address"):
        guard_of((), ()).admit(f"http://{host}/")


def test_a_name_is_asked_once_and_the_answer_is_where_the_connection_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that answers otherwise the second time gains nothing."""
    asked = answering(monkeypatch, "1.1.1.1", "169.254.169.254")
    assert guard_of((), ()).admit("https://rebinding.example/").addresses == ("1.1.1.1",)
    assert asked == ["rebinding.example"]


def test_networks_that_are_declared_are_reached_and_no_others() -> None:
    guard = guard_of((), ("10.0.0.0/8", "fd12::/16"))
    assert guard.look("https://10.9.8.7/").hostname == "10.9.8.7"
    assert guard.look("https://[fd12::7]/").hostname == "fd12::7"
    assert guard.look("https://[::ffff:10.9.8.7]/").hostname == "::ffff:10.9.8.7"
    with pytest.raises(Permanent):
        guard.look("http://169.254.169.254/")


@pytest.mark.parametrize("host", ["api.example.com", "API.example.com", "eu.crm.example.org"])
def test_hosts_that_are_declared(host: str) -> None:
    assert guard_of(("api.example.com", "*.example.org"), ()).look(f"https://{host}/").hostname == host.lower()


@pytest.mark.parametrize(
    "host", ["example.com", "evil-api.example.com", "example.org", "example.org.evil.net", "1.1.1.1"]
)
def test_hosts_that_are_not(host: str) -> None:
    with pytest.raises(Permanent, match="not among the hosts"):
        guard_of(("api.example.com", "*.example.org"), ()).look(f"https://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        7,
        "example.com",
        "//example.com",
        "ftp://example.com",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "https://",
        "https://:443/",
        "https://a@example.com/",
        "https://example.com\\@evil.net/",
        "https://exa mple.com/",
        "https://example.com/\n",
        "https://example.com:0/",
        "https://example.com:x/",
        "https://[::1/",
        "https://bücher.example/",
        "https://example.com/" + "x" * 2_000,
    ],
)
def test_what_is_no_url_of_a_job(url: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^url="):
        checked_url(url)


def test_a_name_that_nobody_knows_may_be_known_later() -> None:
    with pytest.raises(ConnectionError, match="cannot be resolved"):
        guard_of((), ()).admit("https://nowhere.invalid/")
