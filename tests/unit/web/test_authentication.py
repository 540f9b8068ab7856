"""API keys and what API Gateway has checked: who may do what over HTTP, and who is nobody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from httpx import Response
from quarterjack import Tenants
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.web import ApiKeyAccess, create_app, first_of, gateway_access
from quarterjack.web.authentication import KeyAccess

from tests.support.api import NIGHTLY, Api, AsgiClient

Ask = Callable[..., Response]
SCHEDULES = "/v1/tenants/default/schedules"


class Door:
    """An application with all ways in, over the installation of a harness."""

    def __init__(self) -> None:
        self.api = Api()
        self.tenants: Tenants = self.api.harness.tenants
        scheduler = self.api.scheduler
        ways = first_of(KeyAccess("operator"), ApiKeyAccess(scheduler), gateway_access)
        self.app = create_app(scheduler, access=ways, rate=None)

    def grant(self, tenant: str, *given: str) -> None:
        """A grant beside that of whoever runs the harness, within the five seconds in which processes learn of it."""
        self.tenants.grant(tenant, self.api.scheduler.session.services.identity(), "admin")
        self.tenants.grant(tenant, *given)
        self.api.harness.clock.advance(timedelta(seconds=5))

    def ask(self, method: str, path: str, sent: str | None, body: Any = None) -> Response:
        headers = {} if sent is None else {"Authorization": sent}
        return AsgiClient(self.app, headers).request(method, path, **({} if body is None else {"json": body}))

    def by_gateway(self, method: str, path: str, authorizer: Any, body: Any = None) -> Response:
        """As the Lambda adapter passes it on."""

        async def adapter(scope: Any, receive: Any, send: Any) -> None:
            await self.app({**scope, "aws.event": {"requestContext": {"authorizer": authorizer}}}, receive, send)

        return AsgiClient(adapter, {}).request(method, path, **({} if body is None else {"json": body}))


@pytest.fixture
def door() -> Door:
    return Door()


class TestApiKeys:
    def test_a_key_may_do_what_it_says_and_nothing_else(self, door: Door) -> None:
        text = door.tenants.create_key("default", "crm", "submit", jobs=["gr*"]).text
        sent = f"Bearer {text}"
        run = door.ask("POST", "/v1/tenants/default/runs", sent, {"job": "greet", "payload": {"to": "Ada"}})
        assert run.status_code == 201
        other = door.ask("POST", "/v1/tenants/default/runs", sent, {"job": "fail"})
        assert (other.status_code, other.json()["code"]) == (403, "forbidden")
        assert "ask somebody who may grant" in other.json()["detail"]
        assert "quarterjack " not in other.text
        for method, path, body in [
            ("GET", SCHEDULES, None),
            ("POST", SCHEDULES, {"name": "n", **NIGHTLY}),
            ("GET", f"/v1/tenants/default/runs/{run.json()['url_id']}", None),
            ("GET", "/v1/tenants", None),
            ("GET", "/v1/doctor", None),
        ]:
            assert door.ask(method, path, sent, body).status_code == 403, path

    def test_a_key_opens_no_other_tenant_whether_it_exists_or_not(self, door: Door) -> None:
        sent = f"Bearer {door.tenants.create_key('default', 'crm', 'admin').text}"
        door.tenants.create("acme")
        answers = {
            (answer.status_code, answer.text)
            for answer in (door.ask("GET", f"/v1/tenants/{name}/schedules", sent) for name in ("acme", "nobody"))
        }
        assert {status for status, _ in answers} == {403}
        assert len(answers) == 1
        assert door.ask("GET", SCHEDULES, sent).status_code == 200

    def test_grants_of_the_tenant_neither_widen_nor_narrow_it(self, door: Door) -> None:
        sent = f"Bearer {door.tenants.create_key('default', 'crm', 'viewer').text}"
        door.grant("default", "key:crm", "admin")
        assert door.ask("GET", SCHEDULES, sent).status_code == 200
        assert door.ask("POST", SCHEDULES, sent, {"name": "n", **NIGHTLY}).status_code == 403

    def test_a_key_of_an_admin_manages_no_installation(self, door: Door) -> None:
        sent = f"Bearer {door.tenants.create_key('default', 'crm', 'admin').text}"
        assert door.ask("POST", "/v1/tenants", sent, {"name": "other"}).status_code == 403
        assert [each.name for each in door.tenants.list()] == []

    def test_a_revoked_and_an_expired_key_open_nothing(self, door: Door) -> None:
        clock = door.api.harness.clock
        revoked = door.tenants.create_key("default", "crm", "viewer").text
        expired = door.tenants.create_key("default", "crm", "viewer", expires_at=clock.now() + timedelta(days=1)).text
        assert [door.ask("GET", SCHEDULES, f"Bearer {key}").status_code for key in (revoked, expired)] == [200, 200]
        door.tenants.revoke_key("default", "crm.1")
        clock.advance(timedelta(days=1))
        assert [door.ask("GET", SCHEDULES, f"Bearer {key}").status_code for key in (revoked, expired)] == [401, 401]

    def test_what_it_does_is_in_the_audit_under_its_name(self, door: Door) -> None:
        sent = f"Bearer {door.tenants.create_key('default', 'crm', 'editor').text}"
        assert door.ask("POST", SCHEDULES, sent, {"name": "n", **NIGHTLY}).status_code == 201
        line = door.api.scheduler.audit().items[0]
        assert (line.act, line.actor, line.via) == ("create", "key:crm", "api")
        assert line.identity is not None  # of the server

    @pytest.mark.parametrize(
        "change",
        [str.swapcase, lambda text: text[:-1], lambda text: text + "a", lambda text: text.replace("qj_", "mk_")],
    )
    def test_a_text_that_is_nearly_a_key(self, door: Door, change: Callable[[str], str]) -> None:
        text = door.tenants.create_key("default", "crm", "admin").text
        answer = door.ask("GET", SCHEDULES, f"Bearer {change(text)}")
        assert answer.status_code == 401
        assert text not in answer.text

    def test_the_scheme_is_written_in_any_case(self, door: Door) -> None:
        text = door.tenants.create_key("default", "crm", "viewer").text
        assert door.ask("GET", SCHEDULES, f"bearer  {text}").status_code == 200
        assert door.ask("GET", SCHEDULES, f"Basic {text}").status_code == 401


IAM = {"iam": {"userArn": "arn:aws:sts::123456789012:assumed-role/deployer/ci"}}
TOKEN = {"jwt": {"claims": {"iss": "https://token.example.com/", "sub": "repo:acme/app:ref:main"}}}
PRINCIPALS = [
    (IAM, "iam:arn:aws:sts::123456789012:assumed-role/deployer/ci"),
    (TOKEN, "oidc:token.example.com/repo:acme/app:ref:main"),
]


class TestGateway:
    @pytest.mark.parametrize(("authorizer", "principal"), PRINCIPALS)
    def test_closed_until_something_is_granted(self, door: Door, authorizer: Any, principal: str) -> None:
        refused = door.by_gateway("GET", SCHEDULES, authorizer)
        assert refused.status_code == 403
        assert f"'{principal}' may not read-schedules" in refused.json()["detail"]
        door.grant("default", principal, "editor")
        assert door.by_gateway("GET", SCHEDULES, authorizer).status_code == 200
        assert door.by_gateway("POST", SCHEDULES, authorizer, {"name": "n", **NIGHTLY}).status_code == 201
        assert door.api.harness.scheduler.get_schedule("n").actor == principal

    @pytest.mark.parametrize(("authorizer", "principal"), PRINCIPALS)
    def test_operators_have_grants_of_the_installation(self, door: Door, authorizer: Any, principal: str) -> None:
        for path in ("/v1/tenants", "/v1/doctor"):
            assert door.by_gateway("GET", path, authorizer).status_code == 403
        door.grant(INSTALLATION, principal, "admin")
        assert door.by_gateway("GET", "/v1/tenants", authorizer).status_code == 200

    @pytest.mark.parametrize(
        "authorizer",
        [
            None,
            {},
            {"iam": None},
            {"iam": {"userArn": ""}},
            {"jwt": {"claims": {"iss": "https://a"}}},
            {"jwt": {"claims": {"iss": "https://a", "sub": ""}}},
            {"jwt": {"claims": {"iss": "https://a", "sub": "a\nb"}}},
            {"jwt": {"claims": {"iss": "https://a", "sub": "x" * 300}}},
            {"jwt": {"claims": [["iss", "a"]]}},
            {"lambda": {"userArn": "arn:x"}},
        ],
        ids=str,
    )
    def test_what_names_nobody_opens_nothing(self, door: Door, authorizer: Any) -> None:
        assert door.by_gateway("GET", SCHEDULES, authorizer).status_code == 401

    def test_no_request_can_say_so_itself(self, door: Door) -> None:
        headers = {"aws.event": "{}", "X-Amzn-Oidc-Data": "a.b.c", "X-Amz-User-Arn": "arn:x"}
        assert AsgiClient(door.app, headers).get(SCHEDULES).status_code == 401


def test_the_operators_own_key_comes_first(door: Door) -> None:
    assert door.ask("GET", "/v1/tenants", "Bearer operator").status_code == 200
    assert door.ask("GET", SCHEDULES, None).status_code == 401
