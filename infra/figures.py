"""Figures of CloudWatch that dashboard and alarms read, as plain data: nothing here knows the CDK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """The namespace of a figure in CloudWatch; its part names a service of ours, a function, a queue or a table."""

    OURS = "Quarterjack"
    FUNCTION = "AWS/Lambda"
    QUEUE = "AWS/SQS"
    TABLE = "AWS/DynamoDB"


DIMENSIONS: Mapping[Source, str] = {
    Source.OURS: "service",
    Source.FUNCTION: "FunctionName",
    Source.QUEUE: "QueueName",
    Source.TABLE: "TableName",
}


@dataclass(frozen=True)
class Figure:
    """A metric of a part (its name without the prefix), by one of CloudWatch's statistics."""

    name: str
    part: str
    statistic: str = "Sum"
    source: Source = Source.OURS
