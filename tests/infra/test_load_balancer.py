"""The load balancer at which people sign in: closed but for who is named, with the issuer first and then the function."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks
from quarterjack.errors import InvalidInput

from infra import ApiSettings, LoadBalancerSettings, Quarterjack
from tests.support.stacks import JOBS, NO_BUNDLING
from tests.support.templates import functions

LOGIN = "https://login.acme.example"
CERTIFICATE = "arn:aws:acm:eu-west-1:123456789012:certificate/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


def settings(stack: Stack) -> LoadBalancerSettings:
    return LoadBalancerSettings(
        domain="jobs.acme.example",
        certificate=CERTIFICATE,
        vpc=ec2.Vpc(stack, "Vpc"),
        clients=["10.0.0.0/8"],
        issuer=LOGIN,
        authorization_endpoint=f"{LOGIN}/authorize",
        token_endpoint=f"{LOGIN}/token",
        user_info_endpoint=f"{LOGIN}/userinfo",
        client="quarterjack",
        client_secret=secretsmanager.Secret.from_secret_name_v2(stack, "Client", "quarterjack/oidc"),
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    app = App(context=NO_BUNDLING, outdir=str(tmp_path_factory.mktemp("cdk.out")))
    stack = Stack(app, "Test", env=Environment(account="123456789012", region="eu-west-1"))
    Quarterjack(stack, "Jobs", jobs=JOBS, api=ApiSettings(oidc=settings(stack), console=True))
    return Template.from_stack(stack)


def one(template: Template, kind: str) -> tuple[str, dict[str, Any]]:
    ((name, found),) = template.find_resources(f"AWS::{kind}").items()
    return name, found["Properties"]


def test_people_sign_in_before_the_function_is_asked(template: Template) -> None:
    _, listener = one(template, "ElasticLoadBalancingV2::Listener")
    assert (listener["Port"], listener["Protocol"]) == (443, "HTTPS")
    assert listener["Certificates"] == [{"CertificateArn": CERTIFICATE}]
    first, then = sorted(listener["DefaultActions"], key=lambda action: action["Order"])
    assert (first["Type"], then["Type"]) == ("authenticate-oidc", "forward")
    asked = first["AuthenticateOidcConfig"]
    assert (asked["Issuer"], asked["ClientId"], asked["Scope"]) == (LOGIN, "quarterjack", "openid")
    assert "resolve:secretsmanager:" in json.dumps(asked["ClientSecret"])
    assert asked.get("OnUnauthenticatedRequest", "authenticate") == "authenticate"


def test_it_is_internal_and_lets_in_the_named_networks(template: Template) -> None:
    _, balancer = one(template, "ElasticLoadBalancingV2::LoadBalancer")
    assert balancer["Scheme"] == "internal"
    groups = [found["Properties"] for found in template.find_resources("AWS::EC2::SecurityGroup").values()]
    rules = [rule for group in groups for rule in group.get("SecurityGroupIngress", [])]
    assert [(rule["CidrIp"], rule["FromPort"]) for rule in rules] == [("10.0.0.0/8", 443)]


def test_only_load_balancers_of_this_account_may_call_the_function_and_it_knows_its_own(template: Template) -> None:
    permissions = [found["Properties"] for found in template.find_resources("AWS::Lambda::Permission").values()]
    (own,) = (each for each in permissions if each["Principal"] == "elasticloadbalancing.amazonaws.com")
    assert "eu-west-1:123456789012:targetgroup/*" in json.dumps(own["SourceArn"])
    name, _ = one(template, "ElasticLoadBalancingV2::LoadBalancer")
    told = functions(template)["quarterjack-api"]["Environment"]["Variables"]
    assert told["QUARTERJACK_LOAD_BALANCER"] == {"Ref": name}
    assert (told["QUARTERJACK_OIDC_ISSUER"], told["QUARTERJACK_OIDC_CLIENT"]) == (LOGIN, "quarterjack")


def test_cfn_lint_has_nothing_to_say(template: Template) -> None:
    from cfnlint import api

    found = api.lint(json.dumps(template.to_json()), regions=["eu-west-1"])
    accepted = {"W3005", "W3010"}  # the CDK's dependencies that references imply; the zones of the test's own VPC
    assert not [each for each in found if each.rule.id not in accepted]


def test_cdk_nag_has_nothing_to_say_of_it(tmp_path: Path) -> None:
    app = App(context=NO_BUNDLING, outdir=str(tmp_path))
    stack = Stack(app, "Test", env=Environment(account="123456789012", region="eu-west-1"))
    Quarterjack(stack, "Jobs", jobs=JOBS, api=ApiSettings(oidc=settings(stack)))
    Validations.of(app).add_plugins(AwsSolutionsChecks())
    with contextlib.suppress(RuntimeError):  # the test's own VPC has no flow log
        app.synth()
    report = json.loads((tmp_path / "validation-report.json").read_text())
    said = [violation for plugin in report["pluginReports"] for violation in plugin["violations"]]
    assert not [each for each in said if each["ruleName"] != "AwsSolutions-VPC7"]


def test_what_would_be_open_or_wrong_is_refused(stack: Stack) -> None:
    given = settings(stack)
    wrongs: dict[str, Any] = {"issuer": "http://a", "clients": [], "client": "", "token_endpoint": "x"}
    for field, wrong in wrongs.items():
        with pytest.raises(InvalidInput) as refusal:
            replace(given, **{field: wrong})
        assert refusal.value.field == field
    with pytest.raises(InvalidInput):
        replace(given, clients=["everybody"])
