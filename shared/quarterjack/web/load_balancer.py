"""The person whom an Application Load Balancer has signed in with OpenID Connect. Needs the extra ``oidc``.

The load balancer signs what it says in the header ``x-amzn-oidc-data``: a JSON Web Token whose base64url is padded, and whose ``signer``,
``client``, ``iss`` and ``exp`` are in its own header. PyJWT reads it and checks the signature, which covers the text with its padding; this
module checks what the header has to say. Nothing of it is believed before the signature has been checked.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import urllib3
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from fastapi import Request
from jwt import PyJWS, PyJWTError

from quarterjack.domain.tenants.caller import MAX_ACTOR
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.web.authentication import Actor, principal_of
from quarterjack.web.problems import RefusedRequest

HEADER = "x-amzn-oidc-data"
_ARN = re.compile(r"arn:aws:elasticloadbalancing:([a-z]{2}(?:-[a-z]+)+-\d):\d{12}:loadbalancer/app/[A-Za-z0-9/-]+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # no other address can be made of it
_ALGORITHM = "ES256"
_JWS = PyJWS(
    algorithms=[_ALGORITHM]
)  # it knows no other: a token cannot choose `none`, or HMAC with the public key as its secret
_MOST_KEYS, _MOST_BYTES, _SECONDS = 16, 4_096, 3.0  # seconds for each of connecting and answering
_LONGEST = 64_000  # characters of a token
_SAFE = ("GET", "HEAD", "OPTIONS")

Fetch = Callable[[str], bytes | None]  # the text of a key by its id; None: there is no such key


@dataclass(frozen=True, kw_only=True)
class LoadBalancer:
    """Whose word is taken: the load balancer's ARN, and the issuer and client for which it signs people in."""

    arn: str
    issuer: str
    client: str

    def __post_init__(self) -> None:
        if not _ARN.fullmatch(self.arn):
            raise InvalidInput("arn", self.arn, "is no ARN of an Application Load Balancer", "copy it from the stack")

    @property
    def keys_url(self) -> str:
        """Where the region's load balancers publish their keys."""
        found = _ARN.fullmatch(self.arn)
        return f"https://public-keys.auth.elb.{found[1] if found else ''}.amazonaws.com/"


class LoadBalancerAccess:
    """A person who signed in at this load balancer is ``oidc:<issuer>/<sub>``, and may do what was granted.

    Only events of a load balancer are read, which no header of a request to another URL can imitate. ``now``: milliseconds.
    """

    def __init__(self, load_balancer: LoadBalancer, now: Callable[[], int], fetch: Fetch | None = None) -> None:
        self._of, self._now = load_balancer, now
        self._keys = _Keys(fetch or keys_at(load_balancer.keys_url))

    def __call__(self, request: Request) -> Actor | None:
        """The person; None for nobody. Raises Unavailable if the key cannot be fetched, RefusedRequest for another site's request."""
        given = request.headers.getlist(HEADER)
        if not _is_from_load_balancer(request.scope.get("aws.event")) or len(given) != 1:
            return None
        claims = self.claims_of(given[0])
        principal = None if claims is None else principal_of(self._of.issuer, claims.get("sub"))
        if principal is None or len(principal) > MAX_ACTOR or not principal.isprintable():
            return None
        # The browser sends the load balancer's cookie with requests of other sites, too.
        if request.method not in _SAFE and request.headers.get("sec-fetch-site") != "same-origin":
            raise RefusedRequest(
                403, "a browser does not say that this site sends it", "send it from a page of this site"
            )
        return Actor(principal=principal, operator=True)  # the installation's grants say what it may do as one

    def claims_of(self, token: str) -> Mapping[str, Any] | None:
        """The claims of a token that this load balancer has signed and that has not expired; else None. Raises Unavailable."""
        if len(token) > _LONGEST:
            return None
        try:
            head = _JWS.get_unverified_header(token)
            key = self._keys.of(head["kid"]) if self._is_ours(head) else None
            said = None if key is None else _JWS.decode(token, key, algorithms=[_ALGORITHM])
        except PyJWTError:
            return None
        claims = None if said is None else _object(said)
        return claims if claims is not None and self._hold(claims) else None

    def _is_ours(self, head: Mapping[str, Any]) -> bool:
        """Whether a header, not believed yet, names this load balancer and a key to ask for, and wants nothing that is not done here."""
        named = (head.get("alg"), head.get("signer"), head.get("iss"), head.get("client"))
        if named != (_ALGORITHM, self._of.arn, self._of.issuer, self._of.client) or "crit" in head:
            return False
        kid = head.get("kid")
        return isinstance(kid, str) and _UUID.fullmatch(kid) is not None and self._is_ahead(head.get("exp"))

    def _hold(self, claims: Mapping[str, Any]) -> bool:
        """Whether the issuer and the expiry among the claims, if they are there, are valid."""
        return claims.get("iss", self._of.issuer) == self._of.issuer and (
            "exp" not in claims or self._is_ahead(claims["exp"])
        )

    def _is_ahead(self, end: Any) -> bool:
        return type(end) in (int, float) and end * 1000 > self._now()


class _Keys:
    """The keys asked for last. A load balancer changes its key now and then, and a key never changes under its id."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch, self._lock = fetch, Lock()
        self._known: OrderedDict[str, EllipticCurvePublicKey] = OrderedDict()

    def of(self, kid: str) -> EllipticCurvePublicKey | None:
        with self._lock:
            known = self._known.get(kid)
            if known is not None:
                self._known.move_to_end(kid)
                return known
        text = self._fetch(kid)
        found = None if text is None else _key_in(text)
        if found is not None:
            with self._lock:
                self._known[kid] = found
                while len(self._known) > _MOST_KEYS:
                    self._known.popitem(last=False)
        return found


def _key_in(text: bytes) -> EllipticCurvePublicKey | None:
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1) else None


def keys_at(url: str) -> Fetch:
    """Fetch keys from this address and their id. No redirect is followed; after Unavailable a fetch may be repeated."""
    pool = urllib3.PoolManager(timeout=_SECONDS, retries=False)

    def fetch(kid: str) -> bytes | None:
        try:
            answer = pool.request("GET", url + kid, redirect=False, preload_content=False)
            try:
                text: bytes = answer.read(_MOST_BYTES)
            finally:
                answer.close()  # what may be left of it is nobody's
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(f"the load balancer's key {kid} could not be fetched from {url}: {error}") from error
        if answer.status >= 500:
            raise Unavailable(f"the load balancer's key {kid} could not be fetched from {url}: status {answer.status}")
        return text if answer.status == 200 else None

    return fetch


def _is_from_load_balancer(event: Any) -> bool:
    context = event.get("requestContext") if isinstance(event, Mapping) else None
    elb = context.get("elb") if isinstance(context, Mapping) else None
    return isinstance(elb, Mapping) and isinstance(elb.get("targetGroupArn"), str)


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
