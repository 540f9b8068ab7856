"""A load balancer at which people sign in with OpenID Connect, in front of the API's function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from urllib.parse import urlsplit

from aws_cdk import Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticloadbalancingv2 as elb
from aws_cdk import aws_elasticloadbalancingv2_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct
from quarterjack.errors import InvalidInput

from ..acknowledge import acknowledge

_HTTPS = 443


@dataclass(frozen=True, kw_only=True)
class LoadBalancerSettings:
    """An Application Load Balancer, and the issuer at which people sign in before it lets them through.

    domain: the host name under which people open it, for which ``certificate`` is; point it to the load balancer.
    certificate: ARN of a certificate in ACM, in the stack's region.
    vpc, subnets: where it stands. Internal unless ``internet_facing``. It must reach the token and user info endpoints.
    clients: networks that may connect, as CIDR.
    issuer, authorization_endpoint, token_endpoint, user_info_endpoint: of the issuer's ``/.well-known/openid-configuration``.
    client, client_secret: as which the load balancer asks the issuer; the secret's text is the client secret.
    session: how long a sign-in lasts.
    """

    domain: str
    certificate: str
    vpc: ec2.IVpc
    clients: Sequence[str]
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    user_info_endpoint: str
    client: str
    client_secret: secretsmanager.ISecret
    subnets: ec2.SubnetSelection | None = None
    internet_facing: bool = False
    session: Duration | None = None  # 8 hours

    def __post_init__(self) -> None:
        for name in "issuer", "authorization_endpoint", "token_endpoint", "user_info_endpoint":
            parts = urlsplit(getattr(self, name))
            if parts.scheme != "https" or not parts.hostname or parts.fragment:
                remedy = "use what /.well-known/openid-configuration of the issuer says"
                raise InvalidInput(name, getattr(self, name), "is not an https:// URL", remedy)
        if not self.client:
            raise InvalidInput("client", self.client, "is empty", "use the client id that the issuer has given out")
        if isinstance(self.clients, str) or not self.clients:
            raise InvalidInput(
                "clients", self.clients, "lets nobody connect", "give a list of CIDRs, as ['10.0.0.0/8']"
            )
        for network in self.clients:
            try:
                ip_network(network)
            except ValueError:
                raise InvalidInput("clients", network, "is no CIDR", "write it as '10.0.0.0/8'") from None


class SignInLoadBalancer(Construct):
    """The load balancer, its listener and its target."""

    def __init__(
        self, scope: Construct, name: str, *, function: lambda_.Function, settings: LoadBalancerSettings, resource: str
    ) -> None:
        super().__init__(scope, name)
        self._settings = settings
        group = ec2.SecurityGroup(
            self, "Group", vpc=settings.vpc, description=f"{resource}: browsers of people", allow_all_outbound=False
        )
        for network in settings.clients:
            peer = ec2.Peer.ipv6(network) if ip_network(network).version == 6 else ec2.Peer.ipv4(network)
            group.add_ingress_rule(peer, ec2.Port.tcp(_HTTPS), "browsers")
        if any(ip_network(network).prefixlen == 0 for network in settings.clients):
            acknowledge(group, "AwsSolutions-EC23", "the settings let everybody connect; who does must sign in")
        self.load_balancer = elb.ApplicationLoadBalancer(
            self,
            "LoadBalancer",
            vpc=settings.vpc,
            vpc_subnets=settings.subnets,
            internet_facing=settings.internet_facing,
            security_group=group,
            drop_invalid_header_fields=True,
        )
        reason = "the lines would hold queries, which may hold what people search for; acts are in the audit"
        acknowledge(self.load_balancer, "AwsSolutions-ELB2", reason)
        self._listen(function)

    def _listen(self, function: lambda_.Function) -> None:
        settings, stack = self._settings, Stack.of(self)
        target = elb.ApplicationTargetGroup(
            self,
            "Target",
            target_type=elb.TargetType.LAMBDA,
            targets=[targets.LambdaTarget(function)],
            multi_value_headers_enabled=True,  # else one of several cookies, or words of a query of one name, is left
        )
        # The CDK lets the load balancers of all accounts call it.
        own = stack.format_arn(service="elasticloadbalancing", resource="targetgroup", resource_name="*")
        for found in function.node.find_all():
            if isinstance(found, lambda_.CfnPermission) and found.principal == "elasticloadbalancing.amazonaws.com":
                found.source_arn = own
        self.load_balancer.add_listener(
            "Https",
            port=_HTTPS,
            protocol=elb.ApplicationProtocol.HTTPS,
            certificates=[elb.ListenerCertificate.from_arn(settings.certificate)],
            ssl_policy=elb.SslPolicy.RECOMMENDED_TLS,
            open=False,  # the group says who may connect
            default_action=elb.ListenerAction.authenticate_oidc(
                issuer=settings.issuer,
                authorization_endpoint=settings.authorization_endpoint,
                token_endpoint=settings.token_endpoint,
                user_info_endpoint=settings.user_info_endpoint,
                client_id=settings.client,
                client_secret=settings.client_secret.secret_value,
                scope="openid",
                session_timeout=settings.session or Duration.hours(8),
                next=elb.ListenerAction.forward([target]),
            ),
        )

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which the function verifies this load balancer's signature."""
        return {
            "QUARTERJACK_LOAD_BALANCER": self.load_balancer.load_balancer_arn,
            "QUARTERJACK_OIDC_ISSUER": self._settings.issuer,
            "QUARTERJACK_OIDC_CLIENT": self._settings.client,
        }
