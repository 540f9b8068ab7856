"""Deployments in steps: CodeDeploy moves the alias of a function to its new version, and back when an alarm goes off.

The event source or the clock calls the alias. While it moves, Lambda picks one of the two versions for each invocation. The first
deployment makes alias and version at once; the policy of the alias hands each later one to CodeDeploy, and CloudFormation waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from quarterjack.errors import InvalidInput

from .acknowledge import acknowledge
from .alarms.construct import InstallationAlarms
from .alarms.settings import AlarmSettings
from .roles.function import ALIAS

# CodeDeploy's configurations for Lambda, as SAM names them: minutes until the new version gets all invocations.
CONFIGURATIONS: Mapping[str, int] = {
    "Canary10Percent5Minutes": 5,
    "Canary10Percent10Minutes": 10,
    "Canary10Percent15Minutes": 15,
    "Canary10Percent30Minutes": 30,
    "Linear10PercentEvery1Minute": 9,
    "Linear10PercentEvery2Minutes": 18,
    "Linear10PercentEvery3Minutes": 27,
    "Linear10PercentEvery10Minutes": 90,
}
_LEAST = "function-errors"  # the alarm that tells of code that cannot be imported, and of ticks that fail
ROLLS_BACK = (_LEAST, "failing-attempts", "no-tick")


def check_canary(canary: str | None, alarms: AlarmSettings) -> None:
    """Raises InvalidInput for an unknown configuration, and for one that ends before an alarm can go off."""
    if canary is None:
        return
    if canary not in CONFIGURATIONS:
        remedy = f"use {', '.join(CONFIGURATIONS)}, or None"
        raise InvalidInput("canary", canary, "is not a configuration of CodeDeploy for Lambda with steps", remedy)
    spec = next((spec for spec in alarms.specs() if spec.id == _LEAST), None)
    if spec is None:
        remedy = f"leave the alarm {_LEAST} enabled, or leave canary out"
        raise InvalidInput("canary", canary, f"rolls back when the alarm {_LEAST} goes off, which is disabled", remedy)
    goes_off = spec.told_within - spec.waits  # its message waits, not the alarm itself
    if CONFIGURATIONS[canary] <= goes_off:
        longer = [name for name, minutes in CONFIGURATIONS.items() if minutes > goes_off]
        why = f"ends after {CONFIGURATIONS[canary]} minutes, and the alarm {_LEAST} may need {goes_off}"
        raise InvalidInput("canary", canary, why, f"use {', '.join(longer) or 'a shorter alarm'}")


class CanaryDeployments(Construct):
    """One deployment group for each alias, with the alarms about its function. ``aliases``: by the function's name without the prefix."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        canary: str,
        aliases: Mapping[str, lambda_.Alias],
        alarms: InstallationAlarms,
    ) -> None:
        super().__init__(scope, name)
        self._role = self._make_role(aliases.values())
        self._application = codedeploy.LambdaApplication(self, "Application")
        self._configuration = codedeploy.LambdaDeploymentConfig.from_lambda_deployment_config_name(
            self, "Configuration", f"CodeDeployDefault.Lambda{canary}"
        )
        for part, alias in aliases.items():
            self._group(part, alias, alarms)

    def _group(self, part: str, alias: lambda_.Alias, alarms: InstallationAlarms) -> None:
        group = codedeploy.LambdaDeploymentGroup(
            self,
            part,
            alias=alias,
            application=self._application,
            deployment_config=self._configuration,
            alarms=alarms.about(part, ROLLS_BACK),
            auto_rollback=codedeploy.AutoRollbackConfig(
                failed_deployment=True, stopped_deployment=True, deployment_in_alarm=True
            ),
            role=self._role.without_policy_updates(),  # the CDK adds AWS's policy, which is about all functions of the account
        )
        group.node.add_dependency(self._role)  # its rights are there before the first deployment

    def _make_role(self, aliases: Iterable[lambda_.Alias]) -> iam.Role:
        """The rights of CodeDeploy: to move these aliases, and to read alarms."""
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com"))
        functions = [alias.version.lambda_.function_arn for alias in aliases]
        iam.Grant.add_to_principal(
            grantee=role,
            actions=["lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"],
            resource_arns=[*functions, *(f"{arn}:{ALIAS}" for arn in functions)],
        )
        iam.Grant.add_to_principal(grantee=role, actions=["cloudwatch:DescribeAlarms"], resource_arns=["*"])
        acknowledge(role, "AwsSolutions-IAM5[Resource::*]", "CodeDeploy reads alarms as AWS's own policy for it allows")
        return role
