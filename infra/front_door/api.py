"""The HTTP API: one function, and an HTTP API of API Gateway for each way in. Nothing of it is made unless it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct
from quarterjack.domain.names import check_flag
from quarterjack.errors import InvalidInput

from ..acknowledge import acknowledge
from ..grants import allow_scheduling
from ..installation import InstallationSettings
from ..packaging.dependencies import for_api
from ..roles.function import InstallationFunction
from ..storage.queues import InstallationQueues
from ..storage.store import InstallationStore
from .load_balancer import LoadBalancerSettings, SignInLoadBalancer

MEMORY = 1769  # MB: one whole core, for the imports of a cold start
TIMEOUT = Duration.seconds(29)  # under the 30 s for which API Gateway waits
_MOST_RATE = 10_000  # requests a second of an account and region, by default
# No query, no header, no body: they may hold payloads and keys.
_LINE = {
    "id": "$context.requestId",
    "at": "$context.requestTime",
    "ip": "$context.identity.sourceIp",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "status": "$context.status",
    "milliseconds": "$context.responseLatency",
    "error": "$context.error.message",
}
# Of what an update of a key may name: that it was used today, and the row's key and digest, which must be the same.
_MARKED = ["tenant", "item", "digest", "used_on"]


@dataclass(frozen=True, kw_only=True)
class JwtIssuer:
    """Whose JSON Web Tokens are taken: the issuer's URL, and the audiences of which a token must name one."""

    issuer: str
    audience: Sequence[str]

    def __post_init__(self) -> None:
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
            raise InvalidInput("issuer", self.issuer, "is not an https:// URL", "use the `iss` of the tokens")
        if isinstance(self.audience, str) or not self.audience or not all(self.audience):
            remedy = "give a list with the `aud` of your tokens; without one every token of the issuer would do"
            raise InvalidInput("audience", self.audience, "names no audience", remedy)


@dataclass(frozen=True, kw_only=True)
class ApiSettings:
    """The ways to sign in, each with a URL of its own, and the limits of requests. At least one way is needed.

    iam: requests signed with AWS credentials (SigV4), of roles that may ``execute-api:Invoke``.
    jwt: people and CI with a token of this issuer.
    keys: API keys; the gateway lets everybody through to the function, which checks the key.
    oidc: people who sign in at a load balancer of its own, at the issuer that it names.
    console: pages for people below ``/console/``, at the URL for keys, which they open with an API key, and at that of ``oidc``.
    rate, burst: requests a second, and at once, that the gateway lets through to each URL, whoever sends them.
    reserved: functions at once that the account keeps for it, and their maximum; None: no limit of its own.
    memory: MB of the function.
    """

    iam: bool = False
    jwt: JwtIssuer | None = None
    keys: bool = False
    oidc: LoadBalancerSettings | None = None
    console: bool = False
    rate: int = 100
    burst: int = 200
    reserved: int | None = None
    memory: int = MEMORY

    def __post_init__(self) -> None:
        check_flag("iam", self.iam)
        check_flag("keys", self.keys)
        check_flag("console", self.console)
        if not (self.iam or self.keys or self.jwt or self.oidc):
            raise InvalidInput("api", self, "lets nobody in", "say iam=True, jwt=JwtIssuer(…), keys=True or oidc=…")
        if self.console and not (self.keys or self.oidc):
            raise InvalidInput("console", True, "has no URL that a browser can ask", "say keys=True or oidc=… as well")
        for name, value in ("rate", self.rate), ("burst", self.burst):
            if not 1 <= value <= _MOST_RATE:
                raise InvalidInput(name, value, "is out of range", f"use 1 to {_MOST_RATE:,} requests")
        if self.reserved is not None and self.reserved < 1:
            raise InvalidInput("reserved", self.reserved, "leaves no function", "use 1 or more, or None")

    @property
    def ways(self) -> Sequence[str]:
        """The ways in by API Gateway, by name."""
        return [name for name in ("iam", "jwt", "keys") if getattr(self, name)]


class ApiFunction(Construct):
    """The function, its HTTP APIs, and the log of requests."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        installation: InstallationSettings,
        store: InstallationStore,
        queues: InstallationQueues,
        settings: ApiSettings,
    ) -> None:
        super().__init__(scope, name)
        self._installation, self._settings = installation, settings
        self.function = InstallationFunction(
            self,
            "api",
            installation=installation,
            target=for_api(installation.target, oidc=settings.oidc is not None),
            description="Quarterjack: the HTTP API",
            memory=settings.memory,
            timeout=TIMEOUT,
            reserved=settings.reserved,
            environment={
                "QUARTERJACK_BUCKET": store.bucket.bucket_name,
                **store.archive_environment,
                **({"QUARTERJACK_LOG_GROUPS": ",".join(installation.log_groups)} if installation.log_groups else {}),
                **({"QUARTERJACK_CONSOLE": "on"} if settings.console else {}),
            },
        )
        allow_scheduling(self.function, store, queues, None, prompt=True)
        if settings.keys:
            _allow_keys(self.function, store)
        self._log = logs.LogGroup(
            self,
            "Requests",  # under the name for which the policy of the customer's key is
            log_group_name=f"/aws/lambda/{installation.name('api-requests')}",
            retention=installation.log_retention,
            removal_policy=installation.removal_policy,
            encryption_key=installation.encryption_key,
        )
        self.apis = {way: self._api(way) for way in settings.ways}
        if settings.oidc is not None:
            resource = installation.name("api")
            self.sign_in = SignInLoadBalancer(
                self, "SignIn", function=self.function, settings=settings.oidc, resource=resource
            )
            for variable, value in self.sign_in.environment.items():
                self.function.add_environment(variable, value)

    @property
    def urls(self) -> Mapping[str, str]:
        """By way in."""
        oidc = self._settings.oidc
        own = {} if oidc is None else {"oidc": f"https://{oidc.domain}"}
        return {**{way: api.api_endpoint for way, api in self.apis.items()}, **own}

    @property
    def console_url(self) -> str | None:
        """Where people open the console; None if there is none."""
        urls = self.urls
        return f"{urls.get('oidc') or urls['keys']}/console/" if self._settings.console else None

    def _api(self, way: str) -> apigateway.HttpApi:
        """An HTTP API whose only route takes every request. Without CORS: no page of another site may read an answer."""
        api = apigateway.HttpApi(
            self,
            way.capitalize(),
            api_name=self._installation.name(f"api-{way}"),
            description=f"Quarterjack: the HTTP API for callers by {way}",
            create_default_stage=False,
            default_authorizer=self._authorizer(way),
            default_integration=integrations.HttpLambdaIntegration("Function", self.function),
        )
        settings = self._settings
        apigateway.CfnStage(
            api,
            "Stage",
            api_id=api.api_id,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=apigateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=self._log.log_group_arn, format=json.dumps(_LINE)
            ),
            default_route_settings=apigateway.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=settings.rate, throttling_burst_limit=settings.burst
            ),
        )
        if way == "keys":
            acknowledge(api, "AwsSolutions-APIG4", "the function checks the API key, whose digest is in a table")
        return api

    def _authorizer(self, way: str) -> apigateway.IHttpRouteAuthorizer | None:
        if way == "iam":
            return authorizers.HttpIamAuthorizer()
        jwt = self._settings.jwt
        if way == "keys" or jwt is None:
            return None
        return authorizers.HttpJwtAuthorizer("Issuer", jwt.issuer, jwt_audience=list(jwt.audience))


def _allow_keys(function: InstallationFunction, store: InstallationStore) -> None:
    """Let the function read a key, and note the day of its use. It can change no key's digest or scope, and no profile."""
    store.allow(function, "tenants", ("dynamodb:GetItem",))
    iam.Grant.add_to_principal(
        grantee=function,
        actions=["dynamodb:UpdateItem"],
        resource_arns=[store.tables["tenants"].table_arn],
        conditions={
            "ForAllValues:StringEquals": {"dynamodb:Attributes": _MARKED},
            "Null": {"dynamodb:Attributes": "false"},
        },
    )
