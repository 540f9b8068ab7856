"""The stores over rows, and the tables in DynamoDB.

Reading order: ``tables`` (definitions; reads and writes as data), ``rows`` (objects as rows and back), ``agenda``, ``ledger``,
``records``, ``schedules``, ``dynamo_tables`` (requests, with ``expressions`` or ``statements``), ``table_client`` (batches),
``payloads`` (the bucket in S3). ``testing.memory.tables`` carries out the same reads and writes in memory.
"""
