"""Where the engines of the contract suite differ from AWS's documentation, asked of them raw: docs/explanation/engines.md is this table.

A probe answers with a word. One whose answer changes with a newer release of an engine fails: then the table is out of date.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.engines import Engine

KEY = {"owner": {"S": "a"}, "key": {"S": "b"}}


@dataclass(frozen=True)
class Raw:
    """The clients of an engine, and where to ask."""

    dynamodb: Any
    sqs: Any
    table: str
    queue: str

    def execute(self, text: str, *parameters: dict[str, Any]) -> dict[str, Any]:
        """The answer to one PartiQL statement."""
        statement = {"Statement": text, "Parameters": list(parameters)}
        statement["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        answer: dict[str, Any] = self.dynamodb.batch_execute_statement(Statements=[statement])["Responses"][0]
        return answer


def long_delay(raw: Raw) -> str:
    raw.sqs.send_message(QueueUrl=raw.queue, MessageBody="x", DelaySeconds=901)
    return "taken"


def control_character(raw: Raw) -> str:
    raw.sqs.send_message(QueueUrl=raw.queue, MessageBody="\x01")
    return "taken"


def stale_receipt(raw: Raw) -> str:
    raw.sqs.send_message(QueueUrl=raw.queue, MessageBody="x")
    (first,) = raw.sqs.receive_message(QueueUrl=raw.queue, VisibilityTimeout=0)["Messages"]
    (second,) = raw.sqs.receive_message(QueueUrl=raw.queue, VisibilityTimeout=30)["Messages"]
    try:
        raw.sqs.delete_message(QueueUrl=raw.queue, ReceiptHandle=first["ReceiptHandle"])
        said = "succeeds"
    except ClientError as problem:
        said = problem.response["Error"]["Code"]
    try:
        raw.sqs.change_message_visibility(
            QueueUrl=raw.queue, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=0
        )
    except ClientError:
        return f"{said}, the message goes"
    return f"{said}, the message stays"


def move_task(raw: Raw) -> str:
    arn = raw.sqs.get_queue_attributes(QueueUrl=raw.queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    raw.sqs.start_message_move_task(SourceArn=arn)
    return "begun"


def insert(raw: Raw) -> str:
    text = f"INSERT INTO \"{raw.table}\" VALUE {{'owner': ?, 'key': ?}}"
    raw.execute(text, *KEY.values())
    return str(raw.execute(text, *KEY.values())["Error"]["Code"])


def refused_update(raw: Raw) -> str:
    raw.dynamodb.put_item(TableName=raw.table, Item=KEY | {"n": {"N": "1"}})
    text = f'UPDATE "{raw.table}" SET "n"=? WHERE "owner"=? AND "key"=? AND "n" = ?'
    answer = raw.execute(text, {"N": "5"}, *KEY.values(), {"N": "7"})
    error = answer.get("Error", {"Code": "no error"})
    return f"{error['Code']}{', with the item' if 'Item' in error else ''}"


def increment(raw: Raw, token: str) -> None:
    update = {"TableName": raw.table, "Key": KEY, "UpdateExpression": "ADD n :one"}
    update["ExpressionAttributeValues"] = {":one": {"N": "1"}}
    raw.dynamodb.transact_write_items(ClientRequestToken=token, TransactItems=[{"Update": update}])


def repeated_token(raw: Raw) -> str:
    token = uuid.uuid4().hex
    increment(raw, token)
    increment(raw, token)
    n = raw.dynamodb.get_item(TableName=raw.table, Key=KEY, ConsistentRead=True)["Item"]["n"]["N"]
    return {"1": "applied once", "2": "applied twice"}[n]


def token_of_another_call(raw: Raw) -> str:
    token = uuid.uuid4().hex
    increment(raw, token)
    delete = {"Delete": {"TableName": raw.table, "Key": KEY}}
    raw.dynamodb.transact_write_items(ClientRequestToken=token, TransactItems=[delete])
    return "applied"


def foreign_start(raw: Raw) -> str:
    raw.dynamodb.query(
        TableName=raw.table,
        KeyConditionExpression="#owner = :owner",
        ExpressionAttributeNames={"#owner": "owner"},
        ExpressionAttributeValues={":owner": {"S": "a"}},
        ExclusiveStartKey={"owner": {"S": "z"}, "key": {"S": "b"}},
    )
    return "answered"


def other_type(raw: Raw) -> str:
    raw.dynamodb.put_item(TableName=raw.table, Item=KEY | {"n": {"N": "1"}})
    raw.dynamodb.put_item(
        TableName=raw.table,
        Item=KEY,
        ConditionExpression="n < :text",
        ExpressionAttributeValues={":text": {"S": "x"}},
    )
    return "holds"


def twice_in_a_batch(raw: Raw) -> str:
    raw.dynamodb.batch_write_item(RequestItems={raw.table: [{"DeleteRequest": {"Key": KEY}}] * 2})
    return "taken"


# Probe: what moto, MiniStack and LocalEmu answer. For tables DynamoDB Local stands beside the latter two, and answers as MiniStack.
COLUMNS = {"moto": 0, "ministack": 1, "dynamodb_local": 1, "localemu": 2}
KNOWN: dict[Callable[[Raw], str], tuple[str, str, str]] = {
    long_delay: ("InvalidParameterValue", "taken", "taken"),
    control_character: ("taken", "InvalidMessageContents", "InvalidMessageContents"),
    stale_receipt: (
        "succeeds, the message goes",
        "ReceiptHandleIsInvalid, the message stays",
        "succeeds, the message goes",
    ),
    move_task: ("NotImplementedError", "InvalidAction", "InvalidParameterValue"),
    insert: ("TypeError", "DuplicateItem", "DuplicateItem"),
    refused_update: ("no error", "ConditionalCheckFailed, with the item", "ConditionalCheckFailed, with the item"),
    repeated_token: ("applied twice", "applied once", "applied once"),
    token_of_another_call: ("applied", "IdempotentParameterMismatchException", "IdempotentParameterMismatchException"),
    foreign_start: ("answered", "ValidationException", "ValidationException"),
    other_type: ("TypeError", "ConditionalCheckFailedException", "ConditionalCheckFailedException"),
    twice_in_a_batch: ("ValidationException", "ValidationException", "ValidationException"),
}


@pytest.mark.parametrize("probe", KNOWN, ids=lambda probe: probe.__name__)
def test_an_engine_answers_as_the_table_says(engine: Engine, probe: Callable[[Raw], str]) -> None:
    if engine.settings is None:
        pytest.skip("in memory there is nothing beneath the ports")
    if engine.name not in COLUMNS:
        pytest.skip("the table has no column for this engine")
    sqs, name = engine.clients["sqs"], f"{engine.settings.prefix}-work"
    raw = Raw(
        engine.clients["dynamodb"], sqs, engine.settings.table("runs"), sqs.get_queue_url(QueueName=name)["QueueUrl"]
    )
    try:
        answer = probe(raw)
    except ClientError as problem:
        answer = problem.response["Error"]["Code"]
    except Exception as problem:  # noqa: BLE001 (moto breaks from within)
        answer = type(problem).__name__
    assert answer == KNOWN[probe][COLUMNS[engine.name]]
