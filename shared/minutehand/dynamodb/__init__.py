"""The tables in DynamoDB.

Reading order: ``tables`` (definitions), ``rows`` and ``schedule_rows`` (objects as rows and back), ``table_client`` (requests and
batches), ``expressions``, ``row_ledger`` and ``ledger``, ``agenda``, ``schedules``, ``records``, ``dead_index``, ``models``, ``payloads``
(the bucket in S3).

Requests of every tick or run go over ``table_client``. The control plane (changes and listings of schedules, records, dead runs) uses
PynamoDB. That loads botocore, a tenth of a second, so ``models`` is imported by the first call that needs it.
"""
