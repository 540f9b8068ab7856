"""Acknowledgements for cdk-nag, each with its reason, beside the construct that they belong to."""

from __future__ import annotations

from aws_cdk import Acknowledgment, CfnElement, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept that ``construct`` and its children break ``rule`` of cdk-nag, with the reason. No effect without cdk-nag."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_for(grantee: iam.IGrantable, rule: str, reason: str) -> None:
    """The same for the role of ``grantee``, if this app creates it."""
    principal = grantee.grant_principal
    if isinstance(principal, Construct):
        acknowledge(principal, rule, reason)


def arn_of(construct: IConstruct) -> str:
    """The ARN of a resource as cdk-nag writes it."""
    resource = construct.node.default_child
    if not isinstance(resource, CfnElement):
        raise TypeError(f"{construct.node.path} has no resource of its own")
    return f"<{Stack.of(construct).get_logical_id(resource)}.Arn>"
