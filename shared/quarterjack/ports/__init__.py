"""The protocols that have more than one implementation: queues, buckets, the stream of runs, logs, secrets and receivers.

``sqs``, ``s3``, ``dynamodb``, ``run_logs`` and ``aws`` implement them, and ``testing.memory`` does. ``services`` has them all, with the
stores. Tables are exchanged below the stores: see ``stores.tables.RowTables``.

- Times are UTC milliseconds, delays and waits are seconds.
- Every method may raise ``Unavailable`` (throttled, timed out; a write may have taken effect) and ``Misconfigured`` (a queue, bucket or
  permission is missing). Batches do not raise ``Unavailable`` for single items: an item without an answer is absent from the result.
"""
