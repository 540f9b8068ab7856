"""Whom a load balancer has signed in: only what it has signed itself, now, for this client, and only by its own way in."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fastapi import Request
from jwt import InvalidAlgorithmError, PyJWS
from jwt.algorithms import ECAlgorithm
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.web import load_balancer
from quarterjack.web.load_balancer import LoadBalancer, LoadBalancerAccess, keys_at
from quarterjack.web.problems import RefusedRequest

from tests.support.http_endpoint import serving
from tests.support.signed_in import ARN, ELB, KEY, KID, NOW, OTHER, OURS, SECOND, padded, text, token


class Published:
    """The keys of a region."""

    def __init__(self) -> None:
        self.keys, self.asked = {KID: text(KEY)}, list[str]()

    def __call__(self, kid: str) -> bytes | None:
        self.asked.append(kid)
        return self.keys.get(kid)


@pytest.fixture
def published() -> Published:
    return Published()


@pytest.fixture
def access(published: Published) -> LoadBalancerAccess:
    return LoadBalancerAccess(OURS, lambda: NOW, published)


def request(*tokens: str, event: Any = ELB, method: str = "GET", **headers: str) -> Request:
    sent = [(b"x-amzn-oidc-data", each.encode()) for each in tokens]
    sent += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "path": "/", "headers": sent, "aws.event": event})


def test_who_signed_in_is_a_principal_of_its_own(access: LoadBalancerAccess, published: Published) -> None:
    for _ in range(3):
        found = access(request(token(KEY)))
        assert found is not None
        assert found.principal == "oidc:login.acme.example/ada"
    assert published.asked == [KID]


def forged(value: str) -> str:
    head, _, signature = value.split(".")
    return f"{head}.{padded(json.dumps({'sub': 'root'}).encode())}.{signature}"


@pytest.mark.parametrize(
    "make",
    [
        lambda: token(KEY, exp=NOW // 1000),
        lambda: token(KEY, exp=str(NOW)),
        lambda: token(KEY, exp=True),
        lambda: token(KEY, {"sub": "ada", "exp": NOW // 1000 - 1}),
        lambda: token(KEY, signer=ARN.replace("/jobs/", "/theirs/")),
        lambda: token(KEY, alg="none"),
        lambda: token(KEY, alg="HS256"),
        lambda: token(KEY, iss="https://login.evil.example"),
        lambda: token(KEY, {"sub": "ada", "iss": "https://login.evil.example"}),
        lambda: token(KEY, client="other"),
        lambda: token(KEY, crit=["x"]),
        lambda: token(SECOND),
        lambda: token(KEY, kid=OTHER),
        lambda: forged(token(KEY)),
        lambda: token(KEY, alg="none").rpartition(".")[0] + ".",
        lambda: token(KEY).rpartition(".")[0] + "." + padded(b"\0" * 64),
        lambda: token(KEY).rpartition(".")[0] + ".é",
        lambda: token(KEY, {"name": "no subject"}),
        lambda: token(KEY, {"sub": "a\nb"}),
        lambda: token(KEY, {"sub": "a" * 300}),
        lambda: "a.b.c",
        lambda: "",
        lambda: "W10=.W10=.W10=",
    ],
)
def test_what_it_has_not_said_is_not_believed(access: LoadBalancerAccess, make: Callable[[], str]) -> None:
    access_of = access.claims_of(make())
    assert access_of is None or access(request(make().encode().decode("latin-1"))) is None


def resigned(head: Mapping[str, Any], sign: Callable[[bytes], bytes], claims: bytes = b'{"sub": "ada"}') -> str:
    """A token with any header, padded as a load balancer's, with any signature."""
    about = {"kid": KID, "signer": ARN, "iss": OURS.issuer, "client": OURS.client, "exp": NOW // 1000 + 120, **head}
    signed = f"{padded(json.dumps(about).encode())}.{padded(claims)}"
    return f"{signed}.{padded(sign(signed.encode()))}"


def by_hmac(signed: bytes) -> bytes:
    return hmac.digest(text(KEY), signed, "sha256")


def by_key(signed: bytes) -> bytes:
    return ECAlgorithm(ECAlgorithm.SHA256).sign(signed, KEY)


def in_der(signed: bytes) -> bytes:
    return KEY.sign(signed, ec.ECDSA(SHA256()))


@pytest.mark.parametrize(
    ("head", "sign"),
    [
        ({"alg": "HS256"}, by_hmac),
        ({"alg": "ES256"}, by_hmac),
        ({"alg": "none"}, lambda _: b""),
        ({"alg": "None"}, lambda _: b""),
        ({"alg": ["ES256"]}, by_key),
        ({}, by_key),
        ({"alg": "ES256"}, in_der),
        ({"alg": "ES256"}, lambda signed: by_key(signed) + b"\0"),
        ({"alg": "ES256"}, lambda signed: b""),
        ({"alg": "ES256", "crit": ["b64"], "b64": True}, by_key),
        ({"alg": "ES256", "crit": ["b64"], "b64": False}, by_key),
        ({"alg": "ES256", "crit": []}, by_key),
        ({"alg": "ES256", "b64": False}, by_key),
    ],
)
def test_a_token_chooses_neither_algorithm_nor_form(
    access: LoadBalancerAccess, head: dict[str, Any], sign: Callable[[bytes], bytes]
) -> None:
    assert access.claims_of(resigned({"alg": "ES256"}, by_key))
    assert access.claims_of(resigned(head, sign)) is None


def test_the_reader_knows_no_other_algorithm_whatever_it_is_allowed() -> None:
    for head, sign in ({"alg": "HS256"}, by_hmac), ({"alg": "none"}, lambda _: b""):
        with pytest.raises(InvalidAlgorithmError):
            load_balancer._JWS.decode(resigned(head, sign), text(KEY), algorithms=["ES256", "HS256", "none"])


@pytest.mark.parametrize("subject", ["ada", "adam", "adams"])  # no padding, one and two characters
def test_padding_belongs_to_what_is_signed(access: LoadBalancerAccess, subject: str) -> None:
    given = token(KEY, {"sub": subject})
    head, claims, signature = given.split(".")
    assert access.claims_of(given)
    assert signature.endswith("==")
    assert access.claims_of(f"{head}.{claims}.{signature.rstrip('=')}")
    bare = f"{head.rstrip('=')}.{claims.rstrip('=')}.{signature}"
    assert bool(access.claims_of(bare)) is (bare == given)
    for wrong in f"{given}=", given[:-1], f"{head}=.{claims}.{signature}", f"{head}.{claims}====.{signature}":
        assert access.claims_of(wrong) is None


def test_one_signature_has_one_spelling(access: LoadBalancerAccess) -> None:
    head, claims, signature = token(KEY).split(".")
    assert signature[-3] in "AQgw"  # the last of 64 bytes leaves four bits of its character unused
    for wrong in (
        signature[:-3] + chr(ord(signature[-3]) + 1) + "==",
        f"{signature[:-2]}!!!!",
        f" {signature}",
        f"{signature}\n",
        f"{signature[:40]}\n{signature[40:]}",
        signature[:-3].replace("-", "+").replace("_", "/") + "+==",
    ):
        assert access.claims_of(f"{head}.{claims}.{wrong}") is None


def test_the_size_of_a_token_is_bounded_before_it_is_read(
    access: LoadBalancerAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_length(extra: int) -> str:
        return token(KEY, {"sub": "ada", "groups": "x" * extra})

    assert access.claims_of(of_length(47_000))
    with monkeypatch.context() as patched:
        patched.setattr(PyJWS, "_load", lambda *_: pytest.fail("it was read"))
        assert access.claims_of(of_length(48_000)) is None


@pytest.mark.parametrize("claims", [b"[" * 40_000, b"[]", b"", b"\xff", b"{", b"1" * 5_000, b'{"exp": null}'])
def test_claims_that_are_no_object_say_nothing(access: LoadBalancerAccess, claims: bytes) -> None:
    assert access.claims_of(resigned({"alg": "ES256"}, by_key, claims)) is None
    nested = f"{padded(claims)}.{padded(claims)}.{padded(claims)}"
    assert access.claims_of(nested) is None


@pytest.mark.parametrize("kid", ["../x", f"{KID}/..", f"{KID}?", "", KID.upper(), f"{KID}\n", 7, None])
def test_no_other_address_is_asked_for_a_key(access: LoadBalancerAccess, published: Published, kid: Any) -> None:
    assert access(request(token(KEY, kid=kid))) is None
    assert not published.asked


def test_a_new_key_is_found_and_few_are_kept(access: LoadBalancerAccess, published: Published) -> None:
    assert access(request(token(KEY)))
    published.keys[OTHER] = text(SECOND)
    assert access(request(token(SECOND, kid=OTHER)))
    assert access(request(token(KEY, kid=OTHER))) is None
    for number in range(100, 140):
        published.keys[f"{KID[:-3]}{number}"] = text(KEY)
        assert access(request(token(KEY, kid=f"{KID[:-3]}{number}")))
    assert len(access._keys._known) == 16


def test_a_key_of_another_kind_checks_nothing(access: LoadBalancerAccess, published: Published) -> None:
    for wrong in b"", b"<html>", text(ec.generate_private_key(ec.SECP384R1())):
        published.keys[KID] = wrong
        assert access(request(token(KEY))) is None


@pytest.mark.parametrize("event", [None, {}, {"requestContext": {"http": {}}}, {"requestContext": {"elb": {}}}])
def test_a_true_token_by_another_way_in_is_ignored(access: LoadBalancerAccess, event: Any) -> None:
    assert access(request(token(KEY), event=event)) is None


def test_two_headers_are_none(access: LoadBalancerAccess) -> None:
    assert access(request(token(KEY), token(KEY))) is None


@pytest.mark.parametrize("site", [{}, {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}])
def test_another_site_changes_nothing(access: LoadBalancerAccess, site: dict[str, str]) -> None:
    with pytest.raises(RefusedRequest):
        access(request(token(KEY), method="POST", **site))
    assert access(request(token(KEY), method="POST", sec_fetch_site="same-origin"))


def test_without_the_keys_it_is_unavailable() -> None:
    def down(kid: str) -> bytes:
        raise Unavailable(kid)

    with pytest.raises(Unavailable):
        LoadBalancerAccess(OURS, lambda: NOW, down)(request(token(KEY)))


def test_the_address_of_the_keys_is_of_the_region() -> None:
    assert OURS.keys_url == "https://public-keys.auth.elb.eu-central-1.amazonaws.com/"
    for wrong in "", "arn:aws:s3:::x", ARN.replace("eu-central-1", "evil.example/"):
        with pytest.raises(InvalidInput):
            LoadBalancer(arn=wrong, issuer="https://a.example", client="c")


def test_a_key_is_fetched_once_by_its_id() -> None:
    with serving() as endpoint:
        endpoint.answers((200, {}, text(KEY)))
        access = LoadBalancerAccess(OURS, lambda: NOW, keys_at(f"{endpoint.url}/"))
        assert access(request(token(KEY)))
        assert access(request(token(KEY)))
        assert [(asked.method, asked.path) for asked in endpoint.asked] == [("GET", f"/{KID}")]


def test_a_redirect_is_no_key_and_is_not_followed() -> None:
    with serving() as endpoint:
        endpoint.answers((302, {"Location": "/elsewhere"}, b""), 404)
        fetch = keys_at(f"{endpoint.url}/")
        assert fetch(KID) is None
        assert fetch(KID) is None
        assert [asked.path for asked in endpoint.asked] == [f"/{KID}"] * 2


def test_no_more_of_an_answer_is_read_than_a_key_can_have() -> None:
    with serving() as endpoint:
        endpoint.answers((200, {}, b"x" * 1_000_000), (200, {}, text(KEY)))
        fetch = keys_at(f"{endpoint.url}/")
        assert fetch(KID) == b"x" * 4_096
        assert fetch(KID) == text(KEY)


def test_a_host_that_fails_or_is_not_there_is_unavailable() -> None:
    with serving() as endpoint:
        fetch = keys_at(f"{endpoint.url}/")
        endpoint.answers(503)
        with pytest.raises(Unavailable, match="status 503"):
            fetch(KID)
    with pytest.raises(Unavailable, match="could not be fetched"):
        fetch(KID)
