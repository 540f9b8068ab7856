"""Tokens as a load balancer signs them, with a key of the test's."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from quarterjack.web.load_balancer import LoadBalancer

ARN = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/jobs/50dc6c495c0c9188"
OURS = LoadBalancer(arn=ARN, issuer="https://login.acme.example", client="quarterjack")
KID, OTHER = "5a1f0c1e-0000-4000-8000-000000000001", "5a1f0c1e-0000-4000-8000-000000000002"
NOW = 1_777_896_000_000
ELB = {"requestContext": {"elb": {"targetGroupArn": ARN.replace("loadbalancer/app", "targetgroup")}}}


def padded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode()  # with "=", as load balancers send it


def token(key: ec.EllipticCurvePrivateKey, claims: Any = None, **head: Any) -> str:
    about: dict[str, Any] = {"alg": "ES256", "kid": KID, "signer": ARN, "iss": OURS.issuer, "client": OURS.client}
    about |= {"exp": NOW // 1000 + 120, **head}
    said = {"sub": "ada", "exp": NOW // 1000 + 120, "iss": OURS.issuer} if claims is None else claims
    signed = f"{padded(json.dumps(about).encode())}.{padded(json.dumps(said).encode())}"
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(SHA256())))
    return f"{signed}.{padded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def made() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def text(key: Any) -> bytes:
    found: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


KEY, SECOND = made(), made()
