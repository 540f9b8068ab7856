"""The extra oidc: somebody whom a load balancer has signed in is known by its signature."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi import Request
from quarterjack.web.load_balancer import HEADER, LoadBalancer, LoadBalancerAccess

ARN = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/jobs/50dc6c495c0c9188"
OURS = LoadBalancer(arn=ARN, issuer="https://login.acme.example", client="quarterjack")
NOW, KEY = 1_777_896_000, ec.generate_private_key(ec.SECP256R1())  # seconds
HEAD = {"alg": "ES256", "kid": "5a1f0c1e-0000-4000-8000-000000000001", "signer": ARN, "iss": OURS.issuer}
HEAD |= {"client": OURS.client, "exp": str(NOW + 120)}


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode()


claims = {"sub": "ada", "exp": NOW + 120, "iss": OURS.issuer}
signed = f"{encoded(json.dumps({**HEAD, 'exp': NOW + 120}).encode())}.{encoded(json.dumps(claims).encode())}"
r, s = decode_dss_signature(KEY.sign(signed.encode(), ec.ECDSA(SHA256())))
token = f"{signed}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
published = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
event: Any = {"requestContext": {"elb": {"targetGroupArn": ARN.replace("loadbalancer/app", "targetgroup")}}}
request = Request(
    {"type": "http", "method": "GET", "path": "/", "headers": [(HEADER.encode(), token.encode())], "aws.event": event}
)
found = LoadBalancerAccess(OURS, lambda: NOW * 1000, lambda kid: published)(request)
assert found is not None
assert found.principal == "oidc:login.acme.example/ada", found
