"""Prices: the one table of them, us-east-1, on demand, US dollars, free tiers left out. Each with where it was read and when."""

from __future__ import annotations

from dataclasses import dataclass

MILLION = 1_000_000
_REGION = "us-east-1"


@dataclass(frozen=True)
class Price:
    """What one unit costs."""

    what: str
    dollars: float  # per unit
    unit: str
    source: str
    read: str  # when: a price that is older than a year is to be read again


# The project's facts were looked up in November 2026; where a second source was found, it is named beside them.
_FACTS = "the project's facts, November 2026"
WRITE = Price(
    "DynamoDB, a write unit (1 KB)",
    0.625 / MILLION,
    "unit",
    f"{_FACTS}; airbyte.com/data-engineering-resources/dynamodb-pricing",
    "2026-11",
)
PROVISIONED_WRITE = Price(
    "DynamoDB, a provisioned write unit a second for an hour: 3,600 writes at full use",
    0.00065,
    "hour",
    "from memory: not found again; check it before provisioning",
    "2026-11",
)
READ = Price(
    "DynamoDB, a read unit (4 KB, strong)",
    0.125 / MILLION,
    "unit",
    f"{_FACTS}; airbyte.com/data-engineering-resources/dynamodb-pricing",
    "2026-11",
)
STORAGE = Price("DynamoDB, a GB for a month", 0.25, "GB-month", "from memory: not found again", "2026-11")
RECOVERY = Price(
    "DynamoDB, point-in-time recovery of a GB of a table for a month",
    0.20,
    "GB-month",
    "from memory: not found again; that it is billed by the table's size: docs.aws.amazon.com, PointInTimeRecovery_Howitworks",
    "2026-11",
)
SQS = Price("SQS, a request (64 KB)", 0.40 / MILLION, "request", _FACTS, "2026-11")
INVOCATION = Price(
    "Lambda, an invocation",
    0.20 / MILLION,
    "invocation",
    "AWS whitepaper How AWS Pricing Works, docs.aws.amazon.com/whitepapers",
    "2026-11",
)
GB_SECOND = Price(
    "Lambda, a GB-second (Arm, first 7.5 billion)",
    0.0000133334,
    "GB-second",
    "cloudchipr.com/blog/aws-lambda-pricing, quoting AWS's page",
    "2026-11",
)
POLLER = Price(
    "Lambda, a provisioned poller for an hour",
    0.00925,
    "hour",
    "from memory: not found again; check it before provisioning many",
    "2026-11",
)
EVENTBRIDGE = Price(
    "EventBridge Scheduler, an invocation",
    1.00 / MILLION,
    "invocation",
    f"{_FACTS}; cloudburn.io/blog/amazon-eventbridge-pricing (14 million a month free)",
    "2026-11",
)
ALARM = Price("CloudWatch, an alarm's metric for a month", 0.10, "month", _FACTS, "2026-11")
METRIC = Price("CloudWatch, a metric of one's own for a month", 0.30, "month", _FACTS, "2026-11")
COMPOSITE_ALARM = Price(
    "CloudWatch, a composite alarm for a month", 0.50, "month", "from memory: docs/adr/0058", "2026-11"
)
LOGS = Price(
    "CloudWatch Logs, a GB taken in",
    0.50,
    "GB",
    "c3x.dev/blog/cloudwatch-logs-cost-optimization; hykell.com/knowledge-base/aws-cloudwatch-logs-pricing",
    "2026-11",
)
LOGS_KEPT = Price("CloudWatch Logs, a GB kept for a month", 0.03, "GB-month", "the same two pages", "2026-11")
TRACE = Price("X-Ray, a trace", 5.00 / MILLION, "trace", "from memory: not found again", "2026-11")
PRICES = (
    WRITE,
    PROVISIONED_WRITE,
    READ,
    STORAGE,
    RECOVERY,
    SQS,
    INVOCATION,
    GB_SECOND,
    POLLER,
    EVENTBRIDGE,
    ALARM,
    COMPOSITE_ALARM,
    METRIC,
    LOGS,
    LOGS_KEPT,
    TRACE,
)


def table() -> list[dict[str, object]]:
    """The prices, for a million units where that reads better."""
    return [
        {
            "price": price.what,
            "dollars": f"{price.dollars * MILLION:g} a million" if price.dollars < 1e-5 else f"{price.dollars:g}",
            "where": _REGION,
            "read": price.read,
            "source": price.source,
        }
        for price in PRICES
    ]
