"""The stack on a local cloud that enforces the roles of its functions.

The local cloud is not like AWS in four points, which are amended in the template: it asks for an action of its own where AWS
takes a batch for its single action; it knows no PartiQL actions, so that those are not proved there; it does not know which partitions
a request names, so that these conditions are not proved either; and it has no TLS, without which the policies of queues and buckets let
nobody in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_TLS_ONLY = ("AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy")
_ALSO = {
    "sqs:ChangeMessageVisibility": "sqs:ChangeMessageVisibilityBatch",
    "sqs:DeleteMessage": "sqs:DeleteMessageBatch",
    "sqs:SendMessage": "sqs:SendMessageBatch",
}
_ANY_PARTIQL = {"Effect": "Allow", "Action": "dynamodb:BatchExecuteStatement", "Resource": "*"}


def open_buckets(s3: Any) -> None:
    """Take the policies off the buckets of the bootstrap."""
    for bucket in s3.list_buckets()["Buckets"]:
        s3.delete_bucket_policy(Bucket=bucket["Name"])


def amend(place: Path) -> None:
    """Write the template anew without what the local cloud does differently."""
    template = json.loads(place.read_text())
    kept = {name: r for name, r in template["Resources"].items() if r["Type"] not in _TLS_ONLY}
    for resource in kept.values():
        if isinstance(needed := resource.get("DependsOn"), list):
            resource["DependsOn"] = [name for name in needed if name in kept]
        if resource["Type"] == "AWS::IAM::Policy":
            statements = resource["Properties"]["PolicyDocument"]["Statement"]
            for statement in statements:
                statement["Action"] = _with_batches(statement["Action"])
                if "dynamodb:LeadingKeys" in json.dumps(statement.get("Condition", {})):
                    del statement["Condition"]
            if "dynamodb:PartiQLInsert" in json.dumps(statements):
                statements.append(_ANY_PARTIQL)
    place.write_text(json.dumps({**template, "Resources": kept}))


def _with_batches(actions: Any) -> list[str]:
    listed = [actions] if isinstance(actions, str) else list(actions)
    return listed + [_ALSO[action] for action in listed if action in _ALSO]
