"""Requests to AWS: one way for DynamoDB and SQS in every environment, botocore for all other services.

Reading order: ``client`` (what the adapters call), ``transport`` (JSON, retries), ``connections`` (kept open) and ``http_connection``
(HTTP over one of them), ``session`` (endpoints, signer, credentials, TLS), ``errors``, ``botocore_client``, ``identity``.

- **Threads.** All clients may be used by any number of threads; a connection belongs to one request at a time. Nothing here holds a lock.
- **Forks.** A child closes its copies of its parent's connections and makes its own, and so it does with botocore's session,
  clients and credentials. No lock means none that was held when the process forked: gunicorn's preload and Celery's prefork are safe.
- **A frozen Lambda function.** Connections idle for over 20 s are not used again, nor is one on which something has arrived, such as
  the server's close. If neither shows, because the clock stood still too, the request fails, its idle siblings are closed, and the
  next attempt connects anew.
- **Deadlines.** An attempt ends within 5 s in all, a long poll 5 s after its wait, however the server delays it.
"""

from __future__ import annotations

from quarterjack.aws.client import Client
from quarterjack.aws.errors import BAD_CREDENTIALS, TRANSIENT, ConditionFailed, TransactionRefused, translated
from quarterjack.aws.identity import CallerIdentity
from quarterjack.aws.session import AwsSession
from quarterjack.aws.transport import BatchBackoff

__all__ = [
    "BAD_CREDENTIALS",
    "TRANSIENT",
    "AwsSession",
    "BatchBackoff",
    "CallerIdentity",
    "Client",
    "ConditionFailed",
    "TransactionRefused",
    "translated",
]
