"""DynamoDB: the tables of the stores, and the stream of the table of runs.

Reading order: ``dynamo_tables`` (requests, with ``expressions`` or ``statements``), ``table_client`` (batches), ``transactions``,
``items`` (rows in DynamoDB's JSON). ``testing.memory.tables`` carries out the same reads and writes in memory.
"""
